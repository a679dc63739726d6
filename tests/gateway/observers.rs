//! Tests of observers with the whole program.

use std::fs;

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
async fn an_observer_writes_lines_about_turns_and_is_listed() {
    let installation = Installation::new();
    with_observer(&installation, "test.wasm", &WatObserver::new("test", "1").build());
    // About a sixteenth of all turns has an id that makes it fail.
    let script = "hello\n".repeat(10);
    let ended = installation.run(&["console", "--backend", "demo"], &script).await;
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    let lines = installation.read("state/observers/test/lines.jsonl");
    assert!(lines.lines().any(|line| line != "finished"), "{lines}");
    let ended = installation.run(&["backend", "list"], "").await;
    assert!(ended.stdout.contains("observer test 1"), "{}", ended.stdout);
    let ended = installation.run(&["check"], "").await;
    assert!(ended.stdout.contains("observer test"), "{}", ended.stdout);
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
