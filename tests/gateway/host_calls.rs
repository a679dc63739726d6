//! Tools of the gateway that reach other channels, with the whole program: the permissions are those
//! of the person who asked, people are asked once although the gateway is killed, and each call has
//! one effect.

use rustix::process::Signal;

use super::{installed, serving};
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, Message, room};
use crate::support::program::Installation;

const VIEW_CHANNEL: u64 = 1 << 10;

/// Returns an installation in which two channels have all tools.
fn with_tools(local: &LocalDiscord) -> Installation {
    let installation = installed(local);
    let channel = |id: u64| format!("## channel {id}\n\n- host-tools: all\n\n");
    let text = channel(CHANNEL) + &channel(room(1));
    std::fs::write(installation.path("config").join("channels.md"), text).unwrap();
    installation
}

async fn wait_for_question(local: &LocalDiscord) -> Message {
    local
        .wait_for("a question", |local| {
            local.messages(CHANNEL).into_iter().find(|message| local.asks(message.id))
        })
        .await
}

#[tokio::test]
async fn work_is_handed_over_once_although_the_gateway_is_killed_while_people_are_asked() {
    let local = LocalDiscord::start().await;
    let installation = with_tools(&local);
    let mut bot = serving(&installation).await;
    let call = format!(r#"call aetheel_handoff {{"channel":"{}","text":"say hello"}}"#, room(1));
    local.mention(CHANNEL, ANN, &call);
    wait_for_question(&local).await;
    for _ in 0..2 {
        bot.signal(Signal::KILL);
        bot.ended().await;
        bot = serving(&installation).await;
        bot.logs("a link outlived the gateway and continues").await;
    }
    let question = wait_for_question(&local).await;
    local.press(question.id, ANN, "Allow");
    let here = local.wait_for_message(CHANNEL, |text| text.contains("The tool returned")).await;
    assert!(here.content.contains("handed over"), "{}", here.content);
    local.wait_for_message(room(1), |text| text.contains("handed this over")).await;
    let answers = local.texts(room(1)).into_iter().filter(|text| text.contains("handed this over"));
    assert_eq!(answers.count(), 1);
}

#[tokio::test]
async fn a_channel_that_the_asker_cannot_read_does_not_exist_for_the_agent() {
    let local = LocalDiscord::start().await;
    local.let_read();
    let installation = with_tools(&local).with("ALLOWED_USERS", &format!("{ANN},{BOB}"));
    let _bot = serving(&installation).await;
    local.say(room(1), ANN, "the plan is secret");
    local.faults().deny(room(1), BOB, VIEW_CHANNEL);
    let read = format!(r#"call aetheel_read_channel {{"channel":"{}"}}"#, room(1));
    local.mention(CHANNEL, BOB, &read);
    let refused = local.wait_for_message(CHANNEL, |text| text.contains("The tool failed")).await;
    assert!(refused.content.contains("no such channel"), "{}", refused.content);
    local.mention(CHANNEL, ANN, &read);
    let question = wait_for_question(&local).await;
    local.press(question.id, ANN, "Allow");
    let told = local.wait_for_message(CHANNEL, |text| text.contains("the plan is secret")).await;
    assert!(told.content.contains("untrusted data"), "{}", told.content);
}

#[tokio::test]
async fn people_see_and_remove_the_turns_that_an_agent_asked_for() {
    let local = LocalDiscord::start().await;
    let installation = with_tools(&local);
    let _bot = serving(&installation).await;
    let list = async || local.answer_to(local.slash(CHANNEL, ANN, "schedules", None)).await.content;
    assert!(list().await.contains("No agent asked"));
    local.mention(CHANNEL, ANN, r#"call aetheel_remind {"in":"2h","text":"look again"}"#);
    local.wait_for_message(CHANNEL, |text| text.contains("The tool returned")).await;
    let listed = list().await;
    assert!(listed.contains("reminder") && listed.contains("look again"), "{listed}");
    let id = listed.split('`').nth(1).expect("an id").to_owned();
    let removed = local.answer_to(local.slash(CHANNEL, ANN, "schedules", Some(&id))).await;
    assert!(removed.content.contains("Removed"), "{}", removed.content);
    assert!(list().await.contains("No agent asked"));
}
