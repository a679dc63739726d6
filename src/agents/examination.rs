//! Examines agents: inspects their programs and asks them for their versions.

use std::sync::Arc;

use super::findings::{Examiner, Findings};
use super::{AgentRegistry, BackendVariant};
use aetheel_store::disk::Stamp;
use aetheel_turn::{Backends as _, InstalledAgent};

impl AgentRegistry {
    /// Inspects a backend's agent without starting it. Returns `None` for an unknown backend.
    pub fn inspect(&self, name: &str) -> Option<Findings> {
        let backend = self.get(name)?;
        Some(self.examiner.inspect(backend.descriptor(), &self.program_location(name)))
    }

    /// Inspects a backend's agent and asks it for its version. If another component fits that
    /// version better, it serves from then on. Returns `None` for an unknown backend.
    pub async fn examine(&self, name: &str) -> Option<Arc<Findings>> {
        let mut findings = self.probe(name).await?;
        if let (Some(version), BackendVariant::Plain) = (&findings.version, self.variant(name))
            && self.components.set_agent_version(name, version).await
        {
            // The other component may describe its agent differently.
            findings = self.probe(name).await?;
        }
        let backend = self.get(name)?;
        let findings = Arc::new(findings);
        let mut agent =
            InstalledAgent { version: findings.version.clone(), ..InstalledAgent::default() };
        let declared = &backend.descriptor().programs;
        if let Ok(ourselves) = std::env::current_exe() {
            let ours = declared.iter().filter(|program| program.name == env!("CARGO_PKG_NAME"));
            agent.programs.extend(ours.map(|program| (program.name.clone(), ourselves.clone())));
        }
        if let (Some(first), Some(found)) = (declared.first(), &findings.program) {
            agent.programs.insert(first.name.clone(), found.clone());
        }
        self.agents.set(name, agent);
        let before = self.write().findings.insert(name.to_owned(), findings.clone());
        if let (Some(was), Some(now)) =
            (before.and_then(|before| before.version.clone()), &findings.version)
            && was != *now
        {
            tracing::info!(
                backend = name,
                version = now,
                was,
                "agent is now version {now} (was {was})"
            );
        }
        Some(findings)
    }

    /// Examines the agent of the default backend. If the detection has already asked it for its
    /// version, it is not asked again.
    pub async fn examine_default(&self, name: &str) -> Option<Arc<Findings>> {
        let (backend, looked) = (self.get(name)?, self.inspect(name)?);
        let known = self.findings(name).filter(|known| {
            known.faults.is_empty() && known.version.is_some() && known.program == looked.program
        });
        let Some(known) = known else { return self.examine(name).await };
        // Settings for the default backend apply to it from now on.
        let mut findings =
            Examiner::with_version(backend.descriptor(), looked, known.version.clone());
        findings.warnings.extend(self.sign_in_warning(name));
        let findings = Arc::new(findings);
        self.write().findings.insert(name.to_owned(), findings.clone());
        Some(findings)
    }

    async fn probe(&self, name: &str) -> Option<Findings> {
        let (backend, place) = (self.get(name)?, self.program_location(name));
        // Before the agent is asked, so that a change in the meantime is detected.
        let program = self.examiner.inspect(backend.descriptor(), &place).program;
        self.programs.note(name, program.map(|path| (path.clone(), Stamp::of(&path))));
        let mut findings = self.examiner.examine(backend.descriptor(), &place).await;
        findings.warnings.extend(self.sign_in_warning(name));
        Some(findings)
    }
}
