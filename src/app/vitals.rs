//! What the status pages ask: whether the program lives, whether it is ready, and the figures
//! counted when somebody looks.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::heart::Heart;
use super::phase::Phase;
use super::roster::Roster;
use crate::discord::Discord;
use crate::dispatch::Dispatcher;
use crate::figures;
use crate::vigil;
use crate::web::status::Vitals;

/// What there is to look at once the program has started that far.
pub struct Organs {
    pub dispatcher: Dispatcher,
    pub discord: Discord,
    pub roster: Arc<Roster>,
    /// The backend of lanes without a choice.
    pub backend: String,
    /// `CONFIG_DIR/state`.
    pub state: PathBuf,
}

/// See the module.
#[derive(Clone)]
pub struct Pulse {
    phase: watch::Receiver<Phase>,
    organs: Arc<OnceLock<Organs>>,
    heart: Heart,
}

impl Pulse {
    /// Looks at what the phase is, and at the organs once they are known.
    pub fn new(phase: watch::Receiver<Phase>, heart: Heart) -> Self {
        Self { phase, organs: Arc::default(), heart }
    }

    /// Says what there is to look at. Counts once.
    pub fn know(&self, organs: Organs) {
        let _ = self.organs.set(organs);
    }
}

#[async_trait]
impl Vitals for Pulse {
    async fn alive(&self) -> Vec<String> {
        self.measure().await;
        let gone =
            vigil::already_fallen().map(|fallen| format!("`{}` {}", fallen.name, fallen.how));
        gone.into_iter().chain(self.heart.complaint()).collect()
    }

    async fn unready(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        match *self.phase.borrow() {
            Phase::Starting => reasons.push("starting".to_owned()),
            Phase::Draining => reasons.push("draining".to_owned()),
            Phase::Ready => {}
        }
        let organs = Arc::clone(&self.organs);
        // Programs and folders are looked at on the disk.
        let more =
            spawn_blocking(move || organs.get().map(Organs::complaints).unwrap_or_default()).await;
        reasons.extend(more.unwrap_or_else(|_| vec!["it could not be looked at".to_owned()]));
        reasons
    }

    async fn measure(&self) {
        self.heart.measure();
        let organs = Arc::clone(&self.organs);
        // A lock that is held for good must not take a worker with it.
        let _ = spawn_blocking(move || {
            if let Some(organs) = organs.get() {
                let _ = organs.dispatcher.stats();
                figures::discord_connected(organs.discord.is_connected());
                figures::discord_invalid(organs.discord.invalid_requests());
            }
            let resident = std::fs::read_to_string("/proc/self/status")
                .ok()
                .and_then(|status| resident_bytes(&status));
            figures::process(
                resident,
                std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count),
            );
        })
        .await;
    }
}

impl Organs {
    fn complaints(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if !self.discord.is_connected() {
            reasons.push("discord is not connected".to_owned());
        }
        match self.roster.look(&self.backend) {
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
        if let Err(error) = write_there(&self.state) {
            reasons.push(format!("the state folder cannot be written to: {}", error.kind()));
        }
        reasons
    }
}

/// Writes a few bytes into a folder and takes them away again.
///
/// # Errors
/// What the system said.
pub fn write_there(folder: &Path) -> std::io::Result<()> {
    tempfile::Builder::new().prefix(".probe-").tempfile_in(folder)?.write_all(b"aetheel\n")
}

/// `VmRSS` of `/proc/<pid>/status`.
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

    #[test]
    fn a_folder_that_is_gone_cannot_be_written_to_and_a_probe_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        write_there(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(write_there(&folder.path().join("gone")).is_err());
    }
}
