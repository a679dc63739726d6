//! Tests of `aetheel report` and `aetheel reproduce` with the real program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::hostile::forgetful;
use super::{Bench, Done, done};
use crate::support::guests::Wat;
use crate::support::program::{aetheel, aetheel_kit};

/// Tag of the input `line` in the contract.
const LINE: u8 = 3;

fn run(bench: &Bench, arguments: &[&str]) -> Done {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-backends");
    let mut command = Command::new(aetheel());
    aetheel_kit();
    command.args(arguments).current_dir(bench.folder.path());
    command.env("CACHE_DIR", cache).env("CONFIG_DIR", bench.folder.path().join("config"));
    done(command.env("BACKENDS_DIR", bench.folder.path().join("backends")).output().unwrap())
}

/// A component that crashes at the first line, with a recording of a real agent, and the same
/// component without the bug.
fn crashing() -> (Bench, Wat) {
    let wat =
        Wat { on_timer: "unreachable".to_owned(), later: Some((LINE, vec![])), ..forgetful() };
    let bench = Bench::with_cases(&wat.build(), "gemini", |case| case == "tool-shell");
    (bench, Wat { version: "2".to_owned(), ..forgetful() })
}

#[test]
fn a_crash_is_reported_reproduced_and_becomes_a_case() {
    let (bench, fixed) = crashing();
    let (component, recording) = (bench.component(), bench.case("tool-shell"));
    let recording = recording.to_str().unwrap();
    let made = run(&bench, &["report", recording, "--backend", component, "-o", "x.jsonl"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    made.says("x.jsonl:4  trap").says("4 lines of ").says("`aetheel reproduce x.jsonl`");
    let path = bench.folder.path().join("x.jsonl");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&path).unwrap().contains("MOCK"));
    let twice = run(&bench, &["report", recording, "--backend", component, "-o", "x.jsonl"]);
    assert_eq!(twice.code, Some(64), "{twice:?}");
    twice.says("x.jsonl exists already");

    let shown = run(&bench, &["reproduce", "x.jsonl", "--backend", component]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    shown.says("x.jsonl:4 {\"line\"").says("the backend crashed").says("reproduced: trap: ");
    let json = run(&bench, &["reproduce", "x.jsonl", "--backend", component, "--json"]).json();
    assert_eq!((&json["reproduced"], &json["line"]), (&true.into(), &4.into()), "{json}");
    assert_eq!(json["same-component"], true, "{json}");

    // The component is found by its digest, whatever the name of its file is.
    fs::create_dir(bench.folder.path().join("backends")).unwrap();
    fs::copy(&bench.component, bench.folder.path().join("backends/old.wasm.rolled-back-1"))
        .unwrap();
    let found = run(&bench, &["reproduce", "x.jsonl"]);
    assert_eq!(found.code, Some(0), "{found:?}");

    let other = bench.folder.path().join("fixed.wasm");
    fs::write(&other, fixed.build()).unwrap();
    let other = other.to_str().unwrap();
    let gone = run(&bench, &["reproduce", "x.jsonl", "--backend", other]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
    gone.says("not reproduced: trap").says("note: the report is about evil 1").says("evil 2");

    let failed = bench.run(&["test", component, "x.jsonl"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    failed.says("x.jsonl:4");
    assert_eq!(bench.run(&["test", other, "x.jsonl", "--update"]).code, Some(0));
    assert_eq!(bench.run(&["test", other, "x.jsonl"]).code, Some(0));
}

#[test]
fn a_missing_text_is_reported_without_the_text() {
    let silent = Bench::with_cases(&forgetful().build(), "gemini", |case| case == "tool-shell");
    let recording = silent.case("tool-shell");
    let recording = recording.to_str().unwrap();
    let component = silent.component();
    let said = ["report", recording, "--backend", component, "-o", "x.jsonl", "--expect"];
    let made = run(&silent, &[&said[..], &["hello.txt"]].concat());
    assert_eq!(made.code, Some(0), "{made:?}");
    made.says("missing");
    let text = fs::read_to_string(silent.folder.path().join("x.jsonl")).unwrap();
    assert!(!text.contains("hello"), "{text}");
    let shown = run(&silent, &["reproduce", "x.jsonl", "--backend", component]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let never = run(
        &silent,
        &["report", recording, "--backend", component, "-o", "y.jsonl", "--expect", "never said"],
    );
    assert_eq!(never.code, Some(1), "{never:?}");
    never.says("no answer lacks the text").says("hint: ");
}

#[test]
fn a_recording_without_a_fault_has_no_report() {
    let bench = Bench::shipped("gemini", |case| case == "plain");
    let recording = bench.case("plain");
    let recording = recording.to_str().unwrap();
    let none = run(&bench, &["report", recording, "--backend", bench.component()]);
    assert_eq!(none.code, Some(1), "{none:?}");
    none.says("shows no fault").says("turn 1: completed").says("`--expect`");
    assert!(!bench.folder.path().join("plain.report.jsonl").exists());
    let unknown = run(&bench, &["report", recording, "--fault", "rain"]);
    unknown.says("the kinds are trap, limit,");
}

#[test]
fn a_foreign_file_is_refused() {
    let bench = Bench::shipped("gemini", |case| case == "plain");
    let recording = bench.case("plain");
    let refused = run(&bench, &["reproduce", recording.to_str().unwrap()]);
    assert_eq!(refused.code, Some(64), "{refused:?}");
    refused.says("it is a recording and not a report");
    let report = r#""report":{"format":1,"aetheel":"1","contract":"c","os":"o","arch":"a","limits":{"memory":1,"call-ms":1},"fault":{"kind":"trap","place":"p","line":2},"kept-text":false}"#;
    let text = fs::read_to_string(&recording).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let first = first.replace("\"fixture\"", "\"../../evil\"");
    let first = format!("{},{report}}}", first.strip_suffix('}').unwrap());
    let path = bench.folder.path().join("foreign.jsonl");
    fs::write(&path, format!("{first}\n{rest}")).unwrap();
    let refused = run(&bench, &["reproduce", "foreign.jsonl"]);
    assert_eq!(refused.code, Some(64), "{refused:?}");
    refused.says("`../../evil` is not the name of a backend").says("hint: pass a component");
    let other = run(&bench, &["reproduce", "foreign.jsonl", "--backend", bench.component()]);
    assert_eq!(other.code, Some(1), "{other:?}");
    other.says("not reproduced: trap: p").says("turn 1 ended as completed");
}
