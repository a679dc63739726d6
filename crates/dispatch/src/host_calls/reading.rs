//! The tools `aetheel_read_channel` and `aetheel_list_agents`.

use super::approval;
use super::error::HostCallError;
use crate::Shared;
use crate::channel::effective::offered_tools;
use crate::delegated::{PendingCall, parse_channel};
use aetheel_model::event::Lane;
use aetheel_model::host_tool::HostToolKind;
use aetheel_model::id::ChannelId;
use aetheel_model::plain::{counted, short_line};
use aetheel_model::prompt::quote_messages;
use aetheel_turn::ReadChannelRequest;

/// Number of messages that are read if the call names no number.
const USUAL_MESSAGES: u32 = 20;
/// Maximum size of the messages for the model, in bytes.
const MAX_BYTES: usize = 32 << 10;
/// Maximum number of channels in a list.
const MAX_CHANNELS: usize = 25;

pub(super) async fn read(
    shared: &Shared,
    pending: &PendingCall,
    request: &ReadChannelRequest,
) -> Result<String, HostCallError> {
    let turn = &pending.turn;
    let here =
        turn.channel().ok_or_else(|| HostCallError::NotInAChannel(turn.event.lane.to_string()))?;
    let target = match &request.channel {
        Some(text) => {
            parse_channel(text).ok_or_else(|| HostCallError::InvalidChannel(text.clone()))?
        }
        None => here,
    };
    let count = request.messages.unwrap_or(USUAL_MESSAGES);
    let place = if target == here {
        "this channel".to_owned()
    } else {
        let place = readable_place(shared, pending, target).await?;
        let what = format!(
            "May the agent read the last {count} messages in {place}? People here may see them in its answer."
        );
        approval::ask(shared, pending, &what, "").await?;
        // The permission may have been withdrawn while the question was open.
        readable_place(shared, pending, target).await?
    };
    let said = shared.deps.outlet.read_channel(target, count as usize).await;
    let said = said.map_err(HostCallError::Unreadable)?;
    if said.is_empty() {
        return Ok(format!("There are no messages in {place}."));
    }
    let said: Vec<(Option<&str>, &str)> =
        said.iter().map(|message| (message.author.as_deref(), message.text.as_str())).collect();
    let read = counted(said.len(), "message");
    Ok(format!("The agent read {read} in {place}.\n{}", quote_messages(&place, &said, MAX_BYTES)))
}

/// Returns the name of another channel.
///
/// # Errors
/// [`HostCallError`] unless the person who asked may read there now.
async fn readable_place(
    shared: &Shared,
    pending: &PendingCall,
    target: ChannelId,
) -> Result<String, HostCallError> {
    let asker = pending.turn.event.asker.ok_or(HostCallError::NoAsker)?;
    let found = shared.deps.outlet.permissions(asker, target).await;
    match found.map_err(HostCallError::Unchecked)? {
        permissions if permissions.sees => Ok(permissions.place),
        _ => Err(HostCallError::NoSuchChannel),
    }
}

pub(super) async fn list(shared: &Shared, pending: &PendingCall) -> Result<String, HostCallError> {
    let turn = &pending.turn;
    let (_, settings) = shared.channels.backend_of(&turn.event.lane).await;
    let mut lines = vec![format!("You are `{}`. The agents in this channel:", turn.backend)];
    for agent in shared.channels.offered(&turn.event.lane, &settings) {
        lines.push(format!("- `{}`: {}", agent.id, short_line(&agent.label, 80)));
    }
    lines.push("Other channels that accept work on behalf of the person who asked you:".to_owned());
    let before = lines.len();
    let channels = shared.deps.workspace.channels().await;
    for (lane, settings) in channels.lanes() {
        let (Lane::Channel(channel), Some(asker)) = (lane, turn.event.asker) else { continue };
        let tools = offered_tools(&shared.deps.choices, settings, None);
        if *lane == turn.event.lane || !tools.contains(&HostToolKind::HandOff) {
            continue;
        }
        // A channel whose permissions cannot be checked is left out.
        let Ok(permissions) = shared.deps.outlet.permissions(asker, *channel).await else {
            continue;
        };
        if !permissions.sees || !permissions.acts {
            continue;
        }
        let (backend, _) = shared.channels.backend_of(lane).await;
        let project = settings.project.as_ref().map(|name| format!(", project {name}"));
        let project = project.unwrap_or_default();
        let place = short_line(&permissions.place, 80);
        lines.push(format!("- {place}, id {channel}: `{backend}`{project}"));
        if lines.len() - before >= MAX_CHANNELS {
            lines.push("- (further channels are left out)".to_owned());
            break;
        }
    }
    if lines.len() == before {
        lines.push("- none".to_owned());
    }
    Ok(lines.join("\n"))
}
