//! Tests of answers that Discord does not accept at once. They are delivered later: complete, once
//! and in order.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use aetheel_discord::TimeLimits;
use aetheel_dispatch::{DeliveryError, PriorDelivery, Settlement};
use aetheel_model::access::AllowLists;
use aetheel_model::agent::AskDecision;
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::{ChannelId, MessageId, UserId};
use aetheel_model::split::split;

use super::asks::{decision, permission, with_buttons};
use super::bot::{Bot, Home, Log, Turn, answer, options};
use crate::support::discord::{ANN, BOB, CHANNEL, Fault, LocalDiscord, OTHER, room};

const HOUR: Duration = Duration::from_secs(3_600);

/// A delivery that runs while the test does other things.
type Delivery = Pin<Box<dyn Future<Output = Result<(), DeliveryError>>>>;

fn start_delivery(turn: Turn, text: &str) -> Delivery {
    let answer = answer(text);
    let mut delivery: Delivery = Box::pin(turn.deliver(answer));
    assert!(is_pending(&mut delivery));
    delivery
}

fn is_pending(delivery: &mut Delivery) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    matches!(delivery.as_mut().poll(&mut context), Poll::Pending)
}

/// Starts a bot that retries only when something changes.
async fn patient(local: &LocalDiscord) -> (Bot, aetheel_discord::OffsetClock) {
    let windows = TimeLimits::default().retry(HOUR, HOUR);
    let clock = windows.clock();
    (Bot::with_windows(local, windows).await, clock)
}

async fn asked(local: &LocalDiscord, bot: &Bot, prompt: &str) -> Turn {
    local.mention(CHANNEL, ANN, prompt);
    bot.turn(local, prompt).await
}

async fn wait_until_delayed(local: &LocalDiscord, log: &Log, times: usize) {
    let told = || log.text().matches("discord does not accept an answer now").count() == times;
    local.wait_for("the log line of a delayed answer", |_| told().then_some(())).await;
    // The warning is logged just before the wait begins.
    tokio::task::yield_now().await;
}

/// Advances the clock until the first attempt has failed, which the log reports with `words`.
async fn wait_until_failed(
    local: &LocalDiscord,
    log: &Log,
    clock: &aetheel_discord::OffsetClock,
    words: &str,
) {
    local
        .wait_for("the first attempt to fail", |_| {
            clock.advance(Duration::from_secs(10));
            log.text().contains(words).then_some(())
        })
        .await;
}

async fn delivered(delivery: Delivery) {
    tokio::time::timeout(crate::support::discord::LIMIT, delivery)
        .await
        .expect("delivered in time")
        .expect("delivered");
}

#[tokio::test]
async fn an_answer_survives_150_seconds_without_discord_and_is_posted_afterwards() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    let (bot, clock) = patient(&local).await;
    let turn = asked(&local, &bot, "go").await;
    local.faults().away(true);
    let mut delivery = start_delivery(turn, "my secret diary");
    wait_until_failed(&local, &log, &clock, "discord does not accept an answer now").await;
    clock.advance(Duration::from_secs(150));
    assert!(is_pending(&mut delivery), "the delivery is not given up");
    local.faults().away(false);
    delivered(delivery).await;
    assert_eq!(local.texts(CHANNEL), ["my secret diary"]);
    let log = log.text();
    assert!(
        log.contains("discord accepted an answer that was delayed") && log.contains("length=15"),
        "{log}"
    );
    assert!(!log.contains("diary"), "{log}");
}

#[tokio::test]
async fn a_question_survives_150_seconds_without_discord_and_is_answered_afterwards() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    let (bot, clock) = patient(&local).await;
    let prompt = (CHANNEL, ANN, "go");
    let (mut turn, question) = bot.asking(&local, prompt, &permission(None)).await;
    local.faults().away(true);
    let dismissed = turn.ask(&question);
    wait_until_failed(&local, &log, &clock, "discord does not accept a question now").await;
    clock.advance(Duration::from_secs(150));
    local.faults().away(false);
    let message = with_buttons(&local).await;
    assert!(!dismissed.load(Ordering::SeqCst), "the delivery is not given up");
    local.wait_for("the bot", |local| (local.connections() > 0).then_some(())).await;
    // Discord loses a press that comes while one connection replaces another. A person presses again.
    for _ in 0..5 {
        let press = local.press(message.id, ANN, "Allow once");
        let noticed =
            local.wait_for("the acknowledgement", |local| local.interaction(press).acknowledged);
        if tokio::time::timeout(Duration::from_secs(4), noticed).await.is_ok() {
            break;
        }
    }
    assert_eq!(decision(&local, &bot).await.2, AskDecision::AllowOnce);
}

#[tokio::test]
async fn a_question_that_is_over_before_discord_is_back_is_never_posted() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    let (bot, clock) = patient(&local).await;
    let mut turn = asked(&local, &bot, "go").await;
    local.faults().away(true);
    let question = permission(None);
    turn.ask(&question);
    wait_until_failed(&local, &log, &clock, "discord does not accept a question now").await;
    turn.settled(&question.id, &Settlement::Expired);
    local.faults().away(false);
    delivered(start_delivery(turn, "Nobody said anything.")).await;
    assert_eq!(local.texts(CHANNEL), ["Nobody said anything."]);
}

#[tokio::test]
async fn a_partly_posted_answer_is_marked_until_the_rest_is_posted() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    local.faults().limit("POST messages", 2, Duration::from_secs(150));
    let (bot, clock) = patient(&local).await;
    let turn = asked(&local, &bot, "go").await;
    let text = format!(
        "Here it is:\n\n```rust\n{}```\nThat is all.",
        "let value = compute(); // a line of code\n".repeat(200)
    );
    let pieces = split(&text, 2_000);
    assert!(pieces.len() >= 4);
    let mut delivery = start_delivery(turn, &text);
    wait_until_delayed(&local, &log, 1).await;
    let shown = local.messages(CHANNEL);
    assert_eq!(local.texts(CHANNEL), pieces[..2]);
    assert_eq!(
        (local.buttons(shown[0].id), local.buttons(shown[1].id)),
        (vec![], vec!["⏳ The rest follows".to_owned()])
    );
    assert!(is_pending(&mut delivery));
    local.faults().limit("POST messages", 50, Duration::from_secs(1));
    clock.advance(Duration::from_secs(150));
    delivered(delivery).await;
    assert_eq!(local.texts(CHANNEL), pieces);
    assert!(
        local.messages(CHANNEL).iter().all(|message| local.buttons(message.id).is_empty()),
        "nothing is posted afterwards"
    );
}

#[tokio::test]
async fn a_message_posted_before_a_long_outage_is_found_without_its_nonce() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    let (bot, clock) = patient(&local).await;
    let turn = asked(&local, &bot, "go").await;
    // The message is posted, but every response is lost.
    local.faults().next("POST", &format!("{CHANNEL}/messages"), Fault::CutAfter, 1_000);
    let mut delivery = start_delivery(turn, "Once");
    local.wait_for("the message", |local| (!local.texts(CHANNEL).is_empty()).then_some(())).await;
    local.faults().away(true);
    local
        .wait_for("the first attempt to fail", |_| {
            clock.advance(Duration::from_secs(10));
            log.text().contains("discord does not accept an answer now").then_some(())
        })
        .await;
    clock.advance(Duration::from_secs(150));
    local.faults().forget_nonces();
    local.faults().clear();
    assert!(is_pending(&mut delivery));
    local.faults().away(false);
    clock.advance(HOUR);
    delivered(delivery).await;
    assert_eq!(local.texts(CHANNEL), ["Once"]);
}

#[tokio::test]
async fn a_retry_after_of_130_seconds_is_respected_also_a_global_one() {
    for global in [false, true] {
        let (log, _guard) = Log::start();
        let local = LocalDiscord::start().await;
        let (bot, clock) = patient(&local).await;
        let turn = asked(&local, &bot, "go").await;
        local.faults().next(
            "POST",
            &format!("{CHANNEL}/messages"),
            Fault::Limit { retry_after: 130.0, global },
            1,
        );
        let mut delivery = start_delivery(turn, "At last");
        wait_until_delayed(&local, &log, 1).await;
        clock.advance(Duration::from_secs(125));
        tokio::task::yield_now().await;
        assert!(is_pending(&mut delivery) && local.texts(CHANNEL).is_empty());
        clock.advance(Duration::from_secs(6));
        delivered(delivery).await;
        assert_eq!(local.texts(CHANNEL), ["At last"]);
        assert_eq!(bot.discord.invalid_requests(), 1);
    }
}

#[tokio::test]
async fn an_answer_waits_for_a_permission_and_is_posted_when_it_returns() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    let (bot, _clock) = patient(&local).await;
    let turn = asked(&local, &bot, "go").await;
    local.faults().close_channel(CHANNEL, true);
    let delivery = start_delivery(turn, "Allowed");
    wait_until_delayed(&local, &log, 1).await;
    assert!(log.text().contains("hint: the bot needs View Channel"), "{}", log.text());
    local.faults().close_channel(CHANNEL, false);
    delivered(delivery).await;
    assert_eq!(local.texts(CHANNEL), ["Allowed"]);
}

#[tokio::test]
async fn a_permission_that_returns_without_an_event_is_noticed_by_retries() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    let (bot, clock) = patient(&local).await;
    let turn = asked(&local, &bot, "go").await;
    local.faults().next("POST", &format!("{CHANNEL}/messages"), Fault::Refuse(403, 50_013), 1);
    let delivery = start_delivery(turn, "Allowed");
    wait_until_delayed(&local, &log, 1).await;
    clock.advance(HOUR);
    delivered(delivery).await;
    assert_eq!(local.texts(CHANNEL), ["Allowed"]);
}

#[tokio::test]
async fn a_delayed_answer_delays_only_later_answers_of_its_channel() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    let (bot, _clock) = patient(&local).await;
    let first = asked(&local, &bot, "first").await;
    local.faults().close_channel(CHANNEL, true);
    let first = start_delivery(first, "One");
    wait_until_delayed(&local, &log, 1).await;
    let mut second = asked(&local, &bot, "second").await;
    second.say("Tw");
    let third = asked(&local, &bot, "third").await;
    let (second, third) = (start_delivery(second, "Two"), start_delivery(third, "Three"));
    local.mention(OTHER, ANN, "other");
    bot.turn(&local, "other").await.done("Elsewhere").await;
    assert_eq!((local.texts(CHANNEL).len(), local.texts(OTHER)), (0, vec!["Elsewhere".to_owned()]));
    local.faults().close_channel(CHANNEL, false);
    for delivery in [third, second, first] {
        delivered(delivery).await;
    }
    assert_eq!(local.texts(CHANNEL), ["One", "Two", "Three"]);
}

#[tokio::test]
async fn a_draft_does_not_overtake_a_delayed_answer() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    let (bot, clock) = patient(&local).await;
    let first = asked(&local, &bot, "first").await;
    local.faults().next("POST", &format!("{CHANNEL}/messages"), Fault::Refuse(403, 50_013), 1);
    let first = start_delivery(first, "One");
    wait_until_delayed(&local, &log, 1).await;
    // Posting works again from here on, but the bot has not noticed yet.
    let mut second = asked(&local, &bot, "second").await;
    second.say("Two");
    let early = local.wait_for("a draft", |local| (!local.texts(CHANNEL).is_empty()).then_some(()));
    assert!(
        tokio::time::timeout(Duration::from_secs(3), early).await.is_err(),
        "{:?}",
        local.texts(CHANNEL)
    );
    clock.advance(HOUR);
    delivered(first).await;
    local.wait_for_message(CHANNEL, |text| text == "Two").await;
    assert_eq!(local.texts(CHANNEL), ["One", "Two"]);
}

#[tokio::test]
async fn a_deleted_channel_ends_the_delivery_and_is_reported() {
    let local = LocalDiscord::start().await;
    let (bot, _clock) = patient(&local).await;
    let turn = asked(&local, &bot, "go").await;
    local.faults().delete_channel(CHANNEL);
    let error = turn.finish(answer("text")).await.expect_err("nobody can see it");
    assert!(matches!(&error, DeliveryError::Gone(why) if why.contains("10003")), "{error:?}");
    // Deliveries that wait behind the failed one must end too.
    let behind = Turn::resumed(&bot, &bot.event(&local, "go").await, PriorDelivery::untracked());
    assert!(matches!(behind.finish(answer("text")).await, Err(DeliveryError::Gone(_))));
}

#[tokio::test]
async fn without_access_to_the_prompt_an_answer_is_not_posted_as_a_reply() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    let (bot, _clock) = patient(&local).await;
    let turn = asked(&local, &bot, "one").await;
    local.faults().next("POST", &format!("{CHANNEL}/messages"), Fault::Refuse(400, 160_002), 1);
    turn.done("First").await;
    asked(&local, &bot, "two").await.done("Second").await;
    let said: Vec<_> = local
        .messages(CHANNEL)
        .into_iter()
        .map(|message| (message.content, message.reply_to))
        .collect();
    assert_eq!(said, [("First".to_owned(), None), ("Second".to_owned(), None)]);
    let log_text = log.text();
    assert_eq!(
        log_text.matches("cannot reply to messages in this channel").count(),
        1,
        "{log_text}"
    );
    assert!(log_text.contains("Read Message History"), "{log_text}");
    // After a change of its permissions, the bot retries.
    local.faults().close_channel(CHANNEL, false);
    let asked_again = async {
        loop {
            let message = local.mention(CHANNEL, ANN, "three");
            bot.turn(&local, "three").await.done("Third").await;
            bot.home.begun.lock().unwrap().clear();
            if local.messages(CHANNEL).last().and_then(|third| third.reply_to) == Some(message) {
                return;
            }
        }
    };
    tokio::time::timeout(crate::support::discord::LIMIT, asked_again)
        .await
        .expect("it replies again");
}

#[tokio::test]
async fn two_hundred_prompts_stay_within_discords_limits_and_answers_precede_reactions() {
    let local = LocalDiscord::start().await;
    // Discord's own limit is lower. The margin is for a machine that also runs other tests.
    local.faults().most_per_second(50);
    let mut options = options(&local, TimeLimits::default());
    options.settings.requests_per_second = 25;
    let bot = Bot::with_options(options, Home::new().await).await.expect("the bot starts");
    // Every prompt waits behind an event from elsewhere.
    bot.home.busy.send_replace(true);
    let count = 200;
    for number in 0..count {
        let (lane, origin) = (
            Lane::Channel(ChannelId::discord(room(number))),
            EventOrigin::Internal { channel: None },
        );
        bot.submit(NewEvent::new(EventKind::Cron, lane, origin, "before"));
        local.mention(room(number), ANN, &format!("prompt {number}"));
    }
    local.wait_for("all prompts", |_| (bot.waiting() == 200).then_some(())).await;
    bot.home.busy.send_replace(false);
    let mut deliveries = Vec::new();
    for number in 0..count {
        let turn = bot.turn(&local, &format!("prompt {number}")).await;
        deliveries.push(start_delivery(turn, &format!("Answer {number}")));
    }
    for delivery in deliveries {
        tokio::time::timeout(Duration::from_secs(120), delivery)
            .await
            .expect("in time")
            .expect("delivered");
    }
    assert!((0..count).all(|number| local.texts(room(number)) == [format!("Answer {number}")]));
    assert_eq!(local.crowded(), 0, "Discord had to refuse a request as too many");
    let numbers = local
        .requests()
        .iter()
        .filter(|request| request.method == "PUT" && request.path.contains("/reactions/"))
        .count();
    assert!(numbers < 150, "{numbers} position numbers were posted beside the answers");
}

#[tokio::test]
async fn an_answer_that_becomes_a_file_deletes_no_shown_message() {
    let local = LocalDiscord::start().await;
    let mut options = options(&local, TimeLimits::default());
    options.settings.long_answer = Some(16_000);
    let bot = Bot::with_options(options, Home::new().await).await.expect("the bot starts");
    let mut turn = asked(&local, &bot, "go").await;
    let text: String =
        (0..700).map(|number| format!("This is line {number} of the answer.\n")).collect();
    turn.say(&text[..9_000]);
    local.wait_for_message(CHANNEL, |text| text.ends_with("-# The rest follows.")).await;
    assert_eq!(local.texts(CHANNEL).len(), 3);
    turn.say(&text[9_000..]);
    turn.done(&text).await;
    let messages = local.messages(CHANNEL);
    assert_eq!((messages.len(), messages[3].files.len()), (4, 1));
    assert_eq!(messages[3].files[0].1, text.as_bytes());
    assert_eq!(
        messages[..2].iter().map(|message| message.content.as_str()).collect::<Vec<_>>(),
        split(&text, 2_000)[..2]
    );
    assert!(messages[2].content.ends_with("is attached below."), "{}", messages[2].content);
    assert!(
        local.requests().iter().all(|request| request.method != "DELETE"),
        "no message is posted only to be deleted"
    );
}

#[tokio::test]
async fn text_after_a_steering_message_is_posted_below_it_also_after_a_restart() {
    let local = LocalDiscord::start().await;
    let (bot, _clock) = patient(&local).await;
    let noted = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (traces, note) = (PriorDelivery::untracked(), noted.clone());
    let traces = PriorDelivery {
        note: Arc::new(move |ids: &[MessageId]| *note.lock().unwrap() = ids.to_vec()),
        ..traces
    };
    local.mention(CHANNEL, ANN, "go");
    let event = bot.event(&local, "go").await;
    let mut turn = Turn::resumed(&bot, &event, traces.clone());
    turn.say("Half");
    local.wait_for_message(CHANNEL, |text| text == "Half").await;
    let between = local.say(CHANNEL, ANN, "also the other half");
    turn.steered();
    turn.say(" and half");
    let below = local.wait_for_message(CHANNEL, |text| text == "and half").await;
    assert!(below.id > between && below.reply_to.is_none());
    assert_eq!(local.buttons(below.id), ["Stop"]);
    drop(turn);
    local.wait_for("no button", |local| local.buttons(below.id).is_empty().then_some(())).await;
    // The next process knows the complete answer, but not where the messages were split.
    let (posted, _) = (noted.lock().unwrap().clone(), ());
    let turn = Turn::resumed(&bot, &event, PriorDelivery { posted, resumed: true, ..traces });
    turn.done("Half and half").await;
    assert_eq!(
        local.messages(CHANNEL).into_iter().map(|m| (m.id, m.content)).collect::<Vec<_>>(),
        [(below.id, "Half and half".to_owned())]
    );
}

#[tokio::test]
async fn the_stop_button_of_an_answer_works_and_disappears_at_its_end() {
    let local = LocalDiscord::start().await;
    let allowed = AllowLists { users: [ANN].map(UserId::discord).into(), ..AllowLists::default() };
    let mut options = options(&local, TimeLimits::default());
    options.settings.allowed = allowed;
    let bot = Bot::with_options(options, Home::new().await).await.expect("the bot starts");
    bot.home.busy.send_replace(true);
    let mut turn = asked(&local, &bot, "go").await;
    turn.say("Working");
    let draft = local.wait_for_message(CHANNEL, |text| text == "Working").await;
    assert_eq!(local.buttons(draft.id), ["Stop"]);
    let button = local.button(draft.id, "Stop").unwrap();
    let lane = Lane::Channel(ChannelId::discord(CHANNEL));
    local.press(draft.id, BOB, "Stop");
    local.wait_for_message(CHANNEL, |text| text == "You may not use me here.").await;
    assert!(bot.dispatcher.turns.is_busy(&lane));
    local.press(draft.id, ANN, "Stop");
    local.wait_for("the stop", |_| (!bot.dispatcher.turns.is_busy(&lane)).then_some(())).await;
    turn.done("Working").await;
    assert!(local.buttons(draft.id).is_empty());
    local.press_id(draft.id, ANN, &button);
    local.wait_for_message(CHANNEL, |text| text == "This is not running any more.").await;
}
