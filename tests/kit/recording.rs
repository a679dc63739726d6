//! Tests of recording a real program by hand, and of using the recording.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use aetheel_model::agent::{AskAnswer, AskDecision, Exit, HostCommand, Input, Mode, Safety};
use aetheel_recording::{EntryKind, ParsedRecording};
use serde_json::Value;

use super::{Bench, done};
use crate::support::built;

/// Prints the same lines as Gemini CLI, and the prompt it received.
const AGENT: &str = r#"#!/bin/sh
read prompt
echo '{"type":"init","timestamp":"2026-01-01T00:00:00.000Z","session_id":"7c1f7e52-2f0b-4bd1-9f57-3f1d4a6f0c11","model":"m"}'
echo "{\"type\":\"message\",\"timestamp\":\"t\",\"role\":\"assistant\",\"content\":\"You said $prompt, key $MY_API_KEY\",\"delta\":true}"
echo 'a warning' >&2
echo '{"type":"result","timestamp":"t","status":"success","stats":{"total_tokens":5,"input_tokens":3,"output_tokens":2,"cached":0,"input":3,"duration_ms":1,"tool_calls":0,"models":{"m":{"total_tokens":5,"input_tokens":3,"output_tokens":2,"cached":0,"input":3}}}}'
exit ${EXIT:-0}
"#;

fn bench() -> Bench {
    let bench = Bench::of(&built("gemini.wasm"));
    let agent = bench.folder.path().join("agent");
    fs::write(&agent, AGENT).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    bench
}

fn tape(bench: &Bench, name: &str) -> ParsedRecording {
    ParsedRecording::read(&fs::read_to_string(bench.folder.path().join(name)).unwrap()).unwrap()
}

#[test]
fn a_program_run_by_hand_becomes_a_recording_that_can_be_read_and_tested() {
    let bench = bench();
    let mut child = bench
        .command(
            &["record", "--prompt", "Greet me", "--agent-version", "0.61.0", "--", "./agent"],
            &[("MY_API_KEY", "sk-canary-51")],
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    let recorded = done(child.wait_with_output().unwrap());
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    recorded.says("You said hello").says("a warning").says("recorded 4 lines").says("agent.jsonl");

    let path = bench.folder.path().join("agent.jsonl");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("sk-canary-51") && text.contains("key ***"), "{text}");
    let tape = tape(&bench, "agent.jsonl");
    let whats: Vec<&EntryKind> = tape.entries.iter().map(|entry| &entry.kind).collect();
    assert!(matches!(whats[0], EntryKind::Turn { key: 1, .. }), "{whats:?}");
    assert!(
        matches!(whats[1], EntryKind::In(Input::Command(HostCommand::StartTurn(start))) if format!("{:?}", start.parts).contains("Greet me"))
    );
    assert!(
        matches!(whats[2], EntryKind::Launch { command, .. } if command[0] == "./agent"),
        "{whats:?}"
    );
    let folder = bench.folder.path().canonicalize().unwrap();
    assert!(
        !text.contains(folder.to_str().unwrap()) && !text.contains("MY_API_KEY"),
        "it can be shared: {text}"
    );
    assert!(
        matches!(whats[3], EntryKind::In(Input::Spawned(spawned)) if spawned.agent_version.as_deref() == Some("0.61.0")),
        "{whats:?}"
    );
    assert_eq!(tape.header.agent_version.as_deref(), Some("0.61.0"));
    let told: Vec<&str> = whats
        .iter()
        .filter_map(
            |what| if let EntryKind::Host(note) = what { Some(note.as_str()) } else { None },
        )
        .collect();
    // The end of stdin is recorded too, unless the agent ended before.
    assert_eq!(told[0], "stdin: hello\n");
    assert!(
        matches!(whats[whats.len() - 2], EntryKind::In(Input::Exited(exited)) if exited.how == Exit::Code(0) && exited.stderr_tail.contains("a warning"))
    );
    assert!(matches!(whats[whats.len() - 1], EntryKind::Ending { how, .. } if how == "completed"));

    let read = bench.run(&["replay", bench.component(), "agent.jsonl"]);
    assert_eq!(read.code, Some(0), "{read:?}");
    read.says("You said hello, key ***").says("completed").says("3 in, 2 out");
    assert_eq!(
        bench.run(&["test", bench.component(), "agent.jsonl"]).code,
        Some(1),
        "no actions were agreed on"
    );
    assert_eq!(bench.run(&["test", bench.component(), "agent.jsonl", "--update"]).code, Some(0));
    assert_eq!(bench.run(&["test", bench.component(), "agent.jsonl"]).code, Some(0));
    assert_eq!(bench.run(&["check", bench.component(), "agent.jsonl"]).code, Some(0));
}

#[test]
fn the_exit_code_is_the_commands_and_files_are_never_overwritten() {
    let bench = bench();
    for (number, name) in ["agent.jsonl", "agent-2.jsonl"].iter().enumerate() {
        let recorded = bench.run_with(&["record", "--", "./agent"], &[("EXIT", "3")]);
        assert_eq!(recorded.code, Some(3), "{recorded:?}");
        recorded.says(name);
        let last = tape(&bench, name).entries.pop().unwrap();
        assert!(
            matches!(&last.kind, EntryKind::Ending { how, .. } if how == "agent-failure: exit code 3"),
            "{number}: {last:?}"
        );
    }
    let killed = bench.run(&["record", "-o", "killed.jsonl", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.code, Some(137), "{killed:?}");
    let taken = bench.run(&["record", "-o", "killed.jsonl", "--", "true"]);
    assert_eq!(taken.code, Some(64));
    taken.says("killed.jsonl: File exists").says("--output");
    let missing = bench.run(&["record", "--", "no-such-program-51"]);
    assert_eq!(missing.code, Some(64));
    missing.says("program not found: no-such-program-51");
    assert!(!bench.folder.path().join("no-such-program-51.jsonl").exists());
}

#[test]
fn a_long_lived_agent_is_recorded_turn_by_turn() {
    let bench = bench();
    let agent = "while read line; do echo \"heard $line\"; echo 'turn over'; done";
    let arguments = [
        "record",
        "-o",
        "live.jsonl",
        "--live",
        "--until",
        "turn over",
        "--safety",
        "edit",
        "--mode",
        "plan",
        "--prompt",
        "First",
        "--",
        "sh",
        "-c",
        agent,
    ];
    let mut child = bench
        .command(&arguments, &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Everything is written at once. The lines of a turn wait until the previous turn has ended,
    // and so does the end of stdin.
    child.stdin.take().unwrap().write_all(b"one\n/turn Second\ntwo\n/turn Third\nthree").unwrap();
    let recorded = done(child.wait_with_output().unwrap());
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    let tape = tape(&bench, "live.jsonl");
    let story: Vec<String> = tape
        .entries
        .iter()
        .filter_map(|entry| match &entry.kind {
            EntryKind::In(Input::Command(HostCommand::StartTurn(start))) => {
                assert!(
                    !start.one_shot
                        && start.settings.safety == Safety::Edit
                        && start.settings.mode == Mode::Plan,
                    "{start:?}"
                );
                Some(format!("turn {}: {:?}", start.turn, start.parts))
            }
            EntryKind::In(Input::Line(line)) => Some(line.text.clone()),
            EntryKind::Ending { how, .. } => Some(how.clone()),
            _ => None,
        })
        .collect();
    let expected = [
        "turn 1: [Text(\"First\")]",
        "heard one",
        "turn over",
        "completed",
        "turn 2: [Text(\"Second\")]",
        "heard two",
        "turn over",
        "completed",
        "turn 3: [Text(\"Third\")]",
        "heard three",
        "turn over",
        "completed",
    ];
    assert_eq!(story, expected);
    let wrong = bench.run(&["record", "--safety", "edti", "--", "true"]);
    assert_eq!(wrong.code, Some(64), "{wrong:?}");
    wrong.says("edti").says("`default`, `edit`, `danger`");
}

#[test]
fn answers_and_interruptions_of_people_are_recorded_and_not_passed_to_the_agent() {
    let bench = bench();
    let agent = "while read line; do echo \"heard $line\"; done; echo over";
    let mut child = bench
        .command(
            &["record", "-o", "x.jsonl", "--live", "--until", "never", "--", "sh", "-c", agent],
            &[],
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(b"one\n/answer 2 deny\nno\n/interrupt\nstop\n/answer 2 perhaps\n/turn Next\n")
        .unwrap();
    let mut output = BufReader::new(child.stderr.take().unwrap()).lines();
    let note = output.next().unwrap().unwrap();
    assert!(note.contains("waits until the agent prints `never` (--until)"), "{note}");
    // The note comes when everything before the next turn was passed on.
    let heard = BufReader::new(child.stdout.take().unwrap()).lines().take(4);
    let heard: Vec<String> = heard.map(Result::unwrap).collect();
    assert_eq!(heard, ["heard one", "heard no", "heard stop", "heard /answer 2 perhaps"]);
    let id = rustix::process::Pid::from_child(&child);
    for _ in 0..2 {
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    }
    child.wait().unwrap();
    let tape = tape(&bench, "x.jsonl");
    let commands: Vec<&HostCommand> = tape
        .entries
        .iter()
        .filter_map(|entry| match entry.input() {
            Some(Input::Command(command)) => Some(command),
            _ => None,
        })
        .collect();
    let denied = AskAnswer { ask: 2, decision: AskDecision::Deny(None) };
    assert_eq!(*commands[1], HostCommand::Answer(denied));
    assert!(matches!(commands[2], HostCommand::Interrupt(turn) if turn.turn == 1), "{commands:?}");
}

#[test]
fn an_interrupt_stops_the_agent_and_keeps_the_recording() {
    let bench = bench();
    let mut child = bench
        .command(
            &[
                "record",
                "-o",
                "long.jsonl",
                "--",
                "sh",
                "-c",
                "trap 'echo stopped; exit 7' INT; echo ready; while :; do sleep 0.05; done",
            ],
            &[],
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let tape = tape(&bench, "long.jsonl");
    let lines: Vec<String> = tape
        .entries
        .iter()
        .filter_map(|entry| match &entry.kind {
            EntryKind::In(Input::Line(line)) => Some(line.text.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(lines, ["ready", "stopped"]);
}

#[test]
fn findings_about_a_recording_made_by_hand_are_stable_json() {
    let bench = bench();
    bench.run(&["record", "--", "./agent"]);
    let json = bench.run(&["check", bench.component(), "agent.jsonl", "--json"]).json();
    let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(
        fields,
        [
            "areas",
            "component",
            "name",
            "passed",
            "printed",
            "recordings",
            "sha256",
            "used",
            "version"
        ]
    );
    let names: Vec<&str> =
        json["areas"].as_array().unwrap().iter().filter_map(|area| area["name"].as_str()).collect();
    assert_eq!(names, ["hostile input", "determinism", "batching", "handover", "fields"]);
    assert_eq!(
        (json["passed"].clone(), json["recordings"].clone()),
        (Value::from(true), Value::from(1))
    );
}

/// A parser that misses the agent's answer, like one with a misspelt field name.
#[test]
fn an_answer_that_the_component_does_not_read_fails_the_check_and_is_in_the_replay() {
    let bench = Bench::wat(&super::hostile::forgetful());
    let agent = bench.folder.path().join("agent");
    let said = r#"{"type":"answer","message":{"text":"The build is green again."}}"#;
    fs::write(&agent, format!("#!/bin/sh\nread prompt\necho '{said}'\n")).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let recorded = bench.run(&["record", "--", "./agent"]);
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    let text = fs::read_to_string(bench.folder.path().join("agent.jsonl")).unwrap();
    let line = 1 + text.lines().position(|line| line.contains("green")).unwrap();

    let checked = bench.run(&["check", bench.component(), "agent.jsonl", "--json"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    let found = checked.findings();
    let reads: Vec<&Value> = found.iter().filter(|finding| finding["rule"] == "reads").collect();
    let [finding] = &reads[..] else { panic!("{found:#?}") };
    assert_eq!(finding["line"], line);
    let got = finding["got"].as_str().unwrap();
    assert!(got.contains("`message.text`") && got.contains("The build is green again."), "{got}");

    let replayed = bench.run(&["replay", bench.component(), "agent.jsonl"]);
    replayed.says("unread").says("`message.text`: The build is green again.");
    let replayed = bench.run(&["replay", bench.component(), "agent.jsonl", "--json"]);
    let unread = replayed.out.lines().find(|line| line.contains("unread")).unwrap();
    let unread: Value = serde_json::from_str(unread).unwrap();
    let position = &unread["unread"]["position"];
    assert_eq!((&unread["line"], position), (&Value::from(line), &Value::from("message.text")));
}
