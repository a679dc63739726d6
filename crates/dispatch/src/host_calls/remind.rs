//! The tool `aetheel_remind`: one more turn at a later time.

use async_trait::async_trait;

use super::later::{MAX_LATE, entry, iso_time, save_once, time};
use super::limits::MAX_AHEAD_DAYS;
use super::{HostCall, HostCallError, HostToolEffect};
use aetheel_model::event::AgentCause;
use aetheel_store::workspace::AgentSchedule;
use aetheel_turn::LaterTurn;

#[async_trait]
impl HostToolEffect for LaterTurn {
    async fn carry_out(&self, call: &HostCall) -> Result<String, HostCallError> {
        let done = |entry: &AgentSchedule| {
            let at = iso_time(entry.next);
            format!("A reminder is set for {at}.\nYou get a turn then. Its id is `{}`.", entry.id)
        };
        let new = async {
            if call.pending.turn.event.by_agent.is_some() {
                return Err(HostCallError::ByAgent);
            }
            let (at, after) = (self.at.as_deref(), self.after.as_deref());
            let at = time(at, after, call.shared.now(), MAX_AHEAD_DAYS)?;
            entry(call, AgentCause::Reminder, at, at + MAX_LATE, &self.text)
        };
        save_once(call, done, new).await
    }
}
