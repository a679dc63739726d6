//! Follows changes of the folder, of the operator's decisions, and requests of the registry.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::candidates::Candidate;
use super::loader::{Loader, LoaderRequest, LookReason};

/// Interval at which the operator's files are checked for components that wait for a decision.
const OPERATOR_INTERVAL: Duration = Duration::from_secs(2);

/// Interval at which the folder of versions in development is checked. Their authors wait for it.
const LIVE_INTERVAL: Duration = Duration::from_millis(250);

impl Loader {
    /// Follows changes until it is aborted.
    pub(super) async fn follow(mut self, mut requests: mpsc::UnboundedReceiver<LoaderRequest>) {
        let mut rescan = interval_at(Instant::now() + self.rescan, self.rescan);
        rescan.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut operator = interval_at(Instant::now() + OPERATOR_INTERVAL, OPERATOR_INTERVAL);
        operator.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut live = interval_at(Instant::now() + LIVE_INTERVAL, LIVE_INTERVAL);
        live.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = self.watch.changed() => match changed {
                    Some(files) => {
                        for path in files {
                            self.look_at(&path, LookReason::Touched).await;
                        }
                    }
                    None => self.look_at_everything().await,
                },
                _ = rescan.tick() => self.look_at_everything().await,
                _ = operator.tick() => {
                    self.retry_unaccepted().await;
                    self.follow_promotions().await;
                }
                _ = live.tick(), if self.live.folder.is_some() => {
                    self.live.follow(&self.candidates, &self.admitter, &self.keeper).await;
                }
                Some(request) = requests.recv() => self.serve_request(request).await,
            }
        }
    }

    async fn serve_request(&mut self, request: LoaderRequest) {
        match request {
            LoaderRequest::Rescan => {
                self.retry_unaccepted().await;
                self.follow_promotions().await;
                self.look_at_everything().await;
            }
            LoaderRequest::Keep => {
                self.keeper.is_keeping = true;
                for name in self.candidates.names() {
                    self.keeper.keep(&name, self.candidates.serving(&name), None).await;
                    if let Some(Candidate { path, digest, .. }) = self.candidates.successor(&name) {
                        self.keeper.keep_partial(&name, &path, &digest, None).await;
                    }
                }
            }
            LoaderRequest::FollowLive(folder) => {
                self.live.folder = Some(folder);
                self.live.follow(&self.candidates, &self.admitter, &self.keeper).await;
            }
            LoaderRequest::Choose(name, chosen) => {
                self.candidates.reconsider_successor(&name);
                let changed = self.serve_best(&name).await;
                let _ = chosen.send(changed); // fails if the caller no longer waits
            }
            LoaderRequest::RollBack(name, from, done) => {
                let _ = done.send(self.roll_back(&name, from).await);
            }
            LoaderRequest::Promote(name, digest, done) => {
                let _ = done.send(self.promote(&name, &digest).await);
            }
            LoaderRequest::Withdraw(name, digest, done) => {
                let _ = done.send(self.withdraw(&name, &digest).await);
            }
            LoaderRequest::Kept(name, done) => {
                let _ = done.send(self.kept_components(&name).await);
            }
            LoaderRequest::HasEarlier(name, done) => {
                let _ = done.send(self.has_earlier(&name).await);
            }
        }
    }
}
