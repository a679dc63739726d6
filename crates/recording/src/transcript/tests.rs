use std::fs;

use serde_json::{Value, json};

use super::*;
use aetheel_model::agent::{
    AgentFailure, AskKind, FailureKind, FileChange, ModelUsage, QuestionChoice,
};

const HEADER: &str = r#"{"aetheel-recording":1,"link":"1f0c9a2e","backend":"demo","backend-version":"0.1.0","generation":1,"digest":"d","agent-version":"1.2","started":"2026-11-23T10:00:00Z"}"#;

struct TestRecording(tempfile::TempDir);

impl TestRecording {
    fn with(lines: &[Value]) -> Self {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        Self::of(&format!("{HEADER}\n{}\n", lines.join("\n")))
    }

    fn of(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.jsonl"), text).unwrap();
        Self(folder)
    }

    fn read(&self, turn: &str) -> TurnTranscript {
        read_blocking(&self.0.path().join("x.jsonl"), turn).unwrap()
    }
}

fn begins(t: u64, turn: &str, key: u32) -> Value {
    json!({"t": t, "turn": {"turn": turn, "event": 7, "lane": "channel:9", "session": 1, "key": key}})
}

fn starts(t: u64, key: u32, prompt: &str) -> Value {
    json!({"t": t, "in": {"command": {"start-turn": {
        "session": 1, "turn": key, "cwd": "/", "native-id": null, "fork": false, "fresh-id": "x",
        "one-shot": true, "settings": {"model": "small", "safety": "edit", "mode": "build",
        "effort": null, "system-prompt": "be secret", "allowed-tools": [], "max-turns": null,
        "options": "{}"}, "parts": [{"text": prompt},
        {"file": {"blob": 1, "name": "a.pdf", "media-type": "x", "size": 1, "path": "/x"}}]}}}})
}

fn event(t: u64, key: u32, kind: Value) -> Value {
    json!({"t": t, "out": {"event": {"session": 1, "turn": key, "kind": kind}}})
}

fn text(t: u64, key: u32, part: u32, text: &str, replace: bool) -> Value {
    event(t, key, json!({"text": {"part": part, "text": text, "replace": replace}}))
}

fn tool(t: u64, key: u32, id: &str, title: &str) -> Value {
    event(
        t,
        key,
        json!({"tool-start": {"id": id, "parent": null, "kind": "bash",
        "native-name": "Bash", "title": title, "target": "ls", "input": "{\"command\":\"ls\"}"}}),
    )
}

fn ends(t: u64, turn: &str) -> Value {
    json!({"t": t, "ending": {"turn": turn, "how": "completed"}})
}

fn short(told: &TurnTranscript) -> Vec<String> {
    let one = |block: &Block| {
        let what = match &block.kind {
            BlockKind::Text(words) => format!("text {}", words.text),
            BlockKind::Thinking(words) => format!("thinking {}", words.text),
            BlockKind::SubAgent(tool, words) => format!("aside {tool} {}", words.text),
            BlockKind::Tool(tool) => format!(
                "tool {} {} {:?} {} {:?}",
                tool.name, tool.title, tool.status, tool.output.text, tool.took_ms
            ),
            other => format!("{other:?}"),
        };
        format!("{} {what}", block.at_ms)
    };
    told.blocks.iter().map(one).collect()
}

#[test]
fn a_transcript_is_in_order_with_times_from_the_beginning_of_the_turn() {
    let told = TestRecording::with(&[
        begins(2_000, "t1", 4),
        starts(2_000, 4, "[ann]: hello"),
        json!({"t": 2_001, "out": {"spawn": {"proc": 1, "program": "x", "arguments": [], "environment": [],
            "stdin": [], "keep-open": false, "listens": false, "basic-auth": null, "session": null, "turn": 4}}}),
        json!({"t": 2_010, "in": {"line": {"proc": 1, "pipe": "stdout", "text": "{}", "truncated": false}}}),
        json!({"t": 2_020, "out": {"session-ready": {"session": 1, "native-id": "s-1", "model": "big", "title": null}}}),
        event(2_100, 4, json!({"thinking": {"part": 0, "text": "Hm."}})),
        text(2_200, 4, 0, "I will ", false),
        text(2_210, 4, 0, "look.", false),
        tool(2_300, 4, "a", ""),
        tool(2_310, 4, "a", "List"),
        event(2_320, 4, json!({"tool-output": {"id": "a", "text": "one\n"}})),
        event(2_330, 4, json!({"tool-output": {"id": "a", "text": "two\n"}})),
        event(2_350, 4, json!({"tool-end": {"id": "a", "status": "ok", "output": null, "exit-code": 0, "diffs": []}})),
        text(2_400, 4, 0, "Done.", false),
        event(2_410, 4, json!({"usage": {"input": 1, "output": 2, "cached": 3, "reasoning": 0, "cost-usd": 0.5, "context-used": null, "context-size": null}})),
        json!({"t": 2_500, "out": {"turn-done": {"session": 1, "turn": 4, "outcome": "completed", "text": null, "usage": null}}}),
        ends(3_250, "t1"),
        text(3_300, 4, 0, "of nobody", false),
    ])
    .read("t1");
    assert_eq!(told.began, Some("2026-11-23T10:00:02Z".parse().unwrap()));
    assert_eq!((told.backend.as_str(), told.took_ms), ("demo", Some(1_250)));
    assert_eq!(
        (&told.prompt[..], &told.attached[..]),
        (&["[ann]: hello".to_owned()][..], &["a.pdf".to_owned()][..])
    );
    let wanted = [
        "100 thinking Hm.",
        "200 text I will look.",
        "300 tool Bash List Some(Ok) one\ntwo\n Some(50)",
        "400 text Done.",
    ];
    assert_eq!(short(&told), wanted);
    assert_eq!(told.session.unwrap().native_id, "s-1");
    assert_eq!(told.usage.unwrap().cost_usd, Some(0.5));
    assert_eq!(
        (told.outcome, told.ending.as_deref()),
        (Some(TurnOutcome::Completed), Some("completed"))
    );
    assert!(told.gaps.is_empty() && told.blocks_left_out == 0);
}

#[test]
fn a_transcript_contains_only_one_of_the_turns_of_a_link() {
    let lines = [
        begins(0, "t1", 1),
        starts(0, 1, "first"),
        text(10, 1, 0, "one", false),
        begins(20, "t2", 2),
        starts(20, 2, "second"),
        text(30, 1, 0, " and one", false),
        text(40, 2, 0, "two", false),
        ends(50, "t1"),
        text(60, 2, 0, " and two", false),
        json!({"t": 70, "cut": "it is full"}),
    ];
    let shelf = TestRecording::with(&lines);
    assert_eq!(shelf.read("t1").answer(), "one and one");
    let second = shelf.read("t2");
    assert_eq!(
        (second.answer().as_str(), &second.prompt[..]),
        ("two and two", &["second".to_owned()][..])
    );
    assert_eq!((second.ending, second.gaps), (None, vec![Gap::Cut("it is full".to_owned())]));
    let path = shelf.0.path().join("x.jsonl");
    assert!(matches!(read_blocking(&path, "t3"), Err(TranscriptError::Absent)));
}

#[test]
fn repeated_text_stays_in_its_blocks_and_different_text_replaces_the_last() {
    let lines = |again: &str| {
        vec![
            begins(0, "t1", 1),
            text(10, 1, 0, "one ", false),
            tool(20, 1, "a", ""),
            text(30, 1, 0, "two", false),
            text(40, 1, 0, again, true),
        ]
    };
    let texts = |again| {
        let told = TestRecording::with(&lines(again)).read("t1");
        let texts = short(&told).into_iter().filter(|line| line.contains(" text "));
        texts.collect::<Vec<_>>()
    };
    assert_eq!(texts("one two"), ["10 text one ", "30 text two"]);
    assert_eq!(texts("one two three"), ["10 text one ", "30 text two three"]);
    assert_eq!(texts("other"), ["10 text ", "30 text other"]);
    assert_eq!(texts(""), ["10 text ", "30 text "]);
}

#[test]
fn the_final_answer_is_included_and_text_of_sub_agents_is_not_part_of_it() {
    let aside = json!({"text": {"part": 0, "text": "inner", "parent": "a"}});
    let done = |text: &str| json!({"t": 50, "out": {"turn-done": {"session": 1, "turn": 1, "outcome": {"limit": "turns"}, "text": text, "usage": null}}});
    let lines = |last: &str| {
        TestRecording::with(&[
            begins(0, "t1", 1),
            event(10, 1, aside.clone()),
            text(20, 1, 0, "said", false),
            event(30, 1, aside.clone()),
            text(40, 1, 0, " more", false),
            done(last),
        ])
        .read("t1")
    };
    let told = lines("said more");
    assert_eq!(short(&told), ["10 aside a innerinner", "20 text said more"]);
    assert_eq!(lines("whole").answer(), "said more\n\nwhole");
    assert_eq!(told.outcome, Some(TurnOutcome::Limit("turns".to_owned())));
}

#[test]
fn questions_have_their_answers_and_secret_answers_are_masked() {
    let ask = |t: u64, secret: bool| {
        json!({"t": t, "out": {"ask": {"ask": 5, "session": 1, "turn": 1, "title": "Which?", "always-label": null,
            "kind": {"questions": [{"id": "q", "text": "Pin?", "options": [], "many": false, "free-text": true, "secret": secret}]}}}})
    };
    let answer = |t: u64| json!({"t": t, "in": {"command": {"answer": {"ask": 5, "decision": {"answers": [["q", ["123"]]]}}}}});
    let told = TestRecording::with(&[
        begins(0, "t1", 1),
        ask(10, false),
        answer(20),
        ask(30, true),
        answer(40),
        ask(50, false),
        json!({"t": 60, "out": {"ask-withdrawn": 5}}),
    ])
    .read("t1");
    let found: Vec<(Option<AskDecision>, bool)> = told
        .blocks
        .iter()
        .filter_map(|block| match &block.kind {
            BlockKind::Asked(asked) => Some((asked.decision.clone(), asked.withdrawn)),
            _ => None,
        })
        .collect();
    let given =
        |value: &str| Some(AskDecision::Answers(vec![("q".to_owned(), vec![value.to_owned()])]));
    assert_eq!(found, [(given("123"), false), (given("***"), false), (None, true)]);
}

#[test]
fn gaps_are_reported_and_damaged_lines_are_skipped() {
    let lines = [
        begins(0, "t1", 1),
        json!({"t": 1, "lost": 3}),
        json!({"t": 2, "host": crate::SPARSE}),
        json!({"t": 3, "lost": 4}),
        json!({"t": 4, "host": crate::UNSEEN}),
        text(5, 1, 0, "still here", false),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let damaged = format!(
        "{HEADER}\n{{\"t\":\n{}\n{{\"t\":1,\"out\":{{\"event\":\nno json\n{{\"t\":9,\"out\":{{\"ev",
        lines.join("\n")
    );
    let told = TestRecording::of(&damaged).read("t1");
    assert_eq!(told.answer(), "still here");
    assert_eq!(told.gaps, [Gap::Lost(7), Gap::Sparse, Gap::Unseen, Gap::Unreadable(2)]);
}

#[test]
fn a_flood_is_bounded_and_omitted_blocks_are_counted() {
    let mut lines = vec![begins(0, "t1", 1)];
    lines.extend((0..5_000).map(|n| event(n, 1, json!({"notice": format!("notice {n}")}))));
    let told = TestRecording::with(&lines).read("t1");
    assert_eq!((told.blocks.len(), told.blocks_left_out), (4_000, 1_000));

    let mut lines = vec![begins(0, "t1", 1), tool(1, 1, "a", "")];
    let piece = "x".repeat(1 << 20);
    lines.extend((0..6).map(|n| event(n, 1, json!({"tool-output": {"id": "a", "text": piece}}))));
    let told = TestRecording::with(&lines).read("t1");
    let BlockKind::Tool(tool) = &told.blocks[0].kind else { panic!("{told:?}") };
    assert_eq!((tool.output.text.len(), tool.output.bytes_left_out), (4 << 20, 2 << 20));
}

#[test]
fn a_recording_needs_a_valid_name_and_a_header() {
    let shelf = TestRecording::with(&[begins(0, "t1", 1)]);
    let folder = shelf.0.path().join("recordings");
    fs::create_dir_all(folder.join("2026-11-23")).unwrap();
    fs::write(folder.join("2026-11-23/t1.jsonl"), HEADER).unwrap();
    std::os::unix::fs::symlink(shelf.0.path().join("x.jsonl"), folder.join("out.jsonl")).unwrap();
    assert!(path_in(&folder, "2026-11-23/t1.jsonl").is_some());
    let outside = shelf.0.path().join("x.jsonl");
    for name in [
        "",
        "../x.jsonl",
        "2026-11-23/../../x.jsonl",
        outside.to_str().unwrap(),
        "out.jsonl",
        "a\0.jsonl",
        "2026-11-23/t1",
        "/etc/passwd",
        "./x.txt",
    ] {
        assert_eq!(path_in(&folder, name), None, "{name:?}");
    }
    for text in ["", "no json\n", "{}\n", &HEADER.replace("recording\":1", "recording\":2")] {
        let shelf = TestRecording::of(text);
        let told = read_blocking(&shelf.0.path().join("x.jsonl"), "t1");
        assert!(matches!(told, Err(TranscriptError::Damaged(_))), "{text:?}: {told:?}");
    }
    assert!(matches!(read_blocking(&folder.join("none.jsonl"), "t1"), Err(TranscriptError::Gone)));
}

#[tokio::test]
async fn current_secrets_are_masked_even_if_the_agent_wrote_them_in_pieces() {
    let shelf = TestRecording::with(&[
        begins(0, "t1", 1),
        starts(0, 1, "the canary-secret"),
        text(10, 1, 0, "it is cana", false),
        text(20, 1, 0, "ry-secret \u{202e}x", false),
    ]);
    let redactor = Redactor::new(&[secrecy::SecretString::from("canary-secret".to_owned())]);
    let told = read(shelf.0.path(), "x.jsonl", "t1", &redactor).await.unwrap();
    assert_eq!((told.prompt[0].as_str(), told.answer().as_str()), ("the ***", "it is *** x"));
    assert!(matches!(
        read(shelf.0.path(), "../x.jsonl", "t1", &redactor).await,
        Err(TranscriptError::Misnamed)
    ));
}

/// Returns a transcript with every possible content, in which each text is `canary`.
fn full(canary: &str) -> TurnTranscript {
    let text = || canary.to_owned();
    let words = || BoundedText { text: text(), bytes_left_out: 0 };
    let diff = || FileDiff {
        path: text(),
        change: FileChange::Renamed,
        old_path: Some(text()),
        binary: false,
        old_text: Some(text()),
        new_text: Some(text()),
        unified: Some(text()),
    };
    let start = || aetheel_model::agent::ToolStart {
        id: text(),
        parent: Some(text()),
        kind: text(),
        native_name: text(),
        title: text(),
        target: Some(text()),
        input: text(),
    };
    let asked = |kind, decision| {
        let ask = Ask {
            ask: 1,
            session: 1,
            turn: 1,
            title: text(),
            kind,
            always_label: Some(text()),
            options: vec![aetheel_model::agent::AskOption {
                id: String::new(),
                label: text(),
                allows: true,
                scope: aetheel_model::agent::DecisionScope::Once,
            }],
            diffs: vec![diff()],
            changeable: false,
            parent: None,
            deadline_ms: None,
        };
        BlockKind::Asked(Box::new(AskBlock {
            ask,
            decision: Some(decision),
            withdrawn: false,
            ruling: None,
        }))
    };
    let question = aetheel_model::agent::Question {
        text: text(),
        description: Some(text()),
        options: vec![QuestionChoice {
            id: String::new(),
            label: text(),
            description: Some(text()),
        }],
        preset: vec![text()],
        ..aetheel_model::agent::Question::default()
    };
    let tool = ToolBlock {
        name: text(),
        title: text(),
        target: Some(text()),
        input: words(),
        output: words(),
        diffs: vec![diff()],
        ..ToolBlock::default()
    };
    let happened = vec![
        BlockKind::Text(words()),
        BlockKind::Thinking(words()),
        BlockKind::SubAgent(text(), words()),
        BlockKind::Tool(Box::new(tool)),
        BlockKind::Plan(vec![PlanEntry {
            text: text(),
            status: aetheel_model::agent::PlanStatus::Done,
        }]),
        BlockKind::Task(AgentTask {
            id: text(),
            kind: aetheel_model::agent::TaskKind::Agent,
            title: text(),
            status: aetheel_model::agent::TaskStatus::Done,
            tool: Some(text()),
            background: false,
            summary: Some(text()),
        }),
        asked(AskKind::Permission(start()), AskDecision::AllowChanged(text())),
        asked(AskKind::PlanApproval(text()), AskDecision::Chosen(text())),
        asked(AskKind::SignIn(text()), AskDecision::Deny(Some(text()))),
        asked(
            AskKind::Questions(vec![question]),
            AskDecision::Answers(vec![(String::new(), vec![text()])]),
        ),
        BlockKind::Steered(words()),
        BlockKind::Notice(text()),
        BlockKind::Retry(text()),
        BlockKind::Artifact(ArtifactBlock {
            name: Some(text()),
            media_type: text(),
            link: Some(text()),
        }),
    ];
    TurnTranscript {
        backend: text(),
        backend_version: text(),
        agent_version: Some(text()),
        prompt: vec![text()],
        attached: vec![text()],
        model: Some(text()),
        blocks: happened.into_iter().map(|what| Block { at_ms: 0, kind: what }).collect(),
        usage: Some(Usage {
            models: vec![ModelUsage { model: text(), ..ModelUsage::default() }],
            ..Usage::default()
        }),
        session: Some(SessionReady {
            session: 1,
            native_id: text(),
            model: Some(text()),
            title: Some(text()),
            tools: vec![],
        }),
        outcome: Some(TurnOutcome::Failed(AgentFailure {
            kind: FailureKind::Other,
            message: text(),
            retry_after_ms: None,
        })),
        ending: Some(text()),
        gaps: vec![Gap::Cut(text())],
        ..TurnTranscript::default()
    }
}

#[test]
fn each_text_visits_every_text() {
    let mut told = full("canary");
    told.for_each_text(&mut |text| *text = text.replace("canary", "x"));
    assert!(!format!("{told:?}").contains("canary"), "{told:?}");
    assert_eq!(told, full("x"));
}
