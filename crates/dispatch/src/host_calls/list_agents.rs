//! The tool `aetheel_list_agents`: the agents and channels that accept work.

use async_trait::async_trait;

use super::{HostCall, HostCallError, HostToolEffect};
use crate::channel::effective::offered_tools;
use aetheel_model::access::LanePermissions;
use aetheel_model::event::Lane;
use aetheel_model::host_tool::HostToolKind;
use aetheel_model::plain::short_line;
use aetheel_turn::ListAgents;

/// Maximum number of channels in a list.
const MAX_CHANNELS: usize = 25;

#[async_trait]
impl HostToolEffect for ListAgents {
    async fn carry_out(&self, call: &HostCall) -> Result<String, HostCallError> {
        let (shared, turn) = (&call.shared, &call.pending.turn);
        let (_, settings) = shared.channels.backend_of(&turn.event.lane).await;
        let mut lines = vec![format!("You are `{}`. The agents in this channel:", turn.backend)];
        for agent in shared.channels.offered(&turn.event.lane, &settings) {
            lines.push(format!("- `{}`: {}", agent.id, short_line(&agent.label, 80)));
        }
        lines.push(
            "Other channels that accept work on behalf of the person who asked you:".to_owned(),
        );
        let before = lines.len();
        let channels = shared.deps.workspace.channels().await;
        for (lane, settings) in channels.lanes() {
            let Lane::Channel(channel) = lane else { continue };
            let tools = offered_tools(&shared.deps.choices, settings, None);
            if *lane == turn.event.lane || !tools.contains(&HostToolKind::HandOff) {
                continue;
            }
            // A channel whose permissions cannot be checked is left out.
            let Ok(LanePermissions { place, acts: true, .. }) = call.permissions(*channel).await
            else {
                continue;
            };
            let (backend, _) = shared.channels.backend_of(lane).await;
            let project = settings.project.as_ref().map(|name| format!(", project {name}"));
            let project = project.unwrap_or_default();
            let place = short_line(&place, 80);
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
}
