//! One process in the holder, with its buffered output and its listener.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::hold_options::HoldOptions;
use super::outbox::Outbox;
use super::output_buffer::{BufferedEvent, OutputBuffer};
use super::protocol::{HolderAnswer, Started};
use crate::Custody;
use aetheel_model::agent::Signal;
use aetheel_turn::{
    AgentProcess, Launch, LaunchError, Launcher as _, ProcessCommand, ProcessEvent,
};

/// The reason why a gateway cannot continue with a process.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdoptError {
    #[error("the holder has no such process")]
    NoProcess,
    /// Another connection has the process.
    #[error("it was already adopted")]
    Adopted,
    /// The gateway has fewer or more lines than the holder can continue after.
    #[error(
        "the gateway has {lines} of its lines; the holder has the lines after {least}, up to {most}"
    )]
    Lines {
        lines: u64,
        /// The smallest number that is possible.
        least: u64,
        /// The largest number that is possible.
        most: u64,
    },
}

#[derive(Debug)]
pub(super) struct HeldProcess {
    pub(super) run: String,
    pub(super) proc: u32,
    state: Mutex<HeldProcessState>,
    /// Notified when the output buffer may have space again.
    changed: Notify,
    commands: mpsc::UnboundedSender<ProcessCommand>,
    abandoned: CancellationToken,
    closed: CancellationToken,
}

#[derive(Debug)]
struct HeldProcessState {
    output: OutputBuffer,
    pid: Option<u32>,
    commands: u64,
    listener: Option<OutputListener>,
    /// Whether it has ended or was not started.
    ended: bool,
}

/// The stream of a connected gateway to which the output is sent.
#[derive(Clone, Debug)]
pub(super) struct OutputListener {
    /// The gateway's number of the process.
    pub(super) stream: u64,
    pub(super) outbox: Arc<Outbox>,
}

/// The commands for a process that is not yet started.
pub(super) type QueuedCommands = mpsc::UnboundedReceiver<ProcessCommand>;

impl HeldProcess {
    /// Creates a process that is not yet started, with its listener.
    pub(super) fn new(
        launch: &Launch,
        options: &HoldOptions,
        listener: OutputListener,
    ) -> (Arc<Self>, QueuedCommands) {
        let (commands, waiting) = mpsc::unbounded_channel();
        let state = HeldProcessState {
            output: OutputBuffer::new(options.limits, &options.state),
            pid: None,
            commands: 0,
            listener: Some(listener),
            ended: false,
        };
        let held = Self {
            run: launch.run.clone(),
            proc: launch.proc,
            state: Mutex::new(state),
            changed: Notify::new(),
            commands,
            abandoned: CancellationToken::new(),
            closed: CancellationToken::new(),
        };
        (Arc::new(held), waiting)
    }

    /// Starts the process and drives it until its end, with or without a listener.
    ///
    /// # Errors
    /// The process did not start.
    pub(super) async fn run(
        &self,
        custody: &Custody,
        launch: Launch,
        mut commands: QueuedCommands,
    ) -> Result<(), LaunchError> {
        let launched = custody.launch(launch).await;
        let mut process = launched.inspect_err(|_| self.state.lock().ended = true)?;
        self.started(process.pid);
        let (mut abandoned, mut closed) = (false, false);
        loop {
            tokio::select! {
                () = self.closed.cancelled(), if !closed => {
                    closed = true;
                    kill(&process);
                }
                () = self.abandoned.cancelled(), if !abandoned => {
                    abandoned = true;
                    kill(&process);
                }
                Some(command) = commands.recv() => {
                    // Fails if it has ended.
                    let _ = process.commands.send(command);
                }
                event = process.events.recv(), if abandoned || self.can_read() => match event {
                    Some(event) => self.push_event(event, abandoned),
                    None => break,
                },
                () = self.changed.notified() => {}
            }
        }
        self.state.lock().ended = true;
        Ok(())
    }

    fn started(&self, pid: Option<u32>) {
        let mut state = self.state.lock();
        state.pid = pid;
        if let Some(OutputListener { stream, outbox }) = &state.listener {
            let started = Started { pid, commands: 0 };
            outbox.push(&HolderAnswer::Started { stream: *stream, started });
        }
    }

    fn can_read(&self) -> bool {
        let state = self.state.lock();
        state.output.has_room(state.listener.is_some())
    }

    fn push_event(&self, event: ProcessEvent, abandoned: bool) {
        let mut state = self.state.lock();
        if abandoned && matches!(event, ProcessEvent::Lines(_)) {
            return;
        }
        // The holder ends and killed the process. Without an exit event, the gateway reports the
        // loss of the holder and not an exit of the agent.
        if self.closed.is_cancelled() && matches!(event, ProcessEvent::Exited { .. }) {
            return;
        }
        let connected = state.listener.is_some();
        state.output.push(event, connected);
        state.send_output();
    }

    /// Passes a command to the process, unless it was passed before.
    pub(super) fn forward_command(&self, number: u64, command: ProcessCommand) {
        let mut state = self.state.lock();
        if number <= state.commands {
            return;
        }
        if number != state.commands + 1 {
            tracing::warn!(
                run = self.run,
                number,
                "a command is ignored because earlier ones are missing"
            );
            return;
        }
        state.commands = number;
        // Fails if the process has ended.
        let _ = self.commands.send(command);
    }

    /// Drops lines that the gateway has recorded. Returns `true` if the exit is recorded too.
    pub(super) fn record(&self, lines: u64) -> bool {
        let mut state = self.state.lock();
        let over = state.output.record(lines);
        state.send_output();
        drop(state);
        self.changed.notify_one();
        over
    }

    /// Sets the listener, which gets the output after the first `lines` lines.
    ///
    /// # Errors
    /// [`AdoptError`] if there is a listener already, or those lines are not buffered.
    pub(super) fn attach_listener(
        &self,
        listener: OutputListener,
        lines: u64,
    ) -> Result<(), AdoptError> {
        let mut state = self.state.lock();
        if state.listener.is_some() {
            return Err(AdoptError::Adopted);
        }
        state.output.rewind(lines).map_err(|(least, most)| AdoptError::Lines {
            lines,
            least,
            most,
        })?;
        let started = Started { pid: state.pid, commands: state.commands };
        let stream = listener.stream;
        listener.outbox.push(&HolderAnswer::Started { stream, started });
        state.listener = Some(listener);
        state.send_output();
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Removes the listener. The process continues.
    pub(super) fn detach_listener(&self) {
        self.state.lock().listener = None;
        self.changed.notify_one();
    }

    /// Kills the process and drops its output. Only its exit is still reported.
    pub(super) fn abandon(&self) {
        self.state.lock().output.discard();
        self.abandoned.cancel();
    }

    /// Kills the process because the holder ends. A connected gateway still gets the output, but no
    /// exit: the end of the connection tells it that the process was lost.
    pub(super) fn close(&self) {
        if self.has_no_listener() {
            self.abandon();
        }
        self.closed.cancel();
    }

    pub(super) fn has_no_listener(&self) -> bool {
        self.state.lock().listener.is_none()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Returns the number of commands so far and the number of recorded lines.
    pub(super) fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.commands, state.output.recorded())
    }

    /// Sends an answer other than output to the listener.
    pub(super) fn notify_listener(&self, answer: impl FnOnce(u64) -> HolderAnswer) {
        if let Some(OutputListener { stream, outbox }) = &self.state.lock().listener {
            outbox.push(&answer(*stream));
        }
    }
}

fn kill(process: &AgentProcess) {
    let kill = ProcessCommand::Stop { signal: Signal::Kill, grace: Duration::ZERO };
    // Fails if it has ended.
    let _ = process.commands.send(kill);
}

impl HeldProcessState {
    /// Sends as much as the limits permit.
    fn send_output(&mut self) {
        let Some(OutputListener { stream, outbox }) = &self.listener else { return };
        let stream = *stream;
        while let Some(next) = self.output.next(stream) {
            match next {
                BufferedEvent::Lines(message) => outbox.push_lines(&message),
                BufferedEvent::OutputLimit => outbox.push(&HolderAnswer::OutputLimit { stream }),
                BufferedEvent::Exited(how, stderr_tail) => {
                    outbox.push(&HolderAnswer::Exited { stream, how, stderr_tail });
                }
            }
        }
    }
}
