//! Tests of notices, of the button that retries an event, and of replies that continue after a
//! restart.

use std::sync::{Arc, Mutex};

use aetheel_dispatch::{Notice, Offer, OfferRefusal, Outlet, Person, PriorDelivery, TurnAnswer};
use aetheel_model::event::EventOrigin;
use aetheel_model::id::{ChannelId, MessageId, UserId};

use super::bot::{Bot, Home, Turn, answer, options};
use crate::support::discord::{ANN, BOB, CHANNEL, Fault, LocalDiscord, Message, OTHER};

fn notice() -> Notice {
    let offer = Offer { id: "17-0".to_owned(), label: "Try again".to_owned() };
    Notice {
        channel: Some(ChannelId::discord(CHANNEL)),
        about: None,
        text: "I was interrupted. (interrupted)".to_owned(),
        offers: vec![offer],
    }
}

async fn button(local: &LocalDiscord) -> Message {
    local
        .wait_for("a notice", |local| {
            local
                .messages(CHANNEL)
                .into_iter()
                .find(|message| !local.buttons(message.id).is_empty())
        })
        .await
}

async fn acknowledged(local: &LocalDiscord, interaction: u64) -> u64 {
    local
        .wait_for("the acknowledgement", |local| local.interaction(interaction).acknowledged)
        .await
        .1
}

/// Waits for the ephemeral message that followed an interaction.
async fn wait_for_followup(local: &LocalDiscord, text: &str) {
    local.wait_for_message(CHANNEL, |content| content == text).await;
}

#[tokio::test]
async fn a_pressed_offer_loses_its_button_and_names_the_person() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let about = local.mention(CHANNEL, ANN, "go");
    bot.event(&local, "go").await;
    bot.discord
        .notify(Notice { about: Some(MessageId::discord(about)), ..notice() })
        .await
        .unwrap();
    bot.discord
        .notify(Notice { about: Some(MessageId::discord(about)), ..notice() })
        .await
        .unwrap();
    let message = button(&local).await;
    assert_eq!(
        local.messages(CHANNEL).len(),
        1,
        "an offer that is posted again after a crash is one message"
    );
    assert_eq!(
        (message.reply_to, local.buttons(message.id)),
        (Some(about), vec!["Try again".to_owned()])
    );

    let press = local.press(message.id, ANN, "Try again");
    assert_eq!(acknowledged(&local, press).await, 7);
    let (id, person) = bot.home.pressed.lock().unwrap()[0].clone();
    assert_eq!(id, "17-0");
    assert!(matches!(person, Person::User { id, .. } if id == UserId::discord(ANN)), "{person:?}");
    let after = local.messages(CHANNEL).remove(0);
    assert_eq!(after.content, "I was interrupted. (interrupted)\n-# 🔁 Started again by ann.");
    assert_eq!(local.buttons(message.id), Vec::<String>::new());
}

#[tokio::test]
async fn a_retryable_failure_has_a_button_until_the_retry_succeeds() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let offer = Some(Offer {
        id: "lost-ab12cd34".to_owned(),
        label: "Show the answer again (when a newer backend can read it)".to_owned(),
    });
    let failure = Some("The agent sent an invalid message. (protocol, ab12cd34)".to_owned());
    // The notice replies to a message, and to a command through the command's own message.
    local.mention(CHANNEL, ANN, "go");
    let asked = bot.event(&local, "go").await;
    local.slash(CHANNEL, ANN, "ask", Some("do"));
    let commanded = bot.event(&local, "do").await;
    for (at, event) in [asked, commanded].into_iter().enumerate() {
        let failed =
            TurnAnswer { failure: failure.clone(), offer: offer.clone(), ..answer("Half an") };
        Turn::of(&bot, &event).finish(failed).await.expect("delivered");
        let message = button(&local).await;
        let asked = ["", "> 💬 do\n"][at];
        assert_eq!(
            message.content,
            format!("{asked}Half an\n⚠️ The agent sent an invalid message. (protocol, ab12cd34)")
        );
        assert_eq!(
            local.buttons(message.id),
            ["Show the answer again (when a newer backend can read it)"]
        );
        *bot.home.refused_press.lock().unwrap() = Some(OfferRefusal::NotYet);
        assert_eq!(
            acknowledged(
                &local,
                local.press(
                    message.id,
                    BOB,
                    "Show the answer again (when a newer backend can read it)"
                )
            )
            .await,
            4
        );
        wait_for_followup(&local, &OfferRefusal::NotYet.to_string()).await;
        assert_eq!(local.buttons(message.id).len(), 1, "a newer one may follow");
        *bot.home.refused_press.lock().unwrap() = None;
        assert_eq!(
            acknowledged(
                &local,
                local.press(
                    message.id,
                    BOB,
                    "Show the answer again (when a newer backend can read it)"
                )
            )
            .await,
            7
        );
        assert_eq!(bot.home.pressed.lock().unwrap()[at].0, "lost-ab12cd34");
        let after =
            local.messages(CHANNEL).into_iter().find(|found| found.id == message.id).unwrap();
        assert!(after.content.ends_with("\n-# 📬 Delivered for bob."), "{}", after.content);
        assert_eq!(local.buttons(message.id), Vec::<String>::new());
    }
}

#[tokio::test]
async fn other_people_are_refused_privately_and_a_stale_offer_loses_its_button() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    bot.discord.notify(notice()).await.unwrap();
    let message = button(&local).await;
    *bot.home.refused_press.lock().unwrap() = Some(OfferRefusal::NotYours);
    assert_eq!(acknowledged(&local, local.press(message.id, BOB, "Try again")).await, 4);
    wait_for_followup(&local, &OfferRefusal::NotYours.to_string()).await;
    assert_eq!(local.buttons(message.id).len(), 1, "others can still press it");
    *bot.home.refused_press.lock().unwrap() = Some(OfferRefusal::Gone);
    assert_eq!(acknowledged(&local, local.press(message.id, ANN, "Try again")).await, 7);
    wait_for_followup(&local, &OfferRefusal::Gone.to_string()).await;
    assert_eq!(local.buttons(message.id), Vec::<String>::new());
    assert_eq!(local.messages(CHANNEL)[0].content, "I was interrupted. (interrupted)");
    assert_eq!(bot.home.pressed.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_notice_without_a_recipient_goes_to_the_operators_channel() {
    let local = LocalDiscord::start().await;
    let mut options = options(&local, Default::default());
    options.settings.output_channel = Some(ChannelId::discord(OTHER));
    let bot = Bot::with_options(options, Home::new().await).await.unwrap();
    bot.discord.notify(Notice { channel: None, offers: Vec::new(), ..notice() }).await.unwrap();
    local.wait_for_message(OTHER, |text| text == "I was interrupted. (interrupted)").await;
    let nowhere = Bot::start(&local).await;
    let refused = nowhere
        .discord
        .notify(Notice { channel: None, offers: Vec::new(), ..notice() })
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("OUTPUT_CHANNEL_ID"), "{refused}");
}

/// Returns the prior delivery of an event, and the list in which it records new message ids.
fn prior_delivery(posted: &[u64], resumed: bool) -> (PriorDelivery, Arc<Mutex<Vec<u64>>>) {
    let noted = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&noted);
    let note = Arc::new(move |ids: &[MessageId]| {
        *note.lock().unwrap() = ids.iter().filter_map(|id| id.as_discord()).collect();
    });
    (
        PriorDelivery {
            stem: "m0abcdef1.0".to_owned(),
            posted: posted.iter().copied().map(MessageId::discord).collect(),
            resumed,
            note,
        },
        noted,
    )
}

#[tokio::test]
async fn a_reply_of_the_previous_process_is_continued_and_not_posted_again() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "go");
    let event = bot.event(&local, "go").await;
    // The first process posted a draft of two messages and died.
    let (first, noted) = prior_delivery(&[], false);
    let mut turn = Turn::resumed(&bot, &event, first);
    turn.say(&format!("{}\n\n{}", "a".repeat(1_500), "b".repeat(1_500)));
    local.wait_for("the draft", |local| (local.messages(CHANNEL).len() == 2).then_some(())).await;
    let ids: Vec<u64> = local.messages(CHANNEL).iter().map(|message| message.id).collect();
    local
        .wait_for("the saved message ids", |_| (*noted.lock().unwrap() == ids).then_some(()))
        .await;
    drop(turn);

    let (second, noted) = prior_delivery(&ids, true);
    Turn::resumed(&bot, &event, second).done("It is done.").await;
    assert_eq!(local.texts(CHANNEL), ["It is done."]);
    assert_eq!(local.messages(CHANNEL)[0].id, ids[0], "the same message");
    assert_eq!(*noted.lock().unwrap(), ids[..1]);
}

#[tokio::test]
async fn text_above_a_message_is_not_doubled_if_it_cannot_be_read_after_a_restart() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "go");
    let event = bot.event(&local, "go").await;
    let (first, noted) = prior_delivery(&[], false);
    let mut turn = Turn::resumed(&bot, &event, first);
    turn.say("Half");
    let above = local.wait_for_message(CHANNEL, |text| text == "Half").await;
    turn.steered();
    turn.say(" and half");
    let below = local.wait_for_message(CHANNEL, |text| text == "and half").await;
    local
        .wait_for("the saved message ids", |_| {
            (noted.lock().unwrap().last() == Some(&below.id)).then_some(())
        })
        .await;
    drop(turn);

    let path = format!("/messages/{}", above.id);
    local.faults().next("GET", &path, Fault::Refuse(403, 50_001), 3);
    let ids = noted.lock().unwrap().clone();
    let mut turn = Turn::resumed(&bot, &event, prior_delivery(&ids, true).0);
    turn.say("Half");
    turn.was_interrupted();
    turn.say(" and half");
    turn.steered();
    turn.say(", and more");
    turn.done("Half and half, and more").await;
    assert_eq!(local.texts(CHANNEL), ["Half and half, and more"]);
    local.faults().clear();
}

#[tokio::test]
async fn an_answer_to_a_command_is_complete_after_a_restart() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.slash(CHANNEL, ANN, "ask", Some("go"));
    let event = bot.event(&local, "go").await;
    // The first process posted a draft, the command's own message and one more, and died.
    let (first, noted) = prior_delivery(&[], false);
    let (above, below) = ("a".repeat(1_500), "b".repeat(1_500));
    let mut turn = Turn::resumed(&bot, &event, first);
    turn.say(&format!("{above}\n\n{below}"));
    local.wait_for("the draft", |local| (local.messages(CHANNEL).len() == 2).then_some(())).await;
    let draft = local.messages(CHANNEL);
    local
        .wait_for("the saved message ids", |_| {
            (*noted.lock().unwrap() == [draft[0].id, draft[1].id]).then_some(())
        })
        .await;
    drop(turn);

    // The next process continues in these messages, with the command's token or, without it, as
    // with ordinary messages.
    let ids = [draft[0].id, draft[1].id];
    let EventOrigin::Interaction { channel, interaction, pass: Some(_) } = event.origin else {
        panic!("no interaction token: {event:?}")
    };
    let mut passless = event.clone();
    passless.request.origin = EventOrigin::Interaction { channel, interaction, pass: None };
    for event in [event, passless] {
        let (later, _) = prior_delivery(&ids, true);
        Turn::resumed(&bot, &event, later).done(&format!("{above}\n\n{below} more")).await;
        let shown = local.messages(CHANNEL);
        let texts: Vec<&str> = shown.iter().map(|message| message.content.trim()).collect();
        assert_eq!(
            texts,
            [format!("> 💬 go\n{above}"), format!("{below} more")],
            "no text is posted twice"
        );
        assert_eq!([shown[0].id, shown[1].id], ids);
    }
}

#[tokio::test]
async fn a_message_whose_id_was_not_saved_is_found_by_its_nonce() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "go");
    let event = bot.event(&local, "go").await;
    Turn::resumed(&bot, &event, prior_delivery(&[], false).0).done("It is done.").await;
    let first = local.messages(CHANNEL);
    Turn::resumed(&bot, &event, prior_delivery(&[], true).0).done("It is done.").await;
    assert_eq!((local.messages(CHANNEL).len(), local.messages(CHANNEL)[0].id), (1, first[0].id));
    // A message that was deleted in the meantime is posted again, so that the answer is visible in
    // any case.
    local.delete(first[0].id);
    Turn::resumed(&bot, &event, prior_delivery(&[], true).0).done("It is done.").await;
    assert_eq!(local.texts(CHANNEL), ["It is done."]);
    assert_ne!(local.messages(CHANNEL)[0].id, first[0].id);
}
