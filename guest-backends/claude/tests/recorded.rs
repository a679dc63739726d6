//! What recorded runs of Claude Code 2.1.197 become: every run whole (`actions.jsonl` beside it), and the hazards by name.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use aetheel_backend_sdk::fixture::{Fixture, TURN, line, run, start};
use aetheel_backend_sdk::one_shot::LINGER_MS;
use aetheel_backend_sdk::wit::{
    Action, Command, EventKind, FailureKind, Input, Outcome, Pipe, PlanStatus, SessionReady, StartTurn, ToolStatus, TurnDone,
};
use claude::Backend;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/claude")
}

fn turn(fixture: &Fixture) -> StartTurn {
    StartTurn { native_id: fixture.value_of("--resume").map(str::to_owned), ..start("recorded") }
}

fn actions(name: &str) -> Vec<Action> {
    let fixture = Fixture::load(&folder().join(name));
    run::<Backend>(turn(&fixture), fixture.inputs())
}

fn done(actions: &[Action]) -> &TurnDone {
    let mut done = actions.iter().filter_map(|action| match action {
        Action::TurnDone(done) => Some(done),
        _ => None,
    });
    let first = done.next().expect("no turn-done");
    assert_eq!(done.next(), None, "a second turn-done");
    first
}

fn events(actions: &[Action]) -> impl Iterator<Item = &EventKind> {
    actions.iter().filter_map(|action| match action {
        Action::Event(event) => Some(&event.kind),
        _ => None,
    })
}

/// The text people see while the turn runs, by parts.
fn shown(actions: &[Action]) -> Vec<String> {
    let mut parts: Vec<(u32, String)> = Vec::new();
    for event in events(actions) {
        let EventKind::Text(text) = event else { continue };
        if !parts.iter().any(|(part, _)| *part == text.part) {
            parts.push((text.part, String::new()));
        }
        let (_, said) = parts.iter_mut().find(|(part, _)| *part == text.part).unwrap();
        if text.replace {
            said.clear();
        }
        said.push_str(&text.text);
    }
    parts.into_iter().map(|(_, said)| said).filter(|said| !said.is_empty()).collect()
}

fn ends(actions: &[Action]) -> Vec<(ToolStatus, &str, Option<u32>)> {
    events(actions)
        .filter_map(|event| match event {
            EventKind::ToolEnd(end) => Some((end.status, end.output.as_deref().unwrap_or_default(), end.exit_code)),
            _ => None,
        })
        .collect()
}

fn notices(actions: &[Action]) -> Vec<&str> {
    events(actions)
        .filter_map(|event| match event {
            EventKind::Notice(notice) => Some(notice.as_str()),
            _ => None,
        })
        .collect()
}

fn ready(actions: &[Action]) -> Vec<&SessionReady> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::SessionReady(ready) => Some(ready),
            _ => None,
        })
        .collect()
}

fn failure(name: &str) -> (FailureKind, String) {
    match &done(&actions(name)).outcome {
        Outcome::Failed(failure) => (failure.kind, failure.message.clone()),
        outcome => panic!("{name} was {outcome:?}"),
    }
}

#[test]
fn every_recorded_run_becomes_what_is_written_beside_it() {
    for fixture in Fixture::all(&folder()) {
        let actions = run::<Backend>(turn(&fixture), fixture.inputs());
        done(&actions);
        fixture.check(&actions);
    }
}

#[test]
fn nothing_the_real_agent_prints_is_unrecognised() {
    for fixture in Fixture::all(&folder()) {
        // The one that was asked for plain text instead of JSON.
        if fixture.name() == "text-plain" {
            continue;
        }
        let actions = run::<Backend>(turn(&fixture), fixture.inputs());
        let unknown: Vec<_> = events(&actions).filter(|event| matches!(event, EventKind::Unrecognised(_))).collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", fixture.name());
    }
}

#[test]
fn pieces_and_whole_blocks_are_the_same_text_once() {
    for name in ["plain", "deltas", "unicode-newlines", "long-20k", "think", "stdin-prompt"] {
        let actions = actions(name);
        let done = done(&actions);
        assert_eq!(done.outcome, Outcome::Completed, "{name}");
        assert_eq!(shown(&actions), [done.text.clone().unwrap()], "{name}");
    }
}

#[test]
fn an_answer_told_whole_is_shown_without_any_pieces() {
    let actions = actions("stream-plain");
    assert_eq!(shown(&actions).last(), done(&actions).text.as_ref());
}

#[test]
fn a_broken_stream_that_is_asked_for_again_is_not_shown_twice() {
    let actions = actions("drop-mid");
    let answer = done(&actions).text.clone().unwrap();
    assert!(answer.starts_with("0000 The quick brown fox"), "{answer}");
    assert_eq!(shown(&actions), [answer]);
    // `usage` is all zeros in this run; what was paid for is in `modelUsage`.
    assert_eq!(done(&actions).usage.unwrap().output, 75);
}

#[test]
fn a_message_continued_after_the_output_limit_is_one_answer() {
    let actions = actions("max-tokens");
    let answer = done(&actions).text.clone().unwrap();
    assert!(answer.starts_with("cut off hereMOCK ANSWER: Output token limit hit."), "{answer}");
    assert_eq!(shown(&actions).concat(), answer);
}

#[test]
fn text_before_a_tool_is_shown_but_is_not_the_answer() {
    let actions = actions("tool-pre");
    assert_eq!(shown(&actions).len(), 2);
    assert_eq!(Some(&shown(&actions)[1]), done(&actions).text.as_ref());
}

#[test]
fn an_error_called_success_is_a_failure_of_its_kind() {
    for (name, kind, words) in [
        ("error-400", FailureKind::BadRequest, "API Error: 400"),
        ("error-401", FailureKind::Authentication, "Failed to authenticate"),
        ("error-429", FailureKind::RateLimited, "Request rejected (429)"),
        ("error-500", FailureKind::Overloaded, "API Error: 500"),
        ("server-down", FailureKind::Overloaded, "Unable to connect to API"),
        ("no-key", FailureKind::Authentication, "Not logged in"),
        ("refusal", FailureKind::Refused, "Usage Policy"),
        ("resume-unknown", FailureKind::SessionUnknown, "No conversation found"),
        // These print nothing on stdout: stderr has the reason.
        ("json-resume-unknown", FailureKind::SessionUnknown, "No conversation found"),
        ("as-root", FailureKind::Unsupported, "root/sudo"),
        ("prompt-empty", FailureKind::BadRequest, "Input must be provided"),
        ("sys-append-missing-file", FailureKind::Other, "file not found"),
        ("json-401", FailureKind::Authentication, "Failed to authenticate"),
        ("json-no-key", FailureKind::Authentication, "Not logged in"),
        ("json-error-400", FailureKind::BadRequest, "API Error: 400"),
    ] {
        let (found, message) = failure(name);
        assert_eq!(found, kind, "{name}: {message}");
        assert!(message.contains(words), "{name}: {message}");
    }
}

#[test]
fn an_api_error_is_not_shown_as_the_answer() {
    for name in ["error-400", "error-429", "no-key", "server-down"] {
        assert_eq!(shown(&actions(name)), [""; 0], "{name}");
    }
    assert_eq!(shown(&actions("refusal")), ["I cannot help."]);
}

#[test]
fn retries_are_shown_with_their_reason_and_the_time_until_then() {
    let actions = actions("error-429-once");
    let retries: Vec<_> = events(&actions)
        .filter_map(|event| match event {
            EventKind::Retry(failure) => Some((failure.kind, failure.message.as_str(), failure.retry_after_ms)),
            _ => None,
        })
        .collect();
    assert_eq!(retries, [(FailureKind::RateLimited, "attempt 1 of 10 (rate_limit, 429)", Some(1000))]);
    assert_eq!(done(&actions).outcome, Outcome::Completed);
}

#[test]
fn a_turn_limit_is_a_limit_and_not_a_failure() {
    assert_eq!(done(&actions("max-turns-2-json")).outcome, Outcome::Limit("Reached maximum number of turns (2)".to_owned()));
}

#[test]
fn an_empty_answer_has_no_text_at_all() {
    let actions = actions("empty-answer");
    assert_eq!((&done(&actions).outcome, &done(&actions).text), (&Outcome::Completed, &None));
    assert_eq!(shown(&actions), [""; 0]);
}

#[test]
fn what_a_command_of_claude_code_says_is_the_answer() {
    assert_eq!(done(&actions("stdin-slash")).text.as_deref(), Some("/help isn't available in this environment."));
    assert_eq!(shown(&actions("slash-compact")), ["Error: No messages to compact"]);
    assert_eq!(shown(&actions("slash-clear")), [""; 0]);
}

#[test]
fn the_single_object_and_the_array_are_read_like_the_stream() {
    let one = actions("json-plain");
    assert_eq!(done(&one).outcome, Outcome::Completed);
    assert_eq!(done(&one).text.as_deref(), Some("MOCK ANSWER: Say hello."));
    assert_eq!(ready(&one).len(), 1);
    let array = actions("json-verbose");
    assert_eq!(shown(&array).last(), done(&array).text.as_ref());
    assert_eq!(ends(&array).len(), 1);
    assert_eq!(ready(&array).len(), 1);
}

#[test]
fn a_session_is_ready_as_soon_as_it_is_told_and_never_when_it_was_not_found() {
    let found = actions("sigkill-stream");
    assert_eq!(ready(&found)[0].native_id.len(), 36);
    assert_eq!(ready(&found)[0].model.as_deref(), Some("claude-opus-4-8[1m]"));
    for name in ["resume-unknown", "json-resume-unknown"] {
        assert_eq!(ready(&actions(name)), Vec::<&SessionReady>::new(), "{name}");
    }
}

#[test]
fn another_session_than_the_one_asked_for_is_told_to_people() {
    assert_eq!(notices(&actions("resume-2")), [""; 0]);
    let fixture = Fixture::load(&folder().join("resume-2"));
    let other = StartTurn { native_id: Some("00000000-0000-4000-8000-000000000000".to_owned()), ..start("hi") };
    let other = run::<Backend>(other, fixture.inputs());
    assert_eq!(notices(&other), ["Claude Code began a new session: what was said before is lost to it"]);
    let fork = StartTurn { fork: true, ..turn(&fixture) };
    assert_eq!(notices(&run::<Backend>(fork, fixture.inputs())), [""; 0]);
}

#[test]
fn tools_are_told_once_with_their_unified_kind_and_what_they_are_about() {
    for (name, expected) in [
        ("tools-sequence", vec!["bash ls", "file_read /srv/proj/hello.txt", "file_write /srv/proj/written.txt", "bash ls -d *.txt"]),
        ("tool-edit", vec!["file_read /srv/proj/hello.txt", "file_edit /srv/proj/hello.txt"]),
        ("tool-search", vec!["web_search mock query"]),
        ("tool-task", vec!["agent_spawn mock task call"]),
        ("tool-todo", vec!["todo first step"]),
        ("tool-unknown", vec!["other -"]),
        ("tool-ask", vec!["ask_user -"]),
    ] {
        let actions = actions(name);
        let mut found: Vec<(String, String)> = Vec::new();
        for event in events(&actions) {
            if let EventKind::ToolStart(start) = event {
                let said = format!("{} {}", start.kind, start.target.as_deref().unwrap_or("-"));
                found.retain(|(id, _)| *id != start.id);
                found.push((start.id.clone(), said));
            }
        }
        let found: Vec<_> = found.into_iter().map(|(_, said)| said).collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(ends(&actions).len(), expected.len(), "{name}");
    }
}

#[test]
fn tools_end_as_they_did() {
    assert_eq!(ends(&actions("tool-fail")), [(ToolStatus::Failed, "Exit code 3\nfailing", Some(3))]);
    assert_eq!(ends(&actions("tool-unknown")), [(ToolStatus::Failed, "Error: No such tool available: no_such_tool", None)]);
    assert_eq!(ends(&actions("perm-default-write"))[0].0, ToolStatus::Denied);
    assert_eq!(ends(&actions("perm-default-write")).len(), 1);
    assert_eq!(ends(&actions("sigint-tool"))[0].0, ToolStatus::Cancelled);
    assert_eq!(ends(&actions("think-tool")), [(ToolStatus::Ok, "hello.txt", None)]);
}

#[test]
fn an_edit_shows_what_it_changed() {
    let actions = actions("tool-edit");
    let diffs: Vec<_> = events(&actions)
        .filter_map(|event| match event {
            EventKind::ToolEnd(end) => end.diffs.first(),
            _ => None,
        })
        .collect();
    assert_eq!(diffs.len(), 1);
    assert_eq!(diffs[0].path, "/srv/proj/hello.txt");
    assert_eq!(diffs[0].unified.as_deref(), Some("@@ -1,2 +1,2 @@\n-hello file\n+goodbye file\n FILEMARK-hello\n"));
}

#[test]
fn a_sub_agent_is_a_tool_and_its_text_is_not_the_answer() {
    let actions = actions("tool-task");
    assert_eq!(shown(&actions).len(), 1);
    assert_eq!(done(&actions).text.as_ref(), shown(&actions).first());
    assert!(ends(&actions)[0].1.starts_with("MOCK ANSWER: say sub-done"));
    // Its tokens are paid for as well.
    assert_eq!(done(&actions).usage.unwrap().input, 3080);
}

#[test]
fn tasks_are_the_plan() {
    let actions = actions("tool-todo");
    let plans: Vec<_> = events(&actions)
        .filter_map(|event| match event {
            EventKind::Plan(plan) => Some(plan.iter().map(|entry| (entry.text.as_str(), entry.status)).collect::<Vec<_>>()),
            _ => None,
        })
        .collect();
    assert_eq!(plans, [[("first step", PlanStatus::Pending)]]);
}

#[test]
fn usage_counts_the_turn_and_the_context_it_left() {
    let actions = actions("resume-2");
    let usage = done(&actions).usage.unwrap();
    assert_eq!((usage.input, usage.cached, usage.output), (1040, 200, 11));
    assert_eq!(usage.cost_usd, Some(0.005_575));
    assert_eq!((usage.context_used, usage.context_size), (Some(1251), Some(200_000)));
}

#[test]
fn a_run_that_was_killed_is_lost_and_keeps_what_it_said() {
    for (name, message) in [
        ("sigkill-stream", "the agent was ended by signal 9"),
        ("sigterm-stream", "the agent was ended by signal 15"),
        ("sigterm-tool", "the agent was ended by signal 15"),
    ] {
        let actions = actions(name);
        let Outcome::Lost(failure) = &done(&actions).outcome else { panic!("{name}: {:?}", done(&actions).outcome) };
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Crashed, message), "{name}");
        assert_eq!(done(&actions).text, None, "{name}");
    }
    assert!(shown(&actions("sigterm-stream"))[0].starts_with("0000 The quick brown fox"));
}

#[test]
fn an_interrupted_run_is_interrupted_even_when_nobody_here_asked() {
    assert_eq!(done(&actions("sigint-tool")).outcome, Outcome::Interrupted);
}

#[test]
fn an_interrupt_is_a_signal_to_the_process_and_wins_over_a_missing_result() {
    let fixture = Fixture::load(&folder().join("sigterm-stream"));
    let mut inputs = fixture.inputs();
    inputs.insert(6, Input::Command(Command::Interrupt(TURN)));
    let actions = run::<Backend>(turn(&fixture), inputs);
    assert!(actions.iter().any(|action| matches!(action, Action::Stop(_))));
    assert_eq!(done(&actions).outcome, Outcome::Interrupted);
}

#[test]
fn silence_and_exit_0_is_not_success() {
    let actions = run::<Backend>(start("hi"), vec![Fixture::load(&folder().join("plain")).exited()]);
    let Outcome::Lost(failure) = &done(&actions).outcome else { panic!("{:?}", done(&actions).outcome) };
    assert_eq!(failure.kind, FailureKind::Protocol);
}

#[test]
fn of_several_results_the_last_counts() {
    let actions = actions("input-stream-json");
    assert_eq!(done(&actions).text.as_deref(), Some("HISTORY [\"first over stdin\"]"));
}

#[test]
fn a_process_that_stays_after_its_result_is_given_a_moment() {
    let fixture = Fixture::load(&folder().join("plain"));
    let mut inputs = fixture.inputs();
    inputs.pop();
    let actions = run::<Backend>(turn(&fixture), inputs);
    assert!(matches!(actions.last(), Some(Action::SetTimer(timer)) if timer.after_ms == LINGER_MS), "{:?}", actions.last());
}

#[test]
fn lines_of_stderr_change_nothing_wherever_they_come() {
    for name in ["plain", "think-tool", "drop-mid"] {
        let fixture = Fixture::load(&folder().join(name));
        let calm = run::<Backend>(turn(&fixture), fixture.inputs());
        let mut noisy = Vec::new();
        for input in fixture.inputs() {
            noisy.push(line(Pipe::Stderr, "Warning: no stdin data received in 3s"));
            noisy.push(input);
        }
        assert_eq!(run::<Backend>(turn(&fixture), noisy), calm, "{name}");
    }
}
