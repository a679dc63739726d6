//! Tools of the gateway, with the whole program: an agent posts files and asks people, and each call
//! has its effect once, however often the gateway is killed.

use rustix::process::Signal;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, Message, room};
use crate::support::program::Installation;

const POST: &str = r#"call aetheel_post_file {"path":"notes.txt"}"#;
const ASK: &str = r#"call aetheel_ask {"question":"Which colour?","options":["red","blue"]}"#;

fn with_notes(local: &LocalDiscord) -> Installation {
    let installation = installed(local);
    std::fs::write(installation.path("workspace").join("notes.txt"), "remember the milk").unwrap();
    installation
}

async fn wait_for_question(local: &LocalDiscord) -> Message {
    local
        .wait_for("a question", |local| {
            local.messages(CHANNEL).into_iter().find(|message| local.asks(message.id))
        })
        .await
}

/// Returns the names and contents of all files in a channel.
fn files(local: &LocalDiscord, channel: u64) -> Vec<(String, Vec<u8>)> {
    local.messages(channel).into_iter().flat_map(|message| message.files).collect()
}

#[tokio::test]
async fn a_file_that_the_agent_posts_is_attached_to_its_answer() {
    let local = LocalDiscord::start().await;
    let installation = with_notes(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, POST);
    let answer = local.wait_for_message(CHANNEL, |text| text.contains("The tool returned")).await;
    assert!(answer.content.contains("`notes.txt`"), "{}", answer.content);
    local.wait_for("the file", |local| (!files(local, CHANNEL).is_empty()).then_some(())).await;
    assert_eq!(files(&local, CHANNEL), [("notes.txt".to_owned(), b"remember the milk".to_vec())]);
    local.mention(CHANNEL, ANN, r#"call aetheel_post_file {"path":"../config/soul.md"}"#);
    let failed = local.wait_for_message(CHANNEL, |text| text.contains("The tool failed")).await;
    assert!(failed.content.contains("outside of the working directory"), "{}", failed.content);
    assert_eq!(files(&local, CHANNEL).len(), 1);
}

#[tokio::test]
async fn the_files_of_an_answer_are_in_one_message() {
    let local = LocalDiscord::start().await;
    let installation = with_notes(&local);
    let _bot = serving(&installation).await;
    let post =
        |number| format!(r#"aetheel_post_file {{"path":"notes.txt","name":"{number}.txt"}}"#);
    let calls: Vec<String> = (1..=10).map(post).collect();
    local.mention(CHANNEL, ANN, &format!("call {}", calls.join("\n")));
    local.wait_for("all files", |local| (files(local, CHANNEL).len() == 10).then_some(())).await;
    let counts = local.messages(CHANNEL).into_iter().map(|message| message.files.len());
    assert_eq!(counts.filter(|count| *count > 0).collect::<Vec<_>>(), [10]);
    let names: Vec<_> = files(&local, CHANNEL).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, (1..=10).map(|number| format!("{number}.txt")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_question_of_a_tool_is_answered_once_although_the_gateway_is_killed_again_and_again() {
    let local = LocalDiscord::start().await;
    let installation = with_notes(&local);
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, ASK);
    wait_for_question(&local).await;
    for _ in 0..3 {
        killed.signal(Signal::KILL);
        killed.ended().await;
        killed = serving(&installation).await;
        killed.logs("a link outlived the gateway and continues").await;
    }
    let question = wait_for_question(&local).await;
    local.press(question.id, ANN, "blue");
    local.wait_for_message(CHANNEL, |text| text.contains("The tool returned: blue")).await;
    let answers = local.texts(CHANNEL).into_iter().filter(|text| text.contains("The tool "));
    assert_eq!(answers.count(), 1);
    let closed = |local: &LocalDiscord| {
        (!local.messages(CHANNEL).iter().any(|message| local.asks(message.id))).then_some(())
    };
    local.wait_for("the end of the question", closed).await;
}

#[tokio::test]
async fn files_are_posted_once_although_the_gateway_is_killed_at_any_time() {
    let local = LocalDiscord::start().await;
    let installation = with_notes(&local);
    let mut bot = serving(&installation).await;
    // Each round has its own channel, because a new process does not know the rate limits that its
    // predecessor has used.
    for number in 1..=8 {
        let name = format!("{number}.txt");
        local.mention(
            room(number),
            ANN,
            &format!(r#"call aetheel_post_file {{"path":"notes.txt","name":"{name}"}}"#),
        );
        // Each round waits for another event before the kill.
        let entry = ["\"start-turn\"", "\"tool-request\"", "\"attached\"", "\"tool-result\""];
        let entry = entry[usize::try_from(number % 4).unwrap()];
        local
            .wait_for(entry, |_| {
                let recordings = installation.recordings();
                let of_round = recordings.values().find(|text| text.contains(&name));
                of_round.is_some_and(|text| text.contains(entry)).then_some(())
            })
            .await;
        bot.signal(Signal::KILL);
        bot.ended().await;
        bot = serving(&installation).await;
        let posted = |local: &LocalDiscord| {
            files(local, room(number)).iter().any(|(known, _)| *known == name).then_some(())
        };
        local.wait_for("the file of this round", posted).await;
    }
    for number in 1..=8 {
        let names: Vec<_> = files(&local, room(number)).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [format!("{number}.txt")]);
        let texts = local.texts(room(number));
        assert_eq!(texts.iter().filter(|text| text.contains("The tool ")).count(), 1, "{texts:?}");
    }
}
