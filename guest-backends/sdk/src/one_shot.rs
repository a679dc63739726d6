//! One-shot agents: a process for every turn, which reads a prompt, prints what it does and exits.
//!
//! Owns what all of them have in common, so that a backend says only what to start ([`Agent::plan`]), what a line means
//! ([`Agent::line`]) and, where stderr says more than "it ended", why a run without a result failed
//! ([`Agent::failure`]). Whatever the agent and the backend do: one turn a link, and exactly one `turn-done` for it
//! (`tests` below).
//!
//! A turn is over when its process has exited, because an agent may print a second, better result, and because ending it
//! earlier could cut off the writing of its session. An agent that has told its result and does not leave is not
//! waited for longer than [`LINGER_MS`].

use crate::wit::{
    Action, Answer, Chunk, Command, Exit, Exited, Failure, FailureKind, Input, Line, Outcome, QueryAnswer, QueryResult, SetTimer, Signal,
    Spawn, StartTurn, SteerOutcome, Steered, Stop, TimedInput, TurnDone, TurnRef, Usage, Value,
};
use crate::{Backend, Emit, text};

/// Milliseconds an agent may take to exit after its result before the turn ends without it.
pub const LINGER_MS: u32 = 2000;
/// Milliseconds between an interrupt and the end of everything the agent started.
pub const INTERRUPT_GRACE_MS: u32 = 3000;

const PROC: u32 = 1;
const LINGER: u32 = 1;

/// What a one-shot backend knows of its agent. Made anew for every turn.
pub trait Agent: Default + 'static {
    /// What interrupts the agent. Everything it started is killed [`INTERRUPT_GRACE_MS`] later in any case.
    const INTERRUPT: Signal = Signal::Interrupt;

    /// Returns the descriptor, see [`Backend::describe`].
    fn describe() -> String;

    /// Returns the process to start; `proc`, `session` and `turn` are filled in. Files are put with `emit`.
    ///
    /// # Errors
    /// The turn fails with it and nothing is started.
    fn plan(&mut self, start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure>;

    /// Takes a line of output in. Returns a result once the agent told one; a later one replaces it.
    fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult>;

    /// Takes the decision about a question of the agent in, to be written to its stdin. Agents that ask nothing need none.
    fn answer(&mut self, _answer: Answer, _emit: &mut Emit) {}

    /// Says why a run that exited without a result failed, given a summary of the end of stderr, which may be empty.
    fn failure(&mut self, stderr: &str) -> Failure {
        Failure { kind: FailureKind::Other, message: stderr.to_owned(), retry_after_ms: None }
    }
}

/// What the agent said the turn came to.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnResult {
    /// How it ended.
    pub outcome: Outcome,
    /// The whole answer where the agent tells it; none: the text parts in order.
    pub text: Option<String>,
    /// Tokens and money of the turn.
    pub usage: Option<Usage>,
}

impl TurnResult {
    /// A failure of a kind with the agent's own words.
    #[must_use]
    pub fn failed(kind: FailureKind, message: impl Into<String>) -> Self {
        let failure = Failure { kind, message: message.into(), retry_after_ms: None };
        Self { outcome: Outcome::Failed(failure), text: None, usage: None }
    }
}

/// A [`Backend`] made of an [`Agent`].
#[derive(Debug, Default)]
pub struct OneShot<A> {
    agent: A,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Running(Run),
    Over,
}

#[derive(Debug)]
struct Run {
    turn: TurnRef,
    interrupted: bool,
    result: Option<TurnResult>,
}

impl<A: Agent> Backend for OneShot<A> {
    fn describe() -> String {
        A::describe()
    }

    fn handle(&mut self, input: TimedInput, out: &mut Vec<Action>) -> Result<(), String> {
        match (input.input, &mut self.state) {
            (Input::Command(command), _) => self.command(command, out),
            (Input::Line(line), State::Running(run)) if line.proc == PROC => {
                if let Some(result) = self.agent.line(line, &mut Emit::new(run.turn, out))
                    && run.result.replace(result).is_none()
                {
                    out.push(Action::SetTimer(SetTimer { timer: LINGER, after_ms: LINGER_MS }));
                }
            }
            (Input::SpawnFailed(failed), State::Running(_)) => {
                let kind = if failed.not_found { FailureKind::NotFound } else { FailureKind::Other };
                self.end(TurnResult::failed(kind, failed.message), out);
            }
            (Input::Exited(exited), State::Running(run)) if exited.proc == PROC => {
                let interrupted = run.interrupted;
                let result = run.result.take().unwrap_or_else(|| TurnResult {
                    outcome: if interrupted { Outcome::Interrupted } else { without_result(&exited, |said| self.agent.failure(said)) },
                    text: None,
                    usage: None,
                });
                self.end(result, out);
            }
            (Input::Timer(LINGER), State::Running(run)) => {
                if let Some(result) = run.result.take() {
                    self.end(result, out);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl<A: Agent> OneShot<A> {
    fn command(&mut self, command: Command, out: &mut Vec<Action>) {
        match (command, &mut self.state) {
            (Command::StartTurn(start), State::Idle) => self.start(start, out),
            (Command::StartTurn(start), _) => {
                let result = TurnResult::failed(FailureKind::Unsupported, "one link serves one turn");
                out.push(done(TurnRef { session: start.session, turn: start.turn }, result));
            }
            (Command::Interrupt(turn), State::Running(run)) if turn.turn == run.turn.turn => {
                run.interrupted = true;
                out.push(stop(A::INTERRUPT));
            }
            (Command::Answer(answer), State::Running(run)) => self.agent.answer(answer, &mut Emit::new(run.turn, out)),
            (Command::Shutdown, State::Running(_)) => out.push(stop(Signal::Terminate)),
            (Command::Steer(steer), _) => {
                out.push(Action::Steered(Steered { message: steer.message, outcome: SteerOutcome::NotNow }));
            }
            (Command::Query(query), _) => {
                let message = "this agent runs once a turn and answers no questions beside it".to_owned();
                let failure = Failure { kind: FailureKind::Unsupported, message, retry_after_ms: None };
                out.push(Action::QueryAnswer(QueryAnswer { query: query.query, answer: QueryResult::Failed(failure) }));
            }
            _ => {}
        }
    }

    fn start(&mut self, start: StartTurn, out: &mut Vec<Action>) {
        let turn = TurnRef { session: start.session, turn: start.turn };
        self.state = State::Running(Run { turn, interrupted: false, result: None });
        match self.agent.plan(start, &mut Emit::new(turn, out)) {
            Ok(spawn) => {
                out.push(Action::Spawn(Spawn { proc: PROC, session: Some(turn.session), turn: Some(turn.turn), ..spawn }));
            }
            Err(failure) => self.end(TurnResult { outcome: Outcome::Failed(failure), text: None, usage: None }, out),
        }
    }

    fn end(&mut self, mut result: TurnResult, out: &mut Vec<Action>) {
        if let State::Running(run) = std::mem::replace(&mut self.state, State::Over) {
            // What an interrupted agent calls a failure is what was asked of it.
            if run.interrupted && matches!(result.outcome, Outcome::Failed(_)) {
                result.outcome = Outcome::Interrupted;
            }
            out.push(done(run.turn, result));
        }
    }
}

/// Returns how a turn ended whose process exited without a result. `failure` says why a run with a non-zero exit code
/// failed, given a summary of the end of stderr, which may be empty.
pub fn without_result(exited: &Exited, failure: impl FnOnce(&str) -> Failure) -> Outcome {
    let lost = |kind, how: String, said: &str| {
        let message = if said.is_empty() { how } else { format!("{how}: {said}") };
        Outcome::Lost(Failure { kind, message, retry_after_ms: None })
    };
    let said = text::stderr_summary(&exited.stderr_tail, 5);
    match exited.how {
        Exit::Signal(signal) => lost(FailureKind::Crashed, format!("the agent was ended by signal {signal}"), &said),
        // Shells and agents tell a signal they died of as 128 and its number.
        Exit::Code(code @ 129..=159) => lost(FailureKind::Crashed, format!("the agent was ended by signal {}", code - 128), &said),
        Exit::Code(code) if code != 0 => {
            let failure = failure(&said);
            if failure.message.is_empty() {
                lost(FailureKind::Protocol, format!("the agent ended without a result (exit code {code})"), "")
            } else {
                Outcome::Failed(failure)
            }
        }
        Exit::Code(_) | Exit::Unknown => lost(FailureKind::Protocol, "the agent ended without a result".to_owned(), &said),
    }
}

/// Returns the plan for a process that reads `stdin` to its end; the rest is filled in by [`OneShot`].
pub fn spawn(program: &str, arguments: impl IntoIterator<Item = Value>, stdin: Vec<Chunk>) -> Spawn {
    Spawn {
        proc: PROC,
        program: program.to_owned(),
        arguments: arguments.into_iter().collect(),
        environment: Vec::new(),
        stdin,
        keep_open: false,
        listens: false,
        basic_auth: None,
        session: None,
        turn: None,
    }
}

fn done(turn: TurnRef, result: TurnResult) -> Action {
    let TurnResult { outcome, text, usage } = result;
    Action::TurnDone(TurnDone { session: turn.session, turn: turn.turn, outcome, text, usage })
}

fn stop(signal: Signal) -> Action {
    Action::Stop(Stop { proc: PROC, signal, grace_ms: INTERRUPT_GRACE_MS })
}

#[cfg(test)]
#[path = "one_shot_tests.rs"]
mod tests;
