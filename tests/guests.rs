//! The shipped backends as components: what their native tests pin over recorded runs holds in the sandbox too,
//! however the input is batched.

use std::path::Path;

use aetheel::agent::Action;
use aetheel::backend::{Engine, Registry, RegistryOptions};
use aetheel::config::Limits;
use aetheel::turn::Backends as _;

use crate::support::built;
use crate::support::recordings::{inputs, recordings};

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
