//! The report of a running gateway about itself: the last line of the lock file, as JSON. It is
//! written at the start and with each successful heartbeat, for `aetheel status` and `aetheel logs`.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The lock file, relative to the folder.
pub(super) const LOCK_FILE: &str = "state/gateway.lock";

/// The state of a gateway when it last reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct GatewayReport {
    /// The time of the start, in seconds since 1970.
    pub since: i64,
    /// The working directory of the process.
    pub folder: PathBuf,
    /// The systemd service of the process.
    pub unit: Option<ServiceUnit>,
    /// The target of its stderr, such as a file, `pipe:[123]` or `/dev/pts/1`.
    pub log: Option<PathBuf>,
    /// The work in progress, or `None` until the gateway is ready.
    pub work: Option<GatewayWork>,
    /// The latest warnings and errors of its log, the oldest first.
    pub problems: Vec<String>,
}

/// The work of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct GatewayWork {
    /// Number of Discord connections that are up, and the number that should be.
    pub discord: (usize, usize),
    /// Number of running turns.
    pub running: usize,
    /// Number of prompts that wait.
    pub waiting: usize,
    /// Number of questions that wait for people.
    pub questions: usize,
}

/// A service of systemd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ServiceUnit {
    /// The name, such as `aetheel.service`.
    pub name: String,
    /// Whether it belongs to the service manager of a user.
    pub user: bool,
}

impl GatewayReport {
    /// Returns the report of this process at its start.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self {
            since: Timestamp::now().as_second(),
            folder: std::env::current_dir().unwrap_or_default(),
            unit: fs::read_to_string("/proc/self/cgroup")
                .ok()
                .and_then(|cgroups| ServiceUnit::of_cgroups(&cgroups)),
            log: fs::read_link("/proc/self/fd/2").ok(),
            ..Self::default()
        }
    }

    /// Returns the last report of the gateway of a configuration folder, or `None` if it cannot be
    /// read or was written by an earlier version.
    #[must_use]
    pub fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join(LOCK_FILE)).ok()?;
        serde_json::from_str(text.lines().nth(3)?).ok()
    }

    /// Returns the file that contains the log, or `None` if stderr is not a file.
    #[must_use]
    pub fn log_file(&self) -> Option<PathBuf> {
        self.log.clone().filter(|log| log.is_absolute() && log.is_file())
    }

    /// Returns the log of a gateway of this folder that `aetheel restart` started in the background.
    #[must_use]
    pub fn background_log(folder: &Path) -> PathBuf {
        folder.join("state/gateway.log")
    }

    pub(super) fn render(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

impl ServiceUnit {
    /// Returns the service of a process, from its cgroups (cgroups(7)), or `None` if it is not part
    /// of one.
    #[must_use]
    pub fn of_cgroups(cgroups: &str) -> Option<Self> {
        cgroups.lines().filter_map(|line| line.rsplit(':').next()).find_map(|path| {
            let is_unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
            let name = path.rsplit('/').find(is_unit)?;
            (name.ends_with(".service") && !name.starts_with("user@"))
                .then(|| Self { name: name.to_owned(), user: path.contains("/user@") })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_detected_by_its_innermost_unit() {
        let unit = |cgroups: &str| ServiceUnit::of_cgroups(cgroups).map(|it| (it.name, it.user));
        let service = |user| Some(("aetheel.service".to_owned(), user));
        assert_eq!(unit("0::/system.slice/aetheel.service/gateway\n"), service(false));
        let session = "0::/user.slice/user-0.slice/user@0.service";
        assert_eq!(unit(&format!("{session}/app.slice/aetheel.service\n")), service(true));
        assert_eq!(unit(&format!("{session}/app.slice/shell.scope\n")), None);
        assert_eq!((unit(&format!("{session}\n")), unit("0::/\n")), (None, None));
    }
}
