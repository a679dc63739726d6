//! The launcher of real processes.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::cgroup::{self, Cgroup, RunsFolder};
use super::descent;
use super::drive::{RegisteredPipes, drive};
use super::gateway_id::{GatewayId, MARK, read_mark};
use super::run_handle::{self, RunHandle};
use super::sandbox::Sandbox;
use super::start::{Pipes, SpawnFailure, prepare};
use super::{KILL_LIMIT, process_table, scratch, starter, wait_until};
use aetheel_runtime::figures;
use aetheel_turn::{AgentProcess, Launch, LaunchError, Launcher};

/// Batches of lines that are buffered for a slow reader before the program is blocked.
const BATCH_CAPACITY: usize = 8;

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
pub struct Custody(Arc<CustodyInner>);

#[derive(Debug)]
struct CustodyInner {
    gateway: GatewayId,
    sandbox: Sandbox,
    /// `None` if cgroups are not available.
    runs_folder: Mutex<Option<Arc<RunsFolder>>>,
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
        let gateway = GatewayId::own()?;
        let home = match means {
            Means::Best => RunsFolder::new(&gateway)
                .inspect_err(|error| tracing::info!(%error, "runs do not get their own cgroups; leftover processes are found by their parent instead, and nothing needs to be done"))
                .ok()
                .map(Arc::new),
            Means::Descent => None,
        };
        // The first process of a container gets the orphans in any case.
        if home.is_none() || gateway.pid == 1 {
            run_handle::adopt_orphans();
        }
        Ok(Self(Arc::new(CustodyInner { gateway, sandbox, runs_folder: Mutex::new(home) })))
    }

    /// Declares that nothing else in this process starts programs. Without cgroups, a child that
    /// has removed both its mark and its tag is then killed at the end of the next run, or within
    /// 10 s.
    #[must_use]
    pub fn as_sole_spawner(self) -> Self {
        descent::claim_children();
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
        self.runs_folder().is_some()
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
            let left: Vec<_> = process_table::all()
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

    /// Returns whether a process is in the cgroup of one of this launcher's runs, or is a descendant
    /// of this process.
    pub(super) fn owns_process(&self, pid: i32) -> bool {
        self.runs_folder().is_some_and(|folder| folder.contains(pid)) || descent::is_descendant(pid)
    }

    fn is_leftover(&self, pid: i32) -> bool {
        let own_user = || {
            std::fs::metadata(format!("/proc/{pid}"))
                .is_ok_and(|file| file.uid() == rustix::process::geteuid().as_raw())
        };
        read_mark(pid)
            .and_then(|mark| GatewayId::parse(&mark))
            .is_some_and(|gateway| self.0.gateway.knows_dead(&gateway))
            && own_user()
    }

    fn runs_folder(&self) -> Option<Arc<RunsFolder>> {
        self.0.runs_folder.lock().clone()
    }

    /// Stops using cgroups permanently.
    fn give_up_cgroups(&self, error: &io::Error) {
        run_handle::adopt_orphans();
        if self.0.runs_folder.lock().take().is_some() {
            tracing::info!(%error, "cgroups cannot be used; leftover processes are found by their parent instead");
        }
    }

    fn start(&self, launch: &Launch) -> Result<(RunHandle, Pipes), LaunchError> {
        // One counter for the whole process, because the cgroups of all launchers share a folder.
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prepared = prepare(
            launch,
            &self.0.sandbox,
            self.0.gateway.mark(number, &launch.run),
            descent::tag(number),
        )?;
        if let Some(cgroup) = self.cgroup(number) {
            match prepared.start(Some(cgroup)) {
                Ok(started) => return Ok(started),
                Err(SpawnFailure::Final(error)) => return Err(error),
                Err(SpawnFailure::Clone(error)) => self.give_up_cgroups(&error),
            }
        }
        prepared.start(None).map_err(|refusal| match refusal {
            SpawnFailure::Final(error) => error,
            SpawnFailure::Clone(source) => {
                LaunchError::Start { program: launch.program.clone(), source }
            }
        })
    }

    fn cgroup(&self, number: u64) -> Option<Cgroup> {
        let complain = |error: &io::Error| {
            tracing::warn!(%error, "cannot create a cgroup; leftover processes of this run are found by their parent instead");
            run_handle::adopt_orphans();
        };
        self.runs_folder()?.create_run(number).inspect_err(complain).ok()
    }
}

#[async_trait]
impl Launcher for Custody {
    fn scratch_prefix(&self) -> String {
        Self::scratch(self)
    }

    /// Starts a program. Dropping the future kills it.
    async fn launch(&self, launch: Launch) -> Result<AgentProcess, LaunchError> {
        let custody = self.clone();
        let program = launch.program.clone();
        let failed = |source: io::Error| LaunchError::Start { program, source };
        // Executing a program reads its file, which may block.
        let started = starter::run_on_starter(move || {
            custody.start(&launch).map(|started| (started, launch))
        });
        let ((held, pipes), launch) = match started.await {
            Ok(started) => started?,
            Err(error) => return Err(failed(error)),
        };
        let pid = held.leader();
        let listening = RegisteredPipes::new(&held, pipes).map_err(failed)?;
        let (event_sender, events) = mpsc::channel(BATCH_CAPACITY);
        let (commands, command_receiver) = mpsc::unbounded_channel();
        tokio::spawn(
            drive(held, listening, launch, event_sender, command_receiver).in_current_span(),
        );
        Ok(AgentProcess { events, commands, pid, held: false })
    }
}
