//! The answer: once, whole, and only what belongs to it.

use aetheel_backend_sdk::wit::Outcome;

use crate::actions;
use crate::told::{done, ends, ready, shown};

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
fn a_sub_agent_is_a_tool_and_its_text_is_not_the_answer() {
    let actions = actions("tool-task");
    assert_eq!(shown(&actions).len(), 1);
    assert_eq!(done(&actions).text.as_ref(), shown(&actions).first());
    assert!(ends(&actions)[0].1.starts_with("MOCK ANSWER: say sub-done"));
    // Its tokens are paid for as well.
    assert_eq!(done(&actions).usage.unwrap().input, 3080);
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
fn of_several_results_the_last_counts() {
    let actions = actions("input-stream-json");
    assert_eq!(done(&actions).text.as_deref(), Some("HISTORY [\"first over stdin\"]"));
}
