//! Unknown output is reported as unrecognised, never dropped, and never ends a link.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

use std::path::Path;

use aetheel_backend_sdk::fixture::{Fixture, done, events, line, run, start, unrecognised};
use aetheel_backend_sdk::wit::{
    Action, Compaction, EventKind, Exit, Exited, FailureKind, Input, Level, Line, Notice, Outcome,
    Pipe, Unrecognised,
};
use claude::Backend;
use proptest::prelude::*;

fn fixture(name: &str) -> Fixture {
    Fixture::load(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/claude").join(name),
    )
}

fn unknown(lines: &[&str]) -> Vec<Unrecognised> {
    let lines = lines.iter().map(|text| line(Pipe::Stdout, text)).collect();
    unrecognised(&run::<Backend>(start("hi"), lines)).into_iter().cloned().collect()
}

#[test]
fn unknown_output_is_reported_with_its_path() {
    for (text, what, path) in [
        ("Debugger attached.", "line that is not a JSON object", None),
        ("42", "line that is not a JSON object", None),
        (r#"{"hello":1}"#, "line without a type", Some("type")),
        (r#"{"type":"hologram"}"#, r#"line type "hologram""#, Some("type")),
        (r#"{"type":"system","subtype":"aurora"}"#, r#"system line "aurora""#, Some("subtype")),
        (
            r#"{"type":"stream_event","event":{"type":"message_pause"}}"#,
            r#"stream event "message_pause""#,
            Some("event.type"),
        ),
        (
            r#"{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"video"}}}"#,
            r#"content block "video""#,
            Some("event.content_block.type"),
        ),
        (
            r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"smell_delta"}}}"#,
            r#"content block delta "smell_delta""#,
            Some("event.delta.type"),
        ),
        (
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"a"},{"type":"hologram"}]}}"#,
            r#"content block "hologram""#,
            Some("message.content[1].type"),
        ),
        (
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"hologram"}]}]}}"#,
            r#"content block "hologram""#,
            Some("message.content[0].content[0].type"),
        ),
    ] {
        let found = unknown(&[text]);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(
            (found[0].what.as_str(), found[0].path.as_deref(), found[0].sample.as_str()),
            (what, path, text)
        );
    }
}

#[test]
fn compaction_is_reported_with_its_sizes_and_its_failure() {
    let lines = [
        r#"{"type":"system","subtype":"status","status":"compacting"}"#,
        r#"{"type":"system","subtype":"status","status":null,"compact_result":"success"}"#,
        r#"{"type":"system","subtype":"compact_boundary","compact_metadata":{"trigger":"auto","pre_tokens":9000,"post_tokens":800}}"#,
        r#"{"type":"system","subtype":"compact_boundary","compact_metadata":{"trigger":"auto","pre_tokens":9000}}"#,
        r#"{"type":"system","subtype":"status","status":null,"compact_result":"failed","compact_error":"too short"}"#,
    ];
    let lines = lines.iter().map(|text| line(Pipe::Stdout, text)).collect();
    let actions = run::<Backend>(start("hi"), lines);
    let found: Vec<EventKind> = events(&actions).cloned().collect();
    let compaction = |done, tokens_before, tokens_after| {
        EventKind::Compaction(Compaction { done, tokens_before, tokens_after })
    };
    let text = "Claude Code could not shorten the conversation: too short".to_owned();
    let expected = [
        compaction(false, None, None),
        compaction(true, Some(9000), Some(800)),
        compaction(true, Some(9000), None),
        EventKind::Notice(Notice { level: Level::Warn, key: None, text }),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_used_up_allowance_differs_from_a_rate_limit() {
    for (words, kind) in [
        ("Credit balance is too low", FailureKind::Quota),
        ("You've hit your limit · resets 3pm", FailureKind::Quota),
        ("Request rejected (429)", FailureKind::RateLimited),
        ("API Error: Unable to connect to API (ConnectionRefused)", FailureKind::Network),
    ] {
        let status = if kind == FailureKind::Network { "null" } else { "429" };
        let result = format!(
            r#"{{"type":"result","subtype":"success","is_error":true,"api_error_status":{status},"result":"{words}","session_id":"s"}}"#
        );
        let exited =
            Input::Exited(Exited { proc: 1, how: Exit::Code(1), stderr_tail: String::new() });
        let actions = run::<Backend>(start("hi"), vec![line(Pipe::Stdout, &result), exited]);
        let Outcome::Failed(failure) = &done(&actions).outcome else { panic!("{actions:?}") };
        assert_eq!(failure.kind, kind, "{words}");
    }
}

#[test]
fn a_refused_request_names_the_allowance_and_its_renewal() {
    let info = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1764165900,"rateLimitType":"five_hour","utilization":1.0}}"#;
    let actions = run::<Backend>(start("hi"), vec![line(Pipe::Stdout, info)]);
    let quota = events(&actions).into_iter().find_map(|kind| match kind {
        EventKind::Quota(quota) => quota.first().cloned(),
        _ => None,
    });
    let quota = quota.expect("a quota");
    assert_eq!((quota.label.as_str(), quota.exhausted), ("Claude, 5 hours", true));
    assert_eq!(quota.resets.as_deref(), Some("2025-11-26T14:05:00Z"));
}

#[test]
fn a_sample_is_short_and_cut_at_a_character_boundary() {
    let found = unknown(&[&"é".repeat(5000)]);
    assert_eq!(found[0].sample.len(), 2048);
    let cut =
        Line { proc: 1, pipe: Pipe::Stdout, text: "{\"type\":\"assi".to_owned(), truncated: true };
    let actions = run::<Backend>(start("hi"), vec![Input::Line(cut)]);
    assert!(matches!(actions.last(), Some(Action::Event(event))
        if matches!(&event.kind, EventKind::Unrecognised(unknown) if unknown.what == "line longer than the limit")));
}

#[test]
fn ignored_lines_are_not_unrecognised() {
    let lines = [
        "",
        r#"{"type":"keep_alive"}"#,
        r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed"}}"#,
        r#"{"type":"system","subtype":"status","status":"requesting"}"#,
        r#"{"type":"stream_event","event":{"type":"ping"}}"#,
        r#"{"type":"stream_event","parent_tool_use_id":"t","event":{"type":"content_block_delta","index":7}}"#,
    ];
    assert_eq!(unknown(&lines), []);
}

#[test]
fn text_of_a_sub_agent_names_its_tool_use() {
    let text = r#"{"type":"assistant","parent_tool_use_id":"t1","message":{"id":"m","content":[{"type":"text","text":"sub"},
        {"type":"tool_use","id":"t2","name":"Read","input":{"file_path":"/a"}}]}}"#;
    let actions = run::<Backend>(start("hi"), vec![line(Pipe::Stdout, text)]);
    let kinds: Vec<_> = actions
        .into_iter()
        .filter_map(|action| match action {
            Action::Event(event) => Some(event.kind),
            _ => None,
        })
        .collect();
    assert!(
        matches!(&kinds[0], EventKind::Text(text) if text.parent.as_deref() == Some("t1") && text.text == "sub"),
        "{kinds:?}"
    );
    assert!(
        matches!(&kinds[1], EventKind::ToolStart(tool) if tool.parent.as_deref() == Some("t1") && tool.id == "t2"),
        "{kinds:?}"
    );
}

#[test]
fn a_tool_of_an_interrupted_message_is_cancelled() {
    let lines = [
        r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"a"}}}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"Bash"}}}"#,
        r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"b"}}}"#,
    ];
    let actions =
        run::<Backend>(start("hi"), lines.iter().map(|text| line(Pipe::Stdout, text)).collect());
    assert!(
        matches!(actions.last(), Some(Action::Event(event)) if matches!(&event.kind, EventKind::ToolEnd(end) if end.id == "t")),
        "{actions:?}"
    );
}

#[test]
fn changed_numbers_and_keys_are_accepted() {
    let retry = r#"{"type":"system","type":"system","subtype":"api_retry","attempt":1.0,"max_retries":"ten","retry_delay_ms":551.86,"error_status":429.0}"#;
    let result = r#"{"type":"result","is_error":false,"result":"yes","usage":{"input_tokens":1.5e1,"output_tokens":-4},"total_cost_usd":1}"#;
    let actions = run::<Backend>(
        start("hi"),
        vec![line(Pipe::Stdout, retry), line(Pipe::Stdout, result), fixture("plain").exited()],
    );
    assert!(actions.iter().any(|action| matches!(action, Action::Event(event)
        if matches!(&event.kind, EventKind::Retry(retry) if retry.retry_after_ms == Some(552)))));
    let Some(Action::TurnDone(done)) = actions.last() else { panic!("{actions:?}") };
    assert_eq!(
        (&done.outcome, done.text.as_deref(), done.usage.clone().unwrap().input),
        (&Outcome::Completed, Some("yes"), 15)
    );
}

#[test]
fn a_truncated_result_ends_the_turn_like_a_whole_one() {
    for name in ["plain", "tools-sequence", "max-tokens"] {
        let fixture = fixture(name);
        let ended = |cut: usize| {
            let mut lines = fixture.stdout.clone();
            let result =
                lines.iter_mut().rfind(|text| text.starts_with(r#"{"type":"result""#)).unwrap();
            result.truncate(result.len() - cut);
            let mut inputs: Vec<Input> =
                lines.iter().map(|text| line(Pipe::Stdout, text)).collect();
            inputs.push(fixture.exited());
            match run::<Backend>(start("hi"), inputs).pop() {
                Some(Action::TurnDone(done)) => (done.outcome, done.text),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ended(0).0, Outcome::Completed, "{name}");
        assert_eq!(ended(1), ended(0), "{name}");
        assert_eq!(ended(300), ended(0), "{name}");
    }
}

/// A recorded run with some lines cut, doubled, dropped, moved or garbled.
fn disturbed() -> impl Strategy<Value = Vec<String>> {
    let names = [
        "think-tool",
        "tools-sequence",
        "drop-mid",
        "max-tokens",
        "refusal",
        "tool-task",
        "perm-default-write",
        "json-verbose",
    ];
    let change =
        (any::<prop::sample::Index>(), 0..6u8, any::<prop::sample::Index>(), any::<char>());
    (prop::sample::select(names.to_vec()), prop::collection::vec(change, 1..12)).prop_map(
        |(name, changes)| {
            let mut lines = fixture(name).stdout;
            for (at, how, place, letter) in changes {
                if lines.is_empty() {
                    break;
                }
                let at = at.index(lines.len());
                let place = lines[at].floor_char_boundary(place.index(lines[at].len().max(1)));
                match how {
                    0 => lines[at].truncate(place),
                    1 => lines.insert(at, lines[at].clone()),
                    2 => drop(lines.remove(at)),
                    3 => lines[at].insert(place, letter),
                    4 => lines[at].replace_range(..place, ""),
                    _ => {
                        let to = place % lines.len();
                        lines.swap(at, to);
                    }
                }
            }
            lines
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn disturbed_output_has_exactly_one_outcome(lines in disturbed()) {
        let mut inputs: Vec<Input> = lines.iter().map(|text| line(Pipe::Stdout, text)).collect();
        inputs.push(fixture("plain").exited());
        let actions = run::<Backend>(start("hi"), inputs);
        let done = actions.iter().filter(|action| matches!(action, Action::TurnDone(_))).count();
        prop_assert_eq!(done, 1);
        prop_assert!(matches!(actions.last(), Some(Action::TurnDone(_))));
    }

    #[test]
    fn times_and_noise_never_change_the_actions(
        name in prop::sample::select(&["think-tool", "drop-mid", "tool-edit", "error-429-once"][..]),
        noise in prop::collection::vec(0..3usize, 80),
    ) {
        let fixture = fixture(name);
        let calm = run::<Backend>(start("hi"), fixture.inputs());
        let mut inputs = Vec::new();
        for (at, input) in fixture.inputs().into_iter().enumerate() {
            let stderr = line(Pipe::Stderr, "noise");
            inputs.extend(std::iter::repeat_n(stderr, noise[at % noise.len()]));
            inputs.push(input);
        }
        prop_assert_eq!(run::<Backend>(start("hi"), inputs), calm);
    }

    #[test]
    fn any_text_is_accepted(text in "\\PC{0,200}") {
        let _ = run::<Backend>(start("hi"), vec![line(Pipe::Stdout, &text), line(Pipe::Stdout, &format!("{{\"type\":{text:?}}}"))]);
    }
}
