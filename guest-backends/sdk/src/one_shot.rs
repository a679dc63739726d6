//! One-shot agents: each turn has its own process, which reads the prompt, prints what it does and
//! exits.
//!
//! A backend implements only the parts that depend on its agent: the process to start
//! ([`Agent::plan`]), the meaning of a line ([`Agent::line`]) and, if the agent does not print its
//! result, the result of a run ([`Agent::finish`]). This module ensures that a link has one turn
//! and that the turn ends with exactly one `turn-done`.
//!
//! A turn ends when its process has exited: an agent may print a second, better result, and
//! stopping it earlier could interrupt it while it saves its session. An agent that printed its
//! result and does not exit is waited for at most [`LINGER_MS`].
//!
//! ```
//! use aetheel_backend_sdk::one_shot::{Agent, OneShot, prompt, spawn};
//! use aetheel_backend_sdk::wit::{Exit, Exited, Failure, Line, Pipe, Spawn, StartTurn, Value};
//! use aetheel_backend_sdk::{Emit, TurnResult};
//!
//! /// Reads the prompt, prints the answer, exits.
//! #[derive(Default)]
//! struct Mini;
//!
//! impl Agent for Mini {
//!     fn describe() -> String {
//!         r#"{"name":"mini","version":"1",
//!             "programs":[{"name":"mini","flags":[{"name":"--quiet"}]}]}"#
//!             .to_owned()
//!     }
//!     fn plan(&mut self, start: StartTurn, _: &mut Emit) -> Result<Spawn, Failure> {
//!         Ok(spawn("mini", [Value::Text("--quiet".to_owned())], prompt(&start.parts)))
//!     }
//!     fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult> {
//!         if line.pipe == Pipe::Stdout {
//!             emit.text(0, format!("{}\n", line.text));
//!         }
//!         None
//!     }
//!     fn finish(&mut self, exited: &Exited, _: &mut Emit) -> TurnResult {
//!         match exited.how {
//!             Exit::Code(0) => TurnResult::completed(None),
//!             _ => TurnResult::without(exited, |stderr| self.failure(stderr)),
//!         }
//!     }
//! }
//!
//! aetheel_backend_sdk::export_backend!(crate::OneShot<crate::Mini>);
//! # fn main() {}
//! ```

use crate::wit::{
    Action, Answer, Chunk, Command, Exited, Failure, FailureKind, Input, Level, Line, Outcome,
    Part, QueryAnswer, QueryResult, SetTimer, Signal, Spawn, StartTurn, SteerOutcome, Steered,
    Stop, TimedInput, ToolResult, TurnDone, TurnRef, Value,
};
use crate::{Backend, Emit, TurnResult, failure, renewal, text};

/// Milliseconds an agent may take to exit after its result. The turn ends without the exit after
/// that.
pub const LINGER_MS: u32 = 2000;
/// Milliseconds between an interrupt and SIGKILL to every process that the agent started.
pub const INTERRUPT_GRACE_MS: u32 = 3000;

const PROC: u32 = 1;
const LINGER: u32 = 1;

/// The agent-specific part of a one-shot backend. A new instance is created for each turn.
pub trait Agent: Default + 'static {
    /// The signal that interrupts the agent. Every process it started is killed
    /// [`INTERRUPT_GRACE_MS`] later in any case.
    const INTERRUPT: Signal = Signal::Interrupt;

    /// Returns the descriptor, see [`Backend::describe`].
    fn describe() -> String;

    /// Returns the process to start; the caller fills in `proc`, `session` and `turn`. Files are
    /// created with `emit`.
    ///
    /// # Errors
    /// An error fails the turn, and nothing is started.
    fn plan(&mut self, start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure>;

    /// Handles a line of output. Returns a result once the agent reported one. A later result
    /// replaces it, except that a success is replaced only by another success.
    fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult>;

    /// Handles the decision about a question of the agent, usually by writing it to the agent's
    /// stdin. The default does nothing, for agents that ask no questions.
    fn answer(&mut self, _answer: Answer, _emit: &mut Emit) {}

    /// Handles the result of a call of a tool of the host ([`Emit::tool_request`]), usually by
    /// writing it to the agent's stdin. The default does nothing, for agents without such tools.
    fn tool_result(&mut self, _result: ToolResult, _emit: &mut Emit) {}

    /// Returns the result of a run that exited before [`Self::line`] returned one. By default the
    /// turn is lost, or failed if the exit code is not zero.
    fn finish(&mut self, exited: &Exited, _emit: &mut Emit) -> TurnResult {
        TurnResult::without(exited, |stderr| self.failure(stderr))
    }

    /// Returns the reason why a run that exited without a result failed, given the end of stderr,
    /// which may be empty.
    fn failure(&mut self, stderr: &str) -> Failure {
        failure(FailureKind::Other, stderr)
    }
}

/// Turns an [`Agent`] into a [`Backend`].
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
    Over(TurnRef),
}

#[derive(Debug)]
struct Run {
    turn: TurnRef,
    interrupted: bool,
    result: Option<TurnResult>,
}

impl Run {
    /// Records a result that the agent reported.
    fn record(&mut self, result: TurnResult, out: &mut Vec<Action>) {
        let late = matches!(&self.result, Some(first) if first.outcome == Outcome::Completed)
            && result.outcome != Outcome::Completed;
        if late {
            let outcome = match &result.outcome {
                Outcome::Failed(failure) | Outcome::Lost(failure) => failure.message.as_str(),
                _ => "the run was interrupted",
            };
            Emit::new(self.turn, out).diagnostic(
                Level::Warn,
                format!(
                    "the agent reported another result after its success, which is ignored: \
                     {outcome}"
                ),
            );
        } else if self.result.replace(result).is_none() {
            out.push(Action::SetTimer(SetTimer { timer: LINGER, after_ms: LINGER_MS }));
        }
    }
}

impl<A: Agent> Backend for OneShot<A> {
    fn describe() -> String {
        A::describe()
    }

    fn handle(&mut self, input: TimedInput, out: &mut Vec<Action>) -> Result<(), String> {
        match (input.input, &mut self.state) {
            (Input::Command(command), _) => self.command(command, out),
            (Input::Line(line), State::Running(run)) if line.proc == PROC => {
                if let Some(result) = self.agent.line(line, &mut Emit::new(run.turn, out)) {
                    run.record(result, out);
                }
            }
            (Input::ToolResult(result), State::Running(run)) => {
                self.agent.tool_result(result, &mut Emit::new(run.turn, out));
            }
            (Input::SpawnFailed(failed), State::Running(_)) => {
                let kind =
                    if failed.not_found { FailureKind::NotFound } else { FailureKind::Other };
                self.end(TurnResult::failed(kind, failed.message), out);
            }
            (Input::Exited(exited), State::Running(run)) if exited.proc == PROC => {
                let result = match run.result.take() {
                    Some(result) => result,
                    None if run.interrupted => {
                        TurnResult { outcome: Outcome::Interrupted, text: None, usage: None }
                    }
                    None => self.agent.finish(&exited, &mut Emit::new(run.turn, out)),
                };
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
            (Command::StartTurn(start), State::Running(Run { turn, .. }) | State::Over(turn)) => {
                // A repeated command names the same turn, which ends only once.
                if (start.session, start.turn) == (turn.session, turn.turn) {
                    return;
                }
                let result =
                    TurnResult::failed(FailureKind::Unsupported, "one link serves one turn");
                out.push(done(TurnRef { session: start.session, turn: start.turn }, result));
            }
            (Command::Interrupt(turn), State::Running(run)) if turn.turn == run.turn.turn => {
                run.interrupted = true;
                out.push(stop(A::INTERRUPT));
            }
            (Command::Answer(answer), State::Running(run)) => {
                self.agent.answer(answer, &mut Emit::new(run.turn, out))
            }
            (Command::Shutdown, State::Running(_)) => out.push(stop(Signal::Terminate)),
            (Command::Steer(steer), _) => {
                out.push(Action::Steered(Steered {
                    message: steer.message,
                    outcome: SteerOutcome::NotNow,
                }));
            }
            (Command::Query(query), _) => {
                let why = failure(
                    FailureKind::Unsupported,
                    "this agent runs only for a turn and does not answer queries",
                );
                out.push(Action::QueryAnswer(QueryAnswer {
                    query: query.query,
                    answer: QueryResult::Failed(why),
                }));
            }
            _ => {}
        }
    }

    fn start(&mut self, start: StartTurn, out: &mut Vec<Action>) {
        let turn = TurnRef { session: start.session, turn: start.turn };
        self.state = State::Running(Run { turn, interrupted: false, result: None });
        match self.agent.plan(start, &mut Emit::new(turn, out)) {
            Ok(spawn) => {
                out.push(Action::Spawn(Spawn {
                    proc: PROC,
                    session: Some(turn.session),
                    turn: Some(turn.turn),
                    ..spawn
                }));
            }
            Err(failure) => self.end(
                TurnResult { outcome: Outcome::Failed(failure), text: None, usage: None },
                out,
            ),
        }
    }

    fn end(&mut self, mut result: TurnResult, out: &mut Vec<Action>) {
        if let State::Running(run) = std::mem::take(&mut self.state) {
            self.state = State::Over(run.turn);
            // An interrupted agent often reports the interruption as a failure.
            if run.interrupted && matches!(result.outcome, Outcome::Failed(_)) {
                result.outcome = Outcome::Interrupted;
            }
            out.push(done(run.turn, result));
        }
    }
}

/// Returns the plan for a process that reads `stdin` to its end. [`OneShot`] fills in the remaining
/// fields.
pub fn spawn(
    program: &str,
    arguments: impl IntoIterator<Item = Value>,
    stdin: Vec<Chunk>,
) -> Spawn {
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

/// Returns a prompt for an agent that takes only text: the parts separated by blank lines, files as
/// their names and paths.
#[must_use]
pub fn prompt(parts: &[Part]) -> Vec<Chunk> {
    vec![Chunk::Text(text::prompt(parts))]
}

pub(crate) fn done(turn: TurnRef, result: TurnResult) -> Action {
    let TurnResult { outcome, text, usage } = result;
    let outcome = renewal::completed(outcome);
    Action::TurnDone(TurnDone { session: turn.session, turn: turn.turn, outcome, text, usage })
}

fn stop(signal: Signal) -> Action {
    Action::Stop(Stop { proc: PROC, signal, grace_ms: INTERRUPT_GRACE_MS })
}

#[cfg(test)]
#[path = "one_shot_tests.rs"]
mod tests;
