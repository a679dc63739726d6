//! The launcher whose processes a holder keeps.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::bound_launcher::BoundLauncher;
use super::connection::{ConnectError, HolderConnection};
use super::holder_name;
use super::log;
use super::program::HolderProgram;
use super::protocol::HolderRequest;
use super::retire::{other_sandbox, retire};
use super::socket::HolderError;
use super::start::start;
use crate::Sandbox;
use crate::gateway_id::GatewayId;
use aetheel_turn::{AgentProcess, Launch, LaunchError, Launcher, Survivor};

/// How long another gateway may stay connected. A gateway that was just killed does until the holder
/// gets CPU time to read the end of its connection, which takes a while on a busy machine.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a started holder may take to accept connections.
const START_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time a service manager has to restart a lost holder before an idle gateway starts its own, and
/// the delay before a failed attempt is repeated.
const RENEW_DELAY: Duration = Duration::from_secs(2);

/// How a holder is started if none runs.
#[derive(Clone, Debug, Default)]
pub struct HolderStart {
    /// The gateway's program, or `None` for the one of this process. The holder's program is looked
    /// for in the same folder.
    pub program: Option<PathBuf>,
    /// How long the holder keeps agents without a gateway.
    pub claim_within: Duration,
}

/// Starts agents through a holder, so that they outlive this process. Cheap to clone.
///
/// The reader of a held process must acknowledge the lines that it recorded
/// ([`aetheel_turn::ProcessCommand::Recorded`]). The holder buffers 1,024 lines beyond that, then
/// blocks the process.
#[derive(Clone, Debug)]
pub struct HeldLauncher(Arc<HeldLauncherInner>);

#[derive(Debug)]
struct HeldLauncherInner {
    state: PathBuf,
    sandbox: Sandbox,
    /// `None` if this launcher must not start a holder.
    start: Option<HolderStart>,
    connection: Mutex<Arc<HolderConnection>>,
    /// Whether the last gateway had another holder.
    is_successor: bool,
    /// Held while a lost holder is replaced.
    renewing: tokio::sync::Mutex<()>,
    has_left: AtomicBool,
    /// The time until which agents may run, if it was set.
    until_ms: Mutex<Option<u64>>,
}

impl HeldLauncher {
    /// Connects to the holder of a state folder, for agents in this sandbox. Must be called within
    /// a Tokio runtime.
    ///
    /// # Errors
    /// No holder runs, or it refuses the connection.
    pub async fn connect(state: &Path, sandbox: Sandbox) -> Result<Self, HolderError> {
        Ok(Self::over(open(state).await?, state, sandbox, None, false))
    }

    /// Connects to the holder of a state folder, and starts one if none runs. A holder that is lost
    /// later is replaced in the same way. A holder that confines agents in another way is replaced,
    /// and its agents are ended.
    ///
    /// # Errors
    /// The holder refuses the connection, or cannot be started.
    pub async fn start_or_connect(
        state: &Path,
        sandbox: Sandbox,
        holding: HolderStart,
    ) -> Result<Self, HolderError> {
        let connection = open_or_start(state, &sandbox, &holding).await?;
        let (latest, name) = (holder_name::read(state), &connection.hello.scratch);
        let is_successor = latest.as_ref().is_some_and(|latest| latest != name);
        if latest.is_none() {
            holder_name::write(state, name);
        }
        Ok(Self::over(connection, state, sandbox, Some(holding), is_successor))
    }

    fn over(
        connection: Arc<HolderConnection>,
        state: &Path,
        sandbox: Sandbox,
        holding: Option<HolderStart>,
        is_successor: bool,
    ) -> Self {
        let launcher = Self(Arc::new(HeldLauncherInner {
            state: state.to_owned(),
            sandbox,
            start: holding,
            connection: Mutex::new(Arc::clone(&connection)),
            is_successor,
            renewing: tokio::sync::Mutex::default(),
            has_left: AtomicBool::new(false),
            until_ms: Mutex::default(),
        }));
        launcher.renew_when_lost(&connection);
        launcher
    }

    /// Replaces the holder if it is lost, even if nothing is launched, because the next holder
    /// kills the agents that a killed holder left behind.
    fn renew_when_lost(&self, connection: &Arc<HolderConnection>) {
        let (inner, lost) = (Arc::downgrade(&self.0), connection.lost());
        tokio::spawn(async move {
            lost.cancelled().await;
            loop {
                sleep(RENEW_DELAY).await;
                let Some(inner) = inner.upgrade() else { return };
                if inner.has_left.load(Ordering::SeqCst) {
                    return;
                }
                match Self(inner).live_connection().await {
                    Ok(_) => return,
                    Err(error) => tracing::warn!(%error, "cannot replace the lost holder yet"),
                }
            }
        });
    }

    /// Returns whether the last gateway had another holder. Its agents may then have worked after
    /// that gateway ended, and their output is lost.
    #[must_use]
    pub fn is_successor(&self) -> bool {
        self.0.is_successor
    }

    /// Notes on disk that this holder keeps agents from now on. Must be called after the events of
    /// the last gateway are recovered: if this gateway ends before, the next one still detects the
    /// change of the holder.
    pub fn note_holder(&self) {
        holder_name::write(&self.0.state, &self.connection().hello.scratch);
    }

    /// Notes on disk that the output of the held agents is lost, even if the holder then exits
    /// without agents. Must be called before the agents are ended.
    pub fn note_lost_output(&self) {
        holder_name::invalidate(&self.0.state);
    }

    /// Notes on disk that agents end with the gateway from now on. Returns whether the last gateway
    /// had a holder.
    #[must_use]
    pub fn note_no_holder(state: &Path) -> bool {
        holder_name::remove(state)
    }

    /// Returns the version of the holder's program.
    #[must_use]
    pub fn version(&self) -> String {
        self.connection().hello.program.clone()
    }

    /// Returns whether the holder continues when the gateway's service is stopped, because it is
    /// not in the gateway's cgroup or container.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        let scratch = self.connection().hello.scratch.clone();
        let holder = scratch.strip_prefix("aetheel-").and_then(GatewayId::parse);
        let cgroup = |pid: i32| std::fs::read(format!("/proc/{pid}/cgroup")).ok();
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let managed = std::env::var_os("INVOCATION_ID").is_some();
        let together = holder.is_none_or(|holder| cgroup(holder.pid) == cgroup(own));
        own != 1 && !(managed && together)
    }

    /// Returns the port of the holder's tool relay. A holder of an earlier version has none.
    #[must_use]
    pub fn tool_port(&self) -> Option<u16> {
        self.connection().hello.tool_port
    }

    /// Returns whether the holder can end agents at a given time ([`HeldLauncher::set_deadline`]). A
    /// holder of an earlier version cannot.
    #[must_use]
    pub fn fences(&self) -> bool {
        self.connection().hello.fences
    }

    /// Sets the time of [`boot_ms`](aetheel_runtime::lease::boot_ms) at which the holder ends all
    /// agents, even without a gateway. A later call can extend the time.
    pub fn set_deadline(&self, until_ms: u64) {
        *self.0.until_ms.lock() = Some(until_ms);
        self.connection().send(&HolderRequest::SetDeadline(until_ms));
    }

    /// Disconnects from the holder, in which all processes continue. Commands and acknowledgements
    /// that were sent before are passed on. Must be called at shutdown before a process handle is
    /// dropped. Nothing can be launched after it.
    pub async fn leave(&self) {
        self.0.has_left.store(true, Ordering::SeqCst);
        let connection = self.connection();
        connection.leave().await;
    }

    fn connection(&self) -> Arc<HolderConnection> {
        Arc::clone(&self.0.connection.lock())
    }

    async fn bind_connection(&self) -> BoundLauncher {
        let (connection, unavailable) = match self.live_connection().await {
            Ok(connection) => (connection, None),
            Err(error) => (self.connection(), Some(error.to_string())),
        };
        BoundLauncher { connection, unavailable, sandbox: self.0.sandbox.clone() }
    }

    /// Returns the connection to the holder, which is replaced first if it is lost.
    async fn live_connection(&self) -> io::Result<Arc<HolderConnection>> {
        let inner = &self.0;
        let _renewing = inner.renewing.lock().await;
        let connection = self.connection();
        if inner.has_left.load(Ordering::SeqCst) {
            return Err(io::Error::other("the gateway is shutting down"));
        }
        if !connection.is_gone() {
            return Ok(connection);
        }
        let opened = match &inner.start {
            Some(holding) => open_or_start(&inner.state, &inner.sandbox, holding).await,
            None => open(&inner.state).await,
        };
        let connection = opened.map_err(io::Error::other)?;
        tracing::info!(version = connection.hello.program, "a new holder keeps agents");
        if let Some(until_ms) = *inner.until_ms.lock() {
            connection.send(&HolderRequest::SetDeadline(until_ms));
        }
        inner.connection.lock().clone_from(&connection);
        holder_name::write(&inner.state, &connection.hello.scratch);
        self.renew_when_lost(&connection);
        Ok(connection)
    }
}

/// Connects, and waits up to [`BUSY_TIMEOUT`] while another gateway is connected.
async fn open(state: &Path) -> Result<Arc<HolderConnection>, HolderError> {
    let until = Instant::now() + BUSY_TIMEOUT;
    loop {
        match HolderConnection::open(state).await {
            Err(ConnectError::Busy(_)) if Instant::now() < until => sleep(POLL_INTERVAL).await,
            opened => return opened.map_err(HolderError::from),
        }
    }
}

/// Connects to the holder of a folder, and starts one if none runs or if the running one confines
/// agents in another way.
async fn open_or_start(
    state: &Path,
    sandbox: &Sandbox,
    holding: &HolderStart,
) -> Result<Arc<HolderConnection>, HolderError> {
    log::truncate_long(state);
    match open(state).await {
        Err(HolderError::NoAnswer { .. }) => {}
        Err(error) => return Err(error),
        Ok(connection) => match other_sandbox(&connection, sandbox) {
            Some(other) => retire(connection, state, &other, sandbox).await?,
            None => return Ok(connection),
        },
    }
    let program = HolderProgram::find(holding.program.as_deref()).await;
    let started =
        start(state, &program, sandbox, holding.claim_within).map_err(HolderError::Start)?;
    let until = Instant::now() + START_TIMEOUT;
    loop {
        // Checked before connecting, because a holder that finds another one exits.
        let ended = started.has_ended();
        match open(state).await {
            Err(HolderError::NoAnswer { .. }) if !ended && Instant::now() < until => {
                sleep(POLL_INTERVAL).await;
            }
            Err(HolderError::NoAnswer { source, .. }) if ended => {
                let log = log::path(state);
                let why = format!("it ended at once; its log is `{}` ({source})", log.display());
                return Err(HolderError::Start(io::Error::other(why)));
            }
            opened => return opened,
        }
    }
}

#[async_trait]
impl Launcher for HeldLauncher {
    async fn bind(&self) -> Option<Arc<dyn Launcher>> {
        Some(Arc::new(self.bind_connection().await))
    }

    async fn launch(&self, launch: Launch) -> Result<AgentProcess, LaunchError> {
        self.bind_connection().await.launch(launch).await
    }

    fn holds(&self) -> bool {
        true
    }

    fn scratch_prefix(&self) -> String {
        self.connection().hello.scratch.clone()
    }

    async fn survivors(&self) -> Vec<Survivor> {
        self.connection().survivors().await
    }

    async fn adopt(&self, run: &str, proc: u32, lines: u64) -> Result<AgentProcess, LaunchError> {
        self.bind_connection().await.adopt(run, proc, lines).await
    }

    fn store_keepsake(&self, run: &str, keepsake: Vec<u8>) {
        self.connection().send(&HolderRequest::Keep { run: run.to_owned(), keepsake });
    }

    fn end(&self, run: &str) {
        self.connection().send(&HolderRequest::End { run: run.to_owned() });
    }
}
