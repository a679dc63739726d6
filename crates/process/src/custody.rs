//! The launcher of real processes.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::cgroup::{self, Cgroup, Home};
use super::drive::{Listening, drive};
use super::family;
use super::gateway::{Gateway, MARK, mark_of};
use super::run_guard::{self, RunGuard};
use super::sandbox::Sandbox;
use super::start::{Pipes, Refusal, prepare};
use super::{KILL_LIMIT, scratch, starter, table, wait_until};
use aetheel_model::figures;
use aetheel_turn::{Launch, LaunchError, Launcher, Process};

/// Batches of lines that are buffered for a slow reader before the program is blocked.
const BATCHES: usize = 8;

/// How the processes of a run are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// By cgroup if the system permits it, otherwise by descent.
    Best,
    /// By descent, even if cgroups are available.
    Descent,
}

/// Starts agent processes and ensures that they end. Cheap to clone.
///
/// Every process of a run has a mark in its environment, which consists of this gateway's identity
/// and [`Launch::run`]: `AETHEEL_RUN=<pid namespace>-<gateway pid>-<gateway
/// start>-<number>-<run>`. So `run` need not be unique.
#[derive(Clone, Debug)]
pub struct Custody(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    gateway: Gateway,
    sandbox: Sandbox,
    /// `None` if cgroups are not available.
    home: Mutex<Option<Arc<Home>>>,
}

impl Custody {
    /// Creates a launcher without a sandbox. Logs one line if cgroups are not available.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn new(means: Means) -> io::Result<Self> {
        Self::confining(means, Sandbox::Off)
    }

    /// Creates a launcher that confines every program it starts.
    ///
    /// # Errors
    /// As [`Custody::new`].
    pub fn confining(means: Means, sandbox: Sandbox) -> io::Result<Self> {
        let gateway = Gateway::own()?;
        let home = match means {
            Means::Best => Home::new(&gateway)
                .inspect_err(|error| tracing::info!(%error, "runs do not get their own cgroups; leftover processes are found by their parent instead, and nothing needs to be done"))
                .ok()
                .map(Arc::new),
            Means::Descent => None,
        };
        // The first process of a container gets the orphans in any case.
        if home.is_none() || gateway.pid == 1 {
            run_guard::adopt_orphans();
        }
        Ok(Self(Arc::new(Inner { gateway, sandbox, home: Mutex::new(home) })))
    }

    /// Declares that nothing else in this process starts programs. Without cgroups, a child that
    /// has removed both its mark and its tag is then killed at the end of the next run, or within
    /// 10 s.
    #[must_use]
    pub fn alone(self) -> Self {
        family::claim_children();
        self
    }

    /// Returns the sandbox of the programs that this launcher starts.
    #[must_use]
    pub fn sandbox(&self) -> &Sandbox {
        &self.0.sandbox
    }

    /// Returns whether runs have cgroups.
    #[must_use]
    pub fn has_cgroups(&self) -> bool {
        self.home().is_some()
    }

    /// Kills the processes that earlier gateways of this user left behind when they were killed.
    /// Returns the number of processes. Call it once at the start. Blocks for up to several
    /// seconds.
    ///
    /// A process is left behind if its mark names a gateway of our PID namespace that no longer
    /// runs. A process that cleared its environment is found only if it was in a cgroup.
    pub fn sweep_leftovers(&self) -> usize {
        let mut killed = cgroup::sweep(&self.0.gateway);
        let mut first = true;
        let clean = wait_until(KILL_LIMIT, || {
            let left: Vec<_> = table::all()
                .into_iter()
                .filter(|entry| !entry.zombie && self.is_leftover(entry.pid))
                .collect();
            for entry in &left {
                if let Err(error) = entry.kill() {
                    tracing::warn!(pid = entry.pid, %error, "cannot kill a process that an earlier gateway left behind");
                }
            }
            killed += if std::mem::take(&mut first) { left.len() } else { 0 };
            left.is_empty()
        });
        if !clean {
            tracing::error!(
                "processes of an earlier gateway do not end; find them by `{MARK}` in their environment"
            );
        }
        figures::orphans_killed(killed);
        killed
    }

    /// Returns the prefix of the names of temporary folders. It identifies this gateway, so that
    /// its folders can be removed if it is killed.
    #[must_use]
    pub fn scratch(&self) -> String {
        scratch::prefix(&self.0.gateway)
    }

    /// Removes the temporary folders that earlier gateways of this user left behind, and returns
    /// their number. Blocks.
    pub fn sweep_folders(&self) -> usize {
        scratch::sweep(&std::env::temp_dir(), &self.0.gateway)
    }

    fn is_leftover(&self, pid: i32) -> bool {
        let own_user = || {
            std::fs::metadata(format!("/proc/{pid}"))
                .is_ok_and(|file| file.uid() == rustix::process::geteuid().as_raw())
        };
        mark_of(pid)
            .and_then(|mark| Gateway::parse(&mark))
            .is_some_and(|gateway| self.0.gateway.has_seen_die(&gateway))
            && own_user()
    }

    fn home(&self) -> Option<Arc<Home>> {
        self.0.home.lock().clone()
    }

    /// Stops using cgroups permanently.
    fn without_cgroups(&self, error: &io::Error) {
        run_guard::adopt_orphans();
        if self.0.home.lock().take().is_some() {
            tracing::info!(%error, "cgroups cannot be used; leftover processes are found by their parent instead");
        }
    }

    fn start(&self, launch: &Launch) -> Result<(RunGuard, Pipes), LaunchError> {
        // One counter for the whole process, because the cgroups of all launchers share a folder.
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prepared = prepare(
            launch,
            &self.0.sandbox,
            self.0.gateway.mark(number, &launch.run),
            family::tag(number),
        )?;
        if let Some(cgroup) = self.cgroup(number) {
            match prepared.start(Some(cgroup)) {
                Ok(started) => return Ok(started),
                Err(Refusal::Final(error)) => return Err(error),
                Err(Refusal::Clone(error)) => self.without_cgroups(&error),
            }
        }
        prepared.start(None).map_err(|refusal| match refusal {
            Refusal::Final(error) => error,
            Refusal::Clone(source) => {
                LaunchError::Start { program: launch.program.clone(), source }
            }
        })
    }

    fn cgroup(&self, number: u64) -> Option<Cgroup> {
        let complain = |error: &io::Error| {
            tracing::warn!(%error, "cannot create a cgroup; leftover processes of this run are found by their parent instead");
            run_guard::adopt_orphans();
        };
        self.home()?.run(number).inspect_err(complain).ok()
    }
}

#[async_trait]
impl Launcher for Custody {
    fn scratch(&self) -> String {
        Self::scratch(self)
    }

    /// Starts a program. Dropping the future kills it.
    async fn launch(&self, launch: Launch) -> Result<Process, LaunchError> {
        let custody = self.clone();
        let program = launch.program.clone();
        let failed = |source: io::Error| LaunchError::Start { program, source };
        // Executing a program reads its file, which may block.
        let started = tokio::task::spawn_blocking(move || {
            starter::lastingly(move || custody.start(&launch).map(|started| (started, launch)))
        })
        .await;
        let ((held, pipes), launch) = match started.map_err(io::Error::other).flatten() {
            Ok(started) => started?,
            Err(error) => return Err(failed(error)),
        };
        let pid = held.leader();
        let listening = Listening::new(&held, pipes).map_err(failed)?;
        let (event_sender, events) = mpsc::channel(BATCHES);
        let (commands, command_receiver) = mpsc::unbounded_channel();
        tokio::spawn(
            drive(held, listening, launch, event_sender, command_receiver).in_current_span(),
        );
        Ok(Process { events, commands, pid, held: false })
    }
}
