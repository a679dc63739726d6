//! What agents said when they were recorded (`tests/fixtures`), as the host would tell it to a
//! guest.
#![allow(dead_code, reason = "the benches use less of it")]

use std::path::{Path, PathBuf};

use aetheel::agent::{
    Command, Exit, Exited, Input, Line, Pipe, Safety, Spawned, StartTurn, TimedInput,
};

/// What the host would tell about a recording: as it is written there, or as the files of a
/// one-shot run say.
pub fn inputs(folder: &Path) -> Vec<TimedInput> {
    let read = |name: &str| {
        String::from_utf8_lossy(&std::fs::read(folder.join(name)).unwrap()).into_owned()
    };
    if folder.join("inputs.jsonl").exists() {
        let told = read("inputs.jsonl");
        let entries = told.lines().map(|line| {
            serde_json::from_str::<Entry>(line)
                .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        });
        return entries.map(|Entry { t, input }| TimedInput { at_ms: t, input }).collect();
    }
    let argv: Vec<String> = serde_json::from_str(&read("argv.json")).unwrap();
    let value = |flag: &str| {
        argv.iter().position(|argument| argument == flag).map(|at| argv[at + 1].clone())
    };
    let fork = value("--fork");
    let start = StartTurn {
        cwd: "/srv/proj".into(),
        fork: fork.is_some(),
        native_id: value("--resume")
            .or_else(|| value("-s"))
            .or_else(|| value("--session"))
            .or(fork),
        fresh_id: "7c1f7e52-2f0b-4bd1-9f57-3f1d4a6f0c11".into(),
        ..StartTurn::plain("recorded", Safety::Danger)
    };
    let line = |pipe, text: &str| {
        Input::Line(Line { proc: 1, pipe, text: text.to_owned(), truncated: false })
    };
    let how = match read("exit").split_whitespace().collect::<Vec<_>>()[..] {
        ["signal", number, ..] => Exit::Signal(number.parse().unwrap()),
        [code] if code.parse::<u32>().is_ok() => Exit::Code(code.parse().unwrap()),
        _ => Exit::Unknown,
    };
    let stderr = read("stderr").lines().collect::<Vec<_>>().join("\n");
    let mut inputs = vec![
        Input::Command(Command::StartTurn(start)),
        Input::Spawned(Spawned { proc: 1, agent_version: None }),
    ];
    inputs.extend(read("stdout").lines().map(|text| line(Pipe::Stdout, text)));
    inputs.extend(stderr.lines().map(|text| line(Pipe::Stderr, text)));
    inputs.push(Input::Exited(Exited { proc: 1, how, stderr_tail: stderr }));
    inputs
        .into_iter()
        .enumerate()
        .map(|(at, input)| TimedInput { at_ms: at as f64, input })
        .collect()
}

/// A line of `inputs.jsonl`.
#[derive(serde::Deserialize)]
struct Entry {
    t: f64,
    #[serde(rename = "in")]
    input: Input,
}

/// All folders below one that hold actions to compare with.
pub fn recordings(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for inner in std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
    {
        if inner.join("actions.jsonl").exists() {
            found.push(inner);
        } else {
            found.extend(recordings(&inner));
        }
    }
    found.sort();
    found
}

/// Writes such a folder as a recording in the format of the gateway, with the actions it must give
/// beside it.
pub fn write(folder: &Path, to: &Path) {
    std::fs::write(to, recording(&inputs(folder))).unwrap();
    let beside = to.with_file_name(
        to.file_name().unwrap().to_str().unwrap().replace(".jsonl", ".actions.jsonl"),
    );
    std::fs::copy(folder.join("actions.jsonl"), beside).unwrap();
}

/// Inputs as a recording in the format of the gateway.
pub fn recording(inputs: &[TimedInput]) -> String {
    let header = serde_json::json!({
        "aetheel-recording": 1, "link": "fixture", "backend": "fixture", "backend-version": "1", "generation": 1, "digest": "",
        "agent-version": null, "started": "2026-01-02T03:04:05Z",
    });
    let lines = inputs
        .iter()
        .map(|told| format!("{}\n", serde_json::json!({ "t": told.at_ms, "in": told.input })));
    format!("{header}\n{}", lines.collect::<String>())
}
