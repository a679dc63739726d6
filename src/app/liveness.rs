//! The heartbeat: sends a probe through intake, queue and reply at an interval, to detect a gateway
//! that no longer processes messages.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use aetheel_discord::ProbeSender;
use aetheel_dispatch::HealthProbe;
use aetheel_runtime::figures;
use aetheel_runtime::supervisor;
use aetheel_store::workspace::{GatewayReport, Lock};

/// Time between two probes.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// Time after which a missing probe is logged. A slow lookup of permissions can delay a probe.
const LATE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time without a successful probe after which the program counts as unhealthy.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(300);

/// Time of the last successful probe. Cheap to clone; clones share their state.
#[derive(Clone, Default)]
pub struct Liveness(Arc<Mutex<Option<Instant>>>);

impl Liveness {
    /// Starts the task that sends probes. After each successful probe, it also writes a report into
    /// the lock file, so that other programs can see it.
    pub fn start(
        &self,
        pulses: ProbeSender,
        lock: Arc<Lock>,
        report: impl Fn() -> GatewayReport + Clone + Send + 'static,
    ) -> JoinHandle<()> {
        self.record_success();
        let liveness = self.clone();
        supervisor::spawn("heartbeat", async move {
            loop {
                write_report(&lock, report.clone());
                sleep(HEARTBEAT_INTERVAL).await;
                while !liveness.probe(|pulse| pulses.send(pulse)).await {
                    sleep(HEARTBEAT_INTERVAL).await;
                }
            }
        })
    }

    /// States that no probes are expected any more.
    pub fn stop(&self) {
        *self.0.lock() = None;
    }

    /// Sends one probe and waits without a limit for its result. Returns whether it succeeded.
    async fn probe(&self, send: impl FnOnce(HealthProbe)) -> bool {
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
            self.record_success();
        } else {
            // The next probe shows whether the problem remains.
            tracing::error!("a heartbeat was lost between intake and reply");
        }
        through
    }

    fn record_success(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    /// Returns the time since the last successful probe, or `None` if no probes are expected.
    fn since_success(&self) -> Option<Duration> {
        self.0.lock().map(|at| at.elapsed())
    }

    /// Updates the metric of the heartbeat.
    pub fn measure(&self) {
        if let Some(silence) = self.since_success() {
            figures::set_heartbeat_age(silence);
        }
    }

    /// Describes the problem if no probe succeeded for [`STALL_TIMEOUT`].
    pub fn problem(&self) -> Option<String> {
        let silence = self.since_success().filter(|silence| *silence > STALL_TIMEOUT)?;
        Some(format!(
            "no heartbeat has come through intake, queue and reply for {} s",
            silence.as_secs()
        ))
    }
}

/// Writes a report on the blocking pool, because the disk may be slow.
fn write_report(lock: &Arc<Lock>, report: impl FnOnce() -> GatewayReport + Send + 'static) {
    let lock = Arc::clone(lock);
    tokio::task::spawn_blocking(move || lock.report(&report()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_successful_probe_ends_the_silence() {
        let liveness = Liveness::default();
        assert_eq!(
            (liveness.since_success(), liveness.problem()),
            (None, None),
            "no probe was sent yet"
        );
        assert!(!liveness.probe(drop).await);
        assert_eq!(liveness.since_success(), None);
        assert!(liveness.probe(HealthProbe::complete).await);
        assert!(liveness.since_success().is_some() && liveness.problem().is_none());
        let long_ago = Instant::now().checked_sub(STALL_TIMEOUT + Duration::from_secs(1));
        if long_ago.is_some() {
            *liveness.0.lock() = long_ago;
            assert!(liveness.problem().is_some_and(|complaint| complaint.contains("for 301 s")));
        }
    }
}
