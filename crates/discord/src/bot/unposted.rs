//! Events from Discord that are not in the database yet. The authors of messages that wait for the
//! database get a notice.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::Discord;
use crate::connection::gateway_event::GatewayEvent;
use aetheel_runtime::supervisor;

/// How long a message waits before its author gets a notice.
const NOTICE_DELAY: Duration = Duration::from_secs(2);
/// Time between two checks for such messages.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Queue of the events that are not in the database yet. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Unposted(Arc<Mutex<UnpostedState>>);

#[derive(Default)]
struct UnpostedState {
    received: u64,
    /// Number of events that were sent to the database or skipped.
    posted: u64,
    /// Messages to the bot whose authors got no notice, each with its number in the order of
    /// arrival and the time of its arrival.
    unnotified: VecDeque<(u64, Instant, GatewayEvent)>,
}

impl Unposted {
    fn note_event(&self, event: &GatewayEvent) {
        let mut state = self.0.lock();
        let number = state.received;
        state.received += 1;
        if event.addressed_message().is_some() {
            state.unnotified.push_back((number, Instant::now(), event.clone()));
        }
    }

    /// Records that the next `count` events are in the database or were skipped.
    pub(super) fn posted(&self, count: usize) {
        let mut state = self.0.lock();
        state.posted += count as u64;
        let posted = state.posted;
        while state.unnotified.front().is_some_and(|(number, ..)| *number < posted) {
            state.unnotified.pop_front();
        }
    }

    /// Removes and returns the messages that have waited for [`NOTICE_DELAY`] and whose authors got
    /// no notice.
    fn take_unnotified(&self) -> Vec<GatewayEvent> {
        let mut state = self.0.lock();
        let is_due = |(_, at, _): &(u64, Instant, GatewayEvent)| at.elapsed() >= NOTICE_DELAY;
        let due = state.unnotified.iter().take_while(|message| is_due(message)).count();
        state.unnotified.drain(..due).map(|(.., event)| event).collect()
    }

    /// Forwards each event in order and records it. Returns when either channel is closed.
    pub(super) async fn follow(
        self,
        mut events: mpsc::UnboundedReceiver<GatewayEvent>,
        to: mpsc::UnboundedSender<GatewayEvent>,
    ) {
        while let Some(event) = events.recv().await {
            self.note_event(&event);
            if to.send(event).is_err() {
                return;
            }
        }
    }

    /// Posts a notice about each message that waits for the database. Never returns.
    pub(super) async fn report(self, discord: Discord) {
        loop {
            let waiting = self.take_unnotified();
            if !waiting.is_empty() {
                tracing::warn!(
                    messages = waiting.len(),
                    "the database of the cluster does not accept messages; their authors are notified, and they are sent once it does"
                );
            }
            for event in waiting {
                let discord = discord.clone();
                supervisor::spawn_finite("waiting notice", async move {
                    discord.report_waiting(&event).await;
                });
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
