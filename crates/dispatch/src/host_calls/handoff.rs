//! The tool `aetheel_handoff`: work for another agent or channel.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::error::HostCallError;
use super::limits::MAX_HOPS;
use super::{approval, effect_key};
use crate::Shared;
use crate::channel::effective::offered_tools;
use crate::delegated::{CallingTurn, PendingCall, parse_channel};
use crate::intake::Intake;
use crate::outlet::messages::PromptRefusal;
use aetheel_model::access::LanePermissions;
use aetheel_model::event::{AgentCause, AgentRequest, EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::host_tool::HostToolKind;
use aetheel_model::id::ChannelId;
use aetheel_recording::RecordedHandOff;
use aetheel_turn::HandOffRequest;

/// Shortest time between two hand-offs from one lane to one place.
const COOL_DOWN: Duration = Duration::from_secs(60);
/// Number of remembered hand-offs above which old ones are removed from memory.
const REMEMBERED: usize = 1_000;

/// The lanes that work was handed over between, with the backend that was named.
type HandOffPlaces = (Lane, Lane, Option<String>);

/// The times of recent hand-offs. A new process reads them in the recordings.
#[derive(Debug, Default)]
pub(crate) struct HandOffTimes(Mutex<HashMap<HandOffPlaces, Instant>>);

impl HandOffTimes {
    /// Returns the seconds until work may be handed over there again.
    fn wait(&self, places: &HandOffPlaces, now: Instant) -> Option<u64> {
        let last = self.0.lock().get(places).copied()?;
        let left = COOL_DOWN.checked_sub(now.duration_since(last))?;
        Some(left.as_secs() + 1)
    }

    /// Adds the hand-offs of a previous process.
    pub(crate) fn restore(&self, hand_offs: Vec<RecordedHandOff>, now: Timestamp) {
        let instant = Instant::now();
        for RecordedHandOff { from, at, input } in hand_offs {
            let Ok(request) = serde_json::from_str::<HandOffRequest>(&input) else { continue };
            let age = Duration::try_from(now.duration_since(at)).unwrap_or_default();
            let at = instant.checked_sub(age).filter(|_| age < COOL_DOWN);
            if let (Some(at), Some(lane)) = (at, lane_of(&request, &from)) {
                self.record((from, lane, backend_of(&request)), at);
            }
        }
    }

    fn record(&self, places: HandOffPlaces, now: Instant) {
        let mut times = self.0.lock();
        if times.len() >= REMEMBERED {
            times.retain(|_, at| now.duration_since(*at) < COOL_DOWN);
        }
        times.insert(places, now);
    }
}

/// Returns the lane that work is handed over to, or `None` if the request names no valid channel.
fn lane_of(request: &HandOffRequest, from: &Lane) -> Option<Lane> {
    match &request.channel {
        Some(text) => parse_channel(text).map(Lane::Channel),
        None => Some(from.clone()),
    }
}

/// Returns the backend that a request names.
fn backend_of(request: &HandOffRequest) -> Option<String> {
    request.agent.as_ref().map(|name| name.trim().trim_matches('`').to_lowercase())
}

pub(super) async fn hand_off(
    shared: &std::sync::Arc<Shared>,
    pending: &PendingCall,
    request: &HandOffRequest,
) -> Result<String, HostCallError> {
    let turn = &pending.turn;
    let here =
        turn.channel().ok_or_else(|| HostCallError::NotInAChannel(turn.event.lane.to_string()))?;
    let hops = turn.event.by_agent.as_ref().map_or(0, |request| request.hops) + 1;
    if hops > MAX_HOPS {
        return Err(HostCallError::TooManyHops);
    }
    let Some(Lane::Channel(target)) = lane_of(request, &turn.event.lane) else {
        return Err(HostCallError::InvalidChannel(request.channel.clone().unwrap_or_default()));
    };
    let lane = Lane::Channel(target);
    let (parent, place) = if target == here {
        (turn.parent(), "this channel".to_owned())
    } else {
        let permissions = permissions(shared, turn, target).await?;
        (permissions.parent, permissions.place)
    };
    let backend = check_target(shared, turn, &lane, parent, backend_of(request)).await?;
    let event = NewEvent {
        asker: turn.event.asker,
        parent,
        key: Some(format!("handoff:{}", effect_key(pending))),
        by_agent: Some(Box::new(AgentRequest {
            cause: AgentCause::HandOff,
            from: turn.event.lane.clone(),
            hops,
            naps: 0,
            backend: backend.clone(),
            rights: Some(turn.rights.clone()),
        })),
        ..NewEvent::new(
            EventKind::Agent,
            lane.clone(),
            EventOrigin::Internal { channel: Some(target) },
            request.text.trim(),
        )
    };
    let agent = backend.as_ref().map(|name| format!(" to the agent `{name}`")).unwrap_or_default();
    let done = format!("The work was handed over{agent} in {place}; it is answered there.");
    let places = (turn.event.lane.clone(), lane.clone(), backend.clone());
    let now = Instant::now();
    if shared.durability.is_known(&event) {
        shared.hand_offs.record(places, now);
        return Ok(done);
    }
    if let Some(seconds) = shared.hand_offs.wait(&places, now) {
        return Err(HostCallError::CoolDown(seconds));
    }
    let what = format!("May the agent hand this over{agent} in {place}?");
    approval::ask(shared, pending, &what, &request.text).await?;
    // The permission, or the consent of the other channel, may have been withdrawn while the
    // question was open.
    if target != here {
        permissions(shared, turn, target).await?;
    }
    check_target(shared, turn, &lane, parent, backend).await?;
    shared.hand_offs.record(places, now);
    let placed = Intake::new(shared.clone()).submit_or_route(event).await;
    match placed {
        Ok(placed) => match placed.wait_until_saved().await {
            Ok(_) | Err(PromptRefusal::Known) => Ok(done),
            Err(refusal) => Err(refusal.into()),
        },
        Err(PromptRefusal::Known) => Ok(done),
        Err(refusal) => Err(refusal.into()),
    }
}

/// Returns the permissions of the person who asked in another channel.
///
/// # Errors
/// [`HostCallError`] unless the person may read and write there.
async fn permissions(
    shared: &Shared,
    turn: &CallingTurn,
    target: ChannelId,
) -> Result<LanePermissions, HostCallError> {
    let asker = turn.event.asker.ok_or(HostCallError::NoAsker)?;
    let found = shared.deps.outlet.permissions(asker, target).await;
    match found.map_err(HostCallError::Unchecked)? {
        permissions if permissions.sees && permissions.acts => Ok(permissions),
        _ => Err(HostCallError::NoSuchChannel),
    }
}

/// Checks that a lane accepts the work. Returns the backend, if the request names one.
async fn check_target(
    shared: &Shared,
    turn: &CallingTurn,
    lane: &Lane,
    parent: Option<ChannelId>,
    backend: Option<String>,
) -> Result<Option<String>, HostCallError> {
    if let (Lane::Channel(channel), Some(parent)) = (lane, parent) {
        shared.channels.parents.learn(*channel, parent);
    }
    let (usual, settings) = shared.channels.backend_of(lane).await;
    let is_here = *lane == turn.event.lane;
    let tools = offered_tools(&shared.deps.choices, &settings, None);
    if !is_here && !tools.contains(&HostToolKind::HandOff) {
        return Err(HostCallError::NotAccepted);
    }
    if let Some(name) = &backend
        && !(shared.channels.may_choose(lane, &settings, name)
            && shared.serving(name, lane).is_some())
    {
        return Err(HostCallError::NoSuchAgent(name.clone()));
    }
    if is_here && *backend.as_ref().unwrap_or(&usual) == turn.backend {
        return Err(HostCallError::SamePlace);
    }
    Ok(backend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_handed_over_to_a_place_again_after_a_minute() {
        let (times, start) = (HandOffTimes::default(), Instant::now());
        let places = |to: &str| (Lane::Cron("a".to_owned()), Lane::Cron(to.to_owned()), None);
        assert_eq!(times.wait(&places("b"), start), None);
        times.record(places("b"), start);
        assert_eq!(times.wait(&places("b"), start), Some(61));
        assert_eq!(times.wait(&places("c"), start), None);
        assert_eq!(times.wait(&places("b"), start + Duration::from_secs(61)), None);
    }
}
