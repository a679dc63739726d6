//! Drives one run from its start to its last event: reads its output while it executes commands.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::run_handle::RunHandle;
use super::start::Pipes;
use super::tail::StderrTail;
use aetheel_model::agent::descriptor::Framing;
use aetheel_model::agent::{self, Exit, Pipe};
use aetheel_model::framing::{Splitter, frame_message};
use aetheel_model::lines::FramedLine;
use aetheel_turn::{Launch, OutputLine, ProcessCommand, ProcessEvent};

/// How long the descendants of a run may keep its pipes open after its leader has ended or was
/// killed. Output that was written by then is not lost. Short enough that the exit is reported
/// within a second on a busy machine.
const DRAIN_GRACE: Duration = Duration::from_millis(300);
/// How long a pipe is read without new output once no process of the run exists. Only an unrelated
/// process can then hold it open.
const LAST_READ_GRACE: Duration = Duration::from_millis(100);
const READ_BUFFER_BYTES: usize = 64 << 10;

/// Our ends of the pipes and the leader's pidfd, registered with the runtime.
pub(super) struct RegisteredPipes {
    stdin: Sender,
    stdout: Receiver,
    stderr: Receiver,
    exit: AsyncFd<std::os::fd::OwnedFd>,
}

impl RegisteredPipes {
    /// Registers the pipes of a run with the current runtime.
    ///
    /// # Errors
    /// A descriptor cannot be duplicated or registered.
    pub(super) fn new(held: &RunHandle, pipes: Pipes) -> io::Result<Self> {
        let leader = held.pidfd()?;
        // SAFETY: the `AsyncFd` owns the descriptor, so it is open and always the same one while
        // registered.
        #[expect(
            unsafe_code,
            reason = "the safe form is deprecated, and there is no other way to wait for a pidfd"
        )]
        let exit = unsafe { AsyncFd::register_with_interest(leader, Interest::READABLE)? };
        Ok(Self {
            stdin: Sender::from_owned_fd(pipes.stdin.into())?,
            stdout: Receiver::from_owned_fd(pipes.stdout.into())?,
            stderr: Receiver::from_owned_fd(pipes.stderr.into())?,
            exit,
        })
    }
}

/// Drives a run until its last event is sent. Dropping the future kills the run.
pub(super) async fn drive(
    held: RunHandle,
    listening: RegisteredPipes,
    launch: Launch,
    events: mpsc::Sender<ProcessEvent>,
    mut commands: mpsc::UnboundedReceiver<ProcessCommand>,
) {
    // The pipes belong to this function, so that they are still open when a run that exceeds its
    // output limit is killed.
    let RegisteredPipes { stdin, mut stdout, mut stderr, exit } = listening;
    let ear = OutputReader {
        events: &events,
        framing: launch.framing,
        line_limit: launch.line_limit,
        output_limit: launch.output_limit,
        bytes_read: AtomicU64::new(0),
        tail: Mutex::default(),
        run_ended: CancellationToken::new(),
    };
    let mut reading = std::pin::pin!(async {
        tokio::try_join!(
            ear.read_pipe(&mut stdout, Pipe::Stdout),
            ear.read_pipe(&mut stderr, Pipe::Stderr)
        )
    });
    let (feed, fed) = mpsc::unbounded_channel();
    let mut writing = std::pin::pin!(write(stdin, fed));
    let _ = feed.send(frame_message(launch.framing, launch.stdin));
    let mut feed = launch.keep_open.then_some(feed);

    let (mut read, mut written, mut exited, mut commanded) = (None, false, false, true);
    let (mut kill_at, mut end_at) = (None::<Instant>, None::<Instant>);
    while !(exited && read.is_some()) {
        tokio::select! {
            done = &mut reading, if read.is_none() => {
                let overflowed = done.is_err();
                read = Some(done);
                if overflowed {
                    held.kill();
                    break;
                }
            }
            () = &mut writing, if !written => written = true,
            _ = exit.readable(), if !exited => {
                exited = true;
                end_at.get_or_insert_with(|| Instant::now() + DRAIN_GRACE);
            }
            command = commands.recv(), if commanded => match command {
                Some(ProcessCommand::Write(bytes)) => {
                    if let Some(feed) = &feed {
                        // Fails if the program no longer reads.
                        let _ = feed.send(frame_message(launch.framing, bytes));
                    }
                }
                Some(ProcessCommand::CloseStdin) => feed = None,
                Some(ProcessCommand::Stop { signal, grace }) => {
                    held.signal(signal);
                    let at = Instant::now() + if signal == agent::Signal::Kill { Duration::ZERO } else { grace };
                    kill_at = Some(kill_at.map_or(at, |before| before.min(at)));
                }
                Some(ProcessCommand::Recorded(_)) => {}
                None => commanded = false,
            },
            () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                held.kill();
                kill_at = None;
                end_at.get_or_insert_with(|| Instant::now() + DRAIN_GRACE);
            }
            () = sleep_until(end_at.unwrap_or_else(Instant::now)), if end_at.is_some() => break,
            () = events.closed() => break,
        }
    }
    // `finish` reaps the leader, so nothing else may watch it.
    drop(exit);
    let how = tokio::task::spawn_blocking(move || held.finish()).await.unwrap_or(Exit::Unknown);
    // Output that is still in the pipes was written in time and must not be lost, however slow our
    // reader is.
    ear.run_ended.cancel();
    let read = match read {
        Some(read) => read,
        None => reading.await,
    };
    if let Err(rest) = read {
        if !rest.is_empty() {
            let _ = events.send(ProcessEvent::Lines(rest)).await;
        }
        let _ = events.send(ProcessEvent::OutputLimit).await;
    }
    let stderr_tail = ear.tail.lock().text();
    let _ = events.send(ProcessEvent::Exited { how, stderr_tail }).await;
}

/// Reads stdout and stderr of a run, which share one output limit.
struct OutputReader<'a> {
    events: &'a mpsc::Sender<ProcessEvent>,
    framing: Framing,
    line_limit: usize,
    output_limit: u64,
    /// Bytes read so far from both pipes.
    bytes_read: AtomicU64,
    tail: Mutex<StderrTail>,
    /// No process of the run exists any more.
    run_ended: CancellationToken,
}

impl OutputReader<'_> {
    /// Reads one pipe to its end.
    ///
    /// # Errors
    /// The output limit is exceeded. The error contains the lines that were not yet sent.
    async fn read_pipe(&self, pipe: &mut Receiver, which: Pipe) -> Result<(), Vec<OutputLine>> {
        let mut buffer = vec![0; READ_BUFFER_BYTES];
        let framing = if which == Pipe::Stdout { self.framing } else { Framing::Lines };
        let mut splitter = Splitter::new(framing, self.line_limit);
        let mut lines = Vec::new();
        let output_line =
            |FramedLine { text, truncated }| OutputLine { pipe: which, text, truncated };
        loop {
            let read = tokio::select! {
                biased;
                read = pipe.read(&mut buffer) => read,
                () = self.run_ended.cancelled() => timeout(LAST_READ_GRACE, pipe.read(&mut buffer)).await.unwrap_or(Ok(0)),
            };
            let Ok(count @ 1..) = read else { break };
            let bytes = &buffer[..count];
            if which == Pipe::Stderr {
                self.tail.lock().push(bytes);
            }
            splitter.feed(bytes, |line| lines.push(output_line(line)));
            if self.bytes_read.fetch_add(count as u64, Ordering::Relaxed) + count as u64
                > self.output_limit
            {
                return Err(lines);
            }
            // Fails if the `Process` was dropped.
            if !lines.is_empty()
                && self.events.send(ProcessEvent::Lines(std::mem::take(&mut lines))).await.is_err()
            {
                return Ok(());
            }
        }
        if let Some(line) = splitter.finish() {
            let _ = self.events.send(ProcessEvent::Lines(vec![output_line(line)])).await;
        }
        Ok(())
    }
}

/// Writes the received bytes to stdin. Closes stdin when the channel is closed or the program no
/// longer reads.
async fn write(mut stdin: Sender, mut fed: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(bytes) = fed.recv().await {
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
