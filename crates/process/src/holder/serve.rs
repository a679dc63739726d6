//! The holder itself: takes one gateway at a time, does what it asks, and keeps its agents while it
//! is away.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::held::{Held, Listener};
use super::latest;
use super::outbox::Outbox;
use super::place::{self, HolderError, Place};
use super::protocol::{Answer, FRAME, GREETING, Hello, Refusal, Request, VERSION, read_frame};
use super::room::Room;
use super::spool::HoldLimits;
use super::wire::Failure;
use crate::{Custody, Means, Sandbox};
use aetheel_model::lease::Lease;
use aetheel_turn::{Launch, LaunchError};

/// How long whoever connects may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long killed agents may take to end, and the gateway to hear of it.
const END_TIMEOUT: Duration = Duration::from_secs(8);
/// Between two looks at the clock, where agents may run until an instant only. Not a timer: those
/// stand still while the machine sleeps.
const CLOCK_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes read at once.
const READ: usize = 64 << 10;

/// How a holder serves.
#[derive(Clone, Debug)]
pub struct HoldOptions {
    /// The gateway's state folder.
    pub state: PathBuf,
    /// Without a gateway for so long, all agents are ended.
    pub claim_within: Duration,
    /// Leave when there is neither gateway nor agent.
    pub leave_when_empty: bool,
    /// How much is kept.
    pub limits: HoldLimits,
    /// By what processes are found.
    pub means: Means,
    /// Nothing else in this process starts programs: see [`Custody::alone`].
    pub alone: bool,
    /// Called once gateways are let in.
    pub ready: fn(),
}

impl HoldOptions {
    /// Those of a holder that a service manager runs.
    #[must_use]
    pub fn new(state: PathBuf) -> Self {
        Self {
            state,
            claim_within: Duration::from_secs(600),
            leave_when_empty: false,
            limits: HoldLimits::default(),
            means: Means::Best,
            alone: false,
            ready: || {},
        }
    }
}

/// Serves until told to stop, or until there is nothing to stay for. No agent is left then.
///
/// # Errors
/// Another holder serves the folder, or it cannot be used.
pub async fn hold(options: HoldOptions, stop: CancellationToken) -> Result<(), HolderError> {
    let place = Place::take(&options.state)?;
    let holder = Holder::new(options, place.key.clone())?;
    holder.sweep();
    tracing::info!(folder = %holder.options.state.display(), "holder: ready");
    (holder.options.ready)();
    let is_empty = holder.serve(&place, &stop).await;
    holder.end_agents().await;
    if is_empty && !holder.ended_agents.load(Ordering::SeqCst) {
        // The next gateway need not ask about turns that had begun: no agent worked on them.
        latest::remove_own(&holder.options.state, &holder.custody.scratch());
    }
    // Before a gateway loses its connection: it then looks for the next holder at once.
    drop(place);
    holder.close().await;
    tracing::info!("holder: done");
    Ok(())
}

struct Holder {
    options: HoldOptions,
    /// What a gateway must know.
    key: String,
    room: Mutex<Room>,
    /// Until when agents may run.
    lease: Lease,
    /// A gateway came or went, or a process is gone, or agents have a time to end.
    changed: Notify,
    custody: Custody,
    /// Of the ways in which gateways confined so far.
    confining: Mutex<Vec<Custody>>,
    agents: TaskTracker,
    gateways: TaskTracker,
    /// Nothing is started or taken over any more.
    ending: AtomicBool,
    /// Agents were ended because no gateway came or none may act, so output may be lost.
    ended_agents: AtomicBool,
    closing: CancellationToken,
}

impl Holder {
    fn new(options: HoldOptions, key: String) -> Result<Arc<Self>, HolderError> {
        let custody = custody(&options, Sandbox::Off).map_err(HolderError::Custody)?;
        Ok(Arc::new(Self {
            options,
            key,
            room: Mutex::default(),
            lease: Lease::endless(),
            changed: Notify::new(),
            custody,
            confining: Mutex::default(),
            agents: TaskTracker::new(),
            gateways: TaskTracker::new(),
            ending: AtomicBool::new(false),
            ended_agents: AtomicBool::new(false),
            closing: CancellationToken::new(),
        }))
    }

    /// Ends what an earlier holder left behind when it was killed.
    fn sweep(&self) {
        let leftovers = self.custody.sweep_leftovers();
        if leftovers > 0 {
            tracing::warn!(leftovers, "killed processes that an earlier holder left behind");
        }
        let custody = self.custody.clone();
        tokio::task::spawn_blocking(move || match custody.sweep_folders() {
            0 => {}
            folders => tracing::info!(
                folders,
                "removed temporary folders that an earlier holder left behind"
            ),
        });
    }

    /// Serves gateways. Returns whether it ended because there is neither gateway nor agent.
    async fn serve(self: &Arc<Self>, place: &Place, stop: &CancellationToken) -> bool {
        let mut alone_since = Instant::now();
        let mut given_up = false;
        let mut attended = false;
        loop {
            let now_attended = self.room.lock().is_attended();
            if now_attended != attended {
                (attended, alone_since, given_up) = (now_attended, Instant::now(), false);
            }
            if self.may_leave(attended, given_up) {
                return true;
            }
            tokio::select! {
                () = stop.cancelled() => return false,
                () = self.changed.notified() => {}
                () = sleep(CLOCK_INTERVAL), if self.lease.ends() => self.fence(),
                () = sleep_until(alone_since + self.options.claim_within), if !attended && !given_up => {
                    given_up = true;
                    self.give_up();
                }
                accepted = place.listener.accept() => match accepted {
                    Ok((stream, _)) => self.welcome(stream),
                    Err(error) => {
                        tracing::warn!(%error, "cannot take a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
    }

    fn may_leave(&self, attended: bool, given_up: bool) -> bool {
        let room = self.room.lock();
        let began = room.gateways > 0 || given_up;
        self.options.leave_when_empty && !attended && began && room.is_empty()
    }

    /// Ends agents whose time is over.
    fn fence(&self) {
        if self.lease.lasts() {
            return;
        }
        let left = self.room.lock().end_all();
        if !left.is_empty() {
            let agents = left.len();
            tracing::error!(agents, "the gateway may not act any more; its agents are ended");
            self.ended_agents.store(true, Ordering::SeqCst);
        }
        left.iter().for_each(|held| held.abandon());
    }

    /// No gateway came.
    fn give_up(&self) {
        let left = self.room.lock().end_all();
        if !left.is_empty() {
            let seconds = self.options.claim_within.as_secs();
            tracing::warn!(
                agents = left.len(),
                seconds,
                "no gateway came for its agents; they are ended"
            );
            self.ended_agents.store(true, Ordering::SeqCst);
        }
        left.iter().for_each(|held| held.abandon());
    }

    /// Ends all agents and starts no more. A connected gateway gets what they said until then.
    async fn end_agents(&self) {
        self.ending.store(true, Ordering::SeqCst);
        let left = self.room.lock().end_all();
        left.iter().for_each(|held| held.close());
        self.agents.close();
        if timeout(END_TIMEOUT, self.agents.wait()).await.is_err() {
            tracing::error!("processes of agents do not die; leaving without them");
        }
    }

    /// Closes the connection to the gateway, which takes its agents for lost.
    async fn close(&self) {
        self.closing.cancel();
        self.gateways.close();
        // One that does not read need not hear.
        let _ = timeout(Duration::from_secs(1), self.gateways.wait()).await;
    }

    fn welcome(self: &Arc<Self>, stream: UnixStream) {
        let holder = Arc::clone(self);
        self.gateways.spawn(async move {
            if !place::is_ours(&stream) {
                tracing::warn!("somebody of another user was sent away");
                return;
            }
            if let Err(error) = holder.attend(stream).await {
                tracing::warn!(%error, "the connection to a gateway is broken");
            }
        });
    }

    /// Serves one gateway, until it is gone.
    async fn attend(self: &Arc<Self>, stream: UnixStream) -> io::Result<()> {
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::with_capacity(READ, reader);
        let outbox = Arc::new(Outbox::default());
        let visit = match timeout(HELLO_TIMEOUT, self.greet(&mut reader, &outbox)).await {
            Ok(Ok(Some(visit))) => Some(visit),
            Ok(Ok(None)) | Err(_) => return Ok(()),
            Ok(Err(refusal)) => {
                outbox.put(|out| Answer::Refused(refusal).encode(out));
                outbox.close();
                None
            }
        };
        if visit.is_some() {
            outbox.put(|out| Answer::Hello(Hello::holder(self.custody.scratch())).encode(out));
        }
        let listening = async {
            let Some(mut visit) = visit else { return std::future::pending().await };
            visit.listen(&mut reader).await
        };
        let mut writing = std::pin::pin!(outbox.write_to(&mut writer));
        tokio::select! {
            read = listening => return read,
            // It is gone, or was sent away.
            _ = &mut writing => return Ok(()),
            () = self.closing.cancelled() => outbox.close(),
        }
        // One that is gone need not hear.
        let _ = writing.await;
        Ok(())
    }

    /// Hears who it is; none when it has nothing to say.
    async fn greet(
        self: &Arc<Self>,
        reader: &mut BufReader<OwnedReadHalf>,
        outbox: &Arc<Outbox>,
    ) -> Result<Option<Visit>, Refusal> {
        let refused = |busy, why: String| Err(Refusal { busy, why });
        let mut body = Vec::new();
        let Ok(Some(kind)) = read_frame(reader, &mut body, GREETING).await else {
            return Ok(None);
        };
        let hello = match Request::decode(kind, &body) {
            Ok(Request::Hello(hello)) => hello,
            _ => {
                return refused(
                    false,
                    "what connects does not speak the holder's protocol".to_owned(),
                );
            }
        };
        if hello.protocol != VERSION {
            return refused(
                false,
                format!(
                    "the holder is of version {}, the gateway of version {}, and they do not understand each other; stop the holder when its agents are done, and start it again",
                    env!("CARGO_PKG_VERSION"),
                    hello.program
                ),
            );
        }
        if hello.key != self.key {
            // An agent may reach the socket, but not read the folder.
            tracing::warn!("somebody without the key of the state folder was sent away");
            return refused(false, "this is no gateway of the holder's state folder".to_owned());
        }
        let Some(number) = self.room.lock().enter() else {
            return refused(true, "another gateway has the holder; stop that one first".to_owned());
        };
        tracing::info!(number, version = hello.program, "holder: a gateway came");
        self.changed.notify_one();
        Ok(Some(Visit {
            holder: Arc::clone(self),
            number,
            outbox: Arc::clone(outbox),
            streams: HashMap::new(),
        }))
    }

    fn confining(&self, sandbox: &Sandbox) -> io::Result<Custody> {
        if sandbox == self.custody.sandbox() {
            return Ok(self.custody.clone());
        }
        let mut confining = self.confining.lock();
        if let Some(custody) = confining.iter().find(|custody| custody.sandbox() == sandbox) {
            return Ok(custody.clone());
        }
        let made = custody(&self.options, sandbox.clone())?;
        confining.push(made.clone());
        Ok(made)
    }

    async fn live(
        &self,
        held: &Arc<Held>,
        launch: Launch,
        sandbox: &Sandbox,
        waiting: super::held::Waiting,
    ) {
        let program = launch.program.clone();
        let lived = match self.confining(sandbox) {
            Ok(custody) => held.live(&custody, launch, waiting).await,
            Err(source) => Err(LaunchError::Start { program, source }),
        };
        if let Err(error) = lived {
            held.tell(|stream| Answer::Failed { stream, failure: Failure::from(&error) });
            self.room.lock().remove(held);
        }
        self.changed.notify_one();
    }
}

fn custody(options: &HoldOptions, sandbox: Sandbox) -> io::Result<Custody> {
    let custody = Custody::confining(options.means, sandbox)?;
    Ok(if options.alone { custody.alone() } else { custody })
}

/// One gateway's time here.
struct Visit {
    holder: Arc<Holder>,
    number: u64,
    outbox: Arc<Outbox>,
    /// The processes it hears, by its own numbers.
    streams: HashMap<u64, Arc<Held>>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.streams.values().for_each(|held| held.unheard());
        let mut room = self.holder.room.lock();
        room.leave();
        let (number, agents) = (self.number, room.processes());
        tracing::info!(number, agents, "holder: the gateway is gone");
        drop(room);
        self.holder.changed.notify_one();
    }
}

impl Visit {
    async fn listen(&mut self, reader: &mut BufReader<OwnedReadHalf>) -> io::Result<()> {
        let mut body = Vec::new();
        while let Some(kind) = read_frame(reader, &mut body, FRAME).await? {
            let request = Request::decode(kind, &body)?;
            self.serve(request);
        }
        Ok(())
    }

    fn serve(&mut self, request: Request) {
        match request {
            // Not refused: whoever asks finds the holder lost, and asks the next one.
            Request::Launch { .. } | Request::Adopt { .. }
                if self.holder.ending.load(Ordering::SeqCst) => {}
            Request::Hello(_) => {}
            Request::Launch { stream, launch, sandbox } => {
                self.launch(stream, (*launch).into(), sandbox.into());
            }
            Request::Adopt { stream, run, proc, heard } => self.adopt(stream, &run, proc, heard),
            Request::Survivors => {
                let runs = self.holder.room.lock().survivors();
                self.outbox.put(|out| Answer::Survivors(runs).encode(out));
            }
            Request::Command { stream, number, command } => {
                if let Some(held) = self.streams.get(&stream) {
                    held.command(number, command);
                }
            }
            Request::Recorded { stream, lines } => self.record(stream, lines),
            Request::Abandon { stream } => {
                if let Some(held) = self.streams.remove(&stream) {
                    held.unheard();
                    held.abandon();
                    self.holder.room.lock().remove(&held);
                }
            }
            Request::Until(until_ms) => {
                self.holder.lease.set(until_ms);
                self.holder.changed.notify_one();
            }
            Request::Keep { run, keepsake } => self.holder.room.lock().keep(run, keepsake),
            Request::End { run } => {
                let ended = self.holder.room.lock().end(&run);
                ended.iter().for_each(|held| held.abandon());
            }
        }
    }

    fn launch(&mut self, stream: u64, launch: Launch, sandbox: Sandbox) {
        let listener = Listener { stream, outbox: Arc::clone(&self.outbox) };
        let name = (launch.run.clone(), launch.proc);
        if !self.holder.lease.lasts() {
            let source = io::Error::other("the gateway may not act any more");
            return self.fail(stream, &LaunchError::Start { program: launch.program, source });
        }
        let options = &self.holder.options;
        let (held, waiting) = Held::new(name, options.limits, &options.state, listener);
        if !self.holder.room.lock().add(&held) {
            let source = io::Error::other("the run has a process of that number already");
            self.fail(stream, &LaunchError::Start { program: launch.program, source });
            return;
        }
        self.streams.insert(stream, Arc::clone(&held));
        let holder = Arc::clone(&self.holder);
        self.holder.agents.spawn(async move {
            holder.live(&held, launch, &sandbox, waiting).await;
        });
    }

    fn adopt(&mut self, stream: u64, run: &str, proc: u32, heard: u64) {
        let listener = Listener { stream, outbox: Arc::clone(&self.outbox) };
        let found = self.holder.room.lock().find(run, proc);
        let adopted = match &found {
            Some(held) => held.listen(listener, heard),
            None => Err("the holder has no such process".to_owned()),
        };
        match (found, adopted) {
            (Some(held), Ok(())) => {
                self.streams.insert(stream, held);
            }
            (_, adopted) => {
                let source = io::Error::other(adopted.err().unwrap_or_default());
                let program = PathBuf::from(format!("process {proc} of run {run}"));
                self.fail(stream, &LaunchError::Start { program, source });
            }
        }
    }

    fn record(&mut self, stream: u64, lines: u64) {
        let Some(held) = self.streams.get(&stream) else { return };
        let over = held.record(lines);
        let mut room = self.holder.room.lock();
        room.progressed(&held.run);
        if over {
            room.remove(held);
            self.streams.remove(&stream);
        }
    }

    fn fail(&self, stream: u64, error: &LaunchError) {
        self.outbox.put(|out| Answer::Failed { stream, failure: Failure::from(error) }.encode(out));
    }
}
