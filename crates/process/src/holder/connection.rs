//! The gateway's side of a connection to a holder: sends requests in batches, and passes each
//! answer to its process.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::outbox::Outbox;
use super::protocol::{
    FrameReader, HandshakeRefusal, Hello, HolderAnswer, HolderRequest, MAX_FRAME_BYTES,
    MAX_HELLO_BYTES, Started, Version, read_hello_answer, read_message,
};
use super::socket::{self, HolderError};
use aetheel_model::agent::Exit;
use aetheel_turn::{AgentProcess, LaunchError, ProcessCommand, ProcessEvent, Survivor};

/// How long a holder may take to send its hello. It may be killing leftover processes.
const HELLO_TIMEOUT: Duration = Duration::from_secs(15);
/// Limit for each step of leaving.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
/// Events that are buffered for a slow reader: more than a holder sends before they are recorded.
const EVENT_CAPACITY: usize = 2048;
/// The stderr of a process whose holder was lost.
const GONE: &str = "the process that holds agents is gone";

#[derive(Debug)]
pub(super) struct HolderConnection {
    pub(super) hello: Hello,
    version: Version,
    outbox: Outbox,
    routes: Mutex<ProcessRoutes>,
    streams: AtomicU64,
    leaving: CancellationToken,
    /// Cancelled when the holder has ended.
    lost: CancellationToken,
    /// Tasks that forward commands, one for each process.
    forwarding: TaskTracker,
    /// Cancelled when everything in the outbox is written.
    written: CancellationToken,
}

#[derive(Debug, Default)]
struct ProcessRoutes {
    processes: HashMap<u64, ProcessRoute>,
    pending_survivors: VecDeque<oneshot::Sender<Vec<Survivor>>>,
    holder_lost: bool,
}

#[derive(Debug)]
struct ProcessRoute {
    events: mpsc::Sender<ProcessEvent>,
    started: Option<oneshot::Sender<Result<Started, LaunchError>>>,
    ended: CancellationToken,
}

/// The reason why a process was not started or adopted.
#[derive(Debug)]
pub(super) enum RequestError {
    Failed(LaunchError),
    HolderLost,
}

impl HolderConnection {
    /// Connects to the holder of a folder.
    ///
    /// # Errors
    /// There is no holder, or it refuses the connection.
    pub(super) async fn open(folder: &Path) -> Result<Arc<Self>, ConnectError> {
        let stream = socket::connect(folder).map_err(ConnectError::Other)?;
        let silent = |source| {
            ConnectError::Other(HolderError::NoAnswer { folder: folder.to_owned(), source })
        };
        // Read after connecting, because the holder writes the key before it listens.
        let key = socket::read_key(folder).map_err(silent)?;
        let (hello, frames, mut writer) =
            match timeout(HELLO_TIMEOUT, shake_hands(stream, key)).await {
                Ok(greeted) => greeted.map_err(silent)?,
                Err(error) => return Err(silent(error.into())),
            };
        let hello = match hello {
            Ok(hello) => hello,
            Err(HandshakeRefusal { busy: true, why }) => return Err(ConnectError::Busy(why)),
            Err(HandshakeRefusal { why, .. }) => {
                return Err(ConnectError::Other(HolderError::Refused(why)));
            }
        };
        let Some(version) = hello.version() else {
            return Err(ConnectError::Other(HolderError::Refused(format!(
                "the holder has version {}, whose protocol differs from version {}; stop it when its agents are done, and start it again",
                hello.program,
                env!("CARGO_PKG_VERSION")
            ))));
        };
        let connection = Arc::new(Self {
            hello,
            version,
            outbox: Outbox::new(version),
            routes: Mutex::default(),
            streams: AtomicU64::new(1),
            leaving: CancellationToken::new(),
            lost: CancellationToken::new(),
            forwarding: TaskTracker::new(),
            written: CancellationToken::new(),
        });
        let (reader_side, writer_side) = (Arc::clone(&connection), Arc::clone(&connection));
        tokio::spawn(async move { reader_side.read_answers(frames).await });
        tokio::spawn(async move {
            if let Err(error) = writer_side.outbox.write_to(&mut writer).await {
                tracing::debug!(%error, "cannot write to the holder");
            }
            writer_side.written.cancel();
        });
        Ok(connection)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.routes.lock().holder_lost
    }

    /// Returns a token that is cancelled once the holder has ended.
    pub(super) fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Sends a request that has no answer.
    pub(super) fn send(&self, request: &HolderRequest) {
        self.outbox.push(request);
    }

    /// Returns the runs without a reader, or an empty list if the holder has ended.
    pub(super) async fn survivors(&self) -> Vec<Survivor> {
        let (sender, answer) = oneshot::channel();
        {
            let mut routes = self.routes.lock();
            if routes.holder_lost {
                return Vec::new();
            }
            routes.pending_survivors.push_back(sender);
            // While the lock is held, because answers come in the order of the requests.
            self.send(&HolderRequest::Survivors);
        }
        answer.await.unwrap_or_default()
    }

    /// Requests a process and waits until it is started or adopted. Dropping the future ends the
    /// process.
    ///
    /// # Errors
    /// [`RequestError`]
    pub(super) async fn request_process(
        self: &Arc<Self>,
        request: impl FnOnce(u64) -> HolderRequest,
    ) -> Result<AgentProcess, RequestError> {
        let stream = self.streams.fetch_add(1, Ordering::Relaxed);
        let (sender, events) = mpsc::channel(EVENT_CAPACITY);
        let (started, answer) = oneshot::channel();
        let over = CancellationToken::new();
        let route =
            ProcessRoute { events: sender.clone(), started: Some(started), ended: over.clone() };
        {
            let mut routes = self.routes.lock();
            if routes.holder_lost {
                return Err(RequestError::HolderLost);
            }
            routes.processes.insert(stream, route);
        }
        self.send(&request(stream));
        let mut asking = PendingStart { connection: self, stream, answered: false };
        let answer = answer.await.map_err(|_| RequestError::HolderLost);
        asking.answered = true;
        let started = answer?.map_err(|failure| {
            // The holder can forget the stream.
            self.abandon(stream);
            RequestError::Failed(failure)
        })?;
        let (commands, receiver) = mpsc::unbounded_channel();
        let forward = CommandForwarder {
            connection: Arc::clone(self),
            stream,
            count: started.commands,
            events: Some(sender),
            ended: over,
        };
        self.forwarding.spawn(forward.run(receiver));
        Ok(AgentProcess { events, commands, pid: started.pid, held: true })
    }

    /// Sends all pending requests and disconnects. The processes continue.
    pub(super) async fn leave(&self) {
        self.leaving.cancel();
        self.forwarding.close();
        let _ = timeout(LEAVE_TIMEOUT, self.forwarding.wait()).await;
        self.outbox.close();
        // If the holder does not read, the connection is closed anyway.
        let _ = timeout(LEAVE_TIMEOUT, self.written.cancelled()).await;
    }

    fn abandon(&self, stream: u64) {
        self.routes.lock().processes.remove(&stream);
        self.send(&HolderRequest::Abandon { stream });
    }

    async fn read_answers(&self, mut frames: FrameReader<OwnedReadHalf>) {
        frames.set_limit(MAX_FRAME_BYTES);
        let ended = loop {
            match frames.next().await {
                Ok(Some(message)) => match read_message(&message, self.version) {
                    Ok(answer) => self.handle_answer(answer),
                    Err(error) => break Err(error),
                },
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let mut routes = self.routes.lock();
        routes.holder_lost = true;
        routes.pending_survivors.clear();
        self.outbox.close();
        if self.leaving.is_cancelled() {
            // Readers get no exit event, because the processes have not ended.
            return;
        }
        tracing::error!(error = ended.err().map(tracing::field::display), "{GONE}");
        for (_, route) in routes.processes.drain() {
            let ended = ProcessEvent::Exited { how: Exit::Unknown, stderr_tail: GONE.to_owned() };
            // Fails if the reader was dropped.
            let _ = route.events.try_send(ended);
            route.ended.cancel();
        }
        drop(routes);
        self.lost.cancel();
    }

    fn handle_answer(&self, answer: HolderAnswer) {
        match answer {
            HolderAnswer::Lines { stream, lines } if !lines.is_empty() => {
                self.deliver(stream, ProcessEvent::Lines(lines));
            }
            HolderAnswer::Lines { .. } => {}
            HolderAnswer::OutputLimit { stream } => self.deliver(stream, ProcessEvent::OutputLimit),
            HolderAnswer::Exited { stream, how, stderr_tail } => {
                self.deliver(stream, ProcessEvent::Exited { how, stderr_tail });
                if let Some(route) = self.routes.lock().processes.remove(&stream) {
                    route.ended.cancel();
                }
            }
            HolderAnswer::Started { stream, started } => {
                if let Some(route) = self.routes.lock().processes.get_mut(&stream)
                    && let Some(sender) = route.started.take()
                {
                    let _ = sender.send(Ok(started));
                }
            }
            HolderAnswer::Failed { stream, failure } => {
                if let Some(route) = self.routes.lock().processes.remove(&stream)
                    && let Some(sender) = route.started
                {
                    let _ = sender.send(Err(failure));
                }
            }
            HolderAnswer::Survivors(runs) => {
                if let Some(sender) = self.routes.lock().pending_survivors.pop_front() {
                    let _ = sender.send(runs);
                }
            }
        }
    }

    fn deliver(&self, stream: u64, event: ProcessEvent) {
        let full = {
            let routes = self.routes.lock();
            let Some(route) = routes.processes.get(&stream) else { return };
            matches!(route.events.try_send(event), Err(mpsc::error::TrySendError::Full(_)))
        };
        if full {
            tracing::error!("the holder sent more than the protocol allows; the process is killed");
            self.abandon(stream);
        }
    }
}

#[derive(Debug)]
pub(super) enum ConnectError {
    /// Another gateway is connected, which may be about to leave.
    Busy(String),
    Other(HolderError),
}

impl From<ConnectError> for HolderError {
    fn from(refused: ConnectError) -> Self {
        match refused {
            ConnectError::Busy(why) => Self::Refused(why),
            ConnectError::Other(error) => error,
        }
    }
}

type Handshake = (Result<Hello, HandshakeRefusal>, FrameReader<OwnedReadHalf>, OwnedWriteHalf);

async fn shake_hands(stream: UnixStream, key: String) -> io::Result<Handshake> {
    let (reader, mut writer) = stream.into_split();
    let mut frames = FrameReader::new(reader, MAX_HELLO_BYTES);
    writer.write_all(&Hello::gateway(key).frame()).await?;
    let message = frames.next().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((read_hello_answer(&message)?, frames, writer))
}

/// A request for a process. Abandons the process if it is dropped before the answer.
struct PendingStart<'a> {
    connection: &'a HolderConnection,
    stream: u64,
    answered: bool,
}

impl Drop for PendingStart<'_> {
    fn drop(&mut self) {
        if !self.answered && !self.connection.leaving.is_cancelled() {
            self.connection.abandon(self.stream);
        }
    }
}

/// Forwards the commands to a process, and abandons the process when its process handle is dropped.
struct CommandForwarder {
    connection: Arc<HolderConnection>,
    stream: u64,
    /// Number of commands so far, including those of previous gateways.
    count: u64,
    /// `None` once the process has ended.
    events: Option<mpsc::Sender<ProcessEvent>>,
    ended: CancellationToken,
}

impl CommandForwarder {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<ProcessCommand>) {
        let mut commanded = true;
        while commanded || self.events.is_some() {
            let closed = async {
                match &self.events {
                    Some(events) => events.closed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                command = commands.recv(), if commanded => match command {
                    Some(command) => self.forward(command),
                    None => commanded = false,
                },
                () = self.ended.cancelled(), if self.events.is_some() => self.events = None,
                () = closed => break,
                // Last, so that commands that were sent before are forwarded.
                () = self.connection.leaving.cancelled() => return,
            }
        }
        self.connection.abandon(self.stream);
    }

    fn forward(&mut self, command: ProcessCommand) {
        let stream = self.stream;
        if let ProcessCommand::Recorded(lines) = command {
            self.connection.outbox.push_recorded(stream, lines);
            return;
        }
        self.count += 1;
        self.connection.send(&HolderRequest::Command { stream, number: self.count, command });
    }
}
