//! Answers, commands and messages, as users see them in Discord.

use aetheel_model::split::split;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER, OTHER_BOT};

/// Returns the demo agent's answer to a prompt that is not one of its commands.
fn repeated(said: &str, number: usize) -> String {
    format!("You said: {said}\n\nThis is message {number} of our conversation.")
}

#[tokio::test]
async fn a_mention_is_answered_with_typing_streamed_edits_and_exactly_the_agents_text() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    let ready = bot.logs("discord is ready").await;
    assert_eq!((ready["user"].as_str(), ready["guilds"].as_u64()), (Some("aetheel"), Some(1)));

    let question = local.mention(CHANNEL, ANN, "slow 3");
    let whole = "Second 1. Second 2. Second 3. There.";
    let answer = local.wait_for_message(CHANNEL, |text| text == whole).await;
    assert_eq!(answer.reply_to, Some(question));
    assert!(!answer.edits.is_empty(), "it was streamed");
    assert!(
        answer.edits.iter().all(|(_, text)| whole.starts_with(text.trim_end())),
        "{:?}",
        answer.edits
    );
    let typing = local.typing(CHANNEL);
    assert!(typing[0] < answer.created, "typing was shown before the answer");
    assert_eq!(local.texts(CHANNEL), [whole], "one message, nothing else");
}

#[tokio::test]
async fn a_long_answer_is_split_with_its_code_fences_kept() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    let code: String = (0..70)
        .map(|number| format!("    println!(\"this is line number {number}\");\n"))
        .collect();
    let said = format!("like this:\n```rust\nfn main() {{\n{code}}}\n```");
    local.slash(CHANNEL, ANN, "ask", Some(&said));

    local.wait_for_message(CHANNEL, |text| text.ends_with("of our conversation.")).await;
    let pieces = local.texts(CHANNEL);
    let heading = "> 💬 like this: \\`\\`\\`rust fn main\\(\\) {";
    assert!(pieces[0].starts_with(heading), "{pieces:#?}");
    let shown = pieces[0].lines().next().unwrap().to_owned();
    assert_eq!(pieces, split(&format!("{shown}\n{}", repeated(&said, 1)), 2_000));
    assert!(pieces.len() >= 2 && pieces[1].starts_with("```rust\n"), "{pieces:#?}");
    assert!(pieces.iter().all(|piece| piece.matches("```").count() % 2 == 0), "{pieces:#?}");
}

#[tokio::test]
async fn ask_continues_a_conversation_and_reset_forgets_it() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    let names: Vec<String> = local
        .commands()
        .as_array()
        .unwrap()
        .iter()
        .map(|command| command["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names[..5], ["ask", "new", "reset", "stop", "steer"]);
    assert!(names.iter().all(|name| !name.contains("claude")), "`/claude` is for claude only");

    local.slash(CHANNEL, ANN, "ask", Some("hello"));
    local
        .wait_for_message(CHANNEL, |text| text == format!("> 💬 hello\n{}", repeated("hello", 1)))
        .await;
    local.mention(CHANNEL, ANN, "hello again");
    local.wait_for_message(CHANNEL, |text| text == repeated("hello again", 2)).await;
    local.slash(CHANNEL, ANN, "reset", None);
    local.wait_for_message(CHANNEL, |text| text.starts_with("Done: ")).await;
    assert!(
        !installation.read("state/sessions.md").contains("demo-"),
        "{}",
        installation.read("state/sessions.md")
    );
    local.mention(CHANNEL, ANN, "history");
    local
        .wait_for_message(CHANNEL, |text| text == "This is the beginning of our conversation.")
        .await;
    assert!(!bot.stderr().contains("\"ERROR\""), "{}", bot.stderr());
}

#[tokio::test]
async fn a_running_turn_does_not_restore_a_conversation_that_was_reset() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.slash(CHANNEL, ANN, "reset", None);
    local.wait_for_message(CHANNEL, |text| text.contains("your next prompt begins")).await;
    local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
    local.mention(CHANNEL, ANN, "history");
    local
        .wait_for_message(CHANNEL, |text| text == "This is the beginning of our conversation.")
        .await;
}

#[tokio::test]
async fn stop_ends_a_turn_and_the_next_prompt_is_answered() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.slash(CHANNEL, ANN, "stop", None);
    let stopped = local.wait_for_message(CHANNEL, |text| text.contains("⚠️ Stopped.")).await;
    assert!(
        stopped.content.starts_with("Second 1."),
        "the partial answer stays: {}",
        stopped.content
    );
    local.wait_for_message(CHANNEL, |text| text == "Stopped.").await;
    local.wait_for("the agent's end", |_| bot.agents().is_empty().then_some(())).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text == repeated("hello", 2)).await;
    local.slash(OTHER, ANN, "stop", None);
    local.wait_for_message(OTHER, |text| text == "There is nothing to stop here.").await;
}

#[tokio::test]
async fn a_conversation_continues_after_a_restart_of_the_program() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut first = serving(&installation).await;
    local.mention(CHANNEL, ANN, "remember the number 42");
    local.wait_for_message(CHANNEL, |text| text == "Noted.").await;
    first.signal(rustix::process::Signal::TERM);
    assert_eq!(first.ended().await.code, 0);
    assert!(
        installation.read("state/sessions.md").contains("demo-"),
        "{}",
        installation.read("state/sessions.md")
    );
    let noted = installation.read(&format!("memory/channel-{CHANNEL}.md"));
    assert!(noted.contains("the number 42"), "{noted}");

    let _second = serving(&installation).await;
    local.mention(CHANNEL, ANN, "history");
    let history =
        local.wait_for_message(CHANNEL, |text| text.starts_with("You said before:")).await;
    assert!(history.content.contains("remember the number 42"), "{}", history.content);
    local.mention(CHANNEL, ANN, "system");
    local
        .wait_for_message(CHANNEL, |text| {
            text.contains("the number 42") && !text.starts_with("You said")
        })
        .await;
}

#[tokio::test]
async fn two_channels_are_answered_at_the_same_time() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.mention(OTHER, ANN, "slow 3");
    let here = local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
    let there = local.wait_for_message(OTHER, |text| text.ends_with("There.")).await;
    let done = |message: &crate::support::discord::Message| {
        message.edits.last().expect("it was streamed").0
    };
    assert!(
        here.created < done(&there) && there.created < done(&here),
        "the turns did not overlap"
    );
}

#[tokio::test]
async fn a_second_channel_is_refused_when_all_slots_are_taken_and_a_busy_channel_queues() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("MAX_CONCURRENT_QUERIES", "1");
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.mention(CHANNEL, ANN, "and then");
    local.mention(OTHER, ANN, "me too");
    local.wait_for_message(OTHER, |text| text.contains("I am busy with")).await;
    local.wait_for_message(CHANNEL, |text| text == repeated("and then", 2)).await;
    assert_eq!(local.texts(CHANNEL)[0], "Second 1. Second 2. Second 3. There.");
    assert_eq!(local.texts(OTHER).len(), 1, "{:?}", local.texts(OTHER));
}

#[tokio::test]
async fn messages_of_bots_and_webhooks_start_no_turn() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, OTHER_BOT, "I am a bot");
    local.webhook(CHANNEL, "I am a webhook");
    local.mention(CHANNEL, ANN, "I am Ann");
    local.wait_for_message(CHANNEL, |text| text == repeated("I am Ann", 1)).await;
    assert_eq!(local.texts(CHANNEL).len(), 1);
    assert_eq!(installation.recordings().len(), 1);
}
