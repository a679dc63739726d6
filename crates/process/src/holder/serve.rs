//! The holder's server: serves one gateway at a time, and keeps its agents running between
//! gateways.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::client::{self, RefusedClient};
use super::held_process::HeldProcess;
use super::held_runs::HeldRuns;
use super::hold_options::HoldOptions;
use super::holder_name;
use super::protocol::HolderAnswer;
use super::socket::{HolderError, HolderSocket};
use crate::Custody;
use crate::tool_relay::ToolRelay;
use aetheel_runtime::lease::Lease;
use aetheel_turn::Launch;

/// How long killed agents may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(8);
/// How often the deadline of agents is checked. A timer is not sufficient, because timers stop
/// while the machine is suspended.
const CLOCK_INTERVAL: Duration = Duration::from_millis(100);
/// Shortest time between two log lines about refused connections.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Serves until `stop` is cancelled, or until there is neither a gateway nor an agent if
/// [`HoldOptions::leave_when_empty`] is set. No agent is left then.
///
/// # Errors
/// Another holder serves the folder, or it cannot be used.
pub async fn hold(options: HoldOptions, stop: CancellationToken) -> Result<(), HolderError> {
    let place = HolderSocket::claim(&options.state)?;
    let relay = ToolRelay::open_if_possible(&options.state).await;
    let holder = Holder::new(options, place.key.clone(), relay)?;
    holder.sweep_leftovers();
    tracing::info!(folder = %holder.options.state.display(), "holder: ready");
    (holder.options.ready)();
    let is_empty = holder.serve(&place, &stop).await;
    holder.end_agents().await;
    if is_empty && !holder.runs.lock().were_abandoned {
        // No agent is running, so the next gateway need not ask people about turns that had begun.
        holder_name::remove_own(&holder.options.state, &holder.custody.scratch());
    }
    // Before the gateway's connection ends, because the gateway then looks for the next holder.
    drop(place);
    holder.close().await;
    tracing::info!("holder: done");
    Ok(())
}

pub(super) struct Holder {
    pub(super) options: HoldOptions,
    pub(super) relay: Option<ToolRelay>,
    /// The key that a gateway must send.
    pub(super) key: String,
    pub(super) runs: Mutex<HeldRuns>,
    /// The time until which agents may run.
    pub(super) lease: Lease,
    /// Notified when a gateway connects or disconnects, a process ends, or the lease changes.
    pub(super) changed: Notify,
    pub(super) custody: Custody,
    /// When a refused connection was last logged.
    pub(super) refusal_logged: Mutex<Option<Instant>>,
    pub(super) agents: TaskTracker,
    pub(super) gateways: TaskTracker,
    pub(super) closing: CancellationToken,
}

impl Holder {
    fn new(
        options: HoldOptions,
        key: String,
        relay: Option<ToolRelay>,
    ) -> Result<Arc<Self>, HolderError> {
        let custody = Custody::confining(options.means, options.sandbox.clone())
            .map_err(HolderError::Custody)?;
        let custody = if options.sole_spawner { custody.as_sole_spawner() } else { custody };
        Ok(Arc::new(Self {
            options,
            relay,
            key,
            runs: Mutex::default(),
            lease: Lease::endless(),
            changed: Notify::new(),
            custody,
            refusal_logged: Mutex::default(),
            agents: TaskTracker::new(),
            gateways: TaskTracker::new(),
            closing: CancellationToken::new(),
        }))
    }

    /// Kills the processes and removes the folders that an earlier holder left behind when it was
    /// killed.
    fn sweep_leftovers(&self) {
        let leftovers = self.custody.sweep_leftovers();
        if leftovers > 0 {
            tracing::warn!(leftovers, "killed processes that an earlier holder left behind");
        }
        let custody = self.custody.clone();
        tokio::task::spawn_blocking(move || match custody.sweep_folders() {
            0 => {}
            folders => tracing::info!(folders, "removed temporary folders of an earlier holder"),
        });
    }

    /// Accepts gateways. Returns whether it ended because there is neither a gateway nor an agent.
    async fn serve(self: &Arc<Self>, place: &HolderSocket, stop: &CancellationToken) -> bool {
        let mut alone_since = Instant::now();
        let mut given_up = false;
        let mut attended = false;
        loop {
            let now_attended = self.runs.lock().has_gateway();
            if now_attended != attended {
                (attended, alone_since, given_up) = (now_attended, Instant::now(), false);
            }
            if self.may_leave(attended, given_up) {
                return true;
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = self.changed.notified() => {}
                () = sleep(CLOCK_INTERVAL), if self.lease.is_limited() => self.enforce_deadline(),
                () = sleep_until(alone_since + self.options.claim_within), if !attended && !given_up => {
                    given_up = true;
                    self.end_unclaimed();
                }
                accepted = place.listener.accept() => match accepted {
                    Ok((stream, _)) => self.accept(stream),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
    }

    fn may_leave(&self, attended: bool, given_up: bool) -> bool {
        let room = self.runs.lock();
        let began = room.gateway_count > 0 || given_up;
        self.options.leave_when_empty && !attended && began && room.is_empty()
    }

    /// Ends all agents if the lease is over.
    fn enforce_deadline(&self) {
        if self.lease.is_valid() {
            return;
        }
        let agents = self.runs.lock().abandon_all();
        if agents > 0 {
            tracing::error!(agents, "the gateway's lease has ended; its agents are killed");
        }
    }

    /// Ends all agents because no gateway connected in time.
    fn end_unclaimed(&self) {
        let agents = self.runs.lock().abandon_all();
        if agents > 0 {
            let seconds = self.options.claim_within.as_secs();
            tracing::warn!(agents, seconds, "no gateway connected in time; the agents are killed");
        }
    }

    /// Ends all agents and starts no more. A connected gateway gets their output until then.
    async fn end_agents(&self) {
        let left = self.runs.lock().close();
        left.iter().for_each(|held| held.close());
        self.agents.close();
        if timeout(END_TIMEOUT, self.agents.wait()).await.is_err() {
            tracing::error!("processes of agents do not end; exiting without them");
        }
    }

    /// Closes the connection to the gateway, which then treats its agents as lost.
    async fn close(&self) {
        self.closing.cancel();
        self.gateways.close();
        // A gateway that does not read is not waited for.
        let _ = timeout(Duration::from_secs(1), self.gateways.wait()).await;
    }

    fn accept(self: &Arc<Self>, stream: UnixStream) {
        let holder = Arc::clone(self);
        self.gateways.spawn(async move {
            let client = client::check(&stream, &holder.custody);
            if let Err(error) = holder.serve_gateway(stream, client).await {
                tracing::warn!(%error, "the connection to a gateway is broken");
            }
        });
    }

    /// Logs a refused connection, but not more often than [`REFUSAL_LOG_INTERVAL`], because an
    /// agent could fill the disk with lines.
    pub(super) fn log_refusal(&self, refusal: &RefusedClient) {
        let mut logged = self.refusal_logged.lock();
        if logged.is_some_and(|logged| logged.elapsed() < REFUSAL_LOG_INTERVAL) {
            return;
        }
        *logged = Some(Instant::now());
        tracing::warn!(
            %refusal,
            "a connection to the holder was refused; if no gateway of this state folder was started now, an agent tries to control the holder: stop its turn, and replace the key by a restart of the holder"
        );
    }

    pub(super) async fn run_process(
        &self,
        held: &Arc<HeldProcess>,
        launch: Launch,
        waiting: super::held_process::QueuedCommands,
    ) {
        if let Err(error) = held.run(&self.custody, launch, waiting).await {
            held.notify_listener(|stream| HolderAnswer::Failed { stream, failure: error });
            self.runs.lock().remove(held);
        }
        self.changed.notify_one();
    }
}
