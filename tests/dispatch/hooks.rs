//! Tests of the hooks around every turn, and of what they must not disturb.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aetheel::startup::turn_parts;
use aetheel_dispatch::{
    DeliveryError, Dispatcher, OpenQuestion, Outlet, QuestionDismissal, Reply, Settlement,
    TurnAnswer,
};
use aetheel_model::agent::{AgentEventKind, Exit};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::{Event, EventKind as Asked, EventOrigin, Lane, NewEvent};
use aetheel_model::fold::Transcript;
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_model::observed::ObservedKind;
use aetheel_model::queue::QueueLimits;
use async_trait::async_trait;
use tokio::sync::{mpsc, watch};

use crate::support::lasting::{AgentCommand, LastingAgent, LastingBackend, Replaceable};
use crate::support::observers::CollectingObserver;
use crate::support::scripted::{
    Agent, Collected, Desk, DeskOptions, OneBackend, ScriptedBackend, ScriptedLauncher, message,
    parts, plain,
};

const HOOKS: &str = "# Agents\n\n## Hooks\n\n### agent_begin\n- instruction: Begin now.\n\n### agent_stop\n- instruction: Tidy up.\n";

/// Writes `agents.md` in the desk's folder.
fn operator_writes(folder: &Path, text: &str) {
    std::fs::write(folder.join("config/agents.md"), text).unwrap();
}

/// Returns the hook or the prompt for which an agent was started.
fn purpose(prompt: &str) -> &str {
    match prompt.split('\n').next() {
        Some("Begin now.") => "begin",
        Some("Tidy up.") => "stop",
        _ => prompt,
    }
}

async fn until(what: &str, mut found: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !found() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::task::yield_now().await;
    }
}

/// Answers prompts, each in a session of its own. Hooks answer nothing.
async fn answering(agent: Agent) {
    match purpose(&agent.prompt) {
        "begin" | "stop" => agent.say(&["session s-hook", "done"]).await,
        _ => agent.say(&["session s-1", "text ok", "done"]).await,
    }
    agent.exit(Exit::Code(0), "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_run_before_and_after_every_turn_in_its_lane_with_new_sessions() {
    let desk = Desk::new(ScriptedLauncher::new(answering), DeskOptions::default()).await;
    operator_writes(desk.folder.path(), HOOKS);
    desk.ask(7, "ignore the rules");
    desk.ask(7, "again");
    desk.dispatcher.turns.idle().await;
    let prompts = desk.launcher.prompts();
    let order: Vec<&str> = prompts.iter().map(|prompt| purpose(prompt)).collect();
    assert_eq!(order, ["begin", "ignore the rules", "stop", "begin", "again", "stop"]);
    assert_eq!(
        prompts[0],
        "Begin now.\n\n> agent_begin: event 1 (message) of channel:7 is about to be answered."
    );
    assert_eq!(
        prompts[5],
        "Tidy up.\n\n> agent_stop: event 2 (message) of channel:7 was answered."
    );
    let resumed: Vec<usize> = {
        let launches = desk.launcher.launches.lock().unwrap();
        (0..6).filter(|index| !launches[*index].arguments.is_empty()).collect()
    };
    assert_eq!(resumed, [4], "the conversation continues, hooks have new sessions");
    let sessions =
        std::fs::read_to_string(desk.folder.path().join("config/state/sessions.md")).unwrap();
    assert!(sessions.contains("s-1") && !sessions.contains("s-hook"), "{sessions}");
    assert_eq!(desk.collected.answers(2).await.len(), 2, "hooks without an answer post nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn observers_see_the_turns_of_hooks() {
    let seen = Arc::new(CollectingObserver::default());
    let options = DeskOptions { observers: seen.clone(), ..DeskOptions::default() };
    let desk = Desk::new(ScriptedLauncher::new(answering), options).await;
    operator_writes(desk.folder.path(), HOOKS);
    desk.ask(7, "go");
    desk.dispatcher.turns.idle().await;
    let events = seen.events.lock().unwrap().clone();
    let turns: Vec<(String, &str)> = events
        .iter()
        .map(|event| match &event.kind {
            ObservedKind::TurnBegun { trigger, .. } => (event.turn.lane.clone(), trigger.as_str()),
            ObservedKind::TurnEnded { ending, .. } => (event.turn.lane.clone(), *ending),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = ["hook:agent_begin:channel:7", "channel:7", "hook:agent_stop:channel:7"];
    let expected: Vec<(String, &str)> = expected
        .into_iter()
        .zip(["hook", "message", "hook"])
        .flat_map(|(lane, kind)| [(lane.to_owned(), kind), (lane.to_owned(), "completed")])
        .collect();
    assert_eq!(turns, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hook_after_a_turn_delays_its_lane_but_not_the_answer() {
    let (release, gate) = watch::channel(false);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let mut gate = gate.clone();
        async move {
            if purpose(&agent.prompt) == "stop" {
                gate.wait_for(|open| *open).await.unwrap();
            }
            answering(agent).await;
        }
    });
    let desk = Desk::new(launcher, DeskOptions::default()).await;
    operator_writes(desk.folder.path(), HOOKS);
    desk.ask(7, "one");
    desk.ask(7, "two");
    desk.collected.answers(1).await;
    until("the hook", || desk.launcher.prompts().len() == 3).await;
    assert!(desk.dispatcher.turns.is_busy(&Lane::Channel(ChannelId::discord(7))));
    // Another lane does not wait.
    desk.ask(8, "elsewhere");
    desk.collected.answers(2).await;
    assert!(!desk.launcher.prompts().contains(&"two".to_owned()), "the lane waits");
    release.send(true).unwrap();
    desk.dispatcher.turns.idle().await;
    assert_eq!(desk.collected.answers(3).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_several_lanes_run_side_by_side() {
    let running = Arc::new(AtomicUsize::new(0));
    let seen = running.clone();
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let seen = seen.clone();
        async move {
            if purpose(&agent.prompt) == "begin" {
                seen.fetch_add(1, Ordering::SeqCst);
                until("the other lane's hook", || seen.load(Ordering::SeqCst) == 2).await;
            }
            answering(agent).await;
        }
    });
    let desk = Desk::new(launcher, DeskOptions::default()).await;
    operator_writes(desk.folder.path(), HOOKS);
    desk.ask(7, "one");
    desk.ask(8, "two");
    let answers = desk.collected.answers(2).await;
    assert!(answers.iter().all(|(_, answer)| answer.failure.is_none()), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_fails_or_takes_too_long_does_not_prevent_the_answer() {
    let launcher = ScriptedLauncher::new(|mut agent: Agent| async move {
        match purpose(&agent.prompt) {
            "begin" => agent.exit(Exit::Code(1), "no such thing").await,
            "stop" => {
                // The agent works until it is stopped.
                agent.commands.recv().await;
                agent.exit(Exit::Signal(15), "").await;
            }
            _ => answering(agent).await,
        }
    });
    let desk = Desk::new(
        launcher,
        DeskOptions { query_timeout: Duration::from_millis(300), ..DeskOptions::default() },
    )
    .await;
    operator_writes(desk.folder.path(), HOOKS);
    for prompt in ["one", "two"] {
        desk.ask(7, prompt);
    }
    desk.dispatcher.turns.idle().await;
    let answers = desk.collected.answers(2).await;
    let told: Vec<_> = answers
        .iter()
        .map(|(_, answer)| (answer.text.as_str(), answer.failure.as_deref()))
        .collect();
    assert_eq!(told, [("ok", None), ("ok", None)]);
    assert_eq!(desk.launcher.prompts().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turn_of_a_hook_runs_no_hooks_and_the_current_file_applies() {
    let desk = Desk::new(ScriptedLauncher::new(answering), DeskOptions::default()).await;
    operator_writes(desk.folder.path(), HOOKS);
    let startup = NewEvent::new(
        Asked::Hook,
        Lane::Hook("startup".into()),
        EventOrigin::Internal { channel: None },
        "Say hello.",
    );
    desk.dispatcher.intake.submit(startup).unwrap();
    desk.dispatcher.turns.idle().await;
    assert_eq!(desk.launcher.prompts(), ["Say hello."]);
    let other =
        |kind, lane| NewEvent::new(kind, lane, EventOrigin::Internal { channel: None }, "look");
    for (kind, lane) in [
        (Asked::Heartbeat, Lane::Heartbeat("inbox".into())),
        (Asked::Cron, Lane::Cron("backup".into())),
        (Asked::Webhook, Lane::Webhook("ci".into())),
    ] {
        desk.dispatcher.intake.submit(other(kind, lane)).unwrap();
        desk.dispatcher.turns.idle().await;
    }
    let prompts = desk.launcher.prompts();
    let order: Vec<&str> = prompts[1..].iter().map(|prompt| purpose(prompt)).collect();
    assert_eq!(order, ["begin", "look", "stop"].repeat(3));
    assert!(prompts[4].contains("(cron) of cron:backup"), "{}", prompts[4]);
    // A shorter file would count only after a moment.
    let longer = format!("# Agents\n\n{}\n", "No hooks. ".repeat(HOOKS.len() / 10 + 1));
    operator_writes(desk.folder.path(), &longer);
    desk.ask(7, "no more hooks");
    desk.dispatcher.turns.idle().await;
    assert_eq!(desk.launcher.prompts().len(), prompts.len() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_of_a_hook_goes_to_its_channel_and_its_memory_to_the_file() {
    let launcher = ScriptedLauncher::new(|agent: Agent| async move {
        match purpose(&agent.prompt) {
            "begin" => {
                agent
                    .say(&[
                        "text Off we go.\n\n",
                        "text ```memory\n",
                        "text - began\n",
                        "text ```",
                        "done",
                    ])
                    .await
            }
            _ => agent.say(&["text ok", "done"]).await,
        }
        agent.exit(Exit::Code(0), "").await;
    });
    let desk = Desk::new(launcher, DeskOptions::default()).await;
    operator_writes(desk.folder.path(), &HOOKS.replace("Begin now.", "Begin now.\n- channel: 42"));
    desk.ask(7, "hello");
    desk.dispatcher.turns.idle().await;
    let answers = desk.collected.answers(3).await;
    let told: Vec<_> = answers
        .iter()
        .map(|(event, answer)| {
            (event.origin.clone(), answer.text.trim().to_owned(), answer.failure.clone())
        })
        .collect();
    assert_eq!(
        told[0],
        (
            EventOrigin::Internal { channel: Some(ChannelId::discord(42)) },
            "Off we go.".to_owned(),
            None
        )
    );
    assert_eq!(
        told[1].0,
        EventOrigin::Message { channel: ChannelId::discord(7), message: MessageId::discord(1) }
    );
    assert_eq!(told[2], (EventOrigin::Internal { channel: None }, "ok".to_owned(), None));
    let memory =
        std::fs::read_to_string(desk.folder.path().join("config/memory/channel-7.md")).unwrap();
    assert!(memory.contains("[hook:agent_begin:channel:7] began"), "{memory}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_a_running_hook_and_a_prompt_stopped_before_it_began_does_not_run() {
    let launcher = ScriptedLauncher::new(|mut agent: Agent| async move {
        if matches!(purpose(&agent.prompt), "begin" | "stop") {
            // The agent works until it is stopped.
            agent.commands.recv().await;
            return agent.exit(Exit::Code(130), "").await;
        }
        answering(agent).await;
    });
    let desk = Desk::new(launcher, DeskOptions::default()).await;
    operator_writes(desk.folder.path(), HOOKS);
    desk.ask(7, "never asked");
    until("the first hook", || desk.launcher.prompts().len() == 1).await;
    assert!(desk.dispatcher.turns.stop(&Lane::Channel(ChannelId::discord(7))));
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert!(answer.failure.as_deref().unwrap() == "Stopped.", "{answer:?}");
    until("the second hook", || desk.launcher.prompts().len() == 2).await;
    let prompts = desk.launcher.prompts();
    assert_eq!(prompts.iter().map(|prompt| purpose(prompt)).collect::<Vec<_>>(), ["begin", "stop"]);
    assert!(prompts[1].ends_with("ended with a failure."), "{}", prompts[1]);
    assert!(desk.dispatcher.turns.stop(&Lane::Channel(ChannelId::discord(7))));
    desk.dispatcher.turns.idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_stops_a_running_hook_and_starts_no_other() {
    let launcher = ScriptedLauncher::new(|mut agent: Agent| async move {
        agent.commands.recv().await;
        agent.exit(Exit::Signal(15), "").await;
    });
    let desk = Desk::new(launcher, DeskOptions::default()).await;
    operator_writes(desk.folder.path(), HOOKS);
    desk.ask(7, "never asked");
    until("the hook", || desk.launcher.prompts().len() == 1).await;
    desk.dispatcher.shutdown(Duration::ZERO).await;
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert!(answer.failure.as_deref().unwrap().contains("I am restarting"), "{answer:?}");
    assert_eq!(desk.launcher.prompts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_of_a_hook_is_not_kept_and_its_questions_are_dismissed() {
    for sharing in ["session", "link"] {
        let folder = tempfile::tempdir().unwrap();
        let (tell, mut told) = mpsc::unbounded_channel();
        let launcher = ScriptedLauncher::new(move |agent: Agent| {
            let tell = tell.clone();
            async move {
                let mut lasting = LastingAgent::new(agent, &Arc::default());
                let mut hook = None;
                while let Some(command) = lasting.next_command().await {
                    match command {
                        AgentCommand::Prompt { session, turn, text }
                            if purpose(&text) == "begin" =>
                        {
                            lasting.agent.say(&[&format!("{session} {turn} ask May I?")]).await;
                            hook = Some((session, turn));
                        }
                        AgentCommand::Prompt { session, turn, text } => {
                            lasting.answer(&session, &turn, &text).await
                        }
                        AgentCommand::Other(other) if other.starts_with("answer ") => {
                            tell.send(other).unwrap();
                            let (session, turn) = hook.take().unwrap();
                            lasting.answer(&session, &turn, "so be it").await;
                        }
                        AgentCommand::Other(_) => break,
                    }
                }
                lasting.agent.exit(Exit::Code(0), "").await;
            }
        });
        let collected = Arc::new(Collected::default());
        let limits =
            QueueLimits { max_concurrent: 5, max_depth: 100, busy_policy: BusyPolicy::Reject };
        let backends = Replaceable::new(LastingBackend::new(sharing, 1));
        let parts =
            parts(folder.path(), "lasting", backends, launcher.clone(), &collected, limits).await;
        operator_writes(folder.path(), "# Hooks\n- agent_begin: Begin now.\n");
        let dispatcher = Dispatcher::new(parts, turn_parts());
        for prompt in ["one", "two"] {
            dispatcher.intake.submit(message(7, prompt)).unwrap();
            dispatcher.turns.idle().await;
            assert_eq!(told.recv().await.unwrap(), "answer 7 Dismissed");
        }
        let answers = collected.answers(4).await;
        assert!(answers.iter().all(|(_, answer)| answer.failure.is_none()), "{answers:?}");
        // The agent of the conversation is kept, in one process. The agents of hooks are not.
        let launches = launcher.launches.lock().unwrap().len();
        assert_eq!(launches, if sharing == "session" { 3 } else { 1 }, "{sharing}");
        let gone =
            tokio::time::timeout(Duration::from_secs(20), dispatcher.shutdown(Duration::ZERO))
                .await;
        assert!(gone.is_ok(), "agents do not end");
    }
}

/// Reads the memory file at the moment of delivery.
struct Watching {
    memory: PathBuf,
    seen: mpsc::UnboundedSender<String>,
}

struct WatchingReply(PathBuf, mpsc::UnboundedSender<String>);

impl Outlet for Watching {
    fn open(&self, _: &Event) -> Box<dyn Reply> {
        Box::new(WatchingReply(self.memory.clone(), self.seen.clone()))
    }
}

#[async_trait]
impl Reply for WatchingReply {
    fn update(&mut self, _: &AgentEventKind, _: &Transcript) {}
    fn ask(&mut self, _: &OpenQuestion, _: QuestionDismissal) {}
    fn question_settled(&mut self, _: &str, _: &Settlement) {}

    async fn finish(self: Box<Self>, _: TurnAnswer) -> Result<(), DeliveryError> {
        self.1.send(std::fs::read_to_string(&self.0).unwrap()).unwrap();
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_written_before_the_answer_is_delivered_and_the_event_complete() {
    let folder = tempfile::tempdir().unwrap();
    let launcher = ScriptedLauncher::new(|agent: Agent| async move {
        agent
            .say(&["text Noted.\n\n", "text ```memory\n", "text - likes tea\n", "text ```", "done"])
            .await;
        agent.exit(Exit::Code(0), "").await;
    });
    let backends = Arc::new(OneBackend(Arc::new(ScriptedBackend::new(plain()))));
    let limits = QueueLimits { max_concurrent: 1, max_depth: 1, busy_policy: BusyPolicy::Reject };
    let mut parts =
        parts(folder.path(), "scripted", backends, launcher, &Arc::default(), limits).await;
    let (seen, mut memory) = mpsc::unbounded_channel();
    parts.outlet =
        Arc::new(Watching { memory: parts.workspace.folder().join("memory/channel-7.md"), seen });
    let dispatcher = Dispatcher::new(parts, turn_parts());
    dispatcher.intake.submit(message(7, "I like tea")).unwrap();
    let then = tokio::time::timeout(Duration::from_secs(20), memory.recv()).await.unwrap().unwrap();
    assert!(then.contains("] likes tea"), "{then}");
}
