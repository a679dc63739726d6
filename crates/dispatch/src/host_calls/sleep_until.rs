//! The tool `aetheel_sleep_until`: the work continues at a later time.

use async_trait::async_trait;

use super::later::{MAX_LATE, entry, is_open_sleep, iso_time, save_once, time};
use super::limits::MAX_SLEEPS;
use super::{HostCall, HostCallError, HostToolEffect};
use aetheel_model::event::AgentCause;
use aetheel_store::workspace::AgentSchedule;
use aetheel_turn::SleepUntil;

/// Maximum number of days until the work continues.
const MAX_SLEEP_DAYS: i64 = 7;

#[async_trait]
impl HostToolEffect for SleepUntil {
    async fn carry_out(&self, call: &HostCall) -> Result<String, HostCallError> {
        let done = |entry: &AgentSchedule| {
            let at = iso_time(entry.next);
            format!("The work continues at {at}.\nEnd your turn now. The id is `{}`.", entry.id)
        };
        let new = async {
            let naps = match &call.pending.turn.event.by_agent {
                Some(request) if request.hops > 0 => return Err(HostCallError::ByAgent),
                Some(request) => request.naps,
                None => 0,
            };
            if naps >= MAX_SLEEPS {
                return Err(HostCallError::TooManySleeps);
            }
            let (at, after) = (self.at.as_deref(), self.after.as_deref());
            let at = time(at, after, call.shared.now(), MAX_SLEEP_DAYS)?;
            let entry = entry(call, AgentCause::Sleep, at, at + MAX_LATE, &self.text)?;
            let sleeps = |known: &AgentSchedule| known.lane == entry.lane && is_open_sleep(known);
            if call.shared.deps.workspace.state.agent_schedules.all().iter().any(sleeps) {
                return Err(HostCallError::SleepsAlready);
            }
            Ok(AgentSchedule { naps: naps + 1, ..entry })
        };
        save_once(call, done, new).await
    }
}
