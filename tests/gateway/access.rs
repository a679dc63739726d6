//! Access lists, the rate limit of a user, and the log lines about refusals.

use super::{installed, serving};
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord};

#[tokio::test]
async fn a_user_who_asks_too_fast_is_refused_with_the_time_to_wait() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("USER_PROMPTS_PER_MINUTE", "2");
    let bot = serving(&installation).await;
    for said in ["one", "two"] {
        local.mention(CHANNEL, ANN, said);
        local
            .wait_for_message(CHANNEL, |text| text.starts_with(&format!("You said: {said}")))
            .await;
    }
    let hasty = local.mention(CHANNEL, ANN, "three");
    let refusal = local.wait_for_message(CHANNEL, |text| text.contains("asking faster")).await;
    assert_eq!(refusal.reply_to, Some(hasty));
    assert!(refusal.content.contains(" s."), "{}", refusal.content);
    let line = bot.logs("event refused: You are asking faster").await;
    assert_eq!(
        (line["asker"].as_u64(), line["lane"].as_str()),
        (Some(ANN), Some(format!("channel:{CHANNEL}").as_str())),
        "{line}"
    );
    local.mention(CHANNEL, BOB, "me too");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: me too")).await;
}

#[tokio::test]
async fn the_start_warns_when_anyone_can_run_commands_on_this_machine() {
    let local = LocalDiscord::start().await;
    // Only in this mode do agents run commands without a question.
    let in_danger = || installed(&local).with("PERMISSION_MODE", "bypassPermissions");
    let open = in_danger();
    let bot = serving(&open).await;
    let line = bot.logs("anyone who can write in any server this bot is in can run commands and read files on this machine").await;
    assert_eq!(line["level"].as_str(), Some("WARN"), "{line}");
    drop(bot);
    let closed = in_danger().with("ALLOWED_USERS", &ANN.to_string());
    let bot = serving(&closed).await;
    assert!(!bot.log().iter().any(|line| line.to_string().contains("anyone who can write")));
}

#[tokio::test]
async fn unlisted_users_get_no_answer_and_the_log_gives_the_reason() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("ALLOWED_USERS", &ANN.to_string());
    let bot = serving(&installation).await;
    local.mention(CHANNEL, BOB, "let me in");
    let line = bot.logs("refused a discord user").await;
    assert_eq!(
        (line["user"].as_u64(), line["channel"].as_u64()),
        (Some(BOB), Some(CHANNEL)),
        "{line}"
    );
    assert_eq!(line["why"].as_str(), Some("you may not use this bot"));
    assert_eq!(line["name"].as_str(), Some("bob"));
    assert!(line["hint"].as_str().is_some_and(|hint| hint.contains("ALLOWED_USERS")), "{line}");
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    assert_eq!(
        local.messages(CHANNEL).iter().filter(|message| message.reply_to.is_some()).count(),
        1,
        "only the listed user was answered"
    );
}
