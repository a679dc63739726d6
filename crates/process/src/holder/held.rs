//! One process in the holder: the process itself, what is kept of it, and who hears it.

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

/// See the module.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) run: String,
    pub(super) proc: u32,
    state: Mutex<State>,
    /// There may be room again.
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
    /// It has ended, or never was.
    over: bool,
}

/// Where what it says goes.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    /// The gateway's number for it.
    pub(super) stream: u64,
    pub(super) outbox: Arc<Outbox>,
}

/// Commands that wait for a process to be started.
pub(super) type Waiting = mpsc::UnboundedReceiver<ProcessCommand>;

impl Held {
    /// One that is to be started for a listener.
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

    /// Starts it and sees it through: until its end, whoever hears it.
    ///
    /// # Errors
    /// It did not start.
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
                    // Fails when it has ended.
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
        // The gateway must take this end for the holder's, not for the agent's own.
        if self.closed.is_cancelled() && matches!(event, ProcessEvent::Exited { .. }) {
            return;
        }
        let heard = state.listener.is_some();
        state.kept.take(event, heard);
        state.send();
    }

    /// Does a command, unless it was done before.
    pub(super) fn command(&self, number: u64, command: ProcessCommand) {
        let mut state = self.state.lock();
        if number <= state.commands {
            return;
        }
        if number != state.commands + 1 {
            tracing::warn!(
                run = self.run,
                number,
                "a command is left out: those before it are missing"
            );
            return;
        }
        state.commands = number;
        // Fails when the process has ended.
        let _ = self.commands.send(command);
    }

    /// Forgets lines that are written down; true when its end is, too.
    pub(super) fn record(&self, lines: u64) -> bool {
        let mut state = self.state.lock();
        let over = state.kept.record(lines);
        state.send();
        drop(state);
        self.changed.notify_one();
        over
    }

    /// Has somebody hear it, from the line after the first `heard` ones.
    ///
    /// # Errors
    /// Why not, in words.
    pub(super) fn listen(&self, listener: Listener, heard: u64) -> Result<(), String> {
        let mut state = self.state.lock();
        if state.listener.is_some() {
            return Err("it was taken over already".to_owned());
        }
        state.kept.rewind(heard).map_err(|(least, most)| {
            format!(
                "{heard} of its lines were heard; the holder has those after {least}, up to {most}"
            )
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

    /// Nobody hears it any more; it goes on.
    pub(super) fn unheard(&self) {
        self.state.lock().listener = None;
        self.changed.notify_one();
    }

    /// Ends it; nobody wants what it says, except that it has ended.
    pub(super) fn abandon(&self) {
        self.state.lock().kept.discard();
        self.abandoned.cancel();
    }

    /// Ends it because the holder ends. A gateway that is connected still gets its output, but no
    /// exit: it learns from the end of the connection that the process was lost.
    pub(super) fn close(&self) {
        if self.is_unheard() {
            self.abandon();
        }
        self.closed.cancel();
    }

    /// Whether nobody hears it.
    pub(super) fn is_unheard(&self) -> bool {
        self.state.lock().listener.is_none()
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        self.state.lock().over
    }

    /// Commands it was given, and lines that are written down.
    pub(super) fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.commands, state.kept.recorded())
    }

    /// Tells whoever hears it something else.
    pub(super) fn tell(&self, answer: impl FnOnce(u64) -> Answer) {
        if let Some(Listener { stream, outbox }) = &self.state.lock().listener {
            outbox.put(|out| answer(*stream).encode(out));
        }
    }
}

fn kill(process: &Process) {
    let kill = ProcessCommand::Stop { signal: Signal::Kill, grace: Duration::ZERO };
    // Fails when it has ended.
    let _ = process.commands.send(kill);
}

impl State {
    /// Sends what may be sent.
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
