//! The heartbeat: sends a probe through intake, queue and reply at an interval, to detect a gateway
//! that no longer processes messages.

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

/// Time between two probes.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// Time after which a missing probe is logged. A slow lookup of permissions can delay a probe.
const LATE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time without a successful probe after which the program counts as unhealthy.
pub const DEAF_TIMEOUT: Duration = Duration::from_secs(300);

/// Time of the last successful probe. Cheap to clone; clones share their state.
#[derive(Clone, Default)]
pub struct Liveness(Arc<Mutex<Option<Instant>>>);

impl Liveness {
    /// Starts the task that sends probes. After each successful probe, it also touches the lock
    /// file, so that other programs can see it.
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

    /// States that no probes are expected any more.
    pub fn rest(&self) {
        *self.0.lock() = None;
    }

    /// Sends one probe and waits without a limit for its result. Returns whether it succeeded.
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
            // The next probe shows whether the problem remains.
            tracing::error!("a heartbeat was lost between intake and reply");
        }
        through
    }

    fn came_through(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    /// Returns the time since the last successful probe, or `None` if no probes are expected.
    fn silence(&self) -> Option<Duration> {
        self.0.lock().map(|at| at.elapsed())
    }

    /// Updates the metric of the heartbeat.
    pub fn measure(&self) {
        if let Some(silence) = self.silence() {
            figures::heartbeat(silence);
        }
    }

    /// Describes the problem if no probe succeeded for [`DEAF_TIMEOUT`].
    pub fn complaint(&self) -> Option<String> {
        let silence = self.silence().filter(|silence| *silence > DEAF_TIMEOUT)?;
        Some(format!(
            "no heartbeat has come through intake, queue and reply for {} s",
            silence.as_secs()
        ))
    }
}

/// Touches the lock file on the blocking pool, because the disk may be slow.
fn touch(lock: &Arc<Lock>) {
    let lock = Arc::clone(lock);
    tokio::task::spawn_blocking(move || lock.touch());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_successful_probe_ends_the_silence() {
        let liveness = Liveness::default();
        assert_eq!(
            (liveness.silence(), liveness.complaint()),
            (None, None),
            "no probe was sent yet"
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
