use super::*;
use crate::fixture::{TURN, line, run, start};
use crate::wit::{Exit, Failure, Pipe, SpawnFailed, Value};

/// Ends with the result that a line contains: `ok`, `bad`, or none.
#[derive(Default)]
struct Toy;

impl Agent for Toy {
    fn describe() -> String {
        "{}".to_owned()
    }
    fn plan(&mut self, start: StartTurn, _: &mut Emit) -> Result<Spawn, Failure> {
        if start.cwd.is_empty() {
            return Err(Failure {
                kind: FailureKind::BadRequest,
                message: "no place to work".to_owned(),
                retry_after_ms: None,
            });
        }
        Ok(spawn("toy", [], Vec::new()))
    }
    fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult> {
        match line.text.as_str() {
            "ok" => Some(TurnResult { outcome: Outcome::Completed, text: None, usage: None }),
            "bad" => Some(TurnResult::failed(FailureKind::Other, "bad")),
            text => {
                emit.text(0, text);
                None
            }
        }
    }
}

fn exited(how: Exit, stderr_tail: &str) -> Input {
    Input::Exited(Exited { proc: 1, how, stderr_tail: stderr_tail.to_owned() })
}

fn outcomes(inputs: Vec<Input>) -> Vec<Outcome> {
    let actions = run::<OneShot<Toy>>(start("hi"), inputs);
    actions
        .into_iter()
        .filter_map(|action| match action {
            Action::TurnDone(done) => Some(done.outcome),
            _ => None,
        })
        .collect()
}

fn say(text: &str) -> Input {
    line(Pipe::Stdout, text)
}

#[test]
fn a_reported_success_overrides_the_exit_code() {
    assert_eq!(outcomes(vec![say("ok"), exited(Exit::Code(1), "noise")]), [Outcome::Completed]);
}

#[test]
fn the_last_result_before_the_exit_is_the_outcome() {
    let told = vec![
        say("bad"),
        say("ok"),
        exited(Exit::Code(0), ""),
        say("bad"),
        exited(Exit::Code(1), ""),
        Input::Timer(LINGER),
    ];
    assert_eq!(outcomes(told), [Outcome::Completed]);
}

#[test]
fn a_failure_after_a_success_is_logged_and_ignored() {
    let actions =
        run::<OneShot<Toy>>(start("hi"), vec![say("ok"), say("bad"), exited(Exit::Code(1), "")]);
    assert!(
        actions.iter().any(
            |action| matches!(action, Action::TurnDone(done) if done.outcome == Outcome::Completed)
        ),
        "{actions:?}"
    );
    assert!(
        actions.iter().any(|action| matches!(action, Action::Diagnostic(line) if line.text.ends_with("is ignored: bad"))),
        "{actions:?}"
    );
}

#[test]
fn a_turn_ends_when_the_agent_does_not_exit_after_its_result() {
    assert_eq!(
        outcomes(vec![say("ok"), Input::Timer(LINGER), exited(Exit::Code(0), "")]),
        [Outcome::Completed]
    );
    assert_eq!(outcomes(vec![Input::Timer(LINGER)]), []);
}

#[test]
fn an_exit_without_a_result_is_never_a_success() {
    for (how, stderr, kind, message) in [
        (Exit::Code(0), "", FailureKind::Protocol, "the agent ended without a result"),
        (
            Exit::Code(2),
            "",
            FailureKind::Protocol,
            "the agent ended without a result (exit code 2)",
        ),
        (Exit::Code(143), "", FailureKind::Crashed, "the agent was ended by signal 15"),
        (
            Exit::Signal(9),
            "\noops\n",
            FailureKind::Crashed,
            "the agent was ended by signal 9: oops",
        ),
    ] {
        let failure = Failure { kind, message: message.to_owned(), retry_after_ms: None };
        assert_eq!(outcomes(vec![say("some text"), exited(how, stderr)]), [Outcome::Lost(failure)]);
    }
    let failure =
        Failure { kind: FailureKind::Other, message: "no disk".to_owned(), retry_after_ms: None };
    assert_eq!(outcomes(vec![exited(Exit::Code(1), "no disk\n")]), [Outcome::Failed(failure)]);
}

#[test]
fn an_interrupt_stops_the_process_and_is_the_outcome_unless_the_agent_succeeded() {
    let interrupt = || Input::Command(Command::Interrupt(TURN));
    assert_eq!(outcomes(vec![interrupt(), exited(Exit::Signal(2), "")]), [Outcome::Interrupted]);
    assert_eq!(
        outcomes(vec![interrupt(), say("bad"), exited(Exit::Code(1), "")]),
        [Outcome::Interrupted]
    );
    assert_eq!(
        outcomes(vec![interrupt(), say("ok"), exited(Exit::Code(0), "")]),
        [Outcome::Completed]
    );
    let actions = run::<OneShot<Toy>>(start("hi"), vec![interrupt()]);
    assert!(actions.contains(&stop(Signal::Interrupt)), "{actions:?}");
}

#[test]
fn a_missing_program_and_a_failed_plan_fail_the_turn() {
    let failed =
        SpawnFailed { proc: 1, message: "program not found: toy".to_owned(), not_found: true };
    let failure = Failure {
        kind: FailureKind::NotFound,
        message: "program not found: toy".to_owned(),
        retry_after_ms: None,
    };
    assert_eq!(outcomes(vec![Input::SpawnFailed(failed)]), [Outcome::Failed(failure)]);
    let actions = run::<OneShot<Toy>>(
        StartTurn { cwd: String::new(), ..start("hi") },
        vec![exited(Exit::Code(0), "")],
    );
    assert_eq!(
        actions,
        [done(TURN, TurnResult::failed(FailureKind::BadRequest, "no place to work"))]
    );
}

#[test]
fn a_second_turn_is_refused_and_does_not_disturb_the_first() {
    let second = Input::Command(Command::StartTurn(StartTurn { turn: 2, ..start("again") }));
    let found = outcomes(vec![second, say("ok"), exited(Exit::Code(0), "")]);
    assert_eq!(found.len(), 2);
    assert!(
        matches!(&found[0], Outcome::Failed(failure) if failure.kind == FailureKind::Unsupported)
    );
    assert_eq!(found[1], Outcome::Completed);
}

#[test]
fn a_process_gets_its_arguments_prompt_and_turn() {
    let actions = run::<OneShot<Toy>>(start("hi"), Vec::new());
    let Action::Spawn(spawn) = &actions[0] else { panic!("{actions:?}") };
    assert_eq!(
        (spawn.proc, spawn.session, spawn.turn, spawn.keep_open),
        (PROC, Some(TURN.session), Some(TURN.turn), false)
    );
    let plan = super::spawn("toy", [Value::Port], Vec::new());
    assert_eq!(
        (plan.program.as_str(), plan.arguments.as_slice()),
        ("toy", [Value::Port].as_slice())
    );
}
