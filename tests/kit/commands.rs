//! Tests of each command's output, for people and for programs, and of its exit codes.

use std::fs;

use serde_json::Value;

use super::Bench;
use crate::support::built;

fn plain() -> Bench {
    Bench::shipped("gemini", |case| ["plain", "tool-shell"].contains(&case))
}

#[test]
fn inspect_describes_a_component_and_its_measurements() {
    let bench = plain();
    let done = bench.run(&["inspect", bench.component()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    for part in [
        "gemini 0.",
        "aetheel:backend@0.3.0",
        "sha-256",
        "128.0 MiB",
        "its self-test and 2 recordings",
        "-o stream-json",
        "1.00 s",
        "ran for",
        " calls",
    ] {
        done.says(part);
    }
    let json = bench.run(&["inspect", bench.component(), "--json"]).json();
    assert_eq!(
        (json["contract"].as_str(), json["descriptor"]["name"].as_str()),
        (Some("aetheel:backend@0.3.0"), Some("gemini"))
    );
    assert_eq!(json["sha256"].as_str().unwrap().len(), 64);
    let (used, limit) =
        (json["used"]["memory"].as_u64().unwrap(), json["used"]["memory-limit"].as_u64().unwrap());
    assert!(
        used >= 1 << 20 && used < limit && json["used"]["longest-call-ms"].as_f64().unwrap() > 0.0,
        "{json}"
    );
    assert!(
        json["used"]["calls"].as_u64().unwrap() >= 3
            && json["used"]["ran-ms"].as_f64().unwrap() > 0.0,
        "{json}"
    );
    let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(
        fields,
        [
            "cases-by-agent-version",
            "contract",
            "descriptor",
            "file",
            "imports",
            "printed",
            "sha256",
            "size",
            "used"
        ]
    );
}

#[test]
fn replay_shows_what_the_agent_did() {
    let bench = Bench::shipped("gemini", |case| case == "tool-shell");
    let recording = bench.case("tool-shell");
    let done = bench.run(&["replay", bench.component(), recording.to_str().unwrap()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    for part in [
        "s start ",
        "s session ",
        "s bash ",
        "s result ",
        "s text ",
        "s end ",
        "completed",
        " in, ",
    ] {
        done.says(part);
    }
    let lines: Vec<Value> = bench
        .run(&["replay", bench.component(), recording.to_str().unwrap(), "--json"])
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let wanted =
        fs::read_to_string(bench.folder.path().join("cases/tool-shell.actions.jsonl")).unwrap();
    assert_eq!(lines.len(), wanted.lines().count());
    assert!(lines[0]["action"]["spawn"].is_object() && lines[0]["line"] == 2, "{}", lines[0]);
}

#[test]
fn replay_reports_a_truncated_recording_and_invents_no_end() {
    let bench = Bench::shipped("gemini", |case| case == "tool-shell");
    let recording = fs::read_to_string(bench.case("tool-shell")).unwrap();
    let lines: Vec<&str> = recording.lines().collect();
    let half =
        lines.iter().position(|line| line.contains("tool_result")).expect("the tool's result");
    let cut = r#"{"t":9000.0,"cut":"one recording may take a quarter of RECORDINGS_MAX_MIB"}"#;
    let file = bench.folder.path().join("cut.jsonl");
    fs::write(&file, format!("{}\n{cut}\n", lines[..half].join("\n"))).unwrap();
    let done = bench.run(&["replay", bench.component(), file.to_str().unwrap()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    done.says("the recording was cut, the rest is missing: one recording may take a quarter")
        .says("s bash ");
    for end in ["s end ", "completed"] {
        assert!(!done.out.contains(end), "{end}: {}", done.out);
    }
}

#[test]
fn replay_shows_where_two_components_differ() {
    let bench = plain();
    let recording = bench.case("plain");
    let (component, recording) = (bench.component(), recording.to_str().unwrap());
    let same = bench.run(&["replay", component, recording, "--diff", component]);
    assert_eq!(same.code, Some(0));
    same.says("both read it alike");
    let other = bench.folder.path().join("other.wasm");
    fs::write(&other, built("claude.wasm")).unwrap();
    let differs = bench.run(&["replay", component, recording, "--diff", other.to_str().unwrap()]);
    assert_eq!(differs.code, Some(1), "{differs:?}");
    differs
        .says("plain.jsonl:2")
        .says("  - {\"spawn\"")
        .says("  + {\"spawn\"")
        .says("read differently");
    let json =
        bench.run(&["replay", component, recording, "--diff", other.to_str().unwrap(), "--json"]);
    let first: Value = serde_json::from_str(json.out.lines().next().unwrap()).unwrap();
    assert_eq!((json.code, first["line"].as_u64()), (Some(1), Some(2)));
    assert!(
        first["first"][0]["spawn"].is_object() && first["second"][0]["spawn"].is_object(),
        "{first}"
    );
}

#[test]
fn test_names_the_line_and_the_field_of_a_difference() {
    let bench = plain();
    let component = bench.component();
    let passed = bench.run(&["test", component, "cases"]);
    assert_eq!(passed.code, Some(0), "{passed:?}");
    passed.says("2 of 2 passed");
    // The agent prints something other than the agreed output.
    let recording = fs::read_to_string(bench.case("plain")).unwrap();
    let said =
        recording.lines().position(|line| line.contains("\\\"role\\\":\\\"assistant\\\"")).unwrap();
    let changed: Vec<String> = recording
        .lines()
        .enumerate()
        .map(|(at, line)| {
            if at == said {
                line.replacen("\\\"content\\\":\\\"", "\\\"content\\\":\\\"Changed! ", 1)
            } else {
                line.to_owned()
            }
        })
        .collect();
    fs::write(bench.case("plain"), changed.join("\n") + "\n").unwrap();
    let failed = bench.run(&["test", component, "cases"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    failed
        .says(&format!("plain.jsonl:{}  field content", said + 1))
        .says("event.kind.text.text")
        .says("Changed! ");
    failed.says("--- expected").says("+++ got").says("1 of 2 passed");
    let json = bench.run(&["test", component, "cases", "--json"]).json();
    let case = json["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|case| case["result"] == "differs")
        .unwrap()
        .clone();
    assert_eq!(
        (case["line"].as_u64(), case["difference"]["field"].as_str()),
        (Some(said as u64 + 1), Some("content"))
    );
    assert_eq!((json["passed"].as_u64(), json["failed"].as_u64()), (Some(1), Some(1)));
    // The new actions become the agreed ones.
    let updated = bench.run(&["test", component, "cases", "--update"]);
    assert_eq!(updated.code, Some(0), "{updated:?}");
    updated.says("new ");
    assert_eq!(bench.run(&["test", component, "cases"]).code, Some(0));
}

#[test]
fn test_requires_the_expected_actions() {
    let bench = plain();
    fs::remove_file(bench.folder.path().join("cases/plain.actions.jsonl")).unwrap();
    let done = bench.run(&["test", bench.component(), "cases/plain.jsonl"]);
    assert_eq!(done.code, Some(1));
    done.says("plain.actions.jsonl is missing").says("--update");
    bench.run(&["test", bench.component(), "cases/plain.jsonl", "--update"]);
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/gemini/plain.actions.jsonl");
    let parsed = |text: String| {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect::<Vec<aetheel_model::agent::Action>>()
    };
    let written =
        fs::read_to_string(bench.folder.path().join("cases/plain.actions.jsonl")).unwrap();
    assert_eq!(parsed(written), parsed(fs::read_to_string(fixture).unwrap()));
}

#[test]
fn an_invalid_recording_is_named_with_its_line() {
    let bench = plain();
    let component = bench.component();
    let path = bench.case("plain");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("{\"command\"", "{\"comand\"", 1)).unwrap();
    for command in [
        &["test", component, "cases"][..],
        &["replay", component, "cases/plain.jsonl"],
        &["check", component, "cases"],
        &["bench", component, "cases/plain.jsonl"],
    ] {
        let done = bench.run(command);
        assert_eq!(done.code, Some(64), "{done:?}");
        done.says("plain.jsonl:2: ").says("comand");
    }
    for command in ["test", "replay", "bench"] {
        let done = bench.run(&[command, component, "missing.jsonl"]);
        assert_eq!(done.code, Some(64), "{done:?}");
        done.says("missing.jsonl: No such file");
    }
}

#[test]
fn bench_measures_a_component() {
    let bench = plain();
    let done = bench.run(&["bench", bench.component(), "cases/plain.jsonl", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let json = done.json();
    let number = |path: &str| {
        json.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {json}"))
    };
    for path in [
        "/load-ms/compiled",
        "/load-ms/cached",
        "/instantiate-us",
        "/one-line-a-call/mb-per-s",
        "/many-lines-a-call/lines-per-s",
        "/call-us/p50",
    ] {
        assert!(number(path) > 0.0, "{path}: {json}");
    }
    assert!(
        number("/call-us/p50") <= number("/call-us/p99")
            && number("/call-us/p99") <= number("/call-us/longest"),
        "{json}"
    );
    assert!(number("/idle-guest/memory") >= f64::from(1 << 20), "{json}");
    let recording = fs::read_to_string(bench.case("plain")).unwrap();
    assert_eq!(
        number("/recording/lines") as usize,
        recording.lines().filter(|line| line.contains("\"line\"")).count()
    );
}

#[test]
fn the_page_of_the_kit_has_a_row_for_every_command() {
    let help = std::process::Command::new(crate::support::program::aetheel())
        .args(["backend", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let mut commands: Vec<&str> = listed
        .filter_map(|line| {
            line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty())
        })
        .collect();
    commands.retain(|name| *name != "help");
    commands.sort_unstable();
    assert!(commands.len() > 10, "{help}");
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/kit.md")).unwrap();
    let mut rows: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `aetheel backend ")?.split([' ', '`']).next())
        .collect();
    rows.sort_unstable();
    assert_eq!(rows, commands, "left: rows of docs/kit.md, right: commands");
}

#[test]
fn output_of_a_component_is_shown_to_the_person_who_tests_it() {
    let bench = Bench::wat(&crate::backend::wasi::printing());
    let recording = bench.folder.path().join("timer.jsonl");
    let header = r#"{"aetheel-recording":1,"link":"l","backend":"wasi","backend-version":"1","generation":1,"digest":"","agent-version":null,"started":""}"#;
    fs::write(&recording, format!("{header}\n{}\n", r#"{"t":1,"in":{"command":"shutdown"}}"#))
        .unwrap();
    for command in ["check", "replay"] {
        let done = bench.run(&[command, bench.component(), "timer.jsonl"]);
        done.says("it printed").says(r"panicked at \u{1b}[31mred").says("boom");
    }
    let json = bench.run(&["check", bench.component(), "timer.jsonl", "--json"]).json();
    assert_eq!(json["printed"][1], "boom", "{json}");
    let quiet = plain();
    let done = quiet.run(&["replay", quiet.component(), "cases/plain.jsonl"]);
    assert!(!done.out.contains("it printed"), "{done:?}");
}

#[test]
fn a_core_module_is_refused_with_a_hint_to_make_a_component_of_it() {
    let bench = Bench::of(b"\0asm\x01\0\0\0");
    for command in ["check", "inspect"] {
        let done = bench.run(&[command, bench.component()]);
        assert_eq!(done.code, Some(1), "{done:?}");
        done.says("is a core module").says("aetheel backend componentize");
    }
}

#[test]
fn replay_shows_when_a_failed_turn_can_be_retried() {
    let bench = Bench::shipped("gemini", |case| case == "plain");
    let tape =
        aetheel_recording::ParsedRecording::read(&fs::read_to_string(bench.case("plain")).unwrap())
            .unwrap();
    let failure = aetheel_model::agent::AgentFailure {
        kind: aetheel_model::agent::FailureKind::RateLimited,
        message: "slow down".to_owned(),
        retry_after_ms: Some(1_500),
    };
    let done = aetheel_model::agent::TurnDone {
        session: 1,
        turn: 1,
        outcome: aetheel_model::agent::TurnOutcome::Failed(failure),
        text: None,
        usage: None,
    };
    let step = aetheel_recording::replay::ReplayStep {
        entry: 0,
        actions: vec![aetheel_model::agent::Action::TurnDone(done)],
    };
    let mut replayed = aetheel_recording::replay::ReplayResult::default();
    replayed.steps.push(step);
    let told = aetheel_kit::summary::summarize(&tape, &replayed);
    assert_eq!(told[0].text, "failed: rate-limited: slow down (again after 1.5 s)");
}
