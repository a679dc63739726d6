//! A program that edits text takes the place of a model, and mends each shipped backend after its
//! agent renamed a word of its output: with the real command, in the sandbox, in one turn of the
//! agent and one build.
//!
//! The program (`editor.py`) does not know the new word. It finds the word in its folder.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use aetheel_recording::RecordingEntry;
use serde_json::Value;

use super::formats::{TURN, with_turn};
use crate::support::program::{Installation, built};
use crate::support::recordings::{case, fixtures};

/// Limit for the command, which compiles a backend and its dependencies.
const MENDED: Duration = Duration::from_secs(540);

/// A new version of an agent, which renamed a word.
struct Renamed {
    backend: &'static str,
    /// The recording that the new version changes.
    recording: &'static str,
    /// The former and the new text in the agent's lines.
    texts: [&'static str; 2],
    /// The new word.
    word: &'static str,
    /// Recordings of the former version.
    cases: [&'static str; 2],
    /// The reply in the recording.
    reply: &'static str,
}

impl Renamed {
    /// Writes the changed recording.
    fn record(&self, file: &Path) {
        let [before, after] = self.texts;
        let case = case(self.backend, self.recording);
        let entries = case.tape.entries.iter().map(|entry| {
            let mut entry = serde_json::to_value(entry).unwrap();
            if let Some(Value::String(text)) = entry.pointer_mut("/in/line/text") {
                *text = text.replace(before, after);
            }
            serde_json::from_value(entry).unwrap()
        });
        let turn = case.tape.entries.iter().find_map(RecordingEntry::turn_start).unwrap().turn;
        let lost = with_turn(&case, entries.collect(), turn).tape;
        let lines = lost.entries.iter().map(|entry| serde_json::to_string(entry).unwrap());
        let header = serde_json::to_string(&lost.header).unwrap();
        let lines: Vec<String> = std::iter::once(header).chain(lines).collect();
        fs::write(file, lines.join("\n") + "\n").unwrap();
    }

    async fn is_mended_in_one_turn_and_one_build(&self) {
        let begun = Instant::now();
        let name = self.backend;
        let installation = Installation::new().with_toolchain();
        let program = installation.path("editor.py").display().to_string();
        let installation = installation.with("BACKEND_CLI_PATH", &program);
        let at = |name: &str| installation.path(name).display().to_string();
        fs::write(installation.backend(name), built(name)).unwrap();
        fs::write(installation.path("editor.py"), include_str!("editor.py")).unwrap();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(installation.path("editor.py"), executable).unwrap();
        self.record(&installation.path("lost.jsonl"));
        copy_sources(&installation.path("sources"));

        let [first, second] = self.cases.map(|name| format!("{name}.jsonl"));
        let [first, second] =
            [first, second].map(|file| fixtures(name).join(file).display().to_string());
        let (lost, sources, output) = (at("lost.jsonl"), at("sources"), at("mended.wasm"));
        let arguments = ["backend", "mend", name, "--with", "demo", "--rounds", "1"];
        let places = ["--source", &sources, "--recording", &lost, "--output", &output];
        let cases = ["--cases", &first, "--cases", &second, "--mutants", "100"];
        let mut program = installation.start(&[&arguments[..], &places, &cases].concat());
        let ended = program.ended_within(MENDED).await;
        let said = format!("{}\n{}", ended.stdout, ended.stderr);
        let took = begun.elapsed().as_secs();
        println!("{name}: {took} s\n{said}");
        assert_eq!(ended.code, 0, "{name}: {said}");

        assert!(said.contains(&format!("read {TURN}  {}", self.reply)), "{name}: {said}");
        let change = fs::read_to_string(installation.path("mended.diff")).unwrap();
        println!("{change}");
        let is_added = |line: &str| line.starts_with('+') && line.contains(self.word);
        assert!(change.lines().any(is_added), "{name}: {change}");
        // A round has one build, and one round was allowed.
        let turns = installation.recordings();
        assert_eq!(turns.len(), 1, "{name}: {:?}", turns.keys());
        let recorded = turns.values().next().unwrap();
        assert!(recorded.contains(&format!("may be {}.", self.word)), "{name}: {recorded}");
        // The command does not wait until it gives up closing the link, which is after 30 s.
        let waited = time_of(recorded, r#""ending":"#) - time_of(recorded, r#""turn-done":"#);
        assert!(waited < 30_000.0, "{name}: {waited} ms");
    }
}

/// Returns the time of an entry of a recording, in milliseconds.
fn time_of(recorded: &str, entry: &str) -> f64 {
    let line = recorded.lines().find(|line| line.contains(entry)).unwrap();
    serde_json::from_str::<Value>(line).unwrap()["t"].as_f64().unwrap()
}

/// Copies the sources of the shipped backends, with settings that make the build fast. Only the
/// speed of the component suffers.
fn copy_sources(to: &Path) {
    let copied = Command::new("cp").arg("-rL").arg(super::smith::sources()).arg(to).status();
    assert!(copied.unwrap().success());
    let manifest = to.join("Cargo.toml");
    let mut text = fs::read_to_string(&manifest).unwrap();
    for (slow, fast) in [
        ("opt-level = 3", "opt-level = 1"),
        ("lto = \"fat\"", "lto = \"off\""),
        ("codegen-units = 1\n", "codegen-units = 16\n"),
    ] {
        assert!(text.contains(slow), "{slow}");
        text = text.replace(slow, fast);
    }
    fs::write(manifest, text).unwrap();
}

#[tokio::test]
async fn a_program_mends_codex_after_the_kind_of_its_answers_was_renamed() {
    let renamed = Renamed {
        backend: "codex",
        recording: "plain",
        texts: [r#""agent_message""#, r#""assistant_message""#],
        word: "assistant_message",
        cases: ["tool-shell", "think"],
        reply: "MOCK ANSWER: Say hello.",
    };
    renamed.is_mended_in_one_turn_and_one_build().await;
}

#[tokio::test]
#[ignore = "a build: make proof"]
async fn a_program_mends_gemini_after_the_field_of_its_answers_was_renamed() {
    let renamed = Renamed {
        backend: "gemini",
        recording: "plain",
        texts: [r#""content":"#, r#""reply":"#],
        word: "reply",
        cases: ["tool-shell", "deltas"],
        reply: "MOCK ANSWER: Say hello.",
    };
    renamed.is_mended_in_one_turn_and_one_build().await;
}

#[tokio::test]
#[ignore = "a build: make proof"]
async fn a_program_mends_claude_after_the_field_of_its_result_was_renamed() {
    let renamed = Renamed {
        backend: "claude",
        recording: "json-plain",
        texts: [r#""result":""#, r#""answer":""#],
        word: "answer",
        cases: ["plain", "tool-shell"],
        reply: "MOCK ANSWER: Say hello.",
    };
    renamed.is_mended_in_one_turn_and_one_build().await;
}

#[tokio::test]
#[ignore = "a build: make proof"]
async fn a_program_mends_droid_after_the_kind_of_its_last_line_was_renamed() {
    let renamed = Renamed {
        backend: "droid",
        recording: "plain",
        texts: [r#""completion""#, r#""finished""#],
        word: "finished",
        cases: ["tool-shell", "reasoning-high"],
        reply: "MOCK ANSWER: Say hello.",
    };
    renamed.is_mended_in_one_turn_and_one_build().await;
}

#[tokio::test]
#[ignore = "a build: make proof"]
async fn a_program_mends_opencode_after_the_kind_of_its_answers_was_renamed() {
    let renamed = Renamed {
        backend: "opencode",
        recording: "run-plain",
        texts: [r#""type":"text""#, r#""type":"message_text""#],
        word: "message_text",
        cases: ["run-tool-edit", "run-tool-write"],
        reply: r#"MOCK ANSWER: "Say hello.""#,
    };
    renamed.is_mended_in_one_turn_and_one_build().await;
}

#[tokio::test]
#[ignore = "a build: make proof"]
async fn a_program_mends_acp_after_the_kind_of_its_answers_was_renamed() {
    let renamed = Renamed {
        backend: "acp",
        recording: "claude-permission-allow-once",
        texts: [r#""agent_message_chunk""#, r#""agent_text_chunk""#],
        word: "agent_text_chunk",
        cases: ["claude-permission-reject-once", "droid-permission-reject-once"],
        reply: "After the answer.",
    };
    renamed.is_mended_in_one_turn_and_one_build().await;
}
