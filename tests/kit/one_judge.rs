//! Tests that every command judges alike whether the answers of an agent reach people: each shipped
//! backend is altered as a mistake of its author, or a wrong fix, would alter it.

use std::sync::Arc;

use aetheel_kit::check::{Area, check};
use aetheel_kit::mend::{LostRecording, MendEffort, MendEvidence, MendRule, judge};
use aetheel_kit::mutation::OTHER_KIND;
use aetheel_kit::report::{ReportOptions, ReportOrigin, ReportedLimits, make_report};
use aetheel_kit::{CheckFinding, Rule, unread};
use aetheel_model::agent::{
    Action, AgentEventKind, Descriptor, HostCommand, Input, OutputDifference, Pipe, TextEvent,
    TimedInput, TurnOutcome, Unrecognised,
};
use aetheel_recording::case::Case;
use aetheel_recording::comparison::compare;
use aetheel_recording::replay::{Batches, endings, replay};
use aetheel_recording::{
    Backend, Ending, EntryKind, Generation, Guest, GuestFailure, ParsedRecording, RecordingEntry,
    RolloutPair,
};
use async_trait::async_trait;
use serde_json::{Map, Value, json};

use crate::mending::formats::{TURN, with_turn};
use crate::proof::backends::shipped;
use crate::support::recordings::{case, cases};
use crate::support::scripted::{ScriptedBackend, done, event, spawn, text_event};

const BACKENDS: [&str; 6] = ["acp", "claude", "codex", "droid", "gemini", "opencode"];
const EFFORT: MendEffort = MendEffort { seed: 7, mutants: 60 };

/// Changes a line of the agent before the backend reads it.
type ChangeLine = fn(&str) -> String;
/// Changes an action of the backend.
type ChangeAction = fn(Action) -> Vec<Action>;

/// A backend with a mistake.
struct Altered {
    backend: Arc<dyn Backend>,
    line: ChangeLine,
    action: ChangeAction,
}

struct AlteredGuest {
    guest: Box<dyn Guest>,
    line: ChangeLine,
    action: ChangeAction,
}

#[async_trait]
impl Backend for Altered {
    fn descriptor(&self) -> &Descriptor {
        self.backend.descriptor()
    }

    fn generation(&self) -> &Generation {
        self.backend.generation()
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        let (guest, line, action) = (self.backend.open().await?, self.line, self.action);
        Ok(Box::new(AlteredGuest { guest, line, action }))
    }
}

#[async_trait]
impl Guest for AlteredGuest {
    async fn handle(&mut self, mut inputs: Vec<TimedInput>) -> Result<Vec<Action>, GuestFailure> {
        for timed in &mut inputs {
            if let Input::Line(line) = &mut timed.input {
                line.text = (self.line)(&line.text);
            }
        }
        Ok(self.guest.handle(inputs).await?.into_iter().flat_map(self.action).collect())
    }

    async fn save(&mut self) -> Result<Option<String>, GuestFailure> {
        self.guest.save().await
    }

    async fn load(&mut self, state: &str, saved_by: &str) -> Result<(), GuestFailure> {
        self.guest.load(state, saved_by).await
    }
}

async fn altered(name: &str, line: ChangeLine, action: ChangeAction) -> Arc<dyn Backend> {
    Arc::new(Altered { backend: shipped(name).await, line, action })
}

fn same_line(line: &str) -> String {
    line.to_owned()
}

fn same_action(action: Action) -> Vec<Action> {
    vec![action]
}

/// Drops every text of an answer without a report.
fn lose_answers(mut action: Action) -> Vec<Action> {
    match &mut action {
        Action::TurnDone(done) => done.text = None,
        Action::Event(event) if matches!(event.kind, AgentEventKind::Text(_)) => return vec![],
        _ => {}
    }
    vec![action]
}

/// Reports every text of an answer as a missing field.
fn report_answers(mut action: Action) -> Vec<Action> {
    match &mut action {
        Action::TurnDone(done) => done.text = None,
        Action::Event(event) if matches!(event.kind, AgentEventKind::Text(_)) => {
            event.kind = AgentEventKind::Unrecognised(Unrecognised {
                difference: OutputDifference::Missing,
                what: "no text in `peice`".to_owned(),
                ..Unrecognised::default()
            });
        }
        _ => {}
    }
    vec![action]
}

/// Returns whether a line has a kind that the backend does not know, and that is not one of the
/// kinds which the judge's changed recordings have. So only the judge's added lines show the
/// mistake, because the author of a change cannot know their kinds.
fn is_of_unknown_kind(unknown: &Unrecognised) -> bool {
    let is_kind = unknown.path.as_ref().is_some_and(|path| path.ends_with("type"));
    let line: Value = serde_json::from_str(&unknown.sample).unwrap_or_default();
    is_kind && line["type"].as_str().is_some_and(|kind| !kind.ends_with(OTHER_KIND))
}

/// Shows lines of an unknown kind as a part of the answer.
fn show_unknown(mut action: Action) -> Vec<Action> {
    if let Action::Event(event) = &mut action
        && let AgentEventKind::Unrecognised(unknown) = &event.kind
        && is_of_unknown_kind(unknown)
    {
        let (text, parent) = (unknown.sample.clone(), None);
        event.kind = AgentEventKind::Text(TextEvent { part: 99, text, replace: false, parent });
    }
    vec![action]
}

/// Drops lines of an unknown kind.
fn drop_unknown(action: Action) -> Vec<Action> {
    match &action {
        Action::Event(event) if matches!(&event.kind, AgentEventKind::Unrecognised(it) if is_of_unknown_kind(it)) =>
        {
            vec![]
        }
        _ => vec![action],
    }
}

/// Reports each use of a tool a second time, under another id.
fn double_tools(action: Action) -> Vec<Action> {
    let mut second = action.clone();
    if let Action::Event(event) = &mut second {
        match &mut event.kind {
            AgentEventKind::ToolStart(start) => start.id.push('2'),
            AgentEventKind::ToolEnd(end) => end.id.push('2'),
            _ => return vec![action],
        }
        return vec![action, second];
    }
    vec![action]
}

/// Asks with a key of the host's own questions.
fn ask_as_the_host(mut action: Action) -> Vec<Action> {
    if let Action::Ask(ask) = &mut action {
        ask.ask |= 0x8000_0000;
    }
    vec![action]
}

fn reads(areas: &[Area]) -> usize {
    areas.iter().flat_map(|area| &area.findings).filter(|it| it.rule == Rule::Reads).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_loses_every_answer_fails_the_check_whatever_else_it_shows() {
    for name in BACKENDS {
        // Among them are failed turns, and turns with tools.
        let recordings: Vec<Case> = cases(name).into_iter().step_by(9).collect();
        let good = check(&*shipped(name).await, &recordings).await.unwrap();
        assert_eq!(reads(&good), 0, "{name}: {good:#?}");
        for mistake in [lose_answers, report_answers] {
            let backend = altered(name, same_line, mistake).await;
            let found = check(&*backend, &recordings).await.unwrap();
            assert!(reads(&found) > 0, "{name}: {found:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_asks_with_a_key_of_the_host_fails_the_check() {
    let backend = altered("acp", same_line, ask_as_the_host).await;
    let recordings = [case("acp", "claude-permission-allow-once")];
    let areas = check(&*backend, &recordings).await.unwrap();
    let mut found = areas.iter().flat_map(|area| &area.findings);
    let is_key =
        |it: &CheckFinding| it.rule == Rule::Keys && it.got.contains("an ask with key 0x8");
    assert!(found.any(is_key), "{areas:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kit_and_the_gateway_find_the_same_unread_turns() {
    for name in BACKENDS {
        for mistake in [same_action, lose_answers, report_answers] {
            let backend = altered(name, same_line, mistake).await;
            for case in cases(name).into_iter().step_by(7) {
                let entries = &case.tape.entries;
                let replayed = replay(&*backend, entries, Batches::Single).await.unwrap();
                let is_unread = |ending: &Ending| matches!(ending, Ending::Unread(_));
                let endings = endings(entries, &replayed);
                let of_gateway: Vec<u32> = endings
                    .into_iter()
                    .filter(|(turn, ending)| {
                        is_unread(ending) && replayed.turns[turn].done.is_some()
                    })
                    .map(|(turn, _)| turn)
                    .collect();
                let of_kit: Vec<u32> =
                    unread(entries, &replayed).iter().map(|unread| unread.turn).collect();
                assert_eq!(of_kit, of_gateway, "{}", case.path.display());
            }
        }
    }
}

/// Renames a key of each line of a case, and makes it a lost turn.
fn lost(case: &Case, change: ChangeLine) -> (LostRecording, Vec<RecordingEntry>) {
    let mut entries = case.tape.entries.clone();
    for entry in &mut entries {
        if let EntryKind::In(Input::Line(line)) = &mut entry.kind {
            line.text = change(&line.text);
        }
    }
    let turn = entries.iter().find_map(RecordingEntry::turn_start).unwrap().turn;
    let case = with_turn(case, entries.clone(), turn);
    (LostRecording { turn: TURN.to_owned(), case }, entries)
}

/// A new version of Codex that has the text of its answers in another key.
fn rename_text(line: &str) -> String {
    line.replace(r#""text":"#, r#""words":"#)
}

fn restore_text(line: &str) -> String {
    line.replace(r#""words":"#, r#""text":"#)
}

/// A new version of Codex that has its items below a new key.
fn move_item(line: &str) -> String {
    changed(line, |fields| {
        let item = fields.remove("item")?;
        fields.insert("payload".to_owned(), json!({ "item": item }))
    })
}

fn restore_item(line: &str) -> String {
    changed(line, |fields| {
        let item = fields.get_mut("payload")?.get_mut("item")?.take();
        fields.remove("payload");
        fields.insert("item".to_owned(), item)
    })
}

fn changed(line: &str, change: fn(&mut Map<String, Value>) -> Option<Value>) -> String {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else { return line.to_owned() };
    change(&mut fields);
    Value::Object(fields).to_string()
}

async fn judged(line: (ChangeLine, ChangeLine), action: ChangeAction) -> Vec<(MendRule, String)> {
    let (change, restore) = line;
    let serving = shipped("codex").await;
    let (lost, _) = lost(&case("codex", "tool-shell"), change);
    let successor = altered("codex", restore, action).await;
    let pair = RolloutPair { serving, successor };
    let cases = vec![case("codex", "plain"), case("codex", "tool-fail")];
    let judgement = judge(&pair, &MendEvidence { cases, lost: vec![lost] }, EFFORT).await;
    judgement.findings.into_iter().map(|finding| (finding.rule, finding.text)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn correct_fixes_are_accepted_and_unknown_lines_may_be_neither_shown_nor_dropped() {
    let text: (ChangeLine, ChangeLine) = (rename_text, restore_text);
    assert_eq!(judged(text, same_action).await, []);
    assert_eq!(judged((move_item, restore_item), same_action).await, []);
    for (wrong, fault) in [
        (show_unknown as ChangeAction, "the line is shown"),
        (drop_unknown, "the line is dropped without a report"),
    ] {
        let found = judged(text, wrong).await;
        let is_named =
            |(rule, text): &(MendRule, String)| *rule == MendRule::Unknown && text.ends_with(fault);
        assert!(!found.is_empty() && found.iter().all(is_named), "{fault}: {found:#?}");
    }
}

/// A new version of an agent behind ACP that names the pieces of its answers otherwise.
fn rename_pieces(line: &str) -> String {
    line.replace("agent_message_chunk", "agent_text_chunk")
}

fn restore_pieces(line: &str) -> String {
    line.replace("agent_text_chunk", "agent_message_chunk")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_correct_fix_is_accepted_for_the_first_of_two_turns_without_their_ends() {
    let serving = shipped("acp").await;
    let (lost, entries) = lost(&case("acp", "claude-init-prompt-streaming"), rename_pieces);
    assert_eq!(entries.iter().filter_map(RecordingEntry::turn_start).count(), 2);
    let successor = altered("acp", restore_pieces, same_action).await;
    let cases = vec![case("acp", "claude-permission-reject-once")];
    let pair = RolloutPair { serving, successor };
    let judgement = judge(&pair, &MendEvidence { cases, lost: vec![lost] }, EFFORT).await;
    assert!(judgement.findings.is_empty(), "{:#?}", judgement.findings);
}

/// Adds a line that no version knows before the last line of the agent.
fn with_unknown_line(tape: &mut ParsedRecording) {
    let is_line = |entry: &RecordingEntry| match entry.input() {
        Some(Input::Line(line)) => line.pipe == Pipe::Stdout,
        _ => false,
    };
    let at = tape.entries.iter().rposition(is_line).unwrap();
    let mut added = tape.entries[at].clone();
    if let EntryKind::In(Input::Line(line)) = &mut added.kind {
        line.text = r#"{"type":"weather","sky":"It is blue today."}"#.to_owned();
    }
    tape.entries.insert(at, added);
    tape.lines = (2..tape.entries.len() + 2).collect();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_shown_twice_and_unknown_output_that_is_shown_are_harmful() {
    for (name, recording, wrong) in [
        ("codex", "tool-shell", double_tools as ChangeAction),
        ("gemini", "tool-shell", double_tools),
        ("gemini", "plain", show_unknown),
    ] {
        let mut tape = case(name, recording).tape;
        with_unknown_line(&mut tape);
        let pair = RolloutPair {
            serving: shipped(name).await,
            successor: altered(name, same_line, wrong).await,
        };
        let turn = tape.entries.iter().find_map(RecordingEntry::turn_start).unwrap().turn;
        let found = compare(&pair, &tape, turn).await.unwrap();
        let harmful: Vec<_> = found.iter().filter(|difference| difference.harmful).collect();
        let is_for_people =
            |text: &Option<String>| text.as_ref().is_none_or(|it| !it.contains('{'));
        assert!(!harmful.is_empty(), "{name}: {found:#?}");
        assert!(found.iter().all(|it| is_for_people(&it.before)), "{name}: {found:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_keeps_the_changed_line_with_its_type() {
    let serving = shipped("codex").await;
    let origin = ReportOrigin {
        aetheel: "0".to_owned(),
        contract: "c".to_owned(),
        limits: ReportedLimits { memory: 1, call_ms: 1 },
    };
    for (recording, change, kept) in [
        ("tool-shell", rename_text as ChangeLine, "words"),
        ("tool-fail", rename_text, "words"),
        ("tools-sequence", rename_text, "words"),
        ("tool-shell", move_item, "payload"),
    ] {
        let (lost, _) = lost(&case("codex", recording), change);
        let report =
            make_report(&*serving, &lost.case.tape, &origin, &ReportOptions::default()).await;
        let text = report.unwrap().text;
        let lines: Vec<&str> = text.lines().collect();
        let changed = lines.iter().find(|line| line.contains(&format!(r#"\"{kept}\":"#)));
        let changed = changed.unwrap_or_else(|| panic!("{recording}: {kept}: {text}"));
        for part in [r#"\"type\":\"item.completed\""#, r#"\"type\":\"agent_message\""#] {
            assert!(changed.contains(part), "{recording}: {part}: {text}");
        }
        assert!(!text.contains("command_execution"), "{recording}: {text}");
    }
}

/// Returns a backend that shows the plain lines of an agent that begin with `word`.
fn of_plain_lines(word: &'static str) -> ScriptedBackend {
    ScriptedBackend::new(Arc::new(move |_, input| {
        Ok(match input {
            Input::Command(HostCommand::StartTurn(start)) => vec![spawn(start, &[])],
            Input::Line(line) if line.text.starts_with(word) => {
                vec![event(text_event(&line.text))]
            }
            Input::Exited(_) => vec![done(TurnOutcome::Completed)],
            _ => vec![],
        })
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_print_plain_lines_are_checked_too() {
    // Claude Code without `--output-format` prints its answer as text.
    let recording = [case("claude", "text-plain")];
    let fields = async |word| {
        let areas = check(&of_plain_lines(word), &recording).await.unwrap();
        areas.into_iter().find(|area| area.name == "fields").unwrap()
    };
    let good = fields("MOCK").await;
    assert!(good.findings.is_empty() && good.trials > 0, "{good:#?}");
    let note = good.notes.iter().find(|note| note.trial.contains("a plain line"));
    assert!(note.is_some_and(|note| note.line == Some(5)), "{good:#?}");
    let typo = fields("MOKC").await;
    assert!(
        typo.findings.iter().any(|it| it.rule == Rule::Reads && it.line == Some(5)),
        "{typo:#?}"
    );
}
