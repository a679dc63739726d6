//! One process in the holder, with its buffered output and its listener.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::kept::{Kept, Next};
use super::outbox::Outbox;
use super::protocol::{Answer, encode_lines};
use super::spool::HoldLimits;
use super::wire::Started;
use crate::Custody;
use aetheel_model::agent::Signal;
use aetheel_turn::{Launch, LaunchError, Launcher as _, Process, ProcessCommand, ProcessEvent};

/// A process that the holder runs.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) run: String,
    pub(super) proc: u32,
    state: Mutex<State>,
    /// Notified when the output buffer may have space again.
    changed: Notify,
    commands: mpsc::UnboundedSender<ProcessCommand>,
    abandoned: CancellationToken,
    closed: CancellationToken,
}

#[derive(Debug)]
struct State {
    kept: Kept,
    pid: Option<u32>,
    commands: u64,
    listener: Option<Listener>,
    /// Whether it has ended or was not started.
    over: bool,
}

/// The stream of a connected gateway to which the output is sent.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    /// The gateway's number of the process.
    pub(super) stream: u64,
    pub(super) outbox: Arc<Outbox>,
}

/// The commands for a process that is not yet started.
pub(super) type Waiting = mpsc::UnboundedReceiver<ProcessCommand>;

impl Held {
    /// Creates a process that is not yet started, with its listener.
    pub(super) fn new(
        (run, proc): (String, u32),
        limits: HoldLimits,
        folder: &Path,
        listener: Listener,
    ) -> (Arc<Self>, Waiting) {
        let (commands, waiting) = mpsc::unbounded_channel();
        let state = State {
            kept: Kept::new(limits, folder),
            pid: None,
            commands: 0,
            listener: Some(listener),
            over: false,
        };
        let held = Self {
            run,
            proc,
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
    pub(super) async fn live(
        &self,
        custody: &Custody,
        launch: Launch,
        mut commands: Waiting,
    ) -> Result<(), LaunchError> {
        let launched = custody.launch(launch).await;
        let mut process = launched.inspect_err(|_| self.state.lock().over = true)?;
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
                event = process.events.recv(), if abandoned || self.has_room() => match event {
                    Some(event) => self.take(event, abandoned),
                    None => break,
                },
                () = self.changed.notified() => {}
            }
        }
        self.state.lock().over = true;
        Ok(())
    }

    fn started(&self, pid: Option<u32>) {
        let mut state = self.state.lock();
        state.pid = pid;
        if let Some(Listener { stream, outbox }) = &state.listener {
            let started = Started { pid, commands: 0 };
            outbox.put(|out| Answer::Started { stream: *stream, started }.encode(out));
        }
    }

    fn has_room(&self) -> bool {
        let state = self.state.lock();
        state.kept.has_room(state.listener.is_some())
    }

    fn take(&self, event: ProcessEvent, abandoned: bool) {
        let mut state = self.state.lock();
        if abandoned && matches!(event, ProcessEvent::Lines(_)) {
            return;
        }
        // The holder ends and killed the process. Without an exit event, the gateway reports the
        // loss of the holder and not an exit of the agent.
        if self.closed.is_cancelled() && matches!(event, ProcessEvent::Exited { .. }) {
            return;
        }
        let heard = state.listener.is_some();
        state.kept.take(event, heard);
        state.send();
    }

    /// Passes a command to the process, unless it was passed before.
    pub(super) fn command(&self, number: u64, command: ProcessCommand) {
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
        let over = state.kept.record(lines);
        state.send();
        drop(state);
        self.changed.notify_one();
        over
    }

    /// Sets the listener, which gets the output after the first `lines` lines.
    ///
    /// # Errors
    /// A message for people: there is a listener already, or those lines are not buffered.
    pub(super) fn listen(&self, listener: Listener, lines: u64) -> Result<(), String> {
        let mut state = self.state.lock();
        if state.listener.is_some() {
            return Err("it was already adopted".to_owned());
        }
        state.kept.rewind(lines).map_err(|(least, most)| {
            format!("the gateway has {lines} of its lines; the holder has lines {least} to {most}")
        })?;
        let started = Started { pid: state.pid, commands: state.commands };
        let stream = listener.stream;
        listener.outbox.put(|out| Answer::Started { stream, started }.encode(out));
        state.listener = Some(listener);
        state.send();
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Removes the listener. The process continues.
    pub(super) fn unheard(&self) {
        self.state.lock().listener = None;
        self.changed.notify_one();
    }

    /// Kills the process and drops its output. Only its exit is still reported.
    pub(super) fn abandon(&self) {
        self.state.lock().kept.discard();
        self.abandoned.cancel();
    }

    /// Kills the process because the holder ends. A connected gateway still gets the output, but no
    /// exit: the end of the connection tells it that the process was lost.
    pub(super) fn close(&self) {
        if self.is_unheard() {
            self.abandon();
        }
        self.closed.cancel();
    }

    /// Returns whether the process has no listener.
    pub(super) fn is_unheard(&self) -> bool {
        self.state.lock().listener.is_none()
    }

    /// Returns whether the process has ended.
    pub(super) fn is_over(&self) -> bool {
        self.state.lock().over
    }

    /// Returns the number of commands so far and the number of recorded lines.
    pub(super) fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.commands, state.kept.recorded())
    }

    /// Sends an answer other than output to the listener.
    pub(super) fn tell(&self, answer: impl FnOnce(u64) -> Answer) {
        if let Some(Listener { stream, outbox }) = &self.state.lock().listener {
            outbox.put(|out| answer(*stream).encode(out));
        }
    }
}

fn kill(process: &Process) {
    let kill = ProcessCommand::Stop { signal: Signal::Kill, grace: Duration::ZERO };
    // Fails if it has ended.
    let _ = process.commands.send(kill);
}

impl State {
    /// Sends as much as the limits permit.
    fn send(&mut self) {
        let Some(Listener { stream, outbox }) = &self.listener else { return };
        let stream = *stream;
        while let Some(next) = self.kept.next() {
            outbox.put(|out| match next {
                Next::Lines(lines) => encode_lines(out, stream, &lines),
                Next::OutputLimit => Answer::OutputLimit { stream }.encode(out),
                Next::Exited(how, stderr_tail) => {
                    Answer::Exited { stream, how, stderr_tail }.encode(out);
                }
            });
        }
    }
}
