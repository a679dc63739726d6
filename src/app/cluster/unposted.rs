//! Events from Discord that are not in the database yet. While the database cannot be reached, the
//! authors of waiting messages get a notice.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};

use crate::discord::{Discord, GatewayEvent};
use crate::supervisor;

/// Queue of the events that are not in the database yet. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Unposted(Arc<(Mutex<UnpostedState>, Notify)>);

#[derive(Default)]
struct UnpostedState {
    /// Number of events that were received.
    received: u64,
    /// Number of events that were sent to the database or skipped.
    posted: u64,
    /// Messages to the bot whose authors got no notice, each with its number in the order of
    /// arrival.
    unnotified: VecDeque<(u64, GatewayEvent)>,
}

impl Unposted {
    fn note_event(&self, event: &GatewayEvent) {
        let (state, news) = &*self.0;
        let mut state = state.lock();
        let place = state.received;
        state.received += 1;
        if event.is_addressed_message() {
            state.unnotified.push_back((place, event.clone()));
            news.notify_one();
        }
    }

    /// Records that the next `count` events are in the database or were skipped.
    pub(super) fn posted(&self, count: usize) {
        let mut state = self.0.0.lock();
        state.posted += count as u64;
        let posted = state.posted;
        while state.unnotified.front().is_some_and(|(place, _)| *place < posted) {
            state.unnotified.pop_front();
        }
    }

    /// Removes and returns the waiting messages whose authors got no notice.
    fn take_unnotified(&self) -> Vec<GatewayEvent> {
        self.0.0.lock().unnotified.drain(..).map(|(_, event)| event).collect()
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

    /// Posts a notice about each waiting message while `away` is true, which means that the
    /// database cannot be reached.
    pub(super) async fn report(self, discord: Discord, mut away: watch::Receiver<bool>) {
        while away.wait_for(|away| *away).await.is_ok() {
            for event in self.take_unnotified() {
                let discord = discord.clone();
                supervisor::spawn_finite("waiting notice", async move {
                    discord.report_waiting(&event).await;
                });
            }
            tokio::select! {
                () = self.0.1.notified() => {}
                _ = away.changed() => {}
            }
        }
    }
}
