//! The shipped backends as components: what their native tests pin over recorded runs holds in the sandbox too,
//! however the input is batched.

use std::path::Path;

use aetheel::agent::{Action, Command, Exit, Exited, Input, Line, Pipe, Safety, Spawned, StartTurn, TimedInput};
use aetheel::backend::{Engine, Registry, RegistryOptions};
use aetheel::config::Limits;
use aetheel::turn::Backends as _;

use crate::support::built;

fn start(resume: Option<String>) -> StartTurn {
    StartTurn {
        cwd: "/srv/proj".into(),
        native_id: resume,
        fresh_id: "7c1f7e52-2f0b-4bd1-9f57-3f1d4a6f0c11".into(),
        ..StartTurn::plain("recorded", Safety::Danger)
    }
}

/// What the host would tell about a recorded run.
fn inputs(folder: &Path) -> Vec<TimedInput> {
    let read = |name: &str| String::from_utf8_lossy(&std::fs::read(folder.join(name)).unwrap()).into_owned();
    let argv: Vec<String> = serde_json::from_str(&read("argv.json")).unwrap();
    let resume = argv.iter().position(|argument| argument == "--resume").map(|at| argv[at + 1].clone());
    let line = |pipe, text: &str| Input::Line(Line { proc: 1, pipe, text: text.to_owned(), truncated: false });
    let how = match read("exit").split_whitespace().collect::<Vec<_>>()[..] {
        ["signal", number, ..] => Exit::Signal(number.parse().unwrap()),
        [code] if code.parse::<u32>().is_ok() => Exit::Code(code.parse().unwrap()),
        _ => Exit::Unknown,
    };
    let stderr = read("stderr").lines().collect::<Vec<_>>().join("\n");
    let mut inputs = vec![Input::Command(Command::StartTurn(start(resume))), Input::Spawned(Spawned { proc: 1, agent_version: None })];
    inputs.extend(read("stdout").lines().map(|text| line(Pipe::Stdout, text)));
    inputs.extend(stderr.lines().map(|text| line(Pipe::Stderr, text)));
    inputs.push(Input::Exited(Exited { proc: 1, how, stderr_tail: stderr }));
    inputs.into_iter().enumerate().map(|(at, input)| TimedInput { at_ms: at as f64, input }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_claude_component_makes_of_every_recording_what_the_native_parser_makes_of_it() {
    let backends = tempfile::tempdir().unwrap();
    std::fs::write(backends.path().join("claude.wasm"), built("claude.wasm")).unwrap();
    let (registry, reports) = Registry::start(Engine::new(&Limits::default(), None).unwrap(), RegistryOptions::new(backends.path())).await;
    let claude = registry.get("claude").unwrap_or_else(|| panic!("{reports:?}"));
    let mut runs = 0;
    for folder in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/claude")).unwrap() {
        let folder = folder.unwrap().path();
        let Ok(golden) = std::fs::read_to_string(folder.join("actions.jsonl")) else { continue };
        let expected: Vec<Action> = golden.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let inputs = inputs(&folder);
        for batch in [1, 7, inputs.len()] {
            let mut guest = claude.open().await.unwrap();
            let mut actions = Vec::new();
            for inputs in inputs.chunks(batch) {
                actions.extend(guest.handle(inputs.to_vec()).await.unwrap());
            }
            assert_eq!(actions.len(), expected.len(), "{} in batches of {batch}", folder.display());
            for (number, (is, was)) in actions.iter().zip(&expected).enumerate() {
                assert_eq!(is, was, "{} in batches of {batch}, action {}", folder.display(), number + 1);
            }
        }
        runs += 1;
    }
    assert!(runs > 60, "only {runs} recordings");
}
