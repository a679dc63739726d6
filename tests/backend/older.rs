//! Tests that components of the older contracts continue to work, beside those of the current one.

use std::path::Path;

use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, AgentLine, AskAnswer, AskDecision, AskKind, Chunk,
    HostCommand, HostTool, Input, Model, Pipe, QueryAnswer, QueryResult, QuestionChoice, Safety,
    StartTurn, ToolOutput, ToolResult,
};
use aetheel_model::limits::ResourceLimits;
use aetheel_recording::Guest;
use aetheel_turn::Backends as _;
use aetheel_wasm::{Engine, LoadReport, Registry, RegistryOptions};

use super::{prompt, registry, timed, version_told};
use crate::support::guests::{CONTRACT, TIMER, Wat, answering};
use crate::support::recordings::{actions, cases, fixtures, inputs};

/// An older contract, and components that were shipped with it.
struct Older {
    /// Version of the contract's package.
    version: &'static str,
    /// Folder of the components and recordings in `tests/fixtures`.
    folder: &'static str,
    shipped: &'static [&'static str],
}

const OLDER: [Older; 2] = [
    Older {
        version: "0.1.1",
        folder: "contract-0.1",
        shipped: &["acp", "claude", "codex", "demo", "droid", "gemini", "opencode"],
    },
    Older {
        version: "0.2.1",
        folder: "contract-0.2",
        shipped: &["acp", "claude", "codex", "demo"],
    },
];

impl Older {
    fn component(&self, name: &str) -> Vec<u8> {
        let path = fixtures(self.folder).join(format!("{name}.wasm.zst"));
        zstd::decode_all(&*std::fs::read(&path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Starts a registry with all of the components and a current one.
    async fn beside_current(&self, folder: &Path) -> Registry {
        for name in self.shipped {
            std::fs::write(folder.join(format!("{name}.wasm")), self.component(name)).unwrap();
        }
        std::fs::write(folder.join("mini.wasm"), answering("mini", "1")).unwrap();
        let (registry, reports) = Registry::start(
            Engine::new(&ResourceLimits::default(), None, aetheel_settings::NAMES).unwrap(),
            RegistryOptions::new(folder),
        )
        .await;
        assert!(
            reports.iter().all(|report| matches!(report, LoadReport::Loaded { .. })),
            "{reports:?}"
        );
        registry
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_backend_shipped_for_an_older_contract_behaves_as_before() {
    for older in &OLDER {
        let folder = tempfile::tempdir().unwrap();
        let registry = older.beside_current(folder.path()).await;
        let mut today = registry.get("mini").unwrap().open().await.unwrap();
        assert_eq!(version_told(&today.handle(prompt(1, 1)).await.unwrap()), "1");
        for name in older.shipped.iter().filter(|name| **name != "demo") {
            let backend = registry.get(name).unwrap();
            for case in cases(&format!("{}/{name}", older.folder)) {
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
}

/// Passes a line of the agent to a guest and returns the guest's actions.
async fn says(guest: &mut Box<dyn Guest>, line: &str) -> Vec<Action> {
    let line = AgentLine { proc: 1, pipe: Pipe::Stdout, text: line.to_owned(), truncated: false };
    guest.handle(vec![timed(Input::Line(line))]).await.unwrap()
}

/// Returns decisions about a question of the demo backend, and how its agent gets each of them.
async fn demo_decisions(older: &Older) -> Vec<(AskDecision, String)> {
    let folder = tempfile::tempdir().unwrap();
    let registry = older.beside_current(folder.path()).await;
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
    assert!(questions[0].placeholder.is_none() && !questions[0].single_line);
    assert_eq!((&ask.parent, ask.deadline_ms), (&None, None));
    let mut told = Vec::new();
    for decision in [
        AskDecision::AllowOnce,
        AskDecision::AllowAlways,
        AskDecision::Deny(None),
        AskDecision::Declined,
        AskDecision::Chosen("x".to_owned()),
        AskDecision::AllowChanged("{}".to_owned()),
        AskDecision::Dismissed,
        AskDecision::DenyAndStop,
    ] {
        let answer =
            Input::Command(HostCommand::Answer(AskAnswer { ask: 1, decision: decision.clone() }));
        let actions = guest.handle(vec![timed(answer)]).await.unwrap();
        let [Action::Write(write)] = &actions[..] else { panic!("{actions:?}") };
        let [Chunk::Text(line)] = &write.body[..] else { panic!("{write:?}") };
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        told.push((decision, line["decision"].as_str().unwrap().to_owned()));
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_unknown_to_an_older_contract_never_grants_more_than_was_decided() {
    let expected: [[&str; 8]; 2] = [
        ["allow", "always", "deny", "deny", "dismissed", "dismissed", "dismissed", "stop"],
        ["allow", "always", "deny", "declined", "chosen", "changed", "dismissed", "stop"],
    ];
    for (older, expected) in OLDER.iter().zip(expected) {
        let told = demo_decisions(older).await;
        for ((decision, is), expected) in told.iter().zip(expected) {
            assert_eq!(is, expected, "{decision:?} for contract {}", older.version);
        }
        assert_eq!(told.len(), expected.len());
    }
}

/// Opens a guest of a backend that was written by hand.
async fn open(wat: &Wat) -> (tempfile::TempDir, Box<dyn Guest>) {
    let folder = tempfile::tempdir().unwrap();
    let files: [(&str, &[u8]); 1] = [("mini.wasm", &wat.build())];
    let (registry, reports) = registry(folder.path(), &ResourceLimits::default(), &files).await;
    assert!(matches!(&reports[..], [LoadReport::Loaded { .. }]), "{reports:?}");
    let guest = registry.get("mini").unwrap().open().await.unwrap();
    (folder, guest)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_of_contract_0_2_gets_nothing_about_tools_of_the_host() {
    let wat = Wat {
        handle: "(if (i32.gt_u (local.get $n) (i32.const 1)) (then unreachable))".to_owned(),
        ..Wat::of_contract_0_2("mini", "1")
    };
    let (_folder, mut guest) = open(&wat).await;
    let tool = HostTool {
        name: "schedule".to_owned(),
        description: "Creates a schedule.".to_owned(),
        input_schema: r#"{"type":"object"}"#.to_owned(),
    };
    let start = StartTurn {
        agent_version: Some("2.1.197".to_owned()),
        tools: vec![tool],
        ..StartTurn::plain("hello", Safety::Default)
    };
    let begun = guest.handle(vec![timed(Input::Command(HostCommand::StartTurn(start)))]).await;
    assert_eq!(version_told(&begun.unwrap()), "1");
    let result = ToolResult { call: 1, text: "42".to_owned(), failed: false };
    let result = || timed(Input::ToolResult(result.clone()));
    assert_eq!(guest.handle(vec![result()]).await.unwrap(), []);
    let timer = guest.handle(vec![result(), timed(Input::Timer(1))]).await.unwrap();
    assert_eq!(version_told(&timer), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_and_answers_of_contract_0_2_reach_the_host_without_loss() {
    let event = |kind| Action::Event(AgentEvent { session: 1, turn: 1, kind });
    let output = ToolOutput { id: "t1".to_owned(), text: "more".to_owned(), replace: false };
    let events = vec![
        event(AgentEventKind::Raw(r#"{"weather":"rain"}"#.to_owned())),
        event(AgentEventKind::Notice("the model was changed".into())),
        event(AgentEventKind::ToolOutput(output)),
    ];
    let model =
        Model { id: "m".to_owned(), label: "M".to_owned(), efforts: vec!["high".to_owned()] };
    let answers = vec![
        Action::QueryAnswer(QueryAnswer { query: 1, answer: QueryResult::Models(vec![model]) }),
        Action::QueryAnswer(QueryAnswer { query: 2, answer: QueryResult::Done }),
    ];
    let wat = Wat {
        on_start: Some(events.clone()),
        later: Some((TIMER, answers.clone())),
        ..Wat::of_contract_0_2("mini", "1")
    };
    let (_folder, mut guest) = open(&wat).await;
    assert_eq!(guest.handle(prompt(1, 1)).await.unwrap(), events);
    assert_eq!(guest.handle(vec![timed(Input::Timer(1))]).await.unwrap(), answers);
}

#[tokio::test]
async fn examining_a_component_of_an_older_contract_names_that_contract() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.wasm");
    let engine = Engine::new(&ResourceLimits::default(), None, aetheel_settings::NAMES).unwrap();
    let current = (CONTRACT, Wat::new("mini", "1").build());
    let older = OLDER.iter().map(|older| (older.version, older.component("demo")));
    for (version, component) in older.chain([current]) {
        std::fs::write(&path, component).unwrap();
        let contract = engine.inspect(&path).await.unwrap().contract;
        assert_eq!(contract, format!("aetheel:backend@{version}"));
    }
}
