//! The connection of one gateway to the holder.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::time::timeout;

use super::client::RefusedClient;
use super::held_process::{AdoptError, HeldProcess, OutputListener};
use super::outbox::Outbox;
use super::protocol::{
    FrameReader, HandshakeRefusal, Hello, HolderAnswer, HolderRequest, MAX_FRAME_BYTES,
    MAX_HELLO_BYTES, Version, read_message,
};
use super::serve::Holder;
use crate::Sandbox;
use aetheel_turn::{Launch, LaunchError};

/// How long a gateway may take to send its hello after it has connected.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

impl Holder {
    /// Serves one gateway until it disconnects.
    pub(super) async fn serve_gateway(
        self: &Arc<Self>,
        stream: UnixStream,
        client: Result<(), RefusedClient>,
    ) -> io::Result<()> {
        let (reader, mut writer) = stream.into_split();
        let mut frames = FrameReader::new(reader, MAX_HELLO_BYTES);
        let greeting = self.shake_hands(&mut frames, client);
        let mut session = match timeout(HELLO_TIMEOUT, greeting).await {
            Ok(Ok(Some(session))) => session,
            Ok(Ok(None)) | Err(_) => return Ok(()),
            Ok(Err(refusal)) => {
                // Fails if the gateway has disconnected.
                let _ = writer.write_all(&refusal.frame()).await;
                return Ok(());
            }
        };
        let hello = Hello::holder(
            session.version,
            self.custody.scratch(),
            self.custody.sandbox(),
            self.options.leave_when_empty,
            self.relay.as_ref().map(|relay| relay.port),
        );
        if writer.write_all(&hello.frame()).await.is_err() {
            return Ok(());
        }
        let outbox = Arc::clone(&session.outbox);
        let mut writing = std::pin::pin!(outbox.write_to(&mut writer));
        tokio::select! {
            read = async move { session.read_requests(frames).await } => return read,
            // The gateway has disconnected.
            _ = &mut writing => return Ok(()),
            () = self.closing.cancelled() => outbox.close(),
        }
        // Fails if the gateway has disconnected.
        let _ = writing.await;
        Ok(())
    }

    /// Reads the hello of a gateway and admits it. Returns `None` if it disconnects first.
    async fn shake_hands(
        self: &Arc<Self>,
        frames: &mut FrameReader<OwnedReadHalf>,
        client: Result<(), RefusedClient>,
    ) -> Result<Option<GatewaySession>, HandshakeRefusal> {
        let refused = |busy, why: String| Err(HandshakeRefusal { busy, why });
        let Ok(Some(message)) = frames.next().await else { return Ok(None) };
        if let Err(refusal) = client {
            self.log_refusal(&refusal);
            return refused(false, refusal.to_string());
        }
        let Ok(hello) = Hello::read(&message) else {
            return refused(false, "the client does not use the holder's protocol".to_owned());
        };
        let Some(version) = hello.version() else {
            return refused(
                false,
                format!(
                    "the holder has version {}, whose protocol differs from the gateway's version {}; stop the holder when its agents are done, and start it again",
                    env!("CARGO_PKG_VERSION"),
                    hello.program
                ),
            );
        };
        if hello.key != self.key {
            self.log_refusal(&RefusedClient::WrongKey);
            return refused(false, "this is not a gateway of the holder's state folder".to_owned());
        }
        let Some(number) = self.runs.lock().admit_gateway() else {
            return refused(
                true,
                "another gateway uses the holder; stop that one first".to_owned(),
            );
        };
        tracing::info!(number, version = hello.program, "holder: a gateway connected");
        self.changed.notify_one();
        Ok(Some(GatewaySession {
            holder: Arc::clone(self),
            number,
            version,
            outbox: Arc::new(Outbox::new(version)),
            streams: HashMap::new(),
        }))
    }
}

struct GatewaySession {
    holder: Arc<Holder>,
    number: u64,
    version: Version,
    outbox: Arc<Outbox>,
    /// The processes to which the gateway listens, by stream.
    streams: HashMap<u64, Arc<HeldProcess>>,
}

impl Drop for GatewaySession {
    fn drop(&mut self) {
        self.streams.values().for_each(|held| held.detach_listener());
        let mut room = self.holder.runs.lock();
        room.release_gateway();
        let (number, agents) = (self.number, room.processes());
        tracing::info!(number, agents, "holder: the gateway disconnected");
        drop(room);
        self.holder.changed.notify_one();
    }
}

impl GatewaySession {
    async fn read_requests(&mut self, mut frames: FrameReader<OwnedReadHalf>) -> io::Result<()> {
        frames.set_limit(MAX_FRAME_BYTES);
        while let Some(message) = frames.next().await? {
            self.serve(read_message(&message, self.version)?);
        }
        Ok(())
    }

    fn serve(&mut self, request: HolderRequest) {
        match request {
            // Without an answer, the gateway treats the holder as lost, and asks the next one.
            HolderRequest::Launch { .. } | HolderRequest::Adopt { .. }
                if self.holder.runs.lock().are_closed => {}
            HolderRequest::Launch { stream, launch, sandbox } => {
                self.launch(stream, *launch, &sandbox);
            }
            HolderRequest::Adopt { stream, run, proc, lines } => {
                self.adopt(stream, &run, proc, lines)
            }
            HolderRequest::Survivors => {
                let runs = self.holder.runs.lock().survivors();
                self.outbox.push(&HolderAnswer::Survivors(runs));
            }
            HolderRequest::Command { stream, number, command } => {
                if let Some(held) = self.streams.get(&stream) {
                    held.forward_command(number, command);
                }
            }
            HolderRequest::Recorded { stream, lines } => self.record(stream, lines),
            HolderRequest::Abandon { stream } => {
                if let Some(held) = self.streams.remove(&stream) {
                    held.detach_listener();
                    held.abandon();
                    self.holder.runs.lock().remove(&held);
                }
            }
            HolderRequest::SetDeadline(until_ms) => {
                self.holder.lease.set(until_ms);
                self.holder.changed.notify_one();
            }
            HolderRequest::Keep { run, keepsake } => {
                self.holder.runs.lock().set_keepsake(run, keepsake)
            }
            HolderRequest::End { run } => {
                let ended = self.holder.runs.lock().remove_run(&run);
                ended.iter().for_each(|held| held.abandon());
            }
        }
    }

    fn launch(&mut self, stream: u64, launch: Launch, expected: &Sandbox) {
        let listener = OutputListener { stream, outbox: Arc::clone(&self.outbox) };
        if !self.holder.lease.is_valid() {
            let source = io::Error::other("the gateway's lease has ended");
            return self.fail(stream, LaunchError::Start { program: launch.program, source });
        }
        let sandbox = self.holder.custody.sandbox();
        if sandbox.setting() != expected.setting() {
            let source = io::Error::other(format!(
                "the holder confines agents with `AGENT_SANDBOX={}`, the gateway expects `{}`; restart the gateway",
                sandbox.setting(),
                expected.setting()
            ));
            return self.fail(stream, LaunchError::Start { program: launch.program, source });
        }
        let options = &self.holder.options;
        let (held, waiting) = HeldProcess::new(&launch, options, listener);
        if !self.holder.runs.lock().insert(&held) {
            let source = io::Error::other("the run already has a process with this number");
            self.fail(stream, LaunchError::Start { program: launch.program, source });
            return;
        }
        self.streams.insert(stream, Arc::clone(&held));
        let holder = Arc::clone(&self.holder);
        self.holder.agents.spawn(async move {
            holder.run_process(&held, launch, waiting).await;
        });
    }

    fn adopt(&mut self, stream: u64, run: &str, proc: u32, lines: u64) {
        let listener = OutputListener { stream, outbox: Arc::clone(&self.outbox) };
        let found = self.holder.runs.lock().find(run, proc);
        let adopted = found.ok_or(AdoptError::NoProcess).and_then(|held| {
            held.attach_listener(listener, lines)?;
            Ok(held)
        });
        match adopted {
            Ok(held) => {
                self.streams.insert(stream, held);
            }
            Err(error) => {
                let source = io::Error::other(error);
                let program = PathBuf::from(format!("process {proc} of run {run}"));
                self.fail(stream, LaunchError::Start { program, source });
            }
        }
    }

    fn record(&mut self, stream: u64, lines: u64) {
        let Some(held) = self.streams.get(&stream) else { return };
        let over = held.record(lines);
        let mut room = self.holder.runs.lock();
        room.reset_adoptions(&held.run);
        if over {
            room.remove(held);
            self.streams.remove(&stream);
        }
    }

    fn fail(&self, stream: u64, failure: LaunchError) {
        self.outbox.push(&HolderAnswer::Failed { stream, failure });
    }
}
