//! Tests of `aetheel backend profile`: the functions at the terminal, the file for Firefox, and
//! the next step after each error.

use std::fs;

use aetheel_model::agent::{HostCommand, Input, Safety, StartTurn};
use aetheel_recording::{EntryKind, RecordingEntry};
use serde_json::Value;

use super::Bench;
use crate::support::guests::Wat;

/// Counts to five million in a function of its own whenever it is called.
fn busy() -> Bench {
    let module = "(func $count_words (local $i i32) (loop $more
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $i) (i32.const 5000000)))))
        (func $parse_line call $count_words)";
    Bench::wat(&Wat {
        module: module.to_owned(),
        handle: "call $parse_line".to_owned(),
        ..Wat::new("busy", "1")
    })
}

/// Writes a recording with one input. `digest` is that of a component if a gateway recorded it.
fn recording(bench: &Bench, backend: &str, digest: &str) -> String {
    let header = format!(
        r#"{{"aetheel-recording":1,"link":"l","backend":"{backend}","backend-version":"1","generation":1,"digest":"{digest}","agent-version":null,"started":""}}"#
    );
    let file = format!("{backend}{digest}.jsonl");
    let input = r#"{"t":1,"in":{"command":"shutdown"}}"#;
    fs::write(bench.folder.path().join(&file), format!("{header}\n{input}\n")).unwrap();
    file
}

#[test]
fn profile_names_the_functions_and_writes_a_file_for_firefox() {
    let bench = busy();
    let file = recording(&bench, "busy", "abc");
    let done = bench.run(&["profile", bench.component(), &file, "--rounds", "10"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    done.says("busy 1").says("in 10 rounds").says("profiler.firefox.com");
    let first = done.out.lines().find(|line| line.contains(" % ")).unwrap();
    assert!(first.ends_with(" count_words"), "{done:?}");
    let caller = done.out.lines().find(|line| line.ends_with(" parse_line")).unwrap();
    assert!(caller.contains(" 0.0 % "), "its time is that of its callee: {done:?}");

    // By default the file is in the working directory, and named after the component.
    let text = fs::read_to_string(bench.folder.path().join("x.profile.json")).unwrap();
    let profile: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(profile["meta"]["preprocessedProfileVersion"], 47);
    let thread = &profile["threads"][0];
    let names = thread["stringArray"].as_array().unwrap();
    for name in ["count_words", "parse_line"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    assert!(thread["samples"]["length"].as_u64().unwrap() > 0, "{}", thread["samples"]);

    let json = bench
        .run(&["profile", bench.component(), &file, "--rounds", "10", "-o", "y.json", "--json"])
        .json();
    assert_eq!(
        (&json["functions"][0]["name"], &json["rounds"]),
        (&"count_words".into(), &10.into())
    );
    assert!(json["samples"].as_u64().unwrap() > 0 && json["ran-ms"].as_f64().unwrap() > 0.0);
    assert!(bench.folder.path().join("y.json").exists());
}

#[test]
fn a_profile_that_cannot_be_made_names_the_next_step() {
    let bench = busy();
    let component = bench.component();
    let own = recording(&bench, "busy", "");
    let missing = bench.run(&["profile", component, "missing.jsonl"]);
    assert_eq!(missing.code, Some(64), "{missing:?}");
    missing.says("missing.jsonl: No such file").says("hint: name one recording");

    let other = recording(&bench, "other", "abc");
    let foreign = bench.run(&["profile", component, &other, "--rounds", "1"]);
    assert_eq!(foreign.code, Some(64), "{foreign:?}");
    foreign.says("of the backend `other`").says("hint: name a recording of this backend");
    let forced = bench.run(&["profile", component, &other, "--rounds", "10", "--any-backend"]);
    assert_eq!(forced.code, Some(0), "{forced:?}");

    for output in ["missing/p.json", "cases-are-here", "/dev/null"] {
        fs::create_dir_all(bench.folder.path().join("cases-are-here")).unwrap();
        let unwritable = bench.run(&["profile", component, &own, "-o", output]);
        assert_eq!(unwritable.code, Some(64), "{unwritable:?}");
        unwritable.says(output).says("cannot be written").says("hint: name another file");
    }

    let core = Bench::of(b"\0asm\x01\0\0\0");
    recording(&core, "busy", "");
    let refused = core.run(&["profile", core.component(), &own]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    refused.says("is a core module").says("aetheel backend componentize");
}

#[test]
fn a_failure_ends_the_profile_and_names_its_functions() {
    // It fails at the second input of a link.
    let wat = crate::backend::failures::trapping("evil");
    let bench = Bench::wat(&Wat {
        module: format!("{} (global $armed (mut i32) (i32.const 0))", wat.module),
        handle: "(if (local.get $n) (then
            (if (global.get $armed) (then call $parse_line))
            (global.set $armed (i32.const 1))))"
            .to_owned(),
        ..wat
    });
    let file = recording(&bench, "evil", "");
    let start = Input::Command(HostCommand::StartTurn(StartTurn::plain("hello", Safety::Default)));
    let entry = RecordingEntry { t: 2.0, kind: EntryKind::In(start) };
    let path = bench.folder.path().join(&file);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}{}\n", serde_json::to_string(&entry).unwrap())).unwrap();

    let failed = bench.run(&["profile", bench.component(), &file]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let stack = "in `parse_field`, called by `parse_line`";
    failed.says(&format!("{file}:3")).says(stack).says("hint: fix the failure first");
    assert_eq!(fs::read_dir(bench.folder.path()).unwrap().count(), 2, "no file is left behind");
    let replayed = bench.run(&["replay", bench.component(), &file, "--json"]);
    assert_eq!(replayed.code, Some(1), "{replayed:?}");
    replayed.says(stack);
}
