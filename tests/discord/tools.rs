//! Tests of how a draft shows a running tool.

use std::time::Duration;

use aetheel_discord::TimeLimits;
use aetheel_dispatch::{Excerpt, Subject};

use super::asks::{permission, with_buttons};
use super::bot::Bot;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};

#[tokio::test]
async fn a_long_running_tool_shows_its_start_and_its_last_lines_until_it_ends() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "build it");
    let mut turn = bot.turn(&local, "build it").await;
    turn.say("I build it.");
    turn.tool("Bash", "make");
    turn.tool_prints("compiling a\n");
    // The agent reports nothing from here on. The draft changes only because time passes.
    local
        .wait_for_message(CHANNEL, |text| {
            text.starts_with("I build it.\n-# 🔧 Bash: make · started <t:")
                && text.ends_with(":R>\n```\ncompiling a\n```")
        })
        .await;
    turn.tool_prints("compiling b\ncompiling c\n@everyone ```\n");
    let draft = local.wait_for_message(CHANNEL, |text| text.contains("compiling c")).await;
    assert!(
        draft.content.ends_with("\n```\ncompiling b\ncompiling c\n@everyone '''\n```"),
        "{}",
        draft.content
    );
    turn.tool_done();
    local.wait_for_message(CHANNEL, |text| text == "I build it.").await;
    turn.done("I build it. Done.").await;
    assert_eq!(local.texts(CHANNEL), ["I build it. Done."]);
}

#[tokio::test]
async fn a_question_shows_its_command_once() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let mut question = permission(Some("make"));
    question.title = "Bash: make -j2".to_owned();
    let about = Some(Excerpt { language: "sh", text: "make -j2".to_owned() });
    question.subject = Subject::Permission { tool: "Bash".to_owned(), about };
    let prompt = (CHANNEL, ANN, "build it");
    let (mut turn, question) = bot.asking(&local, prompt, &question).await;
    turn.tool("Bash", "make -j2");
    local.wait_for_message(CHANNEL, |text| text == "-# 🔧 Bash: make -j2").await;
    turn.ask(&question);
    let asked = with_buttons(&local).await;
    assert_eq!(asked.content, "🔐 **Allow Bash?**\n```sh\nmake -j2\n```");
    local.wait_for_message(CHANNEL, |text| text == "-# ⏸️ waiting for your answer below").await;
}

#[tokio::test]
async fn a_silent_agent_is_shown_until_it_reports_something() {
    let local = LocalDiscord::start().await;
    let limits = TimeLimits::default().silence(Duration::from_millis(300));
    let bot = Bot::with_windows(&local, limits).await;
    local.mention(CHANNEL, ANN, "work");
    let mut turn = bot.turn(&local, "work").await;
    let waits = "-# ⏳ waiting for the agent, which may be trying again · last activity <t:";
    local.wait_for_message(CHANNEL, |text| text.starts_with(waits)).await;
    turn.tool("Bash", "make");
    local.wait_for_message(CHANNEL, |text| text.starts_with("-# 🔧 Bash: make")).await;
    turn.tool_done();
    turn.say("It is made.");
    local.wait_for_message(CHANNEL, |text| text.starts_with("It is made.")).await;
    turn.done("It is made. Done.").await;
    assert_eq!(local.texts(CHANNEL), ["It is made. Done."]);
}
