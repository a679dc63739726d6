//! Examines agents again when their components, profiles or programs change.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::AgentRegistry;
use super::findings::Findings;
use aetheel_dispatch::{Notice, Outlet};
use aetheel_turn::Backends as _;
use aetheel_wasm::LoadReport;

/// How often the configuration files and the agents' programs are checked for changes.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

impl AgentRegistry {
    /// Examines all agents that were not examined yet, concurrently.
    pub async fn examine_remaining(self: &Arc<Self>) {
        let mut examinations = JoinSet::new();
        for name in self.names().into_iter().filter(|name| self.findings(name).is_none()) {
            let agents = self.clone();
            examinations
                .spawn(async move { agents.examine(&name).await.map(|findings| (name, findings)) });
        }
        while let Some(examined) = examinations.join_next().await {
            if let Ok(Some((name, findings))) = examined {
                self.log_findings(&name, &findings, true);
            }
        }
    }

    /// Examines the remaining agents, and then examines agents again whenever their components,
    /// profiles or programs change. Notifies the operator of new versions of agents. Runs until the
    /// registry of components is dropped.
    pub async fn follow(self: Arc<Self>, outlet: Arc<dyn Outlet>) {
        let mut reports = self.components.subscribe();
        self.examine_remaining().await;
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        loop {
            tokio::select! {
                report = reports.recv() => match report {
                    Ok(LoadReport::Loaded { name, .. }) if self.takes_profiles(&name) => {
                        let profiles: Vec<String> = self.read().profiles.keys().cloned().collect();
                        self.examine_again(profiles).await;
                    }
                    Ok(LoadReport::Loaded { name, .. }) => self.examine_again(self.backends_of(&name)).await,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => self.examine_remaining().await,
                    Err(RecvError::Closed) => return,
                },
                _ = look.tick() => {
                    let changed = self.read_profiles().await;
                    self.read_options().await;
                    self.examine_again(changed).await;
                    for name in self.programs.changed(SystemTime::now()) {
                        self.agent_changed(name, &*outlet).await;
                    }
                }
            }
        }
    }

    async fn examine_again(&self, names: Vec<String>) {
        for name in names {
            if let Some(findings) = self.examine(&name).await {
                self.log_findings(&name, &findings, false);
            }
        }
    }

    async fn agent_changed(&self, name: String, outlet: &dyn Outlet) {
        let version = || self.findings(&name)?.version.clone();
        let was = version();
        self.examine_again(vec![name.clone()]).await;
        if let (Some(was), Some(now), Some(backend)) = (was, version(), self.get(&name))
            && was != now
        {
            let component = &backend.descriptor().version;
            let text = format!(
                "The agent of `{name}` is now version {now} (was {was}); version {component} of the backend reads its output."
            );
            // Without a channel for notices, the log has the version.
            let notice = Notice { channel: None, about: None, text, offers: Vec::new() };
            let _ = outlet.notify(notice).await;
        }
    }

    /// Logs the findings about an agent. At the start, agents that are not installed are logged at
    /// debug level only, because nobody installs all of them.
    fn log_findings(&self, name: &str, findings: &Findings, at_start: bool) {
        let program = findings.program.as_deref().map(Path::display).map(tracing::field::display);
        let reason = findings.reasons();
        if findings.faults.is_empty() {
            tracing::info!(backend = name, program, version = findings.version, "backend is ready");
            findings.warnings.iter().for_each(|text| tracing::info!(backend = name, "{text}"));
        } else if self.is_profile(name) || at_start && findings.program.is_none() {
            tracing::debug!(backend = name, reason, "backend is not available");
        } else {
            tracing::info!(backend = name, reason, "backend is not available");
        }
    }
}
