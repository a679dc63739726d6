//! Tests that a fault in a real recording can be reported: recordings of all shipped backends are
//! filled with words of people and secrets, and damaged as a new version of an agent or a broken
//! component would. Each report must show the same fault, be short, and contain none of the words.
//!
//! The default test takes a sample of the faults, `make proof` all of them. `SEED=N` tries others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aetheel_kit::report::{
    FaultKind, FaultReport, ReportError, ReportFacts, ReportOptions, ReportOrigin, ReportedLimits,
    make_report, reproduce,
};
use aetheel_model::agent::{
    Action, AgentLine, ArgumentValue, HostCommand, Input, Pipe, PromptPart, SessionReady, Spawn,
    TurnDone, TurnOutcome,
};
use aetheel_model::limits::ResourceLimits;
use aetheel_recording::case::Case;
use aetheel_recording::replay::{Batches, replay};
use aetheel_recording::{EntryKind, ParsedRecording, RecordingEntry};
use aetheel_wasm::{ComponentBackend, Engine};
use serde_json::{Value, json};

use super::mutation::Recording;
use crate::support::built;
use crate::support::guests::{EXITED, Wat};
use crate::support::recordings::{cases, name};

/// Number of faults, and the distance between those of the sample.
const FAULTS: u64 = 100;
const SAMPLE_STEP: usize = 5;
/// Tag of the input `line` in the contract.
const LINE: u8 = 3;
const BACKENDS: [&str; 6] = ["acp", "claude", "codex", "droid", "gemini", "opencode"];

/// The planted words, in lower case. No report may contain one of them.
const PLANTED: [&str; 9] = [
    "marlowe",
    "quillfeather",
    "gerda",
    "vault17",
    "4f9aq7zz",
    "hunter2xyz",
    "10.66.77.88",
    "zahnarzt",
    "6120456789",
];
const PROMPT: &str =
    "Bitte ruf Gerda Quillfeather an, Tel. 6120456789. Der Schlüssel ist sk-live-4f9aQ7zz";
const CWD: &str = "/home/marlowe/vault17";
const OUTPUT: &str =
    "token hunter2xyz of marlowe@quillfeather.example in /home/marlowe/vault17 from 10.66.77.88";

/// Knuth's MMIX generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// The components, each in a file of its own.
struct Components {
    folder: tempfile::TempDir,
    engine: Engine,
}

impl Components {
    fn new() -> Self {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-backends");
        let engine =
            Engine::new(&ResourceLimits::default(), Some(&cache), aetheel_settings::NAMES).unwrap();
        Self { folder: tempfile::tempdir().unwrap(), engine }
    }

    async fn open(&self, name: &str, bytes: &[u8]) -> Arc<ComponentBackend> {
        let path: PathBuf = self.folder.path().join(format!("{name}.wasm"));
        std::fs::write(&path, bytes).unwrap();
        Arc::new(self.engine.open(&path).await.unwrap().1)
    }
}

fn spawn(program: &str) -> Action {
    let (environment, stdin, arguments) = (vec![], vec![], vec![ArgumentValue::Text("-c".into())]);
    Action::Spawn(Spawn {
        proc: 1,
        program: program.to_owned(),
        arguments: if program == "evil" { vec![] } else { arguments },
        environment,
        stdin,
        keep_open: false,
        listens: false,
        basic_auth: None,
        session: Some(1),
        turn: Some(1),
    })
}

fn done() -> Action {
    let (outcome, text, usage) = (TurnOutcome::Completed, None, None);
    Action::TurnDone(TurnDone { session: 1, turn: 1, outcome, text, usage })
}

/// Returns a component that violates the contract, and the kind of its fault.
fn hostile(number: usize) -> (FaultKind, Wat) {
    let evil = Wat {
        on_start: Some(vec![spawn("evil")]),
        later: Some((EXITED, vec![done()])),
        ..Wat::new("evil", "1")
    };
    let on_line =
        |code: &str| Wat { on_timer: code.to_owned(), later: Some((LINE, vec![])), ..evil.clone() };
    let ready = Action::SessionReady(SessionReady {
        session: 1,
        native_id: "--x".to_owned(),
        model: None,
        title: None,
        tools: vec![],
    });
    match number % 5 {
        0 => (FaultKind::Trap, on_line("unreachable")),
        1 => (FaultKind::Action, Wat { on_start: Some(vec![spawn("sh")]), ..evil }),
        2 => (FaultKind::Unended, Wat { later: Some((u8::MAX, vec![])), ..evil }),
        3 => (FaultKind::Action, Wat { on_start: Some(vec![ready, done()]), ..evil }),
        _ => (FaultKind::Limit, on_line("(loop $for_ever (br $for_ever))")),
    }
}

/// Adds words of people and secrets to everything that a gateway records.
fn plant(entries: &mut Vec<RecordingEntry>, random: &mut Random) {
    for entry in entries.iter_mut() {
        let EntryKind::In(input) = &mut entry.kind else { continue };
        match input {
            Input::Command(HostCommand::StartTurn(start)) => {
                start.parts = vec![PromptPart::Text(PROMPT.to_owned())];
                start.cwd = CWD.to_owned();
                start.settings.system_prompt = Some("You work for Quillfeather.".to_owned());
            }
            Input::Line(AgentLine { pipe: Pipe::Stdout, text, .. }) => {
                plant_in(text, random.below(3))
            }
            Input::HttpResponse(response) => plant_in(&mut response.body, random.below(3)),
            Input::StreamEvent(event) => plant_in(&mut event.data, random.below(3)),
            Input::Exited(exited) => exited.stderr_tail = OUTPUT.to_owned(),
            _ => {}
        }
    }
    let started = |entry: &RecordingEntry| matches!(entry.input(), Some(Input::Spawned(_)));
    let at = entries.iter().position(started).map_or(entries.len(), |at| at + 1);
    let launch = EntryKind::Launch {
        command: vec!["agent".to_owned(), format!("--key={OUTPUT}")],
        environment: vec!["QUILLFEATHER_TOKEN".to_owned()],
        cwd: CWD.to_owned(),
    };
    let turn = EntryKind::Turn {
        turn: "marlowe".to_owned(),
        event: 6_120_456_789,
        lane: "channel:6120456789".to_owned(),
        session: 1,
        key: 1,
    };
    let line = Input::Line(AgentLine {
        proc: 1,
        pipe: Pipe::Stderr,
        text: OUTPUT.to_owned(),
        truncated: false,
    });
    let notes = [turn, launch, EntryKind::Host(OUTPUT.to_owned()), EntryKind::In(line)];
    let notes = notes.map(|kind| RecordingEntry { t: 0.0, kind });
    entries.splice(at..at, notes);
}

/// Adds fields and words to a JSON document.
fn plant_in(text: &mut String, how: usize) {
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return };
    if how > 0 {
        plant_words(&mut value);
    }
    if let (2, Some(map)) = (how, value.as_object_mut()) {
        map.insert("marlowe".to_owned(), json!({ "HOME": CWD, "n": 6_120_456_789_u64 }));
        map.insert("env".to_owned(), json!([OUTPUT, PROMPT, "x".repeat(20_000)]));
    }
    *text = value.to_string();
}

/// Appends words to every text of several words.
fn plant_words(value: &mut Value) {
    match value {
        Value::String(text) if text.trim().contains(' ') && !text.starts_with(['{', '[']) => {
            text.push_str(" Zahnarzt Gerda Quillfeather");
        }
        Value::Array(list) => list.iter_mut().for_each(plant_words),
        Value::Object(map) => map.values_mut().for_each(plant_words),
        _ => {}
    }
}

/// Damages a recording as a new version of an agent, or a broken pipe would.
fn damage(entries: &[RecordingEntry], random: &mut Random) -> Vec<RecordingEntry> {
    let values: Vec<Value> =
        entries.iter().map(|entry| serde_json::to_value(entry).unwrap()).collect();
    let lines: Vec<usize> =
        (0..values.len()).filter(|at| super::mutation::output(&values[*at]).is_some()).collect();
    let mut damaged = entries.to_vec();
    let Some(&line) = lines.get(random.below(lines.len())) else { return damaged };
    match random.below(6) {
        0 => drop(damaged.remove(line)),
        1 => {
            let garbage = ["{\"type\":", "null", "Segmentation fault", "{\"type\":\"quux\"}"];
            let garbage = garbage[random.below(garbage.len())];
            if let EntryKind::In(Input::Line(line)) = &mut damaged[line].kind {
                garbage.clone_into(&mut line.text);
            }
        }
        _ => {
            let recording = Recording::new(values);
            let changes: Vec<_> = recording.changes().collect();
            if let Some((position, _, change)) = changes.get(random.below(changes.len()))
                && let Some(mutant) = recording.mutant(position, *change)
            {
                return super::mutants::entries(&mutant);
            }
        }
    }
    damaged
}

/// A report, and the kind of its fault.
struct MadeReport {
    kind: FaultKind,
    report: FaultReport,
    what: String,
}

/// Makes the fault with this number, and reports it.
async fn fault(
    number: u64,
    seed: u64,
    components: &Components,
    shipped: &BTreeMap<&str, Arc<ComponentBackend>>,
) -> (MadeReport, Arc<ComponentBackend>) {
    let mut random = Random(seed.wrapping_add(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    random.below(1);
    let backend = BACKENDS[number as usize % BACKENDS.len()];
    let recordings: Vec<Case> = cases(backend);
    let is_hostile = number % 7 == 6;
    loop {
        let case = &recordings[random.below(recordings.len())];
        let mut tape = case.tape.clone();
        plant(&mut tape.entries, &mut random);
        let evil = is_hostile.then(|| hostile(number as usize / 7));
        let (kind, component) = match &evil {
            Some((kind, wat)) => (Some(*kind), components.open("evil", &wat.build()).await),
            None => {
                tape.entries = damage(&tape.entries, &mut random);
                let kinds = [None, None, Some(FaultKind::Drift), Some(FaultKind::Unread)];
                (kinds[random.below(kinds.len())], shipped[backend].clone())
            }
        };
        let file = match &evil {
            Some((_, wat)) => wat.build(),
            None => built(&format!("{backend}.wasm")),
        };
        let mut options = ReportOptions { kind, component: file, ..ReportOptions::default() };
        if !is_hostile && kind.is_none() && random.below(2) == 0 {
            options.expected = missing_text(&component, case, &tape).await;
        }
        let origin = ReportOrigin {
            aetheel: "0".to_owned(),
            contract: "c".to_owned(),
            limits: ReportedLimits { memory: 1, call_ms: 1 },
        };
        let what = format!("{number}: {backend}/{} {kind:?}", name(backend, case));
        let mut made = make_report(&*component, &tape, &origin, &options).await;
        if matches!(made, Err(ReportError::NeedsText(_))) {
            // An operator would read the words now.
            options.keep_text = true;
            made = make_report(&*component, &tape, &origin, &options).await;
        }
        match made {
            Ok(report) => {
                let kind = report.facts.fault.kind;
                return (MadeReport { kind, report, what }, component);
            }
            Err(
                ReportError::NoFault(_) | ReportError::OtherFaults(..) | ReportError::NotMissing,
            ) => {}
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

/// Returns a word of the answer that the damaged recording lost.
async fn missing_text(
    backend: &ComponentBackend,
    case: &Case,
    damaged: &ParsedRecording,
) -> Option<String> {
    let before = replay(backend, &case.tape.entries, Batches::Single).await.unwrap();
    let after = replay(backend, &damaged.entries, Batches::Single).await.unwrap();
    let text = before.turns.values().map(aetheel_recording::replay::ReplayedTurn::text).next()?;
    let after: Vec<String> =
        after.turns.values().map(aetheel_recording::replay::ReplayedTurn::text).collect();
    let mut words = text.split_whitespace().filter(|word| word.len() > 4);
    words.find(|word| !after.iter().any(|after| after.contains(word))).map(str::to_owned)
}

/// Checks that a report shows its fault and contains none of the words.
async fn check(made: &MadeReport, backend: &ComponentBackend) {
    let MadeReport { report, what, .. } = made;
    let lower = report.text.to_lowercase();
    for word in PLANTED {
        assert!(!lower.contains(word), "{what}: {word} is in\n{}", report.text);
    }
    assert!(report.text.len() < 20_000, "{what}: {} bytes", report.text.len());
    let tape = ParsedRecording::read(&report.text).unwrap();
    let facts = ReportFacts::read(&report.text).unwrap();
    let result = reproduce(backend, &tape, &facts.fault).await.unwrap();
    let found = result.fault.unwrap_or_else(|| panic!("{what}: not reproduced\n{}", report.text));
    assert_eq!(tape.lines[found.entry], facts.fault.line, "{what}\n{}", report.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_seeded_faults_are_short_reproduce_and_contain_no_planted_word() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let all = std::env::var("MUTANTS").is_ok_and(|mutants| mutants == "all");
    println!("SEED={seed}");
    let components = Components::new();
    let mut shipped = BTreeMap::new();
    for name in BACKENDS {
        let component = components.open(name, &built(&format!("{name}.wasm"))).await;
        shipped.insert(name, component);
    }
    let (mut lengths, mut kinds) = (Vec::new(), BTreeMap::new());
    let (mut replays, mut kept) = (0, 0);
    for number in (0..FAULTS).step_by(if all { 1 } else { SAMPLE_STEP }) {
        let (made, backend) = fault(number, seed, &components, &shipped).await;
        check(&made, &backend).await;
        println!(
            "{} {}: {} lines, {} replays, {}",
            made.what,
            made.kind,
            made.report.lines,
            made.report.replays,
            made.report.facts.fault.place
        );
        lengths.push(made.report.lines);
        replays += made.report.replays;
        kept += usize::from(made.report.facts.kept_text);
        *kinds.entry(made.kind).or_insert(0) += 1;
    }
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    println!(
        "{} reports: median {median} lines, at most {}; {replays} replays; {kept} with `--keep-text`; {kinds:?}",
        lengths.len(),
        lengths.last().unwrap()
    );
    assert!(median <= 10, "{lengths:?}");
    assert!(kinds.len() >= 4, "{kinds:?}");
}
