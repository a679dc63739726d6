//! The tool `aetheel_handoff`: work for another agent or channel.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::limits::MAX_HOPS;
use super::{HostCall, HostCallError, HostToolEffect, approval, submit};
use crate::channel::effective::offered_tools;
use crate::delegated::{CallingTurn, parse_channel};
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

#[async_trait]
impl HostToolEffect for HandOffRequest {
    fn asks_people(&self, _turn: &CallingTurn) -> bool {
        true
    }

    async fn carry_out(&self, call: &HostCall) -> Result<String, HostCallError> {
        let (shared, turn) = (&call.shared, &call.pending.turn);
        let here = call.channel()?;
        let hops = turn.event.by_agent.as_ref().map_or(0, |request| request.hops) + 1;
        if hops > MAX_HOPS {
            return Err(HostCallError::TooManyHops);
        }
        let Some(Lane::Channel(target)) = lane_of(self, &turn.event.lane) else {
            return Err(HostCallError::InvalidChannel(self.channel.clone().unwrap_or_default()));
        };
        let backend = backend_of(self);
        let (parent, place) = check_target(call, here, target, backend.as_deref()).await?;
        let lane = Lane::Channel(target);
        let event = NewEvent {
            asker: turn.event.asker,
            parent,
            key: Some(format!("handoff:{}", call.effect_key())),
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
                self.text.trim(),
            )
        };
        let agent =
            backend.as_ref().map(|name| format!(" to the agent `{name}`")).unwrap_or_default();
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
        approval::ask(call, &what, &self.text).await?;
        // The permission, or the consent of the other channel, may have been withdrawn while the
        // question was open.
        check_target(call, here, target, backend.as_deref()).await?;
        shared.hand_offs.record(places, now);
        match submit(shared, event).await {
            Ok(()) | Err(PromptRefusal::Known) => Ok(done),
            Err(refusal) => Err(refusal.into()),
        }
    }
}

/// Checks that a channel accepts the work, and that the person who asked may read and write there.
/// Returns its parent and its name for people.
async fn check_target(
    call: &HostCall,
    here: ChannelId,
    target: ChannelId,
    backend: Option<&str>,
) -> Result<(Option<ChannelId>, String), HostCallError> {
    let (shared, turn, lane) = (&call.shared, &call.pending.turn, &Lane::Channel(target));
    let (parent, place) = if target == here {
        (turn.parent(), "this channel".to_owned())
    } else {
        match call.permissions(target).await? {
            LanePermissions { acts: true, parent, place, .. } => (parent, place),
            _ => return Err(HostCallError::NoSuchChannel),
        }
    };
    if let Some(parent) = parent {
        shared.channels.parents.learn(target, parent);
    }
    let (usual, settings) = shared.channels.backend_of(lane).await;
    let tools = offered_tools(&shared.deps.choices, &settings, None);
    if target != here && !tools.contains(&HostToolKind::HandOff) {
        return Err(HostCallError::NotAccepted);
    }
    if let Some(name) = backend
        && !(shared.channels.may_choose(lane, &settings, name)
            && shared.serving(name, lane).is_some())
    {
        return Err(HostCallError::NoSuchAgent(name.to_owned()));
    }
    if target == here && backend.unwrap_or(&usual) == turn.backend {
        return Err(HostCallError::SamePlace);
    }
    Ok((parent, place))
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
