//! Tests of policies with the whole program: the shipped policy decides, is listed, and is compared
//! with the answers of people.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::policies::WatPolicy;
use crate::support::program::Installation;

const CONSOLE: &[&str] = &["console", "--backend", "demo"];

/// Returns the path of the shipped policy.
fn guard() -> String {
    let built = "target/guests/wasm32-wasip2/release/guard.wasm";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(built).display().to_string()
}

fn with_policy(installation: &Installation, name: &str, bytes: &[u8]) {
    let folder = installation.path("backends/policies");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), bytes).unwrap();
}

#[tokio::test]
async fn the_shipped_policy_answers_in_place_of_people_and_is_listed() {
    let installation = Installation::new();
    with_policy(&installation, "guard.wasm", &fs::read(guard()).expect("`make guests` built it"));
    // The policy answers the first question, and the person the second one.
    let ended = installation.run(CONSOLE, "ask ls -la\nask make\ndeny\n").await;
    assert!(ended.stdout.contains("this once."), "{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(ended.stdout.matches("Then not.").count(), 1, "{}", ended.stdout);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let recordings = installation.recordings();
    let ruled: Vec<Value> = recordings
        .values()
        .flat_map(|text| text.lines())
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|line| line.get("ruled").cloned())
        .collect();
    let mut effects: Vec<&str> =
        ruled.iter().map(|ruling| ruling["effect"].as_str().unwrap()).collect();
    effects.sort_unstable();
    assert_eq!(effects, ["allow", "ask"], "{ruled:?}");
    let ended = installation.run(&["backend", "list"], "").await;
    assert!(ended.stdout.contains("policy guard 0."), "{}", ended.stdout);
    let ended = installation.run(&["check"], "").await;
    assert!(ended.stdout.contains("policy guard"), "{}", ended.stdout);
}

#[tokio::test]
async fn a_denied_request_is_explained_below_the_answer() {
    let installation = Installation::new();
    with_policy(&installation, "test.wasm", &WatPolicy::new("test", "1").build());
    let ended = installation.run(CONSOLE, "ask d\n").await;
    assert!(ended.stdout.contains("Then not, because"), "{}\n{}", ended.stdout, ended.stderr);
    let notice = "· `d` was denied by the policy `test`: because the test says so.";
    assert!(ended.stderr.contains(notice), "{}", ended.stderr);
}

#[tokio::test]
async fn a_refused_policy_is_reported_and_people_decide() {
    let installation = Installation::new();
    with_policy(&installation, "test.wasm", b"broken");
    let ended = installation.run(&["check"], "").await;
    assert!(ended.stdout.contains("test.wasm") || ended.stderr.contains("test.wasm"));
    let ended = installation.run(CONSOLE, "ask ls\nallow\n").await;
    assert!(ended.stdout.contains("this once."), "{}\n{}", ended.stdout, ended.stderr);
}

#[tokio::test]
async fn a_policy_is_compared_with_what_people_answered() {
    let installation = Installation::new();
    let script = "ask ls\ndeny too early\nask cat a\nallow\nask rm a\ndeny\n";
    let ended = installation.run(CONSOLE, script).await;
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    let (guard, turns) = (guard(), installation.recordings());
    let replay = &["policy", "replay", &guard, "--json"];
    let ended = installation.run(replay, "").await;
    assert_eq!(ended.code, 1, "it would have allowed `ls`: {}\n{}", ended.stdout, ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&report["allow"]["people-allowed"], &report["allow"]["people-denied"]),
        (&1.into(), &1.into()),
        "{report}"
    );
    assert_eq!(report["ask"]["people-denied"], 1, "{report}");
    let dangerous = &report["allowed-but-denied"][0];
    assert_eq!((&dangerous["request"], &dangerous["words"]), (&"ls".into(), &"too early".into()));
    let turn = dangerous["turn"].as_str().unwrap();
    assert!(turns.values().any(|text| text.contains(&format!(r#""turn":"{turn}""#))));
    let ended = installation.run(&["policy", "replay", &guard], "").await;
    assert!(
        ended.stdout.contains("it agrees with people in 1 of 3, and asks them in 1"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("dangerous") && ended.stdout.contains(turn), "{}", ended.stdout);
    let later = &["policy", "replay", &guard, "--since", "2999-01-01"];
    let ended = installation.run(later, "").await;
    assert!(
        ended.code == 0 && ended.stdout.contains("0 answers in 0 recordings"),
        "{}",
        ended.stdout
    );
    // Decisions of policies are not taken for answers of people.
    with_policy(&installation, "guard.wasm", &fs::read(&guard).unwrap());
    installation.run(CONSOLE, "ask ls\n").await;
    let report: Value = serde_json::from_str(&installation.run(replay, "").await.stdout).unwrap();
    assert_eq!((&report["automatic"], &report["allow"]["people-allowed"]), (&1.into(), &1.into()));
}

#[tokio::test]
async fn a_policy_is_checked_with_hostile_requests() {
    let installation = Installation::new();
    let ended = installation.run(&["policy", "check", &guard()], "").await;
    assert!(ended.code == 0 && ended.stdout.contains("no problems found"), "{}", ended.stdout);
    let path = installation.path("test.wasm");
    fs::write(&path, WatPolicy::new("test", "1").build()).unwrap();
    let path = path.display().to_string();
    let ended = installation.run(&["policy", "check", &path], "").await;
    // It loops if a command begins with `x`.
    assert!(
        ended.code == 1 && ended.stdout.contains("it does not decide about"),
        "{}",
        ended.stdout
    );
    let ended = installation.run(&["policy", "check", &path, "--json"], "").await;
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["passed"], false);
}
