use super::*;
use aetheel_model::agent::{AgentEvent, AgentLine, Safety, StartTurn, TextEvent, ToolStart};
use aetheel_model::baseline::Position;

fn line(text: &str) -> Input {
    let line = AgentLine { proc: 1, pipe: Pipe::Stdout, text: text.to_owned(), truncated: false };
    Input::Line(line)
}

fn event(kind: AgentEventKind) -> Action {
    Action::Event(AgentEvent { session: 1, turn: 1, kind })
}

fn text(text: &str) -> Action {
    event(AgentEventKind::Text(TextEvent {
        part: 0,
        text: text.to_owned(),
        replace: false,
        parent: None,
    }))
}

fn tool(id: &str) -> Action {
    event(AgentEventKind::ToolStart(ToolStart {
        id: id.to_owned(),
        parent: None,
        kind: "bash".to_owned(),
        native_name: "Bash".to_owned(),
        title: String::new(),
        target: None,
        input: r#"{"command":"ls -l the folder"}"#.to_owned(),
    }))
}

/// Runs a turn of several calls, each with the agent's lines and the actions that the backend made
/// of them, and returns the path of the lost answer.
fn lost(calls: &[(&[&str], &[Action])]) -> Option<String> {
    let mut ledger = OutputLedger::default();
    let start = StartTurn::plain("What is in the folder?", Safety::Default);
    let command = Input::Command(HostCommand::StartTurn(start));
    ledger.inputs([&command]);
    for (lines, actions) in calls {
        ledger.inputs(&lines.iter().map(|text| line(text)).collect::<Vec<_>>());
        ledger.actions(*actions);
    }
    ledger.examine(1, None, None).lost
}

#[test]
fn a_dropped_answer_is_found_with_its_position() {
    let found = lost(&[(&[r#"{"type":"said","words":"Two files are in it."}"#], &[])]);
    assert_eq!(found.as_deref(), Some("words"));
    assert_eq!(lost(&[(&["Two files are in it."], &[])]).as_deref(), Some("plain text"));
    let halves: &[&str] = &[r#"{"type":"said","words":"Two files "#, r#"are in it."}"#];
    assert_eq!(lost(&[(halves, &[])]).as_deref(), Some("words"));
}

#[test]
fn pieces_of_a_dropped_answer_are_read_together() {
    let pieces: &[&str] =
        &[r#"{"delta":"T"}"#, r#"{"delta":"wo"}"#, r#"{"delta":" fil"}"#, r#"{"delta":"es!"}"#];
    assert_eq!(lost(&[(pieces, &[])]).as_deref(), Some("delta"));
}

#[test]
fn an_answer_in_a_list_of_paragraphs_is_found_and_a_list_of_commands_is_not() {
    let paragraphs = r#"{"parts":["Two files are in it.","One is a text.","The other is empty."]}"#;
    assert_eq!(lost(&[(&[paragraphs], &[])]).as_deref(), Some("parts[]"));
    let objects = r#"{"parts":[{"type":"p","t":"Two files are in it."},{"type":"p","t":"One is a text."},{"type":"p","t":"The other is empty."}]}"#;
    assert_eq!(lost(&[(&[objects], &[])]).as_deref(), Some("parts[].t"));
    let commands = r#"{"commands":[{"name":"plan","d":"Makes a plan."},{"name":"test","d":"Writes a test."},{"name":"read","d":"Reads the docs."}]}"#;
    assert_eq!(lost(&[(&[commands], &[])]), None);
}

#[test]
fn the_text_after_the_last_tool_is_named_before_that_of_the_tool() {
    let calls: &[(&[&str], &[Action])] = &[
        (&[r#"{"tool":"t1","command":"/bin/bash -lc ls -l the other folder"}"#], &[tool("t1")]),
        (&[r#"{"words":"Two files are in it."}"#], &[]),
    ];
    assert_eq!(lost(calls).as_deref(), Some("words"));
}

#[test]
fn an_answer_lost_after_text_and_a_tool_is_found() {
    let calls: &[(&[&str], &[Action])] = &[
        (&[r#"{"text":"Let me look."}"#], &[text("Let me look.")]),
        (&[r#"{"tool":"t1","command":"ls -l the folder"}"#], &[tool("t1")]),
        (&[r#"{"body":"Two files are in it."}"#], &[]),
    ];
    assert_eq!(lost(calls).as_deref(), Some("body"));
    // In one call, as from an agent that prints everything at once.
    let lines: Vec<&str> = calls.iter().flat_map(|(lines, _)| lines.iter().copied()).collect();
    assert_eq!(lost(&[(&lines, &[text("Let me look."), tool("t1")])]).as_deref(), Some("body"));
    assert_eq!(lost(&calls[..2]), None, "silence after a tool is not a loss");
}

#[test]
fn a_turn_with_a_readable_answer_has_no_lost_answer() {
    let lines: &[&str] = &[r#"{"text":"Two files."}"#, r#"{"note":"Something else to read."}"#];
    assert_eq!(lost(&[(lines, &[text("Two files.")])]), None);
}

#[test]
fn ids_catalogs_echoes_and_shown_thoughts_are_not_answers() {
    let thought = event(AgentEventKind::Thinking(TextEvent {
        part: 0,
        text: "I think about it.".to_owned(),
        replace: false,
        parent: None,
    }));
    let lines: &[&str] = &[
        r#"{"id":"c3870c18-e052","model":"gpt-9","status":"in_progress"}"#,
        r#"{"commands":[{"d":"Make a plan"},{"d":"Write a test"},{"d":"Read the docs"}]}"#,
        r#"{"models":[{"id":"m","promoLabel":"Half the price until December."}]}"#,
        r#"{"echo":"What is in the folder?"}"#,
        r#"{"role":"user","content":"Something that a person wrote"}"#,
        r#"{"title":"New session - today","text":"(no content)"}"#,
        r#"{"thought":"I think about it."}"#,
    ];
    assert_eq!(lost(&[(lines, &[thought])]), None);
}

#[test]
fn an_answer_that_is_streamed_and_then_withdrawn_is_lost() {
    let whole = TextEvent { part: 0, text: String::new(), replace: true, parent: None };
    let calls: &[(&[&str], &[Action])] = &[
        (&[r#"{"delta":"Two files are in it."}"#], &[text("Two files are in it.")]),
        (
            &[r#"{"whole":{"nested":"Two files are in it."}}"#],
            &[event(AgentEventKind::Text(whole))],
        ),
    ];
    assert!(lost(calls).is_some());
    assert_eq!(lost(&calls[..1]), None);
}

#[test]
fn an_echo_with_its_author_in_another_object_is_not_an_answer() {
    let lines: &[&str] = &[
        r#"{"info":{"id":"msg_1","role":"user"}}"#,
        r#"{"part":{"messageID":"msg_1","text":"Something that a person wrote"}}"#,
    ];
    assert_eq!(lost(&[(lines, &[])]), None);
    assert_eq!(lost(&[(&lines[1..], &[])]).as_deref(), Some("part.text"));
}

#[test]
fn positions_are_collected_from_readable_turns_without_unknown_output() {
    let lines: Vec<Input> = [
        r#"{"type":"tip","text":"Press a key to go on."}"#,
        r#"{"type":"said","text":"Two fi"}"#,
        r#"{"type":"said","text":"les are in it."}"#,
        r#"{"type":"id","text":"c3870c18-e052"}"#,
        "Some words of a plain line.",
    ]
    .into_iter()
    .map(line)
    .collect();
    let positions = |actions: &[Action], baseline: Option<&Baseline>| {
        let mut ledger = OutputLedger::default();
        let start = StartTurn::plain("x", Safety::Default);
        ledger.inputs([&Input::Command(HostCommand::StartTurn(start))]);
        ledger.inputs(&lines);
        ledger.actions(actions);
        ledger.examine(1, None, baseline).positions
    };
    let (shown, baseline) = (text("Two files are in it."), Baseline::default());
    let found = positions(std::slice::from_ref(&shown), Some(&baseline)).expect("readable");
    assert_eq!(Vec::from_iter(found.beside), ["<tip>.text"]);
    assert_eq!(Vec::from_iter(found.answers), ["<said>.text"]);
    assert!(found.shown.is_empty(), "{:?}", found.shown);
    let unknown = event(AgentEventKind::Unrecognised(aetheel_model::agent::Unrecognised {
        what: "line type `tip`".to_owned(),
        path: None,
        sample: String::new(),
        ..aetheel_model::agent::Unrecognised::default()
    }));
    assert_eq!(positions(&[unknown, shown.clone()], Some(&baseline)), None);
    assert_eq!(positions(&[shown], None), None, "the agent's version is not known");
    assert_eq!(positions(&[], Some(&baseline)), None, "the answer was not readable");
}

/// Examines a turn that prints these lines, with a baseline that has learned from three turns in
/// which the text of lines of the type `said` was the answer.
fn examined(lines: &[&str], actions: &[Action]) -> Examination {
    let name = || ("<said>.text".to_owned(), Position::Answer(3));
    let baseline = Baseline::saved(3, 0, Default::default(), [name()].into());
    let mut ledger = OutputLedger::default();
    let start = StartTurn::plain("May I answer yes?", Safety::Default);
    ledger.inputs([&Input::Command(HostCommand::StartTurn(start))]);
    ledger.inputs(&lines.iter().map(|text| line(text)).collect::<Vec<_>>());
    ledger.actions(actions);
    ledger.examine(1, None, Some(&baseline))
}

#[test]
fn a_short_answer_is_found_where_only_answers_appear() {
    let path = |path: &str| Some(path.to_owned());
    for answer in ["Yes", "No.", "👍", "src/main.rs:42", "https://a.example/b", "`ls`", "1,024"] {
        let said = format!(r#"{{"type":"said","text":"{answer}"}}"#);
        assert_eq!(examined(&[&said], &[]).lost, path("text"), "{answer}");
        assert_eq!(examined(&[&said], &[text(answer)]).lost, None, "{answer}");
        let renamed = said.replace("text", "body");
        assert_eq!(examined(&[&renamed], &[]).lost, path("text"), "{answer}");
        assert_eq!(examined(&[&said.replace("said", "status")], &[]).lost, None, "{answer}");
    }
    assert_eq!(examined(&[r#"{"type":"said","text":""}"#], &[]).lost, None);
}

#[test]
fn a_lost_part_of_an_answer_is_found_where_only_answers_appear() {
    let first = r#"{"type":"said","text":"Two files are in it."}"#;
    let shown = [text("Two files are in it.")];
    for second in [
        r#"{"type":"said","text":"Both of them are empty."}"#,
        r#"{"type":"said","body":"Both of them are empty."}"#,
    ] {
        let found = examined(&[first, second], &shown);
        assert_eq!((found.lost, found.lost_part.as_deref()), (None, Some("text")), "{second}");
        assert_eq!(found.positions, None, "it teaches nothing");
    }
    let other = r#"{"type":"tip","text":"Press a key to go on."}"#;
    assert_eq!(examined(&[first, other], &shown).lost_part, None);
    // The agent tries again after an answer that its backend withdrew.
    let withdrawn = TextEvent { part: 0, text: String::new(), replace: true, parent: None };
    let withdrawn = event(AgentEventKind::Text(withdrawn));
    let again = r#"{"type":"said","text":"There is nothing in this folder."}"#;
    let shown = [&shown[..], &[withdrawn, text("There is nothing in this folder.")]].concat();
    assert_eq!(examined(&[first, again], &shown).lost_part, None);
}

#[test]
fn memory_is_bounded() {
    let mut ledger = OutputLedger::default();
    let start = StartTurn::plain("x", Safety::Default);
    let command = Input::Command(HostCommand::StartTurn(start));
    ledger.inputs([&command]);
    let long = line(&"a b ".repeat(10_000));
    for _ in 0..100 {
        ledger.inputs(std::slice::from_ref(&long));
    }
    assert!(ledger.bytes <= RAW_LIMIT, "{}", ledger.bytes);
}
