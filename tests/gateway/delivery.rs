//! Answers that Discord does not accept at first: they are delivered later, also by the next
//! process.

use rustix::process::Signal;

use super::{installed, serving, used_a_tool};
use crate::support::discord::{ANN, CHANNEL, Fault, LocalDiscord, OTHER, room};
use crate::support::program::Installation;

const SLOW: &str = "Second 1. Second 2. There.";

/// Waits until `count` answers are in the journal and not delivered.
async fn wait_for_undelivered(local: &LocalDiscord, installation: &Installation, count: usize) {
    let answered = || installation.read("state/queue.md").matches(" answered `").count() == count;
    local.wait_for("the journal", |_| answered().then_some(())).await;
}

/// The name of an obstacle, and the functions that start and end it.
type Obstacle = (&'static str, fn(&LocalDiscord), fn(&LocalDiscord));

const OBSTACLES: [Obstacle; 4] = [
    ("away", |local| local.faults().away(true), |local| local.faults().away(false)),
    (
        "a limit",
        |local| refuse(local, Fault::Limit { retry_after: 130.0, global: false }),
        |local| local.faults().clear(),
    ),
    (
        "a limit of all",
        |local| refuse(local, Fault::Limit { retry_after: 130.0, global: true }),
        |local| local.faults().clear(),
    ),
    (
        "no permission",
        |local| local.faults().close_channel(CHANNEL, true),
        |local| local.faults().close_channel(CHANNEL, false),
    ),
];

fn refuse(local: &LocalDiscord, fault: Fault) {
    for method in ["POST", "PATCH"] {
        local.faults().next(method, "/messages", fault.clone(), 1_000);
    }
}

#[tokio::test]
async fn after_a_kill_the_next_process_delivers_a_delayed_answer_once() {
    for (name, begins, ends) in OBSTACLES {
        let local = LocalDiscord::start().await;
        let installation = installed(&local);
        let mut killed = serving(&installation).await;
        let question = local.mention(CHANNEL, ANN, "slow 2");
        local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
        begins(&local);
        wait_for_undelivered(&local, &installation, 1).await;
        killed.signal(Signal::KILL);
        killed.ended().await;
        ends(&local);
        let next = serving(&installation).await;
        next.logs("answer delivered").await;
        assert_eq!(local.texts(CHANNEL), [SLOW], "{name}");
        let answer = &local.messages(CHANNEL)[0];
        assert_eq!(
            (answer.reply_to, local.buttons(answer.id).len()),
            (Some(question), 0),
            "{name}"
        );
        assert_eq!(installation.recordings().len(), 1, "{name}: the turn did not run again");
    }
}

#[tokio::test]
async fn an_answer_finished_while_discord_was_away_is_delivered_when_it_is_back() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 2");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.faults().away(true);
    wait_for_undelivered(&local, &installation, 1).await;
    local.faults().away(false);
    bot.logs("answer delivered").await;
    assert_eq!(local.texts(CHANNEL), [SLOW]);
}

#[tokio::test]
async fn two_undelivered_answers_in_a_channel_delay_no_turn_and_keep_their_order_over_a_kill() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    local.faults().close_channel(CHANNEL, true);
    local.mention(CHANNEL, ANN, "first");
    killed.logs("discord does not accept an answer now").await;
    local.mention(CHANNEL, ANN, "second");
    wait_for_undelivered(&local, &installation, 3).await;
    killed.logs("the answer is not delivered yet").await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    let next = serving(&installation).await;
    next.logs("discord does not accept an answer now").await;
    local.faults().close_channel(CHANNEL, false);
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: second")).await;
    let texts = local.texts(CHANNEL);
    assert!(texts.len() == 3 && texts[1].starts_with("You said: first"), "{texts:?}");
    assert_eq!(installation.recordings().len(), 3, "no turn ran again");
}

#[tokio::test]
async fn shutdown_does_not_wait_for_answers_that_cannot_be_delivered() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut first = serving(&installation).await;
    local.faults().close_channel(CHANNEL, true);
    local.mention(CHANNEL, ANN, "hello");
    first.logs("the answer is not delivered yet").await;
    first.signal(Signal::INT);
    let ended = first.ended().await;
    assert_eq!(ended.code, 0);
    assert!(
        ended.stderr.contains("shutdown: not every answer could be delivered"),
        "{}",
        ended.stderr
    );
    local.faults().close_channel(CHANNEL, false);
    let _next = serving(&installation).await;
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
}

#[tokio::test]
async fn an_answer_for_a_deleted_channel_is_logged_and_reported_to_the_operator() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 2");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.faults().delete_channel(CHANNEL);
    let notice = local
        .wait_for_message(OTHER, |text| text.ends_with("The recording of the turn contains it."))
        .await;
    assert!(notice.content.contains(&CHANNEL.to_string()), "{}", notice.content);
    bot.logs("the answer was not delivered; it is in the recording").await;
    local
        .wait_for("the journal", |_| {
            installation.read("state/queue.md").contains("- [x]").then_some(())
        })
        .await;
}

#[tokio::test]
async fn the_footer_shows_the_agent_and_the_duration_unless_the_operator_disables_it() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("FOOTER", "");
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    let answer = local
        .wait_for_message(CHANNEL, |text| {
            text.starts_with("You said: hello") && text.contains("\n-# Demo agent")
        })
        .await;
    let footer = answer.content.lines().last().unwrap();
    assert!(footer.starts_with("-# Demo agent · ") && footer.contains(" s"), "{footer}");
}

#[tokio::test]
async fn the_tools_of_a_turn_stay_below_its_answer_unless_the_operator_disables_the_footer() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local)
        .with("FOOTER", "backend")
        .with("ANTHROPIC_API_KEY", "sk-not-a-key-at-all");
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "tool make test KEY=sk-not-a-key-at-all and a long rest of it");
    let ends = |text: &str| text.contains("did not.\n-# ");
    let answer = local.wait_for_message(CHANNEL, ends).await.content;
    let (_, below) = answer.split_once("did not.\n").unwrap();
    assert_eq!(below, "-# `make test KEY=*** and a long rest of it` ✓\n-# Demo agent");
    local.mention(CHANNEL, ANN, "hello");
    let ends = |text: &str| text.starts_with("You said: hello") && text.contains("\n-# ");
    let answer = local.wait_for_message(CHANNEL, ends).await.content;
    assert_eq!(answer.matches("-# ").count(), 1, "no tool ran: {answer}");
    drop(bot);
    let silent = installation.with("FOOTER", "none");
    let _bot = serving(&silent).await;
    local.mention(OTHER, ANN, "tool make test");
    let answer = local.wait_for_message(OTHER, |text| text.contains("did not.")).await.content;
    assert!(answer.ends_with("One tool worked, one did not."), "{answer}");
}

#[tokio::test]
async fn a_user_is_pinged_when_a_long_answer_is_ready_if_the_operator_wants_that() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    std::fs::write(
        installation.path("config").join("channels.md"),
        format!("## channel {CHANNEL}\n- ping: 2s\n"),
    )
    .unwrap();
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.mention(OTHER, ANN, "slow 3");
    let ping = local
        .wait_for_message(CHANNEL, |text| {
            text.starts_with(&format!("<@{ANN}>\n-# The answer is ready, after "))
        })
        .await;
    assert!(
        ping.reply_to.is_none() && local.texts(CHANNEL).len() == 3,
        "{:?}",
        local.texts(CHANNEL)
    );
    local.wait_for_message(OTHER, |text| text.ends_with("There.")).await;
    let sent = local
        .requests()
        .into_iter()
        .filter(|request| request.body.contains(&format!("\"users\":[\"{ANN}\"]")));
    assert_eq!(sent.count(), 1, "one ping in one channel");
}

#[tokio::test]
async fn a_flood_is_answered_below_discords_limit_of_requests() {
    let local = LocalDiscord::start().await;
    local.faults().most_per_second(50);
    // A low rate, because the machine may be busy with other tests.
    let installation =
        installed(&local).with("BUSY_POLICY", "queue").with("DISCORD_REQUESTS_PER_SECOND", "25");
    let _bot = serving(&installation).await;
    let count = 60;
    for number in 0..count {
        local.mention(room(number % 20), ANN, "hello");
    }
    let answered = |local: &LocalDiscord| {
        (0..20).map(|number| local.texts(room(number)).len() as u64).sum::<u64>() == count
    };
    local
        .wait_within(std::time::Duration::from_secs(120), "all answers", |local| {
            answered(local).then_some(())
        })
        .await;
    assert_eq!(local.crowded(), 0);
}

#[tokio::test]
async fn stop_with_fifteen_waiting_prompts_posts_one_summary_and_removes_their_numbers() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let waiting: Vec<u64> =
        (0..14).map(|number| local.mention(CHANNEL, ANN, &format!("waiting {number}"))).collect();
    local.slash(CHANNEL, ANN, "ask", Some("waiting too"));
    local.wait_for_message(CHANNEL, |text| text.contains("15 before this one")).await;
    local
        .wait_for("a number", |local| (!local.reactions(waiting[0]).is_empty()).then_some(()))
        .await;
    local.slash(CHANNEL, ANN, "stop", None);
    local
        .wait_for_message(CHANNEL, |text| {
            text == "Stopped; 15 waiting prompts will not be answered."
        })
        .await;
    local.wait_for_message(CHANNEL, |text| text.contains("⚠️ Stopped.")).await;
    local
        .wait_for_message(CHANNEL, |text| text == "> 💬 waiting too\n-# Stopped before it began.")
        .await;
    local
        .wait_for("no numbers", |local| {
            waiting.iter().all(|message| local.reactions(*message).is_empty()).then_some(())
        })
        .await;
    assert_eq!(local.texts(CHANNEL).len(), 3, "{:?}", local.texts(CHANNEL));
}

#[tokio::test]
async fn the_button_below_a_running_answer_stops_only_that_turn() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 600");
    let draft = local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.mention(CHANNEL, ANN, "behind it");
    local.wait_for("the button", |local| local.button(draft.id, "Stop").map(drop)).await;
    local.press(draft.id, ANN, "Stop");
    local.wait_for_message(CHANNEL, |text| text.contains("⚠️ Stopped.")).await;
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: behind it")).await;
    assert!(local.messages(CHANNEL).iter().all(|message| local.buttons(message.id).is_empty()));
}

#[tokio::test]
async fn after_a_kill_queue_numbers_are_removed_from_answered_messages() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 2");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let behind = local.mention(CHANNEL, ANN, "behind it");
    local.wait_for("the number", |local| (local.reactions(behind) == ["1️⃣"]).then_some(())).await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    let _next = serving(&installation).await;
    local.wait_for_message(CHANNEL, |text| text.contains("You said: behind it")).await;
    local.wait_for("no number", |local| local.reactions(behind).is_empty().then_some(())).await;
}

#[tokio::test]
async fn after_a_kill_during_a_tool_a_command_does_not_show_thinking_forever() {
    let local = LocalDiscord::start().await;
    // A holder would keep the agents running.
    let installation =
        installed(&local).with("AGENT_HOLDER", "off").with("DEMO_AGENT_DELAY_MS", "100");
    let mut killed = serving(&installation).await;
    let command = local.slash(CHANNEL, ANN, "ask", Some("tool"));
    used_a_tool(&local, &installation).await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    let _next = serving(&installation).await;
    local.wait_for_message(CHANNEL, |text| text.ends_with("(interrupted)")).await;
    let said = local.answer_to(command).await;
    assert!(
        said.content.starts_with("> 💬 tool\n") && said.content.contains("This is not finished"),
        "{}",
        said.content
    );
    assert!(local.buttons(said.id).is_empty());
}
