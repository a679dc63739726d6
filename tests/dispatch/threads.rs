//! Tests that a thread has a session of its own, and uses its channel's options unless it has its
//! own.

use std::sync::{Arc, Mutex};

use aetheel_dispatch::Setting;
use aetheel_model::agent::{Exit, HostCommand, Input, Safety, StartTurn};
use aetheel_model::event::{Lane, NewEvent};
use aetheel_model::id::ChannelId;

use crate::support::scripted::{
    Agent, Desk, DeskOptions, ScriptedLauncher, Understanding, message, plain,
};

const CHANNEL: u64 = 7;
const THREAD: u64 = 70;

type Starts = Arc<Mutex<Vec<StartTurn>>>;

/// Like `plain`, and records the commands that start a turn.
fn noting(starts: &Starts) -> Understanding {
    let (starts, plain) = (Arc::clone(starts), plain());
    Arc::new(move |state, input| {
        if let Input::Command(HostCommand::StartTurn(start)) = input {
            starts.lock().unwrap().push(start.clone());
        }
        plain(state, input)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_has_its_channels_settings_until_it_has_its_own_and_always_its_own_session() {
    let starts = Starts::default();
    let launcher = ScriptedLauncher::new(|agent: Agent| async move {
        let session = format!("session s-{}", agent.prompt.replace(' ', "-"));
        agent.say(&[&session, "text ok", "done"]).await;
        agent.exit(Exit::Code(0), "").await;
    });
    let desk = Desk::new(
        launcher,
        DeskOptions {
            understanding: noting(&starts),
            feature: Some("model"),
            ..DeskOptions::default()
        },
    )
    .await;
    std::fs::write(
        desk.folder.path().join("config/channels.md"),
        format!("## channel {CHANNEL}\n- model: `big`\n- safety: default\n"),
    )
    .unwrap();
    let mut asked = 0;
    let mut ask = async |event: NewEvent| {
        asked += 1;
        desk.dispatcher.intake.submit(event).unwrap();
        desk.collected.answers(asked).await;
        desk.dispatcher.turns.idle().await;
        let start = starts.lock().unwrap().last().cloned().unwrap();
        (start.settings.model, start.settings.safety, start.native_id)
    };
    let in_thread = |prompt: &str| NewEvent {
        parent: Some(ChannelId::discord(CHANNEL)),
        ..message(THREAD, prompt)
    };
    let lane = Lane::Channel(ChannelId::discord(THREAD));
    assert!(!desk.dispatcher.settings.knows(&lane).await);
    assert_eq!(ask(message(CHANNEL, "one")).await, (Some("big".to_owned()), Safety::Default, None));
    assert_eq!(
        ask(in_thread("two")).await,
        (Some("big".to_owned()), Safety::Default, None),
        "its channel's settings, a new session"
    );
    assert!(desk.dispatcher.settings.knows(&lane).await);
    desk.dispatcher
        .settings
        .choose(&Lane::Channel(ChannelId::discord(CHANNEL)), Setting::Model, Some("chosen"))
        .await
        .unwrap();
    assert_eq!(
        ask(in_thread("three")).await,
        (Some("chosen".to_owned()), Safety::Default, Some("s-two".to_owned()))
    );
    let refused = desk.dispatcher.settings.choose(&lane, Setting::Safety, Some("edit")).await;
    assert!(
        refused.is_err_and(|why| why.to_string().contains("does not allow")),
        "the channel's ceiling"
    );
    desk.dispatcher.settings.choose(&lane, Setting::Model, Some("own")).await.unwrap();
    assert_eq!(ask(in_thread("four")).await.0.as_deref(), Some("own"));
    assert_eq!(
        ask(message(CHANNEL, "five")).await,
        (Some("chosen".to_owned()), Safety::Default, Some("s-one".to_owned()))
    );
    assert!(
        desk.dispatcher
            .settings
            .choose(&lane, Setting::Model, Some("unset"))
            .await
            .unwrap()
            .contains("chosen"),
        "the channel's settings again"
    );
    assert_eq!(ask(message(8, "six")).await.0, None, "no settings of other channels");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hook_before_a_turn_has_the_settings_of_the_threads_channel_too() {
    let starts = Starts::default();
    let launcher = ScriptedLauncher::new(|agent: Agent| async move {
        agent.say(&["session s-1", "text ok", "done"]).await;
        agent.exit(Exit::Code(0), "").await;
    });
    let desk = Desk::new(
        launcher,
        DeskOptions { understanding: noting(&starts), ..DeskOptions::default() },
    )
    .await;
    let config = desk.folder.path().join("config");
    std::fs::write(
        config.join("channels.md"),
        format!("## channel {CHANNEL}\n- safety: default\n"),
    )
    .unwrap();
    std::fs::write(
        config.join("agents.md"),
        "## Hooks\n\n### agent_begin\n- instruction: Begin now.\n",
    )
    .unwrap();
    // As after a restart: the thread's parent channel is unknown until the event names it.
    desk.dispatcher
        .intake
        .submit(NewEvent { parent: Some(ChannelId::discord(CHANNEL)), ..message(THREAD, "go") })
        .unwrap();
    desk.dispatcher.turns.idle().await;
    let safeties: Vec<Safety> =
        starts.lock().unwrap().iter().map(|start| start.settings.safety).collect();
    assert_eq!(safeties, [Safety::Default, Safety::Default]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_in_a_thread_sees_its_channels_settings_once_the_parent_is_known() {
    let launcher = ScriptedLauncher::new(|agent: Agent| agent.exit(Exit::Code(0), ""));
    let desk =
        Desk::new(launcher, DeskOptions { feature: Some("model"), ..DeskOptions::default() }).await;
    std::fs::write(
        desk.folder.path().join("config/channels.md"),
        format!("## channel {CHANNEL}\n- model: `big`\n"),
    )
    .unwrap();
    let shown = async || {
        desk.dispatcher
            .settings
            .choose(&Lane::Channel(ChannelId::discord(THREAD)), Setting::Model, None)
            .await
            .unwrap()
    };
    assert!(shown().await.starts_with("Model is the agent's default;"));
    desk.dispatcher.settings.learn_parent(ChannelId::discord(THREAD), ChannelId::discord(CHANNEL));
    assert!(shown().await.starts_with("Model is big;"));
}
