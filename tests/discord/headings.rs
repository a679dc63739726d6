//! Tests of the heading that shows a command's prompt above its answer.

use std::time::Duration;

use aetheel_discord::TimeLimits;
use aetheel_model::event::EventOrigin;
use aetheel_model::split::split;

use super::bot::{Bot, Home, Turn};
use crate::support::discord::{ANN, BOB, BOT, CHANNEL, LocalDiscord};

#[tokio::test]
async fn the_prompt_of_a_command_is_above_its_answer_from_the_first_draft_on() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let id = local.slash(
        CHANNEL,
        ANN,
        "ask",
        Some("**fix** it,\n<@100000000000000004> @everyone ```rust"),
    );
    let mut turn = bot.turn(&local, "**fix** it,\n<@100000000000000004> @everyone ```rust").await;
    let heading = "> 💬 \\*\\*fix\\*\\* it, @somebody @everyone \\`\\`\\`rust";
    turn.tool("Bash", "ls");
    let draft = local.wait_for_message(CHANNEL, |text| text.contains("Bash")).await;
    assert_eq!(draft.content, format!("{heading}\n-# 🔧 Bash: ls"));
    turn.tool_done();
    turn.say("> quoted\n");
    local.wait_for_message(CHANNEL, |text| text == format!("{heading}\n\n> quoted")).await;
    let text = format!("> quoted\n{}", "many words ".repeat(400));
    turn.done(&text).await;
    assert_eq!(local.texts(CHANNEL), split(&format!("{heading}\n\n{text}"), 2_000));
    assert_eq!(local.messages(CHANNEL)[0].id, local.answer_to(id).await.id, "in its own message");
    // A message shows its prompt already, so its answer has no heading.
    local.mention(CHANNEL, BOB, "and this");
    bot.turn(&local, "and this").await.done("So.").await;
    assert_eq!(local.texts(CHANNEL).last().unwrap(), "So.");
}

#[tokio::test]
async fn the_prompt_is_also_above_a_failure_without_text_and_an_attached_answer() {
    let local = LocalDiscord::start().await;
    let mut options = super::bot::options(&local, TimeLimits::default());
    options.settings.long_answer = Some(3_000);
    let bot = Bot::with_options(options, Home::new().await).await.expect("the bot starts");
    local.slash(CHANNEL, ANN, "ask", Some("go"));
    let failed = aetheel_dispatch::TurnAnswer {
        failure: Some("It failed.".to_owned()),
        ..super::bot::answer("")
    };
    bot.turn(&local, "go").await.finish(failed).await.expect("delivered");
    assert_eq!(local.texts(CHANNEL), ["> 💬 go\n⚠️ It failed."]);
    local.slash(CHANNEL, ANN, "ask", Some("tell all"));
    bot.turn(&local, "tell all").await.done(&"many words ".repeat(600)).await;
    let shown = local.messages(CHANNEL);
    assert!(shown[1].content.starts_with("> 💬 tell all\nmany words"), "{}", shown[1].content);
    let (name, bytes) = &shown.last().unwrap().files[0];
    assert!(
        name == "answer.md" && bytes.starts_with(b"many words"),
        "the file is the answer and nothing else"
    );
}

#[tokio::test]
async fn the_prompt_is_shown_once_and_also_without_the_interaction_token() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.slash(CHANNEL, ANN, "ask", Some("go"));
    let event = bot.event(&local, "go").await;
    let mut turn = Turn::of(&bot, &event);
    turn.say("Above.");
    local.wait_for_message(CHANNEL, |text| text == "> 💬 go\nAbove.").await;
    turn.steered();
    turn.say(" Below.");
    local.wait_for_message(CHANNEL, |text| text == "Below.").await;
    turn.done("Above. Below.").await;
    assert_eq!(local.texts(CHANNEL), ["> 💬 go\nAbove.", "Below."]);

    // The answer does not use the command's token: it is a message of its own, which shows no
    // command.
    let EventOrigin::Interaction { channel, interaction, .. } = event.origin else {
        panic!("{event:?}")
    };
    let mut late = event;
    late.request.origin = EventOrigin::Interaction { channel, interaction, pass: None };
    Turn::of(&bot, &late).done("Late.").await;
    assert_eq!(local.texts(CHANNEL).last().unwrap(), "> 💬 go\nLate.");
}

#[tokio::test]
async fn a_reply_to_such_an_answer_does_not_repeat_the_prompt_to_the_agent() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.slash(CHANNEL, ANN, "ask", Some("what is tea?"));
    bot.turn(&local, "what is tea?").await.done("A drink.").await;
    let answer =
        local.wait_for_message(CHANNEL, |text| text == "> 💬 what is tea?\nA drink.").await;
    local.reply(answer.id, ANN, &format!("<@{BOT}> and coffee?"));
    let event = bot.event(&local, "and coffee?").await;
    assert_eq!(event.request.quoted.expect("a quotation").text, "A drink.");
}

#[tokio::test]
async fn the_shown_prompt_contains_no_part_of_a_secret() {
    let local = LocalDiscord::start().await;
    let mut options =
        super::bot::options(&local, TimeLimits::default().interaction(Duration::from_secs(60)));
    options.redactor = aetheel_model::redact::Redactor::new(&["sk-canary-value".to_owned().into()]);
    let bot = Bot::with_options(options, Home::new().await).await.expect("the bot starts");
    let prompt = format!("{} sk-canary-value", "x".repeat(190));
    local.slash(CHANNEL, ANN, "ask", Some(&prompt));
    bot.turn(&local, &prompt).await.done("Done.").await;
    let shown = local.texts(CHANNEL).remove(0);
    assert!(!shown.contains("sk-") && shown.contains("\\*\\*\\*"), "{shown}");
}
