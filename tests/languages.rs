//! The example backend in every language: what each makes of Gemini CLI's recordings is what the shipped one makes of them.

use std::path::Path;

use aetheel::agent::Action;
use aetheel::backend::{Engine, Registry, RegistryOptions};
use aetheel::config::Limits;
use aetheel::turn::Backends as _;

use crate::support::recordings::{inputs, recordings};

async fn same_as_shipped(lang: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let component = root.join(format!("target/languages/{lang}.wasm"));
    let backends = tempfile::tempdir().unwrap();
    std::fs::copy(&component, backends.path().join("gemini.wasm")).unwrap_or_else(|error| panic!("{}: {error}", component.display()));
    let engine = Engine::new(&Limits::default(), Some(&root.join("target/languages/cache"))).unwrap();
    let (registry, reports) = Registry::start(engine, RegistryOptions::new(backends.path())).await;
    let backend = registry.get("gemini").unwrap_or_else(|| panic!("{reports:?}"));
    let folders: Vec<_> = recordings(&root.join("tests/fixtures/gemini"))
        .into_iter()
        .filter(|folder| !folder.file_name().unwrap().to_string_lossy().starts_with("live-"))
        .collect();
    for folder in &folders {
        let golden = std::fs::read_to_string(folder.join("actions.jsonl")).unwrap();
        let expected: Vec<Action> = golden.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let inputs = inputs(folder);
        for batch in [1, 7, inputs.len()] {
            let mut guest = backend.open().await.unwrap();
            let mut actions = Vec::new();
            for inputs in inputs.chunks(batch) {
                actions.extend(guest.handle(inputs.to_vec()).await.unwrap_or_else(|failure| panic!("{}: {failure}", folder.display())));
            }
            for (number, (is, was)) in actions.iter().zip(&expected).enumerate() {
                assert_eq!(is, was, "{} in batches of {batch}, action {}", folder.display(), number + 1);
            }
            assert_eq!(actions.len(), expected.len(), "{} in batches of {batch}", folder.display());
        }
    }
    assert!(folders.len() >= 30, "only {} recordings", folders.len());
}

macro_rules! languages {
    ($($test:ident: $lang:literal;)*) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            same_as_shipped($lang).await;
        }
    )* };
}
languages! {
    python_makes_of_every_recording_what_the_shipped_backend_makes_of_it: "python";
    javascript_makes_of_every_recording_what_the_shipped_backend_makes_of_it: "javascript";
    typescript_makes_of_every_recording_what_the_shipped_backend_makes_of_it: "typescript";
    assemblyscript_makes_of_every_recording_what_the_shipped_backend_makes_of_it: "assemblyscript";
}
