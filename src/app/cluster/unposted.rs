//! Messages that this node heard and could not hand on yet. While the database is away, their
//! authors are told that they wait.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};

use crate::discord::{Discord, Heard};
use crate::vigil;

/// Messages from Discord that are not in the database yet. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Unposted(Arc<(Mutex<State>, Notify)>);

#[derive(Default)]
struct State {
    heard: u64,
    posted: u64,
    /// Messages for the bot whose authors got no notice, each with its place in the order of
    /// arrival.
    untold: VecDeque<(u64, Heard)>,
}

impl Unposted {
    fn hear(&self, heard: &Heard) {
        let (state, news) = &*self.0;
        let mut state = state.lock();
        let place = state.heard;
        state.heard += 1;
        if heard.is_addressed_message() {
            state.untold.push_back((place, heard.clone()));
            news.notify_one();
        }
    }

    /// Notes that the next `count` messages are posted or left out.
    pub(super) fn posted(&self, count: usize) {
        let mut state = self.0.0.lock();
        state.posted += count as u64;
        let posted = state.posted;
        while state.untold.front().is_some_and(|(place, _)| *place < posted) {
            state.untold.pop_front();
        }
    }

    /// Returns the messages that wait, each once.
    fn take_untold(&self) -> Vec<Heard> {
        self.0.0.lock().untold.drain(..).map(|(_, heard)| heard).collect()
    }

    /// Hands on what is heard, in order, and notes it. Ends with either channel.
    pub(super) async fn follow(
        self,
        mut heard: mpsc::UnboundedReceiver<Heard>,
        to: mpsc::UnboundedSender<Heard>,
    ) {
        while let Some(heard) = heard.recv().await {
            self.hear(&heard);
            if to.send(heard).is_err() {
                return;
            }
        }
    }

    /// Tells people that their messages wait while the database is `away`.
    pub(super) async fn report(self, discord: Discord, mut away: watch::Receiver<bool>) {
        while away.wait_for(|away| *away).await.is_ok() {
            for heard in self.take_untold() {
                let discord = discord.clone();
                vigil::errand("word about a waiting message", async move {
                    discord.report_waiting(&heard).await;
                });
            }
            tokio::select! {
                () = self.0.1.notified() => {}
                _ = away.changed() => {}
            }
        }
    }
}
