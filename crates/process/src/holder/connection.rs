//! The gateway's side of a connection to a holder: sends requests in batches, and passes each
//! answer to its process.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::outbox::Outbox;
use super::place::{self, HolderError};
use super::protocol::{Answer, FRAME, GREETING, Hello, Refusal, Request, VERSION, read_frame};
use super::wire::{Failure, Started, WireRun};
use aetheel_model::agent::Exit;
use aetheel_turn::{Process, ProcessCommand, ProcessEvent};

/// How long a holder may take to send its hello. It may be killing leftover processes.
const HELLO_TIMEOUT: Duration = Duration::from_secs(15);
/// Limit for each step of leaving.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
/// Events that are buffered for a slow reader: more than a holder sends before they are recorded.
const EVENTS: usize = 2048;
/// Bytes of the read buffer.
const READ: usize = 64 << 10;
/// The stderr of a process whose holder was lost.
const GONE: &str = "the process that holds agents is gone";

/// A connection to a holder.
#[derive(Debug)]
pub(super) struct Connection {
    /// The holder's hello.
    pub(super) hello: Hello,
    outbox: Outbox,
    routes: Mutex<Routes>,
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
struct Routes {
    processes: HashMap<u64, Route>,
    asking: VecDeque<oneshot::Sender<Vec<WireRun>>>,
    /// Whether the holder has ended.
    gone: bool,
}

/// Channels to the reader of one process.
#[derive(Debug)]
struct Route {
    events: mpsc::Sender<ProcessEvent>,
    started: Option<oneshot::Sender<Result<Started, Failure>>>,
    over: CancellationToken,
}

/// Why a process was not started or adopted.
#[derive(Debug)]
pub(super) enum NoProcess {
    /// The holder reported an error.
    Failed(Failure),
    /// The holder has ended.
    Gone,
}

impl Connection {
    /// Connects to the holder of a folder.
    ///
    /// # Errors
    /// There is no holder, or it refuses the connection.
    pub(super) async fn open(folder: &Path) -> Result<Arc<Self>, Refused> {
        let stream = place::connect(folder).map_err(Refused::Other)?;
        let silent =
            |source| Refused::Other(HolderError::Silent { folder: folder.to_owned(), source });
        // Read after connecting, because the holder writes the key before it listens.
        let key = place::key(folder).map_err(silent)?;
        let (hello, reader, mut writer) = match timeout(HELLO_TIMEOUT, greet(stream, key)).await {
            Ok(greeted) => greeted.map_err(silent)?,
            Err(error) => return Err(silent(error.into())),
        };
        let hello = match hello {
            Ok(hello) if hello.protocol == VERSION => hello,
            Ok(hello) => {
                return Err(Refused::Other(HolderError::Refused(format!(
                    "the holder has version {}, whose protocol differs from version {}; stop it when its agents are done, and start it again",
                    hello.program,
                    env!("CARGO_PKG_VERSION")
                ))));
            }
            Err(Refusal { busy: true, why }) => return Err(Refused::Busy(why)),
            Err(Refusal { why, .. }) => return Err(Refused::Other(HolderError::Refused(why))),
        };
        let connection = Arc::new(Self {
            hello,
            outbox: Outbox::default(),
            routes: Mutex::default(),
            streams: AtomicU64::new(1),
            leaving: CancellationToken::new(),
            lost: CancellationToken::new(),
            forwarding: TaskTracker::new(),
            written: CancellationToken::new(),
        });
        let (heard, told) = (Arc::clone(&connection), Arc::clone(&connection));
        tokio::spawn(async move { heard.listen(reader).await });
        tokio::spawn(async move {
            if let Err(error) = told.outbox.write_to(&mut writer).await {
                tracing::debug!(%error, "cannot write to the holder");
            }
            told.written.cancel();
        });
        Ok(connection)
    }

    /// Returns whether the holder has ended.
    pub(super) fn is_gone(&self) -> bool {
        self.routes.lock().gone
    }

    /// Returns a token that is cancelled once the holder has ended.
    pub(super) fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Sends a request that has no answer.
    pub(super) fn say(&self, request: &Request) {
        self.outbox.put(|out| request.encode(out));
    }

    /// Returns the runs without a reader, or an empty list if the holder has ended.
    pub(super) async fn survivors(&self) -> Vec<WireRun> {
        let (sender, answer) = oneshot::channel();
        {
            let mut routes = self.routes.lock();
            if routes.gone {
                return Vec::new();
            }
            routes.asking.push_back(sender);
            // While the lock is held, because answers come in the order of the requests.
            self.say(&Request::Survivors);
        }
        answer.await.unwrap_or_default()
    }

    /// Requests a process and waits until it is started or adopted. Dropping the future ends the
    /// process.
    ///
    /// # Errors
    /// [`NoProcess`]
    pub(super) async fn process(
        self: &Arc<Self>,
        request: impl FnOnce(u64) -> Request,
    ) -> Result<Process, NoProcess> {
        let stream = self.streams.fetch_add(1, Ordering::Relaxed);
        let (sender, events) = mpsc::channel(EVENTS);
        let (started, answer) = oneshot::channel();
        let over = CancellationToken::new();
        let route = Route { events: sender.clone(), started: Some(started), over: over.clone() };
        {
            let mut routes = self.routes.lock();
            if routes.gone {
                return Err(NoProcess::Gone);
            }
            routes.processes.insert(stream, route);
        }
        self.say(&request(stream));
        let mut asking = Asking { connection: self, stream, answered: false };
        let answer = answer.await.map_err(|_| NoProcess::Gone);
        asking.answered = true;
        let started = answer?.map_err(|failure| {
            // The holder can forget the stream.
            self.abandon(stream);
            NoProcess::Failed(failure)
        })?;
        let (commands, receiver) = mpsc::unbounded_channel();
        let forward = Forward {
            connection: Arc::clone(self),
            stream,
            count: started.commands,
            events: Some(sender),
            over,
        };
        self.forwarding.spawn(forward.run(receiver));
        Ok(Process { events, commands, pid: started.pid, held: true })
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
        self.say(&Request::Abandon { stream });
    }

    async fn listen(&self, mut reader: BufReader<OwnedReadHalf>) {
        let mut body = Vec::new();
        let ended = loop {
            match read_frame(&mut reader, &mut body, FRAME).await {
                Ok(Some(kind)) => match Answer::decode(kind, &body) {
                    Ok(answer) => self.hear(answer),
                    Err(error) => break Err(error),
                },
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let mut routes = self.routes.lock();
        routes.gone = true;
        routes.asking.clear();
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
            route.over.cancel();
        }
        drop(routes);
        self.lost.cancel();
    }

    fn hear(&self, answer: Answer) {
        match answer {
            Answer::Lines { stream, lines } if !lines.is_empty() => {
                self.pass(stream, ProcessEvent::Lines(lines));
            }
            Answer::Lines { .. } | Answer::Hello(_) | Answer::Refused(_) => {}
            Answer::OutputLimit { stream } => self.pass(stream, ProcessEvent::OutputLimit),
            Answer::Exited { stream, how, stderr_tail } => {
                self.pass(stream, ProcessEvent::Exited { how, stderr_tail });
                if let Some(route) = self.routes.lock().processes.remove(&stream) {
                    route.over.cancel();
                }
            }
            Answer::Started { stream, started } => {
                if let Some(route) = self.routes.lock().processes.get_mut(&stream)
                    && let Some(sender) = route.started.take()
                {
                    let _ = sender.send(Ok(started));
                }
            }
            Answer::Failed { stream, failure } => {
                if let Some(route) = self.routes.lock().processes.remove(&stream)
                    && let Some(sender) = route.started
                {
                    let _ = sender.send(Err(failure));
                }
            }
            Answer::Survivors(runs) => {
                if let Some(sender) = self.routes.lock().asking.pop_front() {
                    let _ = sender.send(runs);
                }
            }
        }
    }

    fn pass(&self, stream: u64, event: ProcessEvent) {
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

/// Why a connection was not established.
#[derive(Debug)]
pub(super) enum Refused {
    /// Another gateway is connected, which may be about to leave.
    Busy(String),
    Other(HolderError),
}

impl From<Refused> for HolderError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Busy(why) => Self::Refused(why),
            Refused::Other(error) => error,
        }
    }
}

type Greeted = (Result<Hello, Refusal>, BufReader<OwnedReadHalf>, tokio::net::unix::OwnedWriteHalf);

async fn greet(stream: UnixStream, key: String) -> io::Result<Greeted> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::with_capacity(READ, reader);
    let (mut out, mut body) = (Vec::new(), Vec::new());
    Request::Hello(Hello::gateway(key)).encode(&mut out);
    writer.write_all(&out).await?;
    let kind = read_frame(&mut reader, &mut body, GREETING).await?;
    let kind = kind.ok_or(io::ErrorKind::UnexpectedEof)?;
    match Answer::decode(kind, &body)? {
        Answer::Hello(hello) => Ok((Ok(hello), reader, writer)),
        Answer::Refused(refusal) => Ok((Err(refusal), reader, writer)),
        _ => Err(io::Error::other("it does not use the holder's protocol")),
    }
}

/// A request for a process. Abandons the process if it is dropped before the answer.
struct Asking<'a> {
    connection: &'a Connection,
    stream: u64,
    answered: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.answered && !self.connection.leaving.is_cancelled() {
            self.connection.abandon(self.stream);
        }
    }
}

/// Forwards the commands to a process, and abandons the process when its [`Process`] is dropped.
struct Forward {
    connection: Arc<Connection>,
    stream: u64,
    /// Number of commands so far, including those of previous gateways.
    count: u64,
    /// `None` once the process has ended.
    events: Option<mpsc::Sender<ProcessEvent>>,
    over: CancellationToken,
}

impl Forward {
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
                    Some(command) => self.pass(command),
                    None => commanded = false,
                },
                () = self.over.cancelled(), if self.events.is_some() => self.events = None,
                () = closed => break,
                // Last, so that commands that were sent before are forwarded.
                () = self.connection.leaving.cancelled() => return,
            }
        }
        self.connection.abandon(self.stream);
    }

    fn pass(&mut self, command: ProcessCommand) {
        let stream = self.stream;
        if let ProcessCommand::Recorded(lines) = command {
            self.connection.outbox.put_recorded(stream, lines);
            return;
        }
        self.count += 1;
        self.connection.say(&Request::Command { stream, number: self.count, command });
    }
}
