//! What a guest is told, and what becomes of what it wants.

use std::time::Duration;

use tokio::time::Instant;

use super::task::Task;
use super::{Report, Sighting, Unasked};
use crate::agent::{
    Action, Answer, AskKind, Command, Decision, EventKind, Input, Stop, TurnDone, TurnRef,
    Unrecognised,
};
use crate::fold::Transcript;
use crate::turn::recording::What;
use crate::turn::{GuestFailure, ProcessCommand};

/// Calls into a guest in a row, each made only because of what the one before asked for.
const UNWAITED: u32 = 1_000;
/// Where the keys of turns begin that an agent starts by itself.
const UNASKED: u32 = 0x8000_0000;
/// Longest grace a guest may ask for, milliseconds.
const GUEST_GRACE: u32 = 10_000;

impl Task {
    /// Hands the guest what happened and does what it wants.
    pub(super) async fn tell(&mut self) {
        let inputs = std::mem::take(&mut self.inputs);
        inputs.iter().for_each(|input| self.recording.input(input));
        let interrupting =
            inputs.iter().any(|input| matches!(input.input, Input::Command(Command::Interrupt(_))));
        let Some(guest) = self.guest.as_mut() else { return };
        match guest.handle(inputs).await {
            Ok(actions) => {
                if interrupting && actions.is_empty() && self.one_shot {
                    self.tell_turns(|| Report::Ignored);
                }
                for action in actions {
                    self.said += self.recording.action(&action) as u64;
                    self.apply(action).await;
                }
                // One call is bounded by the sandbox; these bound all of them together.
                self.unwaited += 1;
                let limit = self.parts.host.output_limit;
                if self.unwaited > UNWAITED {
                    self.fail(GuestFailure::CutOff(format!(
                        "it was called {UNWAITED} times in a row and never waited for anything"
                    )));
                } else if self.said > limit {
                    self.fail(GuestFailure::CutOff(format!(
                        "it said more than {limit} bytes in one turn"
                    )));
                }
            }
            Err(failure) => self.fail(failure),
        }
    }

    /// The link is at its end: no guest, and no process but a one-shot agent that is heard to its
    /// end.
    pub(super) fn fail(&mut self, failure: GuestFailure) {
        let kind = failure.kind();
        let turns: Vec<&str> = self.turns.values().map(|open| open.id.as_str()).collect();
        tracing::warn!(?turns, kind, %failure, "backend failed; its link ends");
        self.recording.host(What::Host(failure.to_string()));
        self.guest = None;
        self.failure = Some(failure);
        if self.can_drain() {
            self.drain();
        } else {
            // Dropping the processes kills everything of the run.
            self.processes.clear();
        }
    }

    async fn apply(&mut self, action: Action) {
        match action {
            Action::Spawn(spawn) => self.spawn(spawn).await,
            Action::Write(write) => match self.stock.body(&write.body) {
                Ok(bytes) => self.command(write.proc, ProcessCommand::Write(bytes)),
                Err(reason) => self.dropped("write", &reason),
            },
            Action::CloseStdin(proc) => self.command(proc, ProcessCommand::CloseStdin),
            Action::Stop(Stop { proc, signal, grace_ms }) => {
                let grace = Duration::from_millis(grace_ms.min(GUEST_GRACE).into());
                self.command(proc, ProcessCommand::Stop { signal, grace });
            }
            Action::PutFile(file) => {
                if let Err(reason) = self.files.put(&file, &mut self.stock) {
                    self.dropped("put-file", &reason);
                }
            }
            Action::Http(request) => self.http(request),
            Action::OpenStream(open) => self.open_stream(open),
            Action::CloseStream(stream) => self.close_stream(stream),
            Action::SetTimer(timer) => {
                self.timers.insert(
                    timer.timer,
                    Instant::now() + Duration::from_millis(timer.after_ms.into()),
                );
            }
            Action::CancelTimer(timer) => {
                self.timers.remove(&timer);
            }
            Action::SessionReady(ready) => {
                match self.turns.values().find(|open| open.turn.session == ready.session) {
                    Some(open) => drop(open.reports.send(Report::Session(ready))),
                    // Shortened, some agents go on under another id.
                    None => match self
                        .queries
                        .values_mut()
                        .find(|pending| pending.session == Some(ready.session))
                    {
                        Some(pending) => pending.native = Some(ready.native_id),
                        None => self.dropped("session-ready", "its session has no open turn"),
                    },
                }
            }
            Action::Event(event) => {
                if let EventKind::Unrecognised(unknown) = &event.kind {
                    self.sighted(unknown);
                }
                self.report(
                    TurnRef { session: event.session, turn: event.turn },
                    "event",
                    Report::Event(event.kind),
                );
            }
            Action::Ask(ask) => {
                let turn = TurnRef { session: ask.session, turn: ask.turn };
                if self.turns.contains_key(&turn.turn)
                    && self.asks.insert(ask.ask, turn.turn).is_none()
                {
                    if let AskKind::Questions(questions) = &ask.kind {
                        let secret = questions
                            .iter()
                            .filter(|question| question.secret)
                            .map(|question| question.id.clone());
                        self.secret.insert(ask.ask, secret.collect());
                    }
                    self.report(turn, "ask", Report::Ask(ask));
                } else {
                    // Nobody can be asked; the agent must not wait.
                    self.input(Input::Command(Command::Answer(Answer {
                        ask: ask.ask,
                        decision: Decision::Dismissed,
                    })));
                }
            }
            Action::AskWithdrawn(ask) => {
                if let Some(open) = self.asks.remove(&ask).and_then(|turn| self.turns.get(&turn)) {
                    let _ = open.reports.send(Report::Withdrawn(ask));
                }
            }
            Action::TurnDone(done) => {
                let turn = TurnRef { session: done.session, turn: done.turn };
                self.report(turn, "turn-done", Report::Done(done));
                if let Some(open) = self.turns.get_mut(&turn.turn).filter(|open| open.turn == turn)
                {
                    open.done = true;
                }
                if self.one_shot && self.turns.values().all(|open| open.done) {
                    self.linger();
                }
            }
            Action::Steered(steered) => {
                if let Some(told) = self.steers.remove(&steered.message) {
                    let _ = told.send(steered.outcome);
                }
            }
            Action::QueryAnswer(answer) => {
                if let Some(pending) = self.queries.remove(&answer.query) {
                    pending.answered(answer.answer);
                }
            }
            Action::TurnBegun(turn)
                if turn.turn >= UNASKED && self.sessions.contains_key(&turn.session) =>
            {
                self.unasked.insert(turn.turn, (turn.session, Transcript::default()));
            }
            Action::TurnBegun(_) => {
                self.dropped("turn-begun", "its session or its key is not one for it")
            }
            Action::Diagnostic(line) => self.diagnostic(line.level, &line.text),
        }
    }

    /// Tells at once of what the backend does not know.
    fn sighted(&self, unknown: &Unrecognised) {
        let (generation, agent_version) =
            (self.parts.backend.generation(), self.agent_version.as_deref());
        (self.parts.lookout)(&Sighting {
            backend: self.name(),
            generation,
            agent_version,
            link: &self.parts.id,
            unknown,
        });
    }

    /// Tells a turn something.
    fn report(&mut self, turn: TurnRef, what: &str, report: Report) {
        if let Some((session, transcript)) = self.unasked.get_mut(&turn.turn)
            && *session == turn.session
        {
            match report {
                Report::Event(event) => transcript.apply(&event),
                Report::Done(done) => self.unasked_done(done),
                _ => {}
            }
            return;
        }
        match self.turns.get(&turn.turn) {
            Some(open) if open.turn == turn && !open.done => drop(open.reports.send(report)),
            Some(_) => self.dropped(what, "the turn has ended"),
            None => self.dropped(
                what,
                &format!(
                    "it names turn {} of session {}, which is not open",
                    turn.turn, turn.session
                ),
            ),
        }
    }

    /// A turn nobody asked for has ended: what the agent said in it goes to its lane.
    fn unasked_done(&mut self, done: TurnDone) {
        let Some((session, transcript)) = self.unasked.remove(&done.turn) else { return };
        let text = done.text.unwrap_or_else(|| transcript.text());
        let Some(seat) = self.sessions.get(&session).filter(|_| !text.trim().is_empty()) else {
            return;
        };
        tracing::info!(lane = %seat.lane, "the agent had something to say by itself");
        let backend = self.parts.backend.descriptor().label().to_owned();
        let unasked = Unasked {
            lane: seat.lane.clone(),
            backend,
            text,
            usage: done.usage.or_else(|| transcript.usage()),
        };
        // Fails when the gateway is going away.
        let _ = self.parts.unasked.send(unasked);
    }

    /// Tells all open turns something.
    pub(super) fn tell_turns(&self, report: impl Fn() -> Report) {
        for open in self.turns.values() {
            let _ = open.reports.send(report());
        }
    }
}
