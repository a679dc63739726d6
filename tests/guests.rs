//! The shipped backends as components: what their native tests pin over recorded runs holds in the sandbox too,
//! however the input is batched.

use std::path::{Path, PathBuf};

use aetheel::agent::{Action, Command, Exit, Exited, Input, Line, Pipe, Safety, Spawned, StartTurn, TimedInput};
use aetheel::backend::{Engine, Registry, RegistryOptions};
use aetheel::config::Limits;
use aetheel::turn::Backends as _;

use crate::support::built;

/// What the host would tell about a recording: as it is written there, or as the files of a one-shot run say.
fn inputs(folder: &Path) -> Vec<TimedInput> {
    let read = |name: &str| String::from_utf8_lossy(&std::fs::read(folder.join(name)).unwrap()).into_owned();
    if folder.join("inputs.jsonl").exists() {
        let told = read("inputs.jsonl");
        let entries =
            told.lines().map(|line| serde_json::from_str::<Entry>(line).unwrap_or_else(|error| panic!("{}: {error}", folder.display())));
        return entries.map(|Entry { t, input }| TimedInput { at_ms: t, input }).collect();
    }
    let argv: Vec<String> = serde_json::from_str(&read("argv.json")).unwrap();
    let value = |flag: &str| argv.iter().position(|argument| argument == flag).map(|at| argv[at + 1].clone());
    let fork = value("--fork");
    let start = StartTurn {
        cwd: "/srv/proj".into(),
        fork: fork.is_some(),
        native_id: value("--resume").or_else(|| value("-s")).or_else(|| value("--session")).or(fork),
        fresh_id: "7c1f7e52-2f0b-4bd1-9f57-3f1d4a6f0c11".into(),
        ..StartTurn::plain("recorded", Safety::Danger)
    };
    let line = |pipe, text: &str| Input::Line(Line { proc: 1, pipe, text: text.to_owned(), truncated: false });
    let how = match read("exit").split_whitespace().collect::<Vec<_>>()[..] {
        ["signal", number, ..] => Exit::Signal(number.parse().unwrap()),
        [code] if code.parse::<u32>().is_ok() => Exit::Code(code.parse().unwrap()),
        _ => Exit::Unknown,
    };
    let stderr = read("stderr").lines().collect::<Vec<_>>().join("\n");
    let mut inputs = vec![Input::Command(Command::StartTurn(start)), Input::Spawned(Spawned { proc: 1, agent_version: None })];
    inputs.extend(read("stdout").lines().map(|text| line(Pipe::Stdout, text)));
    inputs.extend(stderr.lines().map(|text| line(Pipe::Stderr, text)));
    inputs.push(Input::Exited(Exited { proc: 1, how, stderr_tail: stderr }));
    inputs.into_iter().enumerate().map(|(at, input)| TimedInput { at_ms: at as f64, input }).collect()
}

/// A line of `inputs.jsonl`.
#[derive(serde::Deserialize)]
struct Entry {
    t: f64,
    #[serde(rename = "in")]
    input: Input,
}

/// All folders below one that hold actions to compare with.
fn recordings(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for inner in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        if inner.join("actions.jsonl").exists() {
            found.push(inner);
        } else {
            found.extend(recordings(&inner));
        }
    }
    found.sort();
    found
}

/// Hands every recording of a backend to its component, in three batchings.
async fn same_as_native(name: &str, least: usize) {
    let backends = tempfile::tempdir().unwrap();
    std::fs::write(backends.path().join(format!("{name}.wasm")), built(&format!("{name}.wasm"))).unwrap();
    let (registry, reports) = Registry::start(Engine::new(&Limits::default(), None).unwrap(), RegistryOptions::new(backends.path())).await;
    let backend = registry.get(name).unwrap_or_else(|| panic!("{reports:?}"));
    let folders = recordings(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name));
    for folder in &folders {
        let golden = std::fs::read_to_string(folder.join("actions.jsonl")).unwrap();
        let expected: Vec<Action> = golden.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let inputs = inputs(folder);
        for batch in [1, 7, inputs.len()] {
            let mut guest = backend.open().await.unwrap();
            let mut actions = Vec::new();
            for inputs in inputs.chunks(batch) {
                actions.extend(guest.handle(inputs.to_vec()).await.unwrap());
            }
            for (number, (is, was)) in actions.iter().zip(&expected).enumerate() {
                assert_eq!(is, was, "{} in batches of {batch}, action {}", folder.display(), number + 1);
            }
            assert_eq!(actions.len(), expected.len(), "{} in batches of {batch}", folder.display());
        }
    }
    assert!(folders.len() >= least, "only {} recordings", folders.len());
}

macro_rules! components {
    ($($test:ident: $name:literal, $least:literal;)*) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            same_as_native($name, $least).await;
        }
    )* };
}
components! {
    the_acp_component_makes_of_every_recording_what_the_native_parser_makes_of_it: "acp", 12;
    the_claude_component_makes_of_every_recording_what_the_native_parser_makes_of_it: "claude", 90;
    the_codex_component_makes_of_every_recording_what_the_native_parser_makes_of_it: "codex", 60;
    the_opencode_component_makes_of_every_recording_what_the_native_parser_makes_of_it: "opencode", 45;
    the_droid_component_makes_of_every_recording_what_the_native_parser_makes_of_it: "droid", 50;
    the_gemini_component_makes_of_every_recording_what_the_native_parser_makes_of_it: "gemini", 45;
}
