//! The heartbeat: a sign of life goes the way of messages again and again, so that a bot which
//! hears nobody is noticed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::discord::Pulses;
use crate::dispatch::HealthProbe;
use crate::figures;
use crate::vigil;
use crate::workspace::Lock;

/// Between a sign of life and the next.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// When one that has not come through is told of: Discord may be slow while somebody's rights are
/// looked up.
const LATE_TIMEOUT: Duration = Duration::from_secs(60);
/// When the program counts as deaf.
pub const DEAF_TIMEOUT: Duration = Duration::from_secs(300);

/// See the module. Cheap to clone.
#[derive(Clone, Default)]
pub struct Liveness(Arc<Mutex<Option<Instant>>>);

impl Liveness {
    /// Beats as long as the program is ready; each one that comes through is also seen on the lock.
    pub fn beat(&self, pulses: Pulses, lock: Arc<Lock>) -> JoinHandle<()> {
        self.came_through();
        let liveness = self.clone();
        vigil::task("heartbeat", async move {
            loop {
                touch(&lock);
                sleep(HEARTBEAT_INTERVAL).await;
                while !liveness.once(|pulse| pulses.send(pulse)).await {
                    sleep(HEARTBEAT_INTERVAL).await;
                }
            }
        })
    }

    /// It need not beat any more.
    pub fn rest(&self) {
        *self.0.lock() = None;
    }

    /// Sends one sign of life and waits for it, however long it takes; whether it came through.
    async fn once(&self, send: impl FnOnce(HealthProbe)) -> bool {
        let (pulse, mut through) = HealthProbe::new();
        send(pulse);
        let mut came = timeout(LATE_TIMEOUT, &mut through).await;
        if came.is_err() {
            tracing::error!(
                seconds = LATE_TIMEOUT.as_secs(),
                "a heartbeat has not come through intake, queue and reply; prompts may not either"
            );
            came = Ok(through.await);
        }
        let through = matches!(came, Ok(Ok(())));
        if through {
            self.came_through();
        } else {
            // Lost on the way: the next one will tell whether that was an accident.
            tracing::error!("a heartbeat was lost between intake and reply");
        }
        through
    }

    fn came_through(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    /// Since when nothing came through; none: it does not beat yet.
    fn silence(&self) -> Option<Duration> {
        self.0.lock().map(|at| at.elapsed())
    }

    /// Tells the figures.
    pub fn measure(&self) {
        if let Some(silence) = self.silence() {
            figures::heartbeat(silence);
        }
    }

    /// What is wrong, if the program is deaf.
    pub fn complaint(&self) -> Option<String> {
        let silence = self.silence().filter(|silence| *silence > DEAF_TIMEOUT)?;
        Some(format!(
            "no heartbeat has come through intake, queue and reply for {} s",
            silence.as_secs()
        ))
    }
}

/// The disk may take its time.
fn touch(lock: &Arc<Lock>) {
    let lock = Arc::clone(lock);
    tokio::task::spawn_blocking(move || lock.touch());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_that_is_lost_counts_as_silence_and_one_that_comes_through_ends_it() {
        let liveness = Liveness::default();
        assert_eq!(
            (liveness.silence(), liveness.complaint()),
            (None, None),
            "it does not beat yet"
        );
        assert!(!liveness.once(drop).await);
        assert_eq!(liveness.silence(), None);
        assert!(liveness.once(HealthProbe::complete).await);
        assert!(liveness.silence().is_some() && liveness.complaint().is_none());
        let long_ago = Instant::now().checked_sub(DEAF_TIMEOUT + Duration::from_secs(1));
        if long_ago.is_some() {
            *liveness.0.lock() = long_ago;
            assert!(liveness.complaint().is_some_and(|complaint| complaint.contains("for 301 s")));
        }
    }
}
