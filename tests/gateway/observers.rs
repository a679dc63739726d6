//! Tests of observers with the whole program.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::observers::WatObserver;
use crate::support::policies::WatPolicy;
use crate::support::program::Installation;

fn with_observer(installation: &Installation, name: &str, bytes: &[u8]) {
    let folder = installation.path("backends/observers");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), bytes).unwrap();
}

#[tokio::test]
async fn the_shipped_observer_writes_the_spans_of_a_turn_and_is_listed() {
    let installation = Installation::new();
    let built = "target/guests/wasm32-wasip2/release/spans.wasm";
    let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(built));
    with_observer(&installation, "spans.wasm", &bytes.expect("`make guests` built it"));
    let ended = installation.run(&["console", "--backend", "demo"], "tool ls\n").await;
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    let lines = installation.read("state/observers/spans/lines.jsonl");
    let spans: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let turn = spans.last().expect("a span");
    assert_eq!(turn["name"], "invoke_agent demo", "{lines}");
    assert_eq!(turn["attributes"]["gen_ai.conversation.id"], "console");
    assert!(spans.iter().all(|span| span["trace_id"] == turn["trace_id"]), "{lines}");
    let ended = installation.run(&["backend", "list"], "").await;
    assert!(ended.stdout.contains("observer spans 0."), "{}", ended.stdout);
    let ended = installation.run(&["check"], "").await;
    assert!(ended.stdout.contains("observer spans"), "{}", ended.stdout);
}

#[tokio::test]
async fn a_failing_observer_changes_no_answer() {
    let installation = Installation::new().with("LOG_LEVEL", "info");
    with_observer(&installation, "test.wasm", &WatObserver::new("test", "1").build());
    // About a sixteenth of all turns has an id that makes it fail.
    let script = "hello\n".repeat(20);
    let ended = installation.run(&["console", "--backend", "demo"], &script).await;
    assert_eq!(ended.stdout.matches("You said: hello").count(), 20, "{}", ended.stderr);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

#[tokio::test]
async fn an_observer_is_checked() {
    let installation = Installation::new();
    let path = installation.path("test.wasm").display().to_string();
    fs::write(&path, WatObserver::new("test", "1").build()).unwrap();
    let ended = installation.run(&["observer", "check", &path], "").await;
    assert!(ended.code == 0 && ended.stdout.contains("observer test 1"), "{}", ended.stdout);
    fs::write(&path, WatPolicy::new("test", "1").build()).unwrap();
    let ended = installation.run(&["observer", "check", &path, "--json"], "").await;
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&report["passed"], ended.code), (&false.into(), 1));
}
