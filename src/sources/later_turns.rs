//! The task that submits the turns that agents asked for at later times.
//!
//! Each node of a cluster does that for the lanes that it has.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::schedules::RunningSchedules;
use aetheel_dispatch::LaterTurns;
use aetheel_runtime::clock::Clock;
use aetheel_runtime::supervisor;

/// The shortest time between two looks, for a turn that is not accepted now.
const MIN_REST: Duration = Duration::from_millis(500);

/// Starts the task, which runs until it is stopped.
#[must_use]
pub fn submit_later_turns(turns: LaterTurns, clock: Clock) -> RunningSchedules {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let task = supervisor::spawn_finite("later turns", async move {
        while !stopped.is_cancelled() {
            let rest = turns.submit_due(clock.now()).await;
            tokio::select! {
                () = stopped.cancelled() => return,
                () = clock.sleep(rest.max(MIN_REST)) => {}
            }
        }
    });
    RunningSchedules::new(stop, task)
}
