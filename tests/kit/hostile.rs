//! Tests of guests that misbehave on purpose, and of the rule that detects each.

use aetheel_model::agent::{Action, ArgumentValue, SessionReady, Spawn, TurnDone, TurnOutcome};
use serde_json::json;

use super::{Bench, Done};
use crate::support::guests::{EXITED, Wat};

/// Tag of the input `line` in the contract.
const LINE: u8 = 3;

fn spawn(program: &str, arguments: &[&str]) -> Action {
    let arguments = arguments.iter().map(|text| ArgumentValue::Text((*text).to_owned())).collect();
    let (environment, stdin) = (vec![], vec![]);
    let (session, turn) = (Some(1), Some(1));
    let program = program.to_owned();
    Action::Spawn(Spawn {
        proc: 1,
        program,
        arguments,
        environment,
        stdin,
        keep_open: false,
        listens: false,
        basic_auth: None,
        session,
        turn,
    })
}

fn done() -> Action {
    Action::TurnDone(TurnDone {
        session: 1,
        turn: 1,
        outcome: TurnOutcome::Completed,
        text: None,
        usage: None,
    })
}

/// Starts its agent and ends the turn with it, without any memory.
pub(super) fn forgetful() -> Wat {
    Wat {
        on_start: Some(vec![spawn("evil", &[])]),
        later: Some((EXITED, vec![done()])),
        ..Wat::new("evil", "1")
    }
}

fn checked(wat: &Wat) -> Done {
    let bench = Bench::wat(wat);
    let done = bench.run(&["check", bench.component(), "--json"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    done
}

/// Returns the findings of a rule.
fn found(wat: &Wat, rule: &str) -> Vec<serde_json::Value> {
    let done = checked(wat);
    let all = done.findings();
    let found: Vec<_> = all.iter().filter(|finding| finding["rule"] == rule).cloned().collect();
    assert!(!found.is_empty(), "{rule}: {all:#?}");
    for finding in &found {
        for part in ["trial", "got", "expected", "advice"] {
            assert!(finding[part].as_str().is_some_and(|text| !text.is_empty()), "{finding}");
        }
    }
    found
}

fn mentions(found: &[serde_json::Value], field: &str, part: &str) {
    assert!(
        found.iter().any(|finding| finding[field].as_str().unwrap().contains(part)),
        "{part}: {found:#?}"
    );
}

#[test]
fn a_trap_on_garbage_is_found() {
    let wat =
        Wat { on_timer: "unreachable".to_owned(), later: Some((LINE, vec![])), ..forgetful() };
    let found = found(&wat, "never-fails");
    mentions(&found, "got", "crashed");
    mentions(&found, "input", "\"line\"");
}

#[test]
fn a_loop_on_garbage_is_cut_off_and_found() {
    let wat = Wat {
        on_timer: "(loop $for_ever (br $for_ever))".to_owned(),
        later: Some((LINE, vec![])),
        ..forgetful()
    };
    mentions(&found(&wat, "never-fails"), "got", "cut off");
}

#[test]
fn a_turn_that_ends_twice_is_found() {
    mentions(&found(&forgetful(), "ends-once"), "got", "second turn-done");
}

#[test]
fn a_turn_that_never_ends_is_found() {
    let wat = Wat { later: Some((u8::MAX, vec![])), ..forgetful() };
    mentions(&found(&wat, "ends-once"), "got", "no turn-done after all its processes had exited");
    let idle = Wat { on_start: Some(vec![]), ..wat };
    mentions(&found(&idle, "ends-once"), "got", "no process and no turn-done");
}

#[test]
fn undeclared_programs_and_flags_are_found() {
    let wat = Wat { on_start: Some(vec![spawn("sh", &["-c", "id"])]), ..forgetful() };
    mentions(&found(&wat, "plan"), "got", "program \"sh\" is not declared");
    let wat = Wat { on_start: Some(vec![spawn("evil", &["--yolo"])]), ..forgetful() };
    mentions(&found(&wat, "plan"), "got", "flag \"--yolo\" is not declared");
}

#[test]
fn a_guest_that_reads_only_the_first_input_of_a_call_is_found() {
    let found = found(&forgetful(), "batching");
    mentions(&found, "trial", "7 inputs per call");
}

#[test]
fn an_id_that_could_be_a_flag_is_found() {
    let ready = Action::SessionReady(SessionReady {
        session: 1,
        native_id: "--x".into(),
        model: None,
        title: None,
        tools: vec![],
    });
    mentions(
        &found(&Wat { on_start: Some(vec![ready, done()]), ..Wat::new("evil", "1") }, "limits"),
        "got",
        "--x",
    );
}

#[test]
fn a_state_that_crashes_the_next_guest_is_found() {
    let live = Wat {
        descriptor: json!({ "sharing": "session" }),
        load: "unreachable".to_owned(),
        ..forgetful()
    };
    mentions(&found(&live, "handover"), "trial", "a state that cannot be read");
}

#[test]
fn a_finding_names_the_attempt_and_a_hint_for_people() {
    let bench = Bench::wat(&forgetful());
    let done = bench.run(&["check", bench.component()]);
    assert_eq!(done.code, Some(1));
    done.says("FAIL  hostile input")
        .says("ends-once")
        .says("tried")
        .says("expected  one turn-done per turn")
        .says("hint");
    done.says("note: without recordings of its agent");
    assert!(!done.out.contains('\x1b'), "colour is for terminals: {}", done.out);
}

#[test]
fn a_component_that_cannot_be_loaded_is_refused_with_the_reason() {
    let bench = Bench::of(b"no component");
    let done = bench.run(&["check", bench.component()]);
    assert_eq!(done.code, Some(1));
    done.says("x.wasm: it is not a WebAssembly file: it is text").says("hint:");
    let json = bench.run(&["check", bench.component(), "--json"]);
    assert_eq!((json.code, json.json()["passed"].as_bool()), (Some(1), Some(false)));
    let missing = bench.run(&["check", "nothing.wasm"]);
    assert_eq!(missing.code, Some(64));
    missing.says("nothing.wasm: it cannot be read: No such file");
}
