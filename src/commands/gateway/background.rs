//! Starts a gateway in the background, where no service manager does.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::cli::Common;
use aetheel_process::{BackgroundProgram, StartedProgram};
use aetheel_settings::Config;
use aetheel_store::workspace::{GatewayReport, LockOwner};

/// Time limit for the new gateway to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The reason why no new gateway serves.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum BackgroundStartError {
    #[error("cannot open the log `{}`", path.display())]
    Log {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot start `{} run`", program.display())]
    Start {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the new gateway has ended ({status}); its log is `{}`", log.display())]
    Ended { status: ExitStatus, log: PathBuf },
    #[error("the new gateway (process {pid}) is not ready after {} s; its log is `{}`", READY_TIMEOUT.as_secs(), log.display())]
    NotReady { pid: u32, log: PathBuf },
}

/// A gateway that will be started with the settings of this command.
pub(in crate::commands) struct BackgroundStart {
    program: BackgroundProgram,
    config_dir: PathBuf,
    log: PathBuf,
}

impl BackgroundStart {
    /// Prepares a start with the settings of this command and the environment of this process.
    /// Returns `None` if the settings cannot be read a second time (`--secrets-fd`).
    pub(in crate::commands) fn new(
        common: &Common,
        config: &Config,
        program: &Path,
    ) -> Option<Self> {
        if common.secrets_fd.is_some() {
            return None;
        }
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let config_dir = absolute(&config.config_dir);
        let before = GatewayReport::read(&config_dir).unwrap_or_default();
        let mut arguments = vec!["run".into()];
        if let Some(file) = &common.env_file {
            arguments.extend(["--env-file".into(), absolute(file).into()]);
        }
        let folder = Some(before.folder.clone()).filter(|folder| folder.is_dir());
        let program = BackgroundProgram { program: program.to_owned(), arguments, folder };
        let log = before.log_file().unwrap_or_else(|| GatewayReport::background_log(&config_dir));
        Some(Self { program, config_dir, log })
    }

    /// Starts the gateway, and waits until it is ready.
    ///
    /// # Errors
    /// [`BackgroundStartError`]. The process may still run if it is not ready in time.
    pub(in crate::commands) async fn start(self) -> Result<LockOwner, BackgroundStartError> {
        let Self { program, config_dir, log } = self;
        let file = open_log(&log)
            .map_err(|source| BackgroundStartError::Log { path: log.clone(), source })?;
        let name = program.program.clone();
        let started = program.start(file);
        let started =
            started.map_err(|source| BackgroundStartError::Start { program: name, source })?;
        ready(started, &config_dir, log).await
    }
}

fn open_log(log: &Path) -> io::Result<File> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(log)
}

/// Waits until the program serves the folder.
async fn ready(
    mut started: StartedProgram,
    config_dir: &Path,
    log: PathBuf,
) -> Result<LockOwner, BackgroundStartError> {
    let (pid, end) = (started.pid(), Instant::now() + READY_TIMEOUT);
    loop {
        let owner = LockOwner::current(config_dir).filter(|owner| owner.pid == pid);
        let report = GatewayReport::read(config_dir);
        if let Some(owner) = owner
            && report.is_some_and(|report| report.work.is_some())
        {
            return Ok(owner);
        }
        if let Some(status) = started.ended() {
            return Err(BackgroundStartError::Ended { status, log });
        }
        if Instant::now() >= end {
            return Err(BackgroundStartError::NotReady { pid, log });
        }
        sleep(POLL_INTERVAL).await;
    }
}
