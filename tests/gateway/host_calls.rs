//! Tools of the gateway that reach other channels, with the whole program: the permissions are those
//! of the person who asked, people are asked once although the gateway is killed, and each call has
//! one effect.

use rustix::process::Signal;

use super::audit::wait_for_entry;
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
async fn text_above_the_question_of_a_call_is_shown_once_although_the_gateway_is_killed() {
    for call in [
        r#"aetheel_schedule {"cron":"0 9 * * 1-5","text":"look"}"#.to_owned(),
        format!(r#"aetheel_handoff {{"channel":"{}","text":"say hello"}}"#, room(1)),
        format!(r#"aetheel_read_channel {{"channel":"{}"}}"#, room(1)),
    ] {
        let local = LocalDiscord::start().await;
        local.let_read();
        let installation = with_tools(&local);
        let mut bot = serving(&installation).await;
        let calls = format!(r#"call aetheel_remind {{"in":"2h","text":"look again"}} {call}"#);
        local.mention(CHANNEL, ANN, &calls);
        wait_for_question(&local).await;
        bot.signal(Signal::KILL);
        bot.ended().await;
        bot = serving(&installation).await;
        bot.logs("question opened").await;
        let question = wait_for_question(&local).await;
        local.press(question.id, ANN, "Deny");
        local.wait_for_message(CHANNEL, |text| text.contains("The tool failed")).await;
        bot.logs("answer delivered").await;
        let texts = local.texts(CHANNEL);
        let shown = texts.iter().filter(|text| text.contains("The tool returned: ")).count();
        assert_eq!(shown, 1, "{call}: {texts:#?}");
    }
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
    let entry = wait_for_entry(&local, &installation, "later-turn-removed").await;
    assert_eq!((&entry["fields"]["id"], &entry["fields"]["name"]), (&id.into(), &"ann".into()));
}

#[tokio::test]
async fn each_later_turn_has_a_button_that_removes_it_on_pages_of_five() {
    let local = LocalDiscord::start().await;
    let installation = with_tools(&local).with("ALLOWED_USERS", &ANN.to_string());
    let _bot = serving(&installation).await;
    let calls: Vec<String> = (1..=6)
        .map(|hours| {
            format!(
                r#"aetheel_remind {{"in":"{hours}h","text":"look {hours} @everyone <@&5> **x**"}}"#
            )
        })
        .collect();
    local.mention(CHANNEL, ANN, &format!("call {}", calls.join(" ")));
    let all_returned = |text: &str| text.matches("The tool returned").count() == calls.len();
    local.wait_for_message(CHANNEL, all_returned).await;
    let listed = local.answer_to(local.slash(CHANNEL, ANN, "schedules", None)).await;
    assert!(listed.ephemeral && listed.content.contains("6 turns, page 1 of 2"), "{listed:?}");
    assert!(!listed.content.contains("**x**") && !listed.content.contains(" <@&"), "{listed:?}");
    let ids = |text: &str| -> Vec<String> {
        text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let known = ids(&listed.content);
    let expected: Vec<String> = known.iter().map(|id| format!("Remove {id}")).collect();
    assert_eq!(local.buttons(listed.id), [expected, vec!["Later".to_owned()]].concat());
    // A person who may not use the bot cannot use the button.
    local.press(listed.id, BOB, &format!("Remove {}", known[0]));
    local.wait_for_message(CHANNEL, |text| text == "You may not use me here.").await;
    let content = |local: &LocalDiscord| {
        let found = local.messages(CHANNEL).into_iter().find(|message| message.id == listed.id);
        found.map(|message| message.content)
    };
    let shown = async |part: &str| {
        let message = |local: &LocalDiscord| {
            let content = content(local)?;
            content.contains(part).then_some(content)
        };
        local.wait_for("the new page", message).await
    };
    local.press(listed.id, ANN, "Later");
    let second = shown("page 2 of 2").await;
    assert!(second.contains("look 6") && !second.contains("look 1"), "{second}");
    local.press(listed.id, ANN, "Earlier");
    shown("page 1 of 2").await;
    local.press(listed.id, ANN, &format!("Remove {}", known[0]));
    let rest = shown("look 6").await;
    assert!(!rest.contains("look 1") && !rest.contains("page"), "{rest}");
    let report = format!(
        "-# ⚙️ Removed: the agent gets no turn for `{}` any more. (removed by ann)",
        known[0]
    );
    local.wait_for_message(CHANNEL, |text| text == report).await;
    // A stale button removes nothing else.
    let saved = || std::fs::read_to_string(installation.path("config/state/agent-schedules.md"));
    let before = saved().unwrap();
    local.press_id(listed.id, ANN, &format!("later:remove:0:{}", known[0]));
    local.wait_for_message(CHANNEL, |text| text.starts_with("There is no such turn")).await;
    assert_eq!(saved().unwrap(), before);
    for id in &known[1..] {
        local.press(listed.id, ANN, &format!("Remove {id}"));
        let gone = |local: &LocalDiscord| (!content(local)?.contains(id)).then_some(());
        local.wait_for("its end", gone).await;
    }
    let last = ids(&content(&local).unwrap()).remove(0);
    local.press(listed.id, ANN, &format!("Remove {last}"));
    shown("No agent asked").await;
    assert_eq!(local.buttons(listed.id), Vec::<String>::new());
}

#[tokio::test]
async fn check_lists_later_turns_and_the_problems_of_their_file() {
    let local = LocalDiscord::start().await;
    let installation = with_tools(&local);
    let mut bot = serving(&installation).await;
    let call = r#"call aetheel_schedule {"cron":"0 9 * * 1-5","text":"look"}"#;
    local.mention(CHANNEL, ANN, call);
    let question = wait_for_question(&local).await;
    local.press(question.id, ANN, "Allow");
    local.wait_for_message(CHANNEL, |text| text.contains("The tool returned")).await;
    let listed = local.answer_to(local.slash(CHANNEL, ANN, "schedules", None)).await;
    assert!(listed.content.contains(", allowed by ann: look"), "{listed:?}");
    bot.signal(Signal::TERM);
    bot.ended().await;
    let fine = installation.run(&["check"], "").await;
    let fact =
        format!("later turn of an agent: channel:{CHANNEL}, at `0 9 * * 1-5` (UTC), next at ");
    assert!(fine.stdout.contains(&fact), "{}", fine.stdout);
    let path = installation.path("config/state/agent-schedules.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let bad = text.replace("`UTC`", "`Nowhere`") + "- `broken` line.\n";
    std::fs::write(&path, &bad).unwrap();
    let found = installation.run(&["check"], "").await;
    for part in [
        "agent-schedules.md` line ",
        "the times or the time zone of",
        "; correct or remove the line in CONFIG_DIR",
    ] {
        assert!(found.stdout.contains(part), "{part} is missing in {}", found.stdout);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), bad);
}
