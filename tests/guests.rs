//! Tests of the shipped backends as components: for every recording they return the actions that
//! the native tests expect, however the inputs are batched.

use std::sync::Arc;

use aetheel_model::agent::{Action, HostCommand, Input, Safety, Spawn, StartTurn, TimedInput};
use aetheel_model::limits::ResourceLimits;
use aetheel_recording::Backend;
use aetheel_turn::Backends as _;
use aetheel_wasm::{Engine, Registry, RegistryOptions};

use crate::support::built;
use crate::support::recordings::{actions, cases, inputs};

/// Loads a shipped component.
async fn shipped(name: &str) -> Arc<dyn Backend> {
    let backends = tempfile::tempdir().unwrap();
    std::fs::write(backends.path().join(format!("{name}.wasm")), built(&format!("{name}.wasm")))
        .unwrap();
    let (registry, reports) = Registry::start(
        Engine::new(&ResourceLimits::default(), None, aetheel_settings::NAMES).unwrap(),
        RegistryOptions::new(backends.path()),
    )
    .await;
    registry.get(name).unwrap_or_else(|| panic!("{reports:?}"))
}

/// Passes every recording of a backend to its component, with three batch sizes.
async fn same_as_native(name: &str, least: usize) {
    let backend = shipped(name).await;
    let cases = cases(name);
    for case in &cases {
        let (expected, inputs, path) = (actions(case), inputs(case), case.path.display());
        for batch in [1, 7, inputs.len()] {
            let mut guest = backend.open().await.unwrap();
            let mut given = Vec::new();
            for inputs in inputs.chunks(batch) {
                given.extend(guest.handle(inputs.to_vec()).await.unwrap());
            }
            for (number, (is, was)) in given.iter().zip(expected).enumerate() {
                assert_eq!(is, was, "{path} in batches of {batch}, action {}", number + 1);
            }
            assert_eq!(given.len(), expected.len(), "{path} in batches of {batch}");
        }
    }
    assert!(cases.len() >= least, "only {} recordings", cases.len());
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
    the_acp_component_replays_every_recording_like_the_native_parser: "acp", 12;
    the_claude_component_replays_every_recording_like_the_native_parser: "claude", 90;
    the_codex_component_replays_every_recording_like_the_native_parser: "codex", 60;
    the_opencode_component_replays_every_recording_like_the_native_parser: "opencode", 45;
    the_droid_component_replays_every_recording_like_the_native_parser: "droid", 50;
    the_gemini_component_replays_every_recording_like_the_native_parser: "gemini", 45;
}

/// Returns the programs that are started for a first and a resumed turn, one-shot and long-lived.
async fn spawned(name: &str) -> Vec<Spawn> {
    let backend = shipped(name).await;
    let mut spawned = Vec::new();
    for (one_shot, native_id) in [(true, None), (true, Some(())), (false, None), (false, Some(()))]
    {
        let mut start = StartTurn::plain("words-of-a-person", Safety::Danger);
        start.one_shot = one_shot;
        start.native_id = native_id.map(|()| "0199a1b2-26c2-7bb6-a6f8-7f7d6f6b1c11".to_owned());
        start.settings.system_prompt = Some("words-of-the-operator".to_owned());
        start.settings.options = r#"{"program":"agent","arguments":["acp"]}"#.to_owned();
        let mut guest = backend.open().await.unwrap();
        let input = TimedInput { at_ms: 0.0, input: Input::Command(HostCommand::StartTurn(start)) };
        let actions = guest.handle(vec![input]).await.unwrap();
        spawned.extend(actions.into_iter().filter_map(|action| {
            if let Action::Spawn(spawn) = action { Some(spawn) } else { None }
        }));
    }
    spawned
}

#[tokio::test(flavor = "multi_thread")]
async fn no_argument_of_any_agent_contains_a_prompt() {
    for name in ["acp", "claude", "codex", "opencode", "droid", "gemini"] {
        let spawned = spawned(name).await;
        assert!(spawned.len() >= 2, "{name} starts its agent: {spawned:?}");
        for spawn in spawned {
            let seen = format!("{:?} {:?}", spawn.arguments, spawn.environment);
            assert!(
                !seen.contains("words-of"),
                "{name}: other users of the machine can read it: {seen}"
            );
        }
    }
}

/// Returns the programs, files and messages to the agent that a component asks for.
async fn asked_for(backend: &Arc<dyn Backend>, inputs: Vec<TimedInput>) -> Vec<String> {
    let mut guest = backend.open().await.unwrap();
    let mut asked = Vec::new();
    for input in inputs {
        let reaches_the_agent = |action: &Action| {
            matches!(
                action,
                Action::Spawn(_) | Action::PutFile(_) | Action::Write(_) | Action::Http(_)
            )
        };
        let actions = guest.handle(vec![input]).await.unwrap();
        asked.extend(actions.iter().filter(|it| reaches_the_agent(it)).map(|it| format!("{it:?}")));
    }
    asked
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_allowed_tools_reaches_every_agent_in_both_modes() {
    for (name, tool) in [
        ("claude", "Read"),
        ("codex", "web_search"),
        ("opencode", "read"),
        ("droid", "Read"),
        ("gemini", "read_file"),
    ] {
        let (backend, cases) = (shipped(name).await, cases(name));
        for one_shot in [true, false] {
            let mut tried = 0;
            for case in &cases {
                let usual = inputs(case);
                let mut limited = usual.clone();
                let Some(Input::Command(HostCommand::StartTurn(start))) =
                    limited.first_mut().map(|timed| &mut timed.input)
                else {
                    continue;
                };
                if start.one_shot != one_shot || !start.settings.allowed_tools.is_empty() {
                    continue;
                }
                start.settings.allowed_tools = vec![tool.to_owned()];
                let (usual, limited) =
                    (asked_for(&backend, usual).await, asked_for(&backend, limited).await);
                assert_ne!(usual, limited, "{}: the agent has all tools", case.path.display());
                tried += 1;
                if tried == 5 {
                    break;
                }
            }
            assert_eq!(tried, 5, "{name}, one-shot: {one_shot}");
        }
    }
}
