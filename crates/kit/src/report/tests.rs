use async_trait::async_trait;

use super::*;
use aetheel_model::agent::{
    Action, AgentLine, Descriptor, HostCommand, Input, Pipe, Safety, Spawn, Spawned, StartTurn,
    TimedInput,
};
use aetheel_recording::{EntryKind, Generation, Guest};
use secrecy::SecretString;

/// A backend whose guests crash at a line that contains these words.
struct Fragile {
    descriptor: Descriptor,
    generation: Generation,
    words: Vec<&'static str>,
}

fn fragile(words: &[&'static str]) -> Fragile {
    let json = r#"{"name":"x","version":"1","programs":[{"name":"x"}]}"#;
    Fragile {
        descriptor: Descriptor::parse(json).unwrap(),
        generation: Generation { number: 1, digest: "d1".to_owned() },
        words: words.to_vec(),
    }
}

#[async_trait]
impl Backend for Fragile {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn generation(&self) -> &Generation {
        &self.generation
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        Ok(Box::new(FragileGuest(self.words.clone())))
    }
}

struct FragileGuest(Vec<&'static str>);

#[async_trait]
impl Guest for FragileGuest {
    async fn handle(&mut self, inputs: Vec<TimedInput>) -> Result<Vec<Action>, GuestFailure> {
        let mut actions = Vec::new();
        for TimedInput { input, .. } in inputs {
            match input {
                Input::Command(HostCommand::StartTurn(start)) => actions.push(spawn(&start)),
                Input::Line(line) if self.0.iter().all(|word| line.text.contains(word)) => {
                    return Err(GuestFailure::Trapped(format!(
                        "unreachable; in `f` (src/lib.rs:7), called by `g`; it printed: {}",
                        line.text
                    )));
                }
                _ => {}
            }
        }
        Ok(actions)
    }

    async fn save(&mut self) -> Result<Option<String>, GuestFailure> {
        Ok(None)
    }

    async fn load(&mut self, _: &str, _: &str) -> Result<(), GuestFailure> {
        Ok(())
    }
}

fn spawn(start: &StartTurn) -> Action {
    Action::Spawn(Spawn {
        proc: 1,
        program: "x".to_owned(),
        arguments: vec![],
        environment: vec![],
        stdin: vec![],
        keep_open: false,
        listens: false,
        basic_auth: None,
        session: Some(start.session),
        turn: Some(start.turn),
    })
}

fn recording(lines: &[&str]) -> ParsedRecording {
    let start = StartTurn::plain("Call Gerda Quill", Safety::Default);
    let inputs = [
        Input::Command(HostCommand::StartTurn(start)),
        Input::Spawned(Spawned { proc: 1, agent_version: None }),
    ];
    let line = |text: &&str| {
        let text = (*text).to_owned();
        Input::Line(AgentLine { proc: 1, pipe: Pipe::Stdout, text, truncated: false })
    };
    let inputs = inputs.into_iter().chain(lines.iter().map(line));
    let entries: Vec<RecordingEntry> =
        inputs.map(|input| RecordingEntry { t: 17.5, kind: EntryKind::In(input) }).collect();
    let header = Header {
        aetheel_recording: FORMAT,
        link: "7c1f7e52".to_owned(),
        backend: "x".to_owned(),
        backend_version: "0".to_owned(),
        generation: 3,
        digest: "d0".to_owned(),
        agent_version: Some("1.2 (/home/gerda)".to_owned()),
        started: "2026-11-24T10:11:12Z".to_owned(),
    };
    let lines = (2..entries.len() + 2).collect();
    ParsedRecording { header, entries, lines }
}

async fn report_with(
    backend: &Fragile,
    lines: &[&str],
    options: ReportOptions,
) -> Result<FaultReport, ReportError> {
    let origin = ReportOrigin {
        aetheel: "1.2.3".to_owned(),
        contract: "aetheel:backend@0.3.0".to_owned(),
        limits: ReportedLimits { memory: 128 << 20, call_ms: 1_000 },
    };
    make_report(backend, &recording(lines), &origin, &options).await
}

const LINES: [&str; 4] = [
    r#"{"type":"init","cwd":"/home/gerda"}"#,
    r#"{"type":"text","text":"Gerda Quill is out"}"#,
    r#"{"type":"boom","by":"Gerda Quill","n":[1,2,3],"deep":{"at":"/home/gerda"}}"#,
    r#"{"type":"end"}"#,
];

#[tokio::test]
async fn only_the_lines_and_fields_of_the_fault_remain() {
    let backend = fragile(&["type", "boom"]);
    let report = report_with(&backend, &LINES, ReportOptions::default()).await.unwrap();
    let lines: Vec<&str> = report.text.lines().collect();
    assert_eq!(lines.len(), 4, "{}", report.text);
    assert_eq!((report.lines, report.facts.fault.line), (4, 4));
    assert!(lines[3].contains(r#""text":"{\"type\":\"boom\"}""#), "{}", lines[3]);
    assert_eq!(report.facts.fault.place, "unreachable; in `f`");
    for word in ["gerda", "quill", "7c1f7e52", "17.5", "10:11"] {
        assert!(!report.text.to_lowercase().contains(word), "{word}: {}", report.text);
    }
    for part in [r#""digest":"d1""#, r#""agent-version":null"#, "2026-11-24T00:00:00Z", "1.2.3"] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
    let again = report_with(&backend, &LINES, ReportOptions::default()).await.unwrap();
    assert_eq!(report.text, again.text);

    let tape = ParsedRecording::read(&report.text).unwrap();
    let facts = ReportFacts::read(&report.text).unwrap();
    assert_eq!(facts, report.facts);
    let shown = reproduce(&backend, &tape, &facts.fault).await.unwrap();
    assert_eq!(shown.fault.unwrap().entry, 2);
    let fixed = reproduce(&fragile(&["another"]), &tape, &facts.fault).await.unwrap();
    assert!(fixed.fault.is_none() && fixed.others.is_empty(), "{fixed:?}");
}

#[tokio::test]
async fn words_of_people_are_kept_only_if_it_is_allowed() {
    let backend = fragile(&["Gerda", "out"]);
    let refused = report_with(&backend, &LINES, ReportOptions::default()).await.unwrap_err();
    let said = refused.to_string();
    assert!(matches!(refused, ReportError::NeedsText(_)), "{said}");
    assert!(said.contains("`Gerda`, `out` in {\"line\""), "{said}");
    let options = ReportOptions { keep_text: true, ..ReportOptions::default() };
    let full = report_with(&backend, &LINES, options).await.unwrap();
    assert!(full.facts.kept_text && full.text.contains("Gerda"), "{}", full.text);
    assert!(!full.text.contains("Quill"), "{}", full.text);
}

#[tokio::test]
async fn messages_that_the_component_compares_with_are_not_words_of_people() {
    let backend = fragile(&["is out"]);
    let with = |component: &[u8]| {
        let component = component.to_vec();
        report_with(&backend, &LINES, ReportOptions { component, ..ReportOptions::default() })
    };
    let known = with(b"\0agent is out of\0").await.unwrap();
    assert!(known.text.contains("is out") && !known.facts.kept_text, "{}", known.text);
    // Both words occur, but not in this order.
    let refused = with(b"\0out is\0").await.unwrap_err().to_string();
    assert!(refused.contains("`is`, `out`"), "{refused}");
}

#[tokio::test]
async fn a_private_name_is_not_taken_for_the_name_of_a_field() {
    let options = ReportOptions { private: vec!["Boom".to_owned()], ..ReportOptions::default() };
    let refused = report_with(&fragile(&["boom"]), &LINES, options).await.unwrap_err();
    assert!(matches!(refused, ReportError::NeedsText(_)), "{refused}");
}

#[tokio::test]
async fn known_secrets_are_removed_before_anything_else() {
    let redactor = Redactor::new(&[SecretString::from("boom_secret".to_owned())]);
    let options = ReportOptions { redactor, ..ReportOptions::default() };
    let lines = [r#"{"type":"boom_secret"}"#];
    let refused = report_with(&fragile(&["boom_secret"]), &lines, options).await.unwrap_err();
    assert!(matches!(refused, ReportError::NoFault(_)), "{refused}");
}

#[tokio::test]
async fn a_length_that_the_fault_needs_is_kept_and_another_is_not() {
    let long = format!(r#"{{"type":"boom","text":"{}"}}"#, "word ".repeat(10_000));
    let report =
        report_with(&fragile(&["boom", "text"]), &[&long], ReportOptions::default()).await.unwrap();
    assert!(report.text.len() < 1_500, "{}", report.text);
}

#[tokio::test]
async fn the_number_of_replays_is_limited() {
    let limits = ReportLimits { replays: 6, ..ReportLimits::default() };
    let options = ReportOptions { limits, ..ReportOptions::default() };
    let refused = report_with(&fragile(&["boom"]), &LINES, options).await.unwrap_err();
    assert!(matches!(refused, ReportError::Exhausted(_)), "{refused}");
}

#[tokio::test]
async fn a_fault_is_chosen_by_its_kind() {
    let none = report_with(&fragile(&["nowhere"]), &LINES, ReportOptions::default()).await;
    let none = none.unwrap_err().to_string();
    assert!(none.contains("no fault") && none.contains("turn 1: "), "{none}");
    let options = ReportOptions { kind: Some(FaultKind::Drift), ..ReportOptions::default() };
    let other = report_with(&fragile(&["boom"]), &LINES, options).await.unwrap_err().to_string();
    assert!(other.contains("kind `drift`; there are: trap"), "{other}");
    let options = ReportOptions { turn: Some("0".to_owned()), ..ReportOptions::default() };
    let none = report_with(&fragile(&["boom"]), &LINES, options).await.unwrap_err();
    assert!(matches!(none, ReportError::NoTurn(_)), "{none}");
}

#[test]
fn files_that_are_no_reports_are_refused() {
    let read = |text: &str| ReportFacts::read(text).unwrap_err().to_string();
    assert!(read("{\"aetheel-recording\":1}").contains("not a report"));
    assert!(read("{\"report\":{\"format\":9}}").contains("format 9"));
    assert!(read("{\"report\":{\"format\":1}}").contains("no valid"));
    assert!(read("hello").contains("line 1"));
}

#[test]
fn kinds_have_the_same_words_in_files_and_on_the_command_line() {
    for kind in FaultKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
    }
}
