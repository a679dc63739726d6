//! New versions on rollout, with the real program and its commands.

use std::fs;

use serde_json::json;

use super::components::{download, expect_answer, listed, mini, prepared, row_of_mini};
use super::{installed, serving};
use crate::rollout::faults::rebuilt;
use crate::support::discord::LocalDiscord;
use crate::support::program::{Installation, Program};

async fn said(installation: &Installation, arguments: &[&str]) -> String {
    let ended = installation.run(&[&["backend"], arguments].concat(), "").await;
    assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.stderr);
    ended.stdout
}

/// Waits for a log line about a version or a generation of `mini`.
async fn wait_for_log(bot: &Program, message: &str, version: &str) {
    bot.logs_where(message, |line| {
        line["message"].as_str().is_some_and(|text| text.starts_with(message))
            && line["backend"] == "mini"
            && (line["version"] == version
                || line["generation"].as_str().is_some_and(|text| text.starts_with(version)))
    })
    .await;
}

#[tokio::test]
async fn a_version_that_answers_otherwise_waits_for_the_operator_and_a_rebuilt_one_is_promoted() {
    const WAITS: &str = "a new version is on rollout and does not serve yet";
    const PROMOTED: &str = "the new version was promoted and serves";
    let local = LocalDiscord::start().await;
    let installation = prepared(installed(&local)).with("BACKEND_ROLLOUT", "shadow:2");
    let first = mini("1.0.0", json!({}));
    fs::write(installation.backend("mini"), &first).unwrap();
    let bot = serving(&installation).await;
    expect_answer(&local, "1.0.0").await;

    let second = download(&installation, "mini-2.wasm", &mini("2.0.0", json!({})));
    let told = said(&installation, &["install", &second]).await;
    assert!(told.contains("compares it with the serving version first"), "{told}");
    wait_for_log(&bot, WAITS, "2.0.0").await;
    expect_answer(&local, "1.0.0").await;
    wait_for_log(&bot, "the rollout of a new version was stopped", "2.0.0").await;
    let told = said(&installation, &["rollout", "mini"]).await;
    for part in [
        "version 2.0.0 (",
        "is on rollout, version 1.0.0 (",
        "stopped by a harmful difference; 1 turn compared",
        "harmful: answer was 1.0.0, is 2.0.0",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    let list = listed(&installation).await;
    let row = row_of_mini(&list);
    assert_eq!((&row["version"], &row["rollout"]["state"]), (&json!("1.0.0"), &json!("stopped")));

    let told = said(&installation, &["withdraw", "mini"]).await;
    assert!(told.contains("its file is now") && told.contains("version 1.0.0"), "{told}");
    assert_eq!(fs::read(installation.backend("mini")).unwrap(), first);
    let ended = installation.run(&["backend", "promote", "mini"], "").await;
    assert_eq!(ended.code, 64, "{}", ended.stderr);
    assert!(ended.stderr.contains("no new version of `mini` is on rollout"), "{}", ended.stderr);

    let again = download(&installation, "mini-1.wasm", &rebuilt(&first));
    said(&installation, &["install", &again]).await;
    wait_for_log(&bot, WAITS, "1.0.0").await;
    expect_answer(&local, "1.0.0").await;
    expect_answer(&local, "1.0.0").await;
    wait_for_log(&bot, PROMOTED, "2@").await;

    said(&installation, &["install", &second]).await;
    let told = said(&installation, &["promote", "mini"]).await;
    assert!(told.contains("version 2.0.0 (") && told.contains("was promoted"), "{told}");
    wait_for_log(&bot, PROMOTED, "3@").await;
    expect_answer(&local, "2.0.0").await;
}
