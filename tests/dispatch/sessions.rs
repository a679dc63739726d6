//! Tests of conversations that are put away, listed, resumed and shortened.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aetheel::startup::turn_parts;
use aetheel_dispatch::{Dispatcher, DispatcherDeps, Setting};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use aetheel_model::queue::QueueLimits;
use aetheel_store::workspace::Bindings;

use crate::support::lasting::{AgentCommand, LastingAgent, LastingBackend, Replaceable, echoing};
use crate::support::scripted::{Agent, Collected, ScriptedLauncher, message, parts};

const SEVEN: Lane = Lane::Channel(ChannelId::discord(7));
const EIGHT: Lane = Lane::Channel(ChannelId::discord(8));
const LIMIT: Duration = Duration::from_secs(30);

struct Desk {
    dispatcher: Dispatcher,
    collected: Arc<Collected>,
    opened: Arc<Mutex<Vec<String>>>,
    bindings: Bindings,
    folder: Arc<tempfile::TempDir>,
}

/// Starts a dispatcher with a long-lived agent, in a folder that may contain earlier state.
async fn desk(folder: Arc<tempfile::TempDir>) -> Desk {
    let opened: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&opened);
    let launcher = ScriptedLauncher::new(move |agent: Agent| echoing(agent, Arc::clone(&told)));
    with_launcher(folder, launcher, opened).await
}

async fn with_launcher(
    folder: Arc<tempfile::TempDir>,
    launcher: Arc<ScriptedLauncher>,
    opened: Arc<Mutex<Vec<String>>>,
) -> Desk {
    sharing("link", folder, launcher, opened).await
}

async fn sharing(
    sharing: &str,
    folder: Arc<tempfile::TempDir>,
    launcher: Arc<ScriptedLauncher>,
    opened: Arc<Mutex<Vec<String>>>,
) -> Desk {
    let collected = Arc::new(Collected::default());
    let backends = Replaceable::new(LastingBackend::new(sharing, 1));
    let limits = QueueLimits { max_concurrent: 5, max_depth: 100, busy_policy: BusyPolicy::Reject };
    let parts: DispatcherDeps =
        parts(folder.path(), "lasting", backends, launcher, &collected, limits).await;
    let bindings = parts.workspace.state.bindings.clone();
    Desk { dispatcher: Dispatcher::new(parts, turn_parts()), collected, opened, bindings, folder }
}

async fn fresh() -> Desk {
    desk(Arc::new(tempfile::tempdir().unwrap())).await
}

impl Desk {
    /// Runs a turn to its end.
    async fn turn(&self, channel: u64, prompt: &str) {
        let before = self.collected.answers(0).await.len();
        self.dispatcher.intake.submit(message(channel, prompt)).unwrap();
        let answers = self.collected.answers(before + 1).await;
        assert_eq!(answers[before].1.failure, None);
        self.dispatcher.turns.idle().await;
    }

    /// Returns the titles of conversations: those from the agent in brackets, the current one with
    /// a star.
    async fn titles(&self, lane: &Lane, owner: bool) -> Vec<String> {
        let all = self.dispatcher.conversations.list(lane, owner, LIMIT).await.all.into_iter();
        all.map(|known| {
            let title = if known.ours { known.title } else { format!("[{}]", known.title) };
            if known.current { format!("{title}*") } else { title }
        })
        .collect()
    }

    async fn session(&self, lane: &Lane) -> Option<String> {
        self.bindings.get(lane, "lasting").await.session.map(|session| session.to_string())
    }
}

#[tokio::test]
async fn a_conversation_that_was_put_away_is_resumed_also_after_a_restart() {
    let first = fresh().await;
    first.turn(7, "fix\n the build").await;
    let id = first.session(&SEVEN).await.expect("a session");
    assert!(first.dispatcher.conversations.reset(&SEVEN).await.unwrap());
    first.turn(7, "paint the shed").await;
    first.dispatcher.shutdown(Duration::ZERO).await;

    let desk = desk(Arc::clone(&first.folder)).await;
    let mut titles = desk.titles(&SEVEN, false).await;
    titles.sort();
    assert_eq!(titles, ["fix the build", "paint the shed*"]);
    let told = desk.dispatcher.conversations.resume(&SEVEN, &id, false, LIMIT).await;
    assert_eq!(told.unwrap(), "\"fix the build\" continues with the next message");
    assert!(
        desk.dispatcher
            .conversations
            .resume(&SEVEN, &id, false, LIMIT)
            .await
            .unwrap()
            .contains("current conversation")
    );
    desk.turn(7, "and now?").await;
    assert_eq!(
        *desk.opened.lock().unwrap(),
        [format!("{id} 1")],
        "the agent was given the session"
    );
    desk.dispatcher.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_copy_of_a_conversation_continues_beside_the_original() {
    let first = fresh().await;
    first.turn(7, "plan the garden").await;
    let id = first.session(&SEVEN).await.expect("a session");
    let told = first.dispatcher.conversations.fork(&SEVEN, &id, false, LIMIT).await;
    assert_eq!(told.unwrap(), "a copy of \"plan the garden\" continues with the next message");
    first.dispatcher.shutdown(Duration::ZERO).await;

    // The choice outlasts a restart.
    let desk = desk(Arc::clone(&first.folder)).await;
    desk.turn(7, "with roses").await;
    let copy = format!("copy-of-{id}");
    assert_eq!(desk.session(&SEVEN).await.as_deref(), Some(copy.as_str()));
    desk.turn(7, "and a pond").await;
    assert_eq!(desk.titles(&SEVEN, false).await, ["with roses*", "plan the garden"]);
    desk.dispatcher.conversations.resume(&SEVEN, &id, false, LIMIT).await.unwrap();
    desk.turn(7, "without roses").await;
    assert_eq!(desk.session(&SEVEN).await.as_deref(), Some(id.as_str()));
    let opened = desk.opened.lock().unwrap().clone();
    assert_eq!(opened, [format!("{copy} 1"), format!("{id} 2")], "only one turn made a copy");
}

#[tokio::test]
async fn forgetting_a_conversation_releases_its_agent_at_once() {
    let opened: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&opened);
    let launcher = ScriptedLauncher::new(move |agent: Agent| echoing(agent, Arc::clone(&told)));
    let desk = sharing("session", Arc::new(tempfile::tempdir().unwrap()), launcher, opened).await;
    desk.turn(7, "start a server").await;
    assert!(desk.dispatcher.conversations.reset(&SEVEN).await.unwrap());
    let left = async {
        while desk.opened.lock().unwrap().last().is_none_or(|last| last != "left") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, left).await.expect("its agent would run until the next prompt");
    desk.turn(7, "another").await;
}

#[tokio::test]
async fn resetting_the_model_warns_that_a_running_conversation_may_keep_it() {
    let desk = fresh().await;
    let choose = async |value| {
        desk.dispatcher.settings.choose(&SEVEN, Setting::Model, Some(value)).await.unwrap()
    };
    assert_eq!(
        choose("unset").await,
        "Model is the agent's default from now on.",
        "no model was chosen and no turn has begun"
    );
    choose("m-1").await;
    desk.turn(7, "hello").await;
    assert_eq!(choose("m-2").await, "Model is m-2 from now on.");
    let told = choose("unset").await;
    assert!(
        told.starts_with("Model is the agent's default from now on. This conversation ")
            && told.contains("`/reset`"),
        "{told}"
    );
    desk.dispatcher.conversations.reset(&SEVEN).await.unwrap();
    assert_eq!(choose("unset").await, "Model is the agent's default from now on.");
}

#[tokio::test]
async fn conversations_of_another_channel_can_be_neither_seen_nor_resumed() {
    let desk = fresh().await;
    desk.turn(7, "mine").await;
    desk.turn(8, "theirs").await;
    let theirs = desk.session(&EIGHT).await.expect("a session");
    for owner in [false, true] {
        let refused =
            desk.dispatcher.conversations.resume(&SEVEN, &theirs, owner, LIMIT).await.unwrap_err();
        assert!(refused.to_string().contains("`/sessions` lists them"), "{refused}");
        assert!(!desk.titles(&SEVEN, owner).await.iter().any(|title| title.contains("theirs")));
    }
    assert!(desk.dispatcher.conversations.reset(&EIGHT).await.unwrap());
    assert!(
        desk.dispatcher.conversations.resume(&SEVEN, &theirs, true, LIMIT).await.is_err(),
        "a conversation that was put away still belongs to its channel"
    );
    for bad in ["--evil", "", "../x"] {
        assert!(
            desk.dispatcher.conversations.resume(&SEVEN, bad, true, LIMIT).await.is_err(),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn sessions_begun_in_the_agents_own_terminal_are_for_owners() {
    let desk = fresh().await;
    desk.turn(7, "mine").await;
    assert_eq!(desk.titles(&SEVEN, false).await, ["mine*"]);
    assert_eq!(desk.titles(&SEVEN, true).await, ["mine*", "[At the terminal]"]);
    assert!(desk.dispatcher.conversations.resume(&SEVEN, "t-1", false, LIMIT).await.is_err());
    assert!(
        desk.dispatcher.conversations.resume(&SEVEN, "t-2", true, LIMIT).await.is_err(),
        "it is of another directory"
    );
    desk.dispatcher.conversations.resume(&SEVEN, "t-1", true, LIMIT).await.unwrap();
    assert_eq!(desk.session(&SEVEN).await.as_deref(), Some("t-1"));
    assert_eq!(desk.titles(&SEVEN, false).await[0], "At the terminal*", "now it is this channel's");
}

#[tokio::test]
async fn an_open_conversation_is_shortened_and_continues_under_its_new_id() {
    let desk = fresh().await;
    let why = desk.dispatcher.conversations.compact(&SEVEN).await.unwrap_err();
    assert!(why.to_string().contains("no conversation here yet"), "{why}");
    desk.turn(7, "a long story").await;
    assert_eq!(
        desk.dispatcher.conversations.compact(&SEVEN).await.unwrap(),
        "The conversation is shortened"
    );
    assert_eq!(desk.session(&SEVEN).await.as_deref(), Some("short-1"));
    assert_eq!(desk.titles(&SEVEN, false).await, ["a long story*"]);
    desk.turn(7, "and then?").await;
    assert_eq!(desk.opened.lock().unwrap().len(), 1, "it is the same session of the agent");
    desk.dispatcher.shutdown(Duration::ZERO).await;

    let restarted = self::desk(Arc::clone(&desk.folder)).await;
    let why = restarted.dispatcher.conversations.compact(&SEVEN).await.unwrap_err();
    assert!(why.to_string().contains("is not open now"), "{why}");
}

#[tokio::test]
async fn nothing_is_shortened_while_the_agent_works() {
    let opened: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&opened);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let mut lasting = LastingAgent::new(agent, &told);
        async move {
            while let Some(AgentCommand::Prompt { session, turn, text }) =
                lasting.next_command().await
            {
                if text.contains("first") {
                    lasting.answer(&session, &turn, &text).await;
                }
            }
        }
    });
    let desk = with_launcher(Arc::new(tempfile::tempdir().unwrap()), launcher, opened).await;
    desk.turn(7, "first").await;
    desk.dispatcher.intake.submit(message(7, "for ever")).unwrap();
    let why = desk.dispatcher.conversations.compact(&SEVEN).await.unwrap_err();
    assert!(why.to_string().contains("is at work here"), "{why}");
    desk.dispatcher.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn models_that_the_agent_reports_are_listed_and_not_requested_for_every_key() {
    let desk = fresh().await;
    desk.turn(7, "hello").await;
    for _ in 0..3 {
        let models = desk.dispatcher.settings.models(&SEVEN, None, LIMIT).await;
        let told: Vec<(&str, &str)> =
            models.iter().map(|model| (model.id.as_str(), model.label.as_str())).collect();
        assert_eq!(told, [("m-1", "asked 1")]);
    }
}
