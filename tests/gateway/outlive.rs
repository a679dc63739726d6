//! The gateway is killed, stopped and started again while its agents keep running.

use rustix::process::Signal;

use super::{installed, prompt_count, serving, used_a_tool};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::program::Installation;

fn holding(local: &LocalDiscord) -> Installation {
    installed(local).with("AGENT_HOLDER", "require").with("AGENT_HOLD_SECONDS", "60")
}

#[tokio::test]
async fn an_answer_keeps_growing_while_the_gateway_is_killed_again_and_again() {
    let local = LocalDiscord::start().await;
    let installation = holding(&local);
    let mut killed = serving(&installation).await;
    let question = local.mention(CHANNEL, ANN, "slow 6");
    let mut outlived = 0;
    for second in 1.. {
        let said = format!("Second {second}.");
        // The answer may be complete before the last kill.
        let goes_on = |text: &str| text.contains(&said) || text.ends_with("There.");
        let message = local.wait_for_message(CHANNEL, goes_on).await;
        if message.content.ends_with("There.") {
            break;
        }
        killed.signal(Signal::KILL);
        killed.ended().await;
        killed = serving(&installation).await;
        let goes_on = "a link outlived the gateway and continues";
        outlived += killed.log().iter().filter(|line| line["message"] == goes_on).count();
    }
    assert!(outlived > 0);
    assert_eq!(
        local.texts(CHANNEL),
        ["Second 1. Second 2. Second 3. Second 4. Second 5. Second 6. There."]
    );
    assert_eq!(local.messages(CHANNEL)[0].reply_to, Some(question));
    assert_eq!(prompt_count(&installation), 1);
}

#[tokio::test]
async fn a_turn_that_used_a_tool_continues_without_a_question() {
    let local = LocalDiscord::start().await;
    let installation = holding(&local).with("DEMO_AGENT_DELAY_MS", "100");
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "tool");
    used_a_tool(&local, &installation).await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    let _next = serving(&installation).await;
    local.wait_for_message(CHANNEL, |text| text.ends_with("One tool worked, one did not.")).await;
    assert_eq!(local.texts(CHANNEL).len(), 1, "{:?}", local.texts(CHANNEL));
    assert_eq!(prompt_count(&installation), 1);
}

#[tokio::test]
async fn the_line_about_tools_contains_those_from_before_a_restart() {
    let local = LocalDiscord::start().await;
    let installation = holding(&local).with("DEMO_AGENT_DELAY_MS", "100").with("FOOTER", "backend");
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "tool make test");
    used_a_tool(&local, &installation).await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    let _next = serving(&installation).await;
    let ends = |text: &str| text.contains("did not.\n-# ");
    let answer = local.wait_for_message(CHANNEL, ends).await.content;
    assert!(answer.ends_with("did not.\n-# `make test` ✓\n-# Demo agent"), "{answer}");
}

#[tokio::test]
async fn an_open_question_keeps_its_buttons() {
    let local = LocalDiscord::start().await;
    let installation = holding(&local);
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "ask");
    let question = local.wait_for_message(CHANNEL, |text| text.contains("echo hello")).await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    let next = serving(&installation).await;
    next.logs("question opened").await;
    local.press(question.id, ANN, "Allow once");
    local.wait_for_message(CHANNEL, |text| text.ends_with("Done, this once.")).await;
    local.wait_for_message(CHANNEL, |text| text.contains("Allowed by ann")).await;
    let texts = local.texts(CHANNEL);
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(
        (texts[0].as_str(), texts[2].as_str()),
        ("I would like to run something.", "Done, this once.")
    );
    assert_eq!(prompt_count(&installation), 1);
}

#[tokio::test]
async fn stopping_the_service_leaves_the_turn_running_for_the_next_start() {
    let local = LocalDiscord::start().await;
    let installation = holding(&local);
    let mut stopped = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    stopped.signal(Signal::TERM);
    stopped.ended().await;
    assert!(!local.texts(CHANNEL).iter().any(|text| text.contains("restarting")));
    let _next = serving(&installation).await;
    local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
    assert_eq!(local.texts(CHANNEL), ["Second 1. Second 2. Second 3. There."]);
    assert_eq!(prompt_count(&installation), 1);
}

#[tokio::test]
async fn a_reply_to_a_question_written_while_the_gateway_was_down_counts() {
    let local = LocalDiscord::start().await;
    let installation = holding(&local);
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    local.mention(CHANNEL, ANN, "ask");
    local.wait_for_message(CHANNEL, |text| text.contains("echo hello")).await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    local.mention(CHANNEL, ANN, "deny not today");
    let _next = serving(&installation).await;
    local.wait_for_message(CHANNEL, |text| text.ends_with("Then not, because: not today")).await;
    assert_eq!(prompt_count(&installation), 2);
}

#[tokio::test]
async fn when_the_holder_is_disabled_agents_end_and_users_are_asked_about_their_turns() {
    let local = LocalDiscord::start().await;
    let installation = holding(&local);
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    let installation = installation.with("AGENT_HOLDER", "off");
    let next = serving(&installation).await;
    next.logs("agents that outlived the gateway are ended, because AGENT_HOLDER is off now").await;
    accept_offer(&local, &installation).await;
    assert_eq!(next.agents().len(), 1, "one agent runs the turn");
}

#[tokio::test]
async fn users_are_asked_about_turns_whose_holder_ended_while_no_gateway_ran() {
    let local = LocalDiscord::start().await;
    let installation = holding(&local);
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    stop_holder(&installation, Signal::KILL);
    let mut next = serving(&installation).await;
    let offer = local.wait_for_message(CHANNEL, |text| text.contains("used a tool")).await;
    next.signal(Signal::KILL);
    next.ended().await;
    let _last = serving(&installation).await;
    let noted = || installation.read("state/queue.md").contains(" offered ").then_some(());
    local.wait_for("the offer in the journal", |_| noted()).await;
    assert_eq!(
        prompt_count(&installation),
        1,
        "the second start does not run the turn again either"
    );
    local.press(offer.id, ANN, "Try again");
    local.wait_for("a second run", |_| (prompt_count(&installation) == 2).then_some(())).await;
}

#[tokio::test]
async fn users_are_asked_about_turns_whose_agents_timed_out_without_a_gateway() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("AGENT_HOLD_SECONDS", "1");
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    killed.signal(Signal::KILL);
    killed.ended().await;
    local
        .wait_for("the end of the holder", |_| installation.holders().is_empty().then_some(()))
        .await;
    let _next = serving(&installation).await;
    accept_offer(&local, &installation).await;
}

/// Waits for the offer to repeat the interrupted turn, and accepts it.
async fn accept_offer(local: &LocalDiscord, installation: &Installation) {
    let may_have = |text: &str| text.contains("and may have used a tool");
    let offer = local.wait_for_message(CHANNEL, may_have).await;
    assert_eq!(
        prompt_count(installation),
        1,
        "the turn does not run again before the button is pressed"
    );
    let noted = || installation.read("state/queue.md").contains(" offered ").then_some(());
    local.wait_for("the offer in the journal", |_| noted()).await;
    local.press(offer.id, ANN, "Try again");
    local.wait_for("a second run", |_| (prompt_count(installation) == 2).then_some(())).await;
}

#[tokio::test]
async fn after_the_death_of_a_holder_turns_run_again_or_users_are_asked_if_a_tool_was_used() {
    let local = LocalDiscord::start().await;
    let installation = holding(&local).with("DEMO_AGENT_DELAY_MS", "100");
    let bot = serving(&installation).await;
    let question = local.mention(CHANNEL, ANN, "slow 4");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let next = local.mention(CHANNEL, ANN, "hello");
    let holder = holder_of(&installation);
    rustix::process::kill_process(holder, Signal::KILL).expect("killed");
    bot.logs("the agent was lost; the turn runs again").await;
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    let answers = local.messages(CHANNEL);
    let texts: Vec<_> =
        answers.iter().map(|message| (message.reply_to, &*message.content)).collect();
    assert_eq!(texts[0], (Some(question), "Second 1. Second 2. Second 3. Second 4. There."));
    assert_eq!((texts.len(), texts[1].0), (2, Some(next)), "{texts:?}");
    bot.logs("a new holder keeps agents").await;
    let holder_now = holder_of(&installation);
    assert_ne!(holder_now, holder);

    let question = local.mention(CHANNEL, ANN, "tool");
    used_a_tool(&local, &installation).await;
    rustix::process::kill_process(holder_now, Signal::KILL).expect("killed");
    let offer = local.wait_for_message(CHANNEL, |text| text.contains("(interrupted)")).await;
    assert_eq!(offer.reply_to, Some(question));
    let noted = || installation.read("state/queue.md").contains(" offered ").then_some(());
    local.wait_for("the offer in the journal", |_| noted()).await;
    local.press(offer.id, ANN, "Try again");
    local.wait_for_message(CHANNEL, |text| text.ends_with("One tool worked, one did not.")).await;
}

#[tokio::test]
async fn after_a_clean_stop_of_a_holder_turns_run_again_or_users_are_asked_if_a_tool_was_used() {
    let local = LocalDiscord::start().await;
    let installation = holding(&local).with("DEMO_AGENT_DELAY_MS", "100");
    let bot = serving(&installation).await;
    let question = local.mention(CHANNEL, ANN, "slow 4");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    stop_holder(&installation, Signal::TERM);
    bot.logs("the agent was lost; the turn runs again").await;
    local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
    let answers = local.messages(CHANNEL);
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0].content, "Second 1. Second 2. Second 3. Second 4. There.");
    assert_eq!(answers[0].reply_to, Some(question));

    let question = local.mention(CHANNEL, ANN, "tool");
    used_a_tool(&local, &installation).await;
    stop_holder(&installation, Signal::TERM);
    let offer = local.wait_for_message(CHANNEL, |text| text.contains("(interrupted)")).await;
    assert_eq!(offer.reply_to, Some(question));
    assert_eq!(installation.read("state/lost.md"), "", "no reply is unreadable");
    let lost = "the reply is lost until a newer backend reads it; its recording is kept";
    assert!(bot.log().iter().all(|line| line["message"] != lost));
}

#[tokio::test]
async fn a_turn_in_a_replacement_holder_also_outlives_the_gateway() {
    for signal in [Signal::KILL, Signal::TERM] {
        let local = LocalDiscord::start().await;
        let installation = holding(&local);
        let mut bot = serving(&installation).await;
        local.mention(CHANNEL, ANN, "hello");
        local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
        stop_holder(&installation, signal);
        bot.logs("a new holder keeps agents").await;
        local.mention(CHANNEL, ANN, "slow 4");
        local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
        bot.signal(Signal::KILL);
        bot.ended().await;
        let next = serving(&installation).await;
        next.logs("a link outlived the gateway and continues").await;
        local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
        let texts = local.texts(CHANNEL);
        assert_eq!(texts[1..], ["Second 1. Second 2. Second 3. Second 4. There."], "{signal:?}");
        assert_eq!(prompt_count(&installation), 2, "{signal:?}: each prompt once");
    }
}

fn stop_holder(installation: &Installation, signal: Signal) {
    rustix::process::kill_process(holder_of(installation), signal).expect("signalled");
}

/// Returns the process id of the holder.
fn holder_of(installation: &Installation) -> rustix::process::Pid {
    let [holder] = installation.holders()[..] else {
        panic!("not one holder for the folder: {:?}", installation.holders());
    };
    holder
}

#[tokio::test]
async fn a_holder_that_ends_without_agents_causes_no_questions() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut killed = serving(&installation).await;
    assert!(installation.read("state/holder.md").contains("- holder: "));
    killed.signal(Signal::KILL);
    killed.ended().await;
    local.wait_for("no holder", |_| installation.holders().is_empty().then_some(())).await;
    let noted = installation.path("config/state/holder.md");
    assert!(!noted.exists(), "{:?}", std::fs::read_to_string(&noted));
}
