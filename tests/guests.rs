//! Tests of the shipped backends as components: for every recording they return the actions that
//! the native tests expect, however the inputs are batched and wherever a restart cuts it.

use std::sync::Arc;

use aetheel_model::agent::descriptor::LinkSharing;
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

/// Cuts every recording of a backend after each line, as a restart of the gateway does. A fresh guest
/// continues, once after a replay of the lines before the cut, and once with the state that the first
/// guest saves there. All actions must be those of the whole recording, so that people see the same
/// turns and the agent gets the same messages. States are saved between turns, at least `least_saved`
/// of them.
async fn same_if_cut(name: &str, least_saved: usize) {
    let backend = shipped(name).await;
    let is_kept = backend.descriptor().sharing != LinkSharing::Turn;
    let mut saved = 0;
    for case in &cases(name) {
        let (whole, inputs) = (actions(case), inputs(case));
        let mut first = backend.open().await.unwrap();
        let (mut before, mut begun, mut ended) = (Vec::new(), 0, 0);
        for (cut, input) in inputs.iter().enumerate() {
            let context = format!("{}, cut after {cut} inputs", case.path.display());
            let mut next = backend.open().await.unwrap();
            let again = next.handle(inputs[..cut].to_vec()).await.unwrap();
            assert_eq!(again, before, "{context}");
            let mut nexts = vec![next];
            if is_kept
                && cut > 0
                && begun == ended
                && let Some(state) = first.save().await.unwrap()
            {
                let mut next = backend.open().await.unwrap();
                next.load(&state, &backend.descriptor().version).await.unwrap();
                nexts.push(next);
                saved += 1;
            }
            for mut next in nexts {
                let rest = next.handle(inputs[cut..].to_vec()).await.unwrap();
                let both = [&before[..], &rest].concat();
                assert_eq!(both, whole, "{context}");
            }
            begun += usize::from(matches!(input.input, Input::Command(HostCommand::StartTurn(_))));
            let actions = first.handle(vec![input.clone()]).await.unwrap();
            ended += actions.iter().filter(|action| matches!(action, Action::TurnDone(_))).count();
            before.extend(actions);
        }
        assert_eq!(before, whole, "{}", case.path.display());
    }
    assert!(saved >= least_saved, "only {saved} states of {name} were saved");
}

macro_rules! components {
    ($($test:ident: $check:ident($name:literal, $least:literal);)*) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            $check($name, $least).await;
        }
    )* };
}
components! {
    the_acp_component_replays_every_recording_like_the_native_parser: same_as_native("acp", 12);
    the_claude_component_replays_every_recording_like_the_native_parser: same_as_native("claude", 90);
    the_codex_component_replays_every_recording_like_the_native_parser: same_as_native("codex", 60);
    the_opencode_component_replays_every_recording_like_the_native_parser: same_as_native("opencode", 45);
    the_droid_component_replays_every_recording_like_the_native_parser: same_as_native("droid", 50);
    the_gemini_component_replays_every_recording_like_the_native_parser: same_as_native("gemini", 45);
    every_acp_recording_may_be_cut_after_any_line: same_if_cut("acp", 0);
    every_claude_recording_may_be_cut_after_any_line: same_if_cut("claude", 10);
    every_codex_recording_may_be_cut_after_any_line: same_if_cut("codex", 8);
    every_opencode_recording_may_be_cut_after_any_line: same_if_cut("opencode", 40);
    every_droid_recording_may_be_cut_after_any_line: same_if_cut("droid", 20);
    every_gemini_recording_may_be_cut_after_any_line: same_if_cut("gemini", 0);
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
