//! The answer appears once, whole, and without other text.

use aetheel_backend_sdk::fixture::{
    Fixture, done, ends, line, notices, ready, run, shown, start, unrecognised,
};
use aetheel_backend_sdk::wit::{Exit, Exited, Input, Outcome, Pipe, ToolStatus};
use claude::Backend;

use crate::{actions, folder};

#[test]
fn pieces_and_whole_blocks_show_the_text_once() {
    for name in ["plain", "deltas", "unicode-newlines", "long-20k", "think", "stdin-prompt"] {
        let actions = actions(name);
        let done = done(&actions);
        assert_eq!(done.outcome, Outcome::Completed, "{name}");
        assert_eq!(shown(&actions), [done.text.clone().unwrap()], "{name}");
    }
}

#[test]
fn a_whole_answer_is_shown_without_pieces() {
    let actions = actions("stream-plain");
    assert_eq!(shown(&actions).last(), done(&actions).text.as_ref());
}

#[test]
fn a_repeated_request_after_a_broken_stream_is_shown_once() {
    let actions = actions("drop-mid");
    let answer = done(&actions).text.clone().unwrap();
    assert!(answer.starts_with("0000 The quick brown fox"), "{answer}");
    assert_eq!(shown(&actions), [answer]);
    // `usage` is all zeros in this run; `modelUsage` has the tokens.
    assert_eq!(done(&actions).usage.clone().unwrap().output, 75);
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
fn an_empty_answer_has_no_text_at_all() {
    let actions = actions("empty-answer");
    assert_eq!((&done(&actions).outcome, &done(&actions).text), (&Outcome::Completed, &None));
    assert_eq!(shown(&actions), [""; 0]);
}

#[test]
fn output_of_a_slash_command_is_the_answer() {
    assert_eq!(
        done(&actions("stdin-slash")).text.as_deref(),
        Some("/help isn't available in this environment.")
    );
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
fn a_sub_agent_is_a_tool_use_and_its_text_is_not_the_answer() {
    let actions = actions("tool-task");
    assert_eq!(shown(&actions).len(), 1);
    assert_eq!(done(&actions).text.as_ref(), shown(&actions).first());
    assert!(ends(&actions)[0].1.starts_with("MOCK ANSWER: say sub-done"));
    // The usage includes the tokens of the sub-agent.
    assert_eq!(done(&actions).usage.clone().unwrap().input, 3080);
}

#[test]
fn usage_covers_the_turn_and_the_context_window() {
    let actions = actions("resume-2");
    let usage = done(&actions).usage.clone().unwrap();
    assert_eq!((usage.input, usage.cached, usage.output), (1040, 200, 11));
    assert_eq!(usage.cost_usd, Some(0.005_575));
    assert_eq!((usage.context_used, usage.context_size), (Some(1251), Some(200_000)));
}

#[test]
fn the_last_of_several_results_is_the_outcome() {
    let actions = actions("input-stream-json");
    assert_eq!(done(&actions).text.as_deref(), Some("HISTORY [\"first over stdin\"]"));
}

#[test]
fn the_cost_of_a_resumed_session_covers_only_the_turn() {
    let usage = done(&actions("resume-totals")).usage.clone().unwrap();
    assert_eq!(
        (usage.input, usage.output),
        (20_000, 15),
        "the sums of the session are 80,000 and 60"
    );
    assert_eq!(usage.cost_usd, Some(0.040_15));
    assert_eq!(usage.context_size, Some(1_000_000));
}

#[test]
fn sums_of_a_session_in_a_result_are_reported_as_drift_and_not_shown() {
    let fixture = Fixture::load(&folder().join("resume-totals"));
    let without = |text: &str| text.replace("model_usage_since_last_result", "left_out");
    let lines = fixture
        .stdout
        .iter()
        .map(|text| line(Pipe::Stdout, &without(text)))
        .chain([fixture.exited()])
        .collect();
    let actions = run::<Backend>(fixture.start.clone(), lines);
    let usage = done(&actions).usage.clone().unwrap();
    assert_eq!(
        (usage.input, usage.output, usage.cost_usd),
        (20_000, 15, None),
        "only the usage of the requests remains"
    );
    let unknown = unrecognised(&actions);
    let [unknown] = &unknown[..] else { panic!("{unknown:?}") };
    assert_eq!(unknown.path.as_deref(), Some("modelUsage"));
}

#[test]
fn a_truncated_result_of_a_newer_agent_is_a_success() {
    let fixture = Fixture::load(&folder().join("resume-totals"));
    let lines = fixture.stdout.iter().map(|text| {
        let cut = text.find("\"result\":\"ag").map_or(text.as_str(), |at| &text[..at + 12]);
        line(Pipe::Stdout, cut)
    });
    let actions = run::<Backend>(fixture.start.clone(), lines.chain([fixture.exited()]).collect());
    assert_eq!(
        (&done(&actions).outcome, done(&actions).text.as_deref()),
        (&Outcome::Completed, Some("again"))
    );
}

#[test]
fn lines_of_newer_versions_are_recognised() {
    let said = [
        r#"{"type":"command_lifecycle","command_uuid":"22222222-1111-4111-8111-111111111111","state":"queued"}"#,
        r#"{"type":"system","subtype":"informational","content":"The rule was not saved.","level":"warning","tag":"permission_rule_not_saved"}"#,
        r#"{"type":"system","subtype":"background_tasks_changed","tasks":[]}"#,
        r#"{"type":"system","subtype":"model_fallback","content":"Another model answers.","level":"warning","fallbackModel":"m"}"#,
        r#"{"type":"system","subtype":"notification","key":"k","text":"Credits are used up.","priority":"immediate"}"#,
        r#"{"type":"system","subtype":"vcs_state_changed","kind":"commit","cwd":"/srv/dir"}"#,
        r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]}}"#,
        r#"{"type":"system","subtype":"permission_denied","tool_name":"Bash","tool_use_id":"t","decision_reason_type":"rule","message":"no"}"#,
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"Permission to use Bash was denied.","is_error":true}]}}"#,
        r#"{"type":"result","subtype":"success","is_error":false,"result":"ok","session_id":"s","usage":{}}"#,
    ];
    let lines = said.iter().map(|text| line(Pipe::Stdout, text)).chain([Input::Exited(Exited {
        proc: 1,
        how: Exit::Code(0),
        stderr_tail: String::new(),
    })]);
    let actions = run::<Backend>(start("hi"), lines.collect());
    assert!(unrecognised(&actions).is_empty(), "{actions:?}");
    assert_eq!(
        notices(&actions),
        ["The rule was not saved.", "Another model answers.", "Credits are used up."],
        "texts for users are shown"
    );
    assert_eq!(ends(&actions)[0].0, ToolStatus::Denied);
}
