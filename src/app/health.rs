//! Health checks for the status pages and the service manager: liveness, readiness, and the metrics
//! that are measured on request.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::agents::AgentRegistry;
use crate::app::liveness::Liveness;
use crate::app::phase::ProgramPhase;
use aetheel_discord::Discord;
use aetheel_dispatch::Observer;
use aetheel_runtime::figures;
use aetheel_runtime::log;
use aetheel_runtime::supervisor;
use aetheel_store::disk::write_probe;
use aetheel_store::workspace::{GatewayReport, GatewayWork};
use aetheel_web::status::HealthSource;

/// The parts of a started gateway that health checks examine.
pub struct HealthTargets {
    /// Provides the metrics of the queue.
    pub observer: Observer,
    /// Provides the state of the connection.
    pub discord: Discord,
    /// Provides the findings about the default backend's agent.
    pub agents: Arc<AgentRegistry>,
    /// The backend of lanes that have not chosen one.
    pub backend: String,
    /// `CONFIG_DIR/state`.
    pub state: PathBuf,
}

/// Health of the gateway. Clones share their state.
#[derive(Clone)]
pub struct ProgramHealth {
    phase: watch::Receiver<ProgramPhase>,
    targets: Arc<OnceLock<HealthTargets>>,
    liveness: Liveness,
}

impl ProgramHealth {
    /// Creates health checks that examine only the phase and the heartbeat until
    /// [`Self::set_targets`] is called.
    pub fn new(phase: watch::Receiver<ProgramPhase>, liveness: Liveness) -> Self {
        Self { phase, targets: Arc::default(), liveness }
    }

    /// Sets the parts of the gateway to examine. Later calls have no effect.
    pub fn set_targets(&self, watched: HealthTargets) {
        let _ = self.targets.set(watched);
    }

    /// Returns a report about the gateway's work, for the lock file.
    pub fn report(&self, at_start: GatewayReport) -> GatewayReport {
        let work = self.targets.get().map(|targets| {
            let stats = targets.observer.stats();
            GatewayWork {
                discord: targets.discord.shards(),
                running: stats.running,
                waiting: stats.waiting,
                questions: stats.questions,
            }
        });
        GatewayReport { work, problems: log::problems::latest(), ..at_start }
    }
}

#[async_trait]
impl HealthSource for ProgramHealth {
    async fn alive(&self) -> Vec<String> {
        self.measure().await;
        let gone =
            supervisor::current_failure().map(|fallen| format!("`{}` {}", fallen.name, fallen.how));
        gone.into_iter().chain(self.liveness.problem()).collect()
    }

    async fn unready(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        match *self.phase.borrow() {
            ProgramPhase::Starting => reasons.push("starting".to_owned()),
            ProgramPhase::Joining => {
                reasons.push("waiting for the database of the cluster".to_owned());
            }
            ProgramPhase::Draining => reasons.push("draining".to_owned()),
            ProgramPhase::Ready => {}
        }
        let watched = Arc::clone(&self.targets);
        // The checks of programs and folders access the disk.
        let more =
            spawn_blocking(move || watched.get().map(HealthTargets::problems).unwrap_or_default())
                .await;
        reasons.extend(more.unwrap_or_else(|_| vec!["a check of its parts failed".to_owned()]));
        reasons
    }

    async fn measure(&self) {
        self.liveness.measure();
        let watched = Arc::clone(&self.targets);
        // A lock that is never released must not block a worker thread.
        let _ = spawn_blocking(move || {
            if let Some(watched) = watched.get() {
                let _ = watched.observer.stats();
                figures::discord_connected(watched.discord.shards());
                figures::discord_invalid(watched.discord.invalid_requests());
            }
            let resident = std::fs::read_to_string("/proc/self/status")
                .ok()
                .and_then(|status| resident_bytes(&status));
            figures::set_process(
                resident,
                std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count),
            );
        })
        .await;
    }
}

impl HealthTargets {
    fn problems(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.discord.has_login() && !self.discord.is_connected() {
            reasons.push(match self.discord.shards() {
                (_, 0 | 1) => "discord is not connected".to_owned(),
                (up, all) => format!("discord is not connected: {up} of {all} shards are"),
            });
        }
        match self.agents.inspect(&self.backend) {
            None => reasons.push(format!("backend `{}` is not loaded", self.backend)),
            Some(findings) if !findings.faults.is_empty() => {
                let brief: Vec<&str> = findings.faults.iter().map(|fault| fault.brief).collect();
                reasons.push(format!(
                    "backend `{}` cannot work: {}",
                    self.backend,
                    brief.join(", and ")
                ));
            }
            Some(_) => {}
        }
        if let Err(error) = write_probe(&self.state) {
            reasons.push(format!("the state folder cannot be written to: {}", error.kind()));
        }
        reasons
    }
}

/// Parses `VmRSS` of `/proc/<pid>/status`. Returns bytes.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t1\n"), Some(2 << 20));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
    }
}
