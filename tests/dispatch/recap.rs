//! Tests of conversations that moved to another machine: the agent there starts a new session and
//! receives the earlier messages.

use aetheel_dispatch::RecapMessage;
use aetheel_model::agent::{Exit, SessionId};
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use aetheel_store::workspace::Workspace;

use crate::support::scripted::{Agent, Desk, DeskOptions, ScriptedLauncher, message};

const MOVED: &str =
    "This conversation moved to another machine; I start again from the messages in this channel.";

/// Returns the state files of a node that had a conversation in channel 7, and one in a hook's
/// lane.
async fn files() -> Vec<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(folder.path()).await.unwrap();
    let bindings = &workspace.state.bindings;
    let lanes = [
        Lane::Channel(ChannelId::discord(7)),
        Lane::Channel(ChannelId::discord(8)),
        Lane::Hook("startup".to_owned()),
    ];
    for lane in &lanes {
        bindings
            .set_session(lane, "scripted", Some(SessionId::new("far-away").unwrap()))
            .await
            .unwrap();
        bindings.set_setting(lane, "scripted", "model", Some("opus".to_owned())).await.unwrap();
    }
    let given = workspace
        .state
        .export_lanes(std::sync::Arc::new(|lane| *lane != Lane::Channel(ChannelId::discord(8))))
        .await;
    let not_eight = workspace
        .state
        .export_lanes(std::sync::Arc::new(|lane| *lane == Lane::Channel(ChannelId::discord(8))))
        .await;
    assert!(not_eight[0].1.contains("channel:8") && !given[0].1.contains("channel:8"));
    workspace
        .state
        .forget_lanes(std::sync::Arc::new(|lane| *lane == Lane::Channel(ChannelId::discord(7))))
        .await
        .unwrap();
    assert!(!bindings.has_lane(&lanes[0]).await && bindings.has_lane(&lanes[1]).await);
    given
}

async fn desk(said: Vec<RecapMessage>, lines: &'static [&'static str]) -> (Desk, Workspace) {
    let launcher = ScriptedLauncher::new(move |agent: Agent| async move {
        agent.say(lines).await;
        agent.exit(Exit::Code(0), "").await;
    });
    let desk_options = DeskOptions {
        secret: Some("hunter2-hunter2".to_owned()),
        feature: Some("resume"),
        ..DeskOptions::default()
    };
    let desk = Desk::new(launcher, desk_options).await;
    *desk.collected.said.lock().unwrap() = said;
    let workspace = Workspace::open(&desk.folder.path().join("config")).await.unwrap();
    workspace.state.import(&files().await).await.unwrap();
    (desk, workspace)
}

fn said() -> Vec<RecapMessage> {
    vec![
        RecapMessage {
            author: Some("Ann".to_owned()),
            text: "the key is hunter2-hunter2".to_owned(),
        },
        RecapMessage { author: None, text: "Noted.".to_owned() },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_receives_the_earlier_messages_once_and_people_are_informed() {
    let (desk, workspace) = desk(said(), &["session here", "text ok", "done"]).await;
    assert!(
        workspace.state.bindings.get(&Lane::Channel(ChannelId::discord(7)), "scripted").await.moved
    );
    // Importing the same files again does not change that.
    workspace.state.import(&files().await).await.unwrap();
    for prompt in ["one", "two"] {
        desk.dispatcher.intake.submit(message(7, prompt)).unwrap();
        desk.dispatcher.turns.idle().await;
    }
    let prompts = desk.launcher.prompts();
    let (quoted, prompt) = prompts[0].rsplit_once("> you: Noted.").unwrap();
    assert!(quoted.starts_with("[Said here before,") && prompt.ends_with("one"), "{prompts:?}");
    assert!(quoted.contains("> [Ann]: the key is ") && !quoted.contains("hunter2"), "{quoted}");
    assert_eq!(prompts[1], "two");
    let answers = desk.collected.answers(2).await;
    assert_eq!(
        (&*answers[0].1.notices, &*answers[1].1.notices),
        (&[MOVED.to_owned()][..], &[][..])
    );
    let binding =
        workspace.state.bindings.get(&Lane::Channel(ChannelId::discord(7)), "scripted").await;
    assert!(!binding.moved && binding.session.is_some_and(|session| session.as_str() == "here"));
    assert_eq!(binding.settings["model"], "opus");
    // Existing state of this node is kept.
    workspace.state.import(&files().await).await.unwrap();
    let binding =
        workspace.state.bindings.get(&Lane::Channel(ChannelId::discord(7)), "scripted").await;
    assert!(!binding.moved && binding.session.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_without_a_session_does_not_use_up_the_recap_but_a_reset_does() {
    let (desk, workspace) = desk(said(), &["text ok", "done"]).await;
    let lane = Lane::Channel(ChannelId::discord(7));
    for prompt in ["one", "two"] {
        desk.dispatcher.intake.submit(message(7, prompt)).unwrap();
        desk.dispatcher.turns.idle().await;
    }
    let again = Workspace::open(workspace.folder()).await.unwrap();
    assert!(again.state.bindings.get(&lane, "scripted").await.moved, "it outlives a restart");
    assert!(desk.dispatcher.conversations.reset(&lane).await.unwrap());
    assert!(!desk.dispatcher.conversations.reset(&lane).await.unwrap());
    desk.dispatcher.intake.submit(message(7, "three")).unwrap();
    desk.dispatcher.turns.idle().await;
    let told: Vec<bool> =
        desk.launcher.prompts().iter().map(|prompt| prompt.contains("Said here")).collect();
    assert_eq!(told, [true, true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bindings_of_lanes_that_stay_on_their_node_are_not_imported() {
    let (_desk, workspace) = desk(vec![], &[]).await;
    assert!(!workspace.state.bindings.has_lane(&Lane::Hook("startup".to_owned())).await);
    assert!(!workspace.state.bindings.has_lane(&Lane::Channel(ChannelId::discord(8))).await);
}
