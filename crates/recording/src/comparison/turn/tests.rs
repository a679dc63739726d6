use std::sync::Arc;

use async_trait::async_trait;

use super::*;
use crate::RecordingEntry;
use crate::{Backend, Generation, Guest};
use aetheel_model::agent::{
    AgentEvent, AgentEventKind, AgentLine, ArgumentValue, Chunk, Descriptor, HostCommand, Input,
    Pipe, Safety, Spawn, StartTurn, TextEvent, TimedInput, ToolStart, TurnDone, TurnOutcome,
    Unrecognised, Write,
};

type Read = fn(&str) -> Result<Vec<Action>, GuestFailure>;

/// A backend that starts `agent` and reads the lines of its output with a function.
struct Reader {
    descriptor: Descriptor,
    generation: Generation,
    read: Read,
}

#[async_trait]
impl Backend for Reader {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn generation(&self) -> &Generation {
        &self.generation
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        Ok(Box::new(ReaderGuest(self.read)))
    }
}

struct ReaderGuest(Read);

#[async_trait]
impl Guest for ReaderGuest {
    async fn handle(&mut self, inputs: Vec<TimedInput>) -> Result<Vec<Action>, GuestFailure> {
        let mut actions = Vec::new();
        for TimedInput { input, .. } in inputs {
            actions.extend(match input {
                Input::Command(HostCommand::StartTurn(_)) => (self.0)("start")?,
                Input::Line(line) => (self.0)(&line.text)?,
                _ => Vec::new(),
            });
        }
        Ok(actions)
    }

    async fn save(&mut self) -> Result<Option<String>, GuestFailure> {
        Ok(None)
    }

    async fn load(&mut self, _: &str, _: &str) -> Result<(), GuestFailure> {
        Err(GuestFailure::Refused("it loads no state".to_owned()))
    }
}

fn reader(read: Read, version: &str) -> Arc<dyn Backend> {
    let json = format!(r#"{{"name":"x","version":"{version}","programs":[{{"name":"agent"}}]}}"#);
    Arc::new(Reader {
        descriptor: Descriptor::parse(&json).expect("valid"),
        generation: Generation { number: 1, digest: version.to_owned() },
        read,
    })
}

fn event(kind: AgentEventKind) -> Action {
    Action::Event(AgentEvent { session: 1, turn: 1, kind })
}

fn text(text: &str) -> Action {
    let text = TextEvent { part: 1, text: text.to_owned(), replace: false, parent: None };
    event(AgentEventKind::Text(text))
}

fn tool(input: &str, target: Option<&str>) -> Action {
    event(AgentEventKind::ToolStart(ToolStart {
        id: "1".to_owned(),
        parent: None,
        kind: "bash".to_owned(),
        native_name: "sh".to_owned(),
        title: "sh".to_owned(),
        target: target.map(str::to_owned),
        input: input.to_owned(),
    }))
}

fn done(outcome: TurnOutcome) -> Action {
    Action::TurnDone(TurnDone { session: 1, turn: 1, outcome, text: None, usage: None })
}

fn spawn(arguments: &[&str]) -> Action {
    let text = |word: &&str| ArgumentValue::Text((*word).to_owned());
    Action::Spawn(Spawn {
        proc: 1,
        program: "agent".to_owned(),
        arguments: arguments.iter().map(text).collect(),
        environment: Vec::new(),
        stdin: Vec::new(),
        keep_open: true,
        listens: false,
        basic_auth: None,
        session: Some(1),
        turn: Some(1),
    })
}

fn sends(body: &str) -> Action {
    Action::Write(Write { proc: 1, body: vec![Chunk::Text(body.to_owned())] })
}

fn plain(line: &str) -> Result<Vec<Action>, GuestFailure> {
    Ok(match line {
        "start" => vec![spawn(&["-p"]), sends(r#"{"a":1,"by":"aetheel/1.0.0"}"#)],
        "text" => vec![text("Hello"), text(" there")],
        "tool" => vec![tool("ls", None)],
        "done" => vec![done(TurnOutcome::Completed)],
        _ => vec![],
    })
}

/// Returns the inputs of a turn: its start, and the lines that [`plain`] reads.
fn inputs() -> Vec<Input> {
    let line = |text: &str| {
        Input::Line(AgentLine {
            proc: 1,
            pipe: Pipe::Stdout,
            text: text.to_owned(),
            truncated: false,
        })
    };
    let start = StartTurn { session: 1, turn: 1, ..StartTurn::plain("hello", Safety::Default) };
    let mut inputs = vec![Input::Command(HostCommand::StartTurn(start))];
    inputs.extend(["text", "tool", "done"].map(line));
    inputs
}

fn recording(entries: impl IntoIterator<Item = EntryKind>) -> ParsedRecording {
    let header = r#"{"aetheel-recording":1,"link":"l","backend":"x","backend-version":"1.0.0","generation":1,"digest":"d","agent-version":null,"started":"now"}"#;
    let mut lines = vec![header.to_owned()];
    lines.extend(entries.into_iter().map(|kind| {
        let entry = RecordingEntry { t: 0.0, kind };
        serde_json::to_string(&entry).expect("JSON")
    }));
    ParsedRecording::read(&lines.join("\n")).expect("a recording")
}

/// Returns the differences between [`plain`] and another version, each with its line, its kind and
/// whether it is harmful.
async fn found(now: Read) -> Vec<(usize, &'static str, bool)> {
    let pair = RolloutPair { serving: reader(plain, "1.0.0"), successor: reader(now, "1.0.1") };
    let tape = recording(inputs().into_iter().map(EntryKind::In));
    let found = compare(&pair, &tape, 1).await.expect("compared");
    found.into_iter().map(|it| (it.line, it.what, it.harmful)).collect()
}

/// Compares a recording of a turn by [`plain`] with another version. If the turn is open, the
/// recording has no actions after the first one for each input. Returns the kinds of the harmful
/// differences, and whether the recording is unreadable.
async fn reread(now: Read, is_open: bool) -> (Vec<&'static str>, bool) {
    let (turn, lane) = ("a".to_owned(), "channel:1".to_owned());
    let mut entries = vec![EntryKind::Turn { turn, event: 1, lane, session: 1, key: 1 }];
    for input in inputs() {
        let actions = match &input {
            Input::Line(line) => plain(&line.text),
            _ => plain("start"),
        };
        let most = if is_open { 1 } else { usize::MAX };
        entries.push(EntryKind::In(input));
        entries.extend(actions.expect("actions").into_iter().take(most).map(EntryKind::Out));
    }
    if !is_open {
        entries.push(EntryKind::Ending { turn: "a".to_owned(), how: "completed".to_owned() });
    }
    let compared = compare_recorded(&*reader(now, "1.0.0"), recording(entries)).await;
    let compared = compared.expect("compared");
    let harmful = compared.differences.iter().filter(|it| it.harmful).map(|it| it.what).collect();
    (harmful, compared.is_unreadable)
}

#[tokio::test]
async fn a_version_is_compared_with_the_recorded_actions() {
    let traps: Read = |_| Err(GuestFailure::Trapped("unreachable".to_owned()));
    let cases: [(Read, &[&str], bool); 4] = [
        (plain, &[], false),
        (
            |line| if line == "text" { Ok(vec![text("Bye")]) } else { plain(line) },
            &["answer"],
            false,
        ),
        (|line| if line == "text" { Ok(vec![]) } else { plain(line) }, &["answer"], true),
        (|line| if line == "done" { Ok(vec![]) } else { plain(line) }, &["end"], true),
    ];
    for (now, kinds, is_unreadable) in cases {
        let found = reread(now, false).await;
        assert!(kinds.iter().all(|kind| found.0.contains(kind)), "{kinds:?}: {found:?}");
        assert_eq!((found.0.is_empty(), found.1), (kinds.is_empty(), is_unreadable), "{found:?}");
    }
    let (kinds, is_unreadable) = reread(traps, false).await;
    assert!(kinds.contains(&"failure") && is_unreadable, "{kinds:?}");
}

#[tokio::test]
async fn additional_actions_are_harmless_if_the_recording_is_incomplete() {
    assert_eq!(reread(plain, true).await, (vec![], false));
    let other: Read = |line| if line == "text" { Ok(vec![text("Bye")]) } else { plain(line) };
    assert_eq!(reread(other, true).await, (vec!["answer"], false));
}

#[tokio::test]
async fn another_division_of_a_text_another_version_and_more_detail_are_not_harmful() {
    let now: Read = |line| {
        Ok(match line {
            "start" => vec![spawn(&["-p"]), sends("{\"by\": \"aetheel/1.0.1\", \"a\": 1}")],
            "text" => vec![text("Hello there")],
            "tool" => vec![tool("ls", Some("the folder"))],
            "done" => {
                vec![event(AgentEventKind::Title("new".to_owned())), done(TurnOutcome::Completed)]
            }
            _ => vec![],
        })
    };
    assert_eq!(found(now).await, [(5, "title", false)]);
}

#[tokio::test]
async fn everything_that_is_missing_or_changed_is_harmful() {
    let cases: [(Read, (usize, &str)); 9] = [
        (|line| if line == "text" { Ok(vec![]) } else { plain(line) }, (3, "answer")),
        (|line| if line == "text" { Ok(vec![text("Bye")]) } else { plain(line) }, (3, "answer")),
        (|line| if line == "tool" { Ok(vec![]) } else { plain(line) }, (4, "tool")),
        (|line| if line == "tool" { Ok(vec![tool("rm", None)]) } else { plain(line) }, (4, "tool")),
        (|line| if line == "done" { Ok(vec![]) } else { plain(line) }, (5, "end")),
        (
            |line| {
                if line == "done" { Ok(vec![done(TurnOutcome::Interrupted)]) } else { plain(line) }
            },
            (5, "end"),
        ),
        (
            |line| {
                let mut actions = plain(line)?;
                if line == "start" {
                    actions[0] = spawn(&["-p", "--more"]);
                }
                Ok(actions)
            },
            (2, "command"),
        ),
        (
            |line| {
                let mut actions = plain(line)?;
                if line == "start" {
                    actions[1] = sends(r#"{"a":1,"by":"aetheel/1.0.1","b":2}"#);
                }
                Ok(actions)
            },
            (2, "message to the agent"),
        ),
        (
            |line| {
                let mut actions = plain(line)?;
                if line == "tool" {
                    let unknown = Unrecognised { what: "x".to_owned(), ..Unrecognised::default() };
                    actions.push(event(AgentEventKind::Unrecognised(unknown)));
                }
                Ok(actions)
            },
            (4, "unknown output"),
        ),
    ];
    for (now, (line, what)) in cases {
        let found = found(now).await;
        assert!(found.contains(&(line, what, true)), "{what}: {found:?}");
    }
}

#[tokio::test]
async fn a_failure_is_harmful_and_names_the_line() {
    let now: Read = |line| match line {
        "tool" => Err(GuestFailure::Trapped("unreachable".to_owned())),
        _ => plain(line),
    };
    let found = found(now).await;
    assert!(
        found.contains(&(4, "failure", true)) && found.contains(&(5, "end", true)),
        "{found:?}"
    );
}

#[test]
fn a_value_covers_another_one_with_less_content() {
    let value = |text: &str| serde_json::from_str(text).expect("JSON");
    let covers = |now: &str, before: &str| value::covers(&value(now), &value(before));
    assert!(covers(r#"{"a":1,"b":2}"#, r#"{"a":1,"c":null}"#));
    assert!(covers("[1,2,3]", "[1,3]"));
    assert!(!covers(r#"{"a":2}"#, r#"{"a":1}"#));
    assert!(!covers("{}", r#"{"a":1}"#));
    assert!(!covers("[3,1]", "[1,3]"));
}
