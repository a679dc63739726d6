//! The backends that users may choose are those that the operator listed.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OWNER, THREAD};
use crate::support::guests::Wat;
use crate::support::program::Installation;

/// Installs a backend that answers `NAME-1` and can work.
fn install(installation: &Installation, name: &str) {
    let mut other = Wat::new(name, &format!("{name}-1"));
    other.descriptor = json!({ "programs": [{ "name": "aetheel" }] });
    other.accepted_in(&installation.path("config"));
    fs::write(installation.backend(name), other.build()).unwrap();
}

fn write_channels(installation: &Installation, text: &str) {
    fs::write(installation.path("config").join("channels.md"), text).unwrap();
}

#[tokio::test]
async fn users_can_choose_only_backends_that_the_operator_listed() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("ALLOWED_BACKENDS", "second");
    install(&installation, "second");
    install(&installation, "third");
    write_channels(&installation, &format!("## channel {THREAD}\n- backends: third\n"));
    let _bot = serving(&installation).await;
    let said = async |channel, user, name| {
        local.answer_to(local.slash(channel, user, "settings", Some(name))).await.content
    };
    for user in [ANN, OWNER] {
        let refused = said(CHANNEL, user, "third").await;
        assert_eq!(
            refused,
            "The operator does not offer third here (ALLOWED_BACKENDS); there are: demo, second."
        );
    }
    let refused = said(THREAD, ANN, "second").await;
    assert!(
        refused.contains("does not offer second here (ALLOWED_BACKENDS); there are: demo, third."),
        "{refused}"
    );
    let unknown = said(CHANNEL, ANN, "fourth").await;
    assert_eq!(unknown, "There is no backend \"fourth\"; there are: demo, second.");
    let chosen = said(CHANNEL, ANN, "second").await;
    assert!(chosen.contains("second"), "{chosen}");
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text == "second-1").await;
}

#[tokio::test]
async fn without_a_list_users_can_choose_no_other_backend_and_never_the_demo() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("AGENT_BACKEND", "second");
    install(&installation, "second");
    let _bot = serving(&installation).await;
    let refused =
        local.answer_to(local.slash(CHANNEL, ANN, "settings", Some("demo"))).await.content;
    assert!(
        refused.contains("does not offer demo here (ALLOWED_BACKENDS); there are: second."),
        "{refused}"
    );
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text == "second-1").await;
}

#[tokio::test]
async fn a_choice_that_is_no_longer_allowed_is_ignored_and_reported_once() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("ALLOWED_BACKENDS", "second");
    install(&installation, "second");
    let mut bot = serving(&installation).await;
    let chosen =
        local.answer_to(local.slash(CHANNEL, ANN, "settings", Some("second"))).await.content;
    assert!(chosen.contains("second"), "{chosen}");
    bot.signal(Signal::TERM);
    bot.ended().await;
    let installation = installation.with("ALLOWED_BACKENDS", "");
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "one");
    let fallen_back =
        "second was chosen here, but the operator does not allow it any more: Demo agent answers.";
    local.wait_for_message(CHANNEL, |text| text.contains("You said: one")).await;
    local.wait_for_message(CHANNEL, |text| text.contains(fallen_back)).await;
    local.mention(CHANNEL, ANN, "two");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: two")).await;
    let count = local
        .messages(CHANNEL)
        .iter()
        .filter(|message| message.content.contains(fallen_back))
        .count();
    assert_eq!(count, 1);
}

#[tokio::test]
async fn choices_for_any_lane_are_limited_to_the_list_but_not_at_the_operators_console() {
    let installation = Installation::new();
    install(&installation, "second");
    let ended = installation.run(&["console"], "/backend second\nhello\n").await;
    assert!(ended.stdout.contains("second-1"), "{} {}", ended.stdout, ended.stderr);
    // An edit by hand or an earlier version may have left this state.
    let state = installation.path("config").join("state/sessions.md");
    let text = fs::read_to_string(&state).unwrap().replace("console", "hook:startup");
    assert!(text.contains("hook:startup"), "{text}");
    fs::write(&state, text).unwrap();
    fs::write(
        installation.path("config").join("agents.md"),
        "# Agents\n\n## Hooks\n\n- startup: Say hello.\n",
    )
    .unwrap();
    let local = LocalDiscord::start().await;
    let installation = installation
        .with("DISCORD_API_BASE", local.url())
        .with("DISCORD_BOT_TOKEN", crate::support::discord::TOKEN);
    let bot = serving(&installation).await;
    bot.logs_where("the choice does not count", |line| {
        line["message"]
            .as_str()
            .is_some_and(|said| said.contains("chose second, which is not allowed there"))
    })
    .await;
}

#[tokio::test]
async fn an_unknown_name_in_the_list_stops_the_start() {
    let installation = Installation::new().with("ALLOWED_BACKENDS", "second, typo");
    install(&installation, "second");
    let ended = installation.run(&["check"], "").await;
    assert_eq!(ended.code, 78, "{} {}", ended.stdout, ended.stderr);
    assert!(
        ended
            .stderr
            .contains("ALLOWED_BACKENDS: there is no backend \"typo\"; there are: demo, second"),
        "{}",
        ended.stderr
    );
}
