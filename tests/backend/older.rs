//! Tests that components of the previous contract continue to work, beside those of the current
//! one.

use std::path::{Path, PathBuf};

use aetheel::agent::{
    Action, AgentLine, AskAnswer, AskDecision, AskKind, Chunk, HostCommand, Input, Pipe,
    QuestionChoice,
};
use aetheel::backend::{Engine, LoadReport, Registry, RegistryOptions};
use aetheel::config::ResourceLimits;
use aetheel::turn::{Backends as _, Guest};

use super::{prompt, timed, version_told};
use crate::support::guests::{Wat, answering};
use crate::support::recordings::{actions, cases, inputs};

/// The components that were shipped with contract 0.1.
const SHIPPED: [&str; 7] = ["acp", "claude", "codex", "demo", "droid", "gemini", "opencode"];

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/contract-0.1")
}

fn component(name: &str) -> Vec<u8> {
    let path = kept().join(format!("{name}.wasm.zst"));
    zstd::decode_all(&*std::fs::read(&path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Starts a registry with all of them and a current component.
async fn side_by_side(folder: &Path) -> Registry {
    for name in SHIPPED {
        std::fs::write(folder.join(format!("{name}.wasm")), component(name)).unwrap();
    }
    std::fs::write(folder.join("mini.wasm"), answering("mini", "1")).unwrap();
    let (registry, reports) = Registry::start(
        Engine::new(&ResourceLimits::default(), None).unwrap(),
        RegistryOptions::new(folder),
    )
    .await;
    assert!(
        reports.iter().all(|report| matches!(report, LoadReport::Loaded { .. })),
        "{reports:?}"
    );
    registry
}

#[tokio::test(flavor = "multi_thread")]
async fn every_backend_shipped_for_the_previous_contract_behaves_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let registry = side_by_side(folder.path()).await;
    let mut today = registry.get("mini").unwrap().open().await.unwrap();
    assert_eq!(version_told(&today.handle(prompt(1, 1)).await.unwrap()), "1");
    for name in SHIPPED.into_iter().filter(|name| *name != "demo") {
        let backend = registry.get(name).unwrap();
        for case in cases(&format!("contract-0.1/{name}")) {
            let (expected, path) = (actions(&case), case.path.display());
            let mut guest = backend.open().await.unwrap();
            let actions = guest.handle(inputs(&case)).await.unwrap();
            for (number, (is, was)) in actions.iter().zip(expected).enumerate() {
                assert_eq!(is, was, "{path}, action {}", number + 1);
            }
            assert_eq!(actions.len(), expected.len(), "{path}");
        }
    }
}

/// Passes a line of the agent to a guest and returns the guest's actions.
async fn says(guest: &mut Box<dyn Guest>, line: &str) -> Vec<Action> {
    let line = AgentLine { proc: 1, pipe: Pipe::Stdout, text: line.to_owned(), truncated: false };
    guest.handle(vec![timed(Input::Line(line))]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_unknown_to_the_previous_contract_never_grants_more_than_was_decided() {
    let folder = tempfile::tempdir().unwrap();
    let registry = side_by_side(folder.path()).await;
    let mut guest = registry.get("demo").unwrap().open().await.unwrap();
    guest.handle(prompt(1, 1)).await.unwrap();
    let asks = says(&mut guest, r#"{"type":"ask","ask":1,"title":"?","questions":[{"id":"a","text":"Which?","options":["x"]}]}"#).await;
    let [Action::Ask(ask)] = &asks[..] else { panic!("{asks:?}") };
    let AskKind::Questions(questions) = &ask.kind else { panic!("{ask:?}") };
    assert_eq!(
        questions[0].options,
        [QuestionChoice { id: "x".to_owned(), label: "x".to_owned(), description: None }]
    );
    assert!(
        !questions[0].optional && !questions[0].secret && ask.options.is_empty() && !ask.changeable
    );
    for (decision, told) in [
        (AskDecision::AllowOnce, "allow"),
        (AskDecision::AllowAlways, "always"),
        (AskDecision::Deny(None), "deny"),
        (AskDecision::Declined, "deny"),
        (AskDecision::Chosen("x".to_owned()), "dismissed"),
        (AskDecision::AllowChanged("{}".to_owned()), "dismissed"),
        (AskDecision::Dismissed, "dismissed"),
        (AskDecision::DenyAndStop, "stop"),
    ] {
        let answer =
            Input::Command(HostCommand::Answer(AskAnswer { ask: 1, decision: decision.clone() }));
        let actions = guest.handle(vec![timed(answer)]).await.unwrap();
        let [Action::Write(write)] = &actions[..] else { panic!("{actions:?}") };
        let [Chunk::Text(line)] = &write.body[..] else { panic!("{write:?}") };
        assert!(line.contains(&format!(r#""decision":"{told}""#)), "{decision:?}: {line}");
    }
}

#[tokio::test]
async fn examining_a_component_of_the_previous_contract_names_that_contract() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.wasm");
    let engine = Engine::new(&ResourceLimits::default(), None).unwrap();
    std::fs::write(&path, component("demo")).unwrap();
    assert_eq!(engine.inspect(&path).await.unwrap().contract, "aetheel:backend@0.1.1");
    std::fs::write(&path, Wat::new("mini", "1").build()).unwrap();
    assert_eq!(engine.inspect(&path).await.unwrap().contract, "aetheel:backend@0.2.1");
}
