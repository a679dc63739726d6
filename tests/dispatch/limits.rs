//! Tests that a lane waits for the end of its agent's usage limit, and continues once, also if the
//! gateway is restarted meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aetheel_dispatch::Setting;
use aetheel_model::agent::{
    AgentEventKind, AgentFailure, Exit, FailureKind, Input, Quota, ToolEnd, ToolStart, ToolStatus,
    TurnOutcome,
};
use aetheel_model::event::{Lane, NewEvent};
use aetheel_model::id::ChannelId;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use super::outlive::{Gateway, Setup};
use crate::support::scripted::{
    Agent, Desk, DeskOptions, OneBackend, ScriptedBackend, ScriptedLauncher, Understanding, done,
    event, message, plain,
};
use crate::support::shelf::Shelf;

/// A limit whose end nobody waits for.
pub(super) const THREE_HOURS: &str = "limit 10800000";

/// Understands `limit MS`: an allowance is used up until that many milliseconds from now, and the
/// turn ends. `denied` ends a turn without a time, and `tool` uses a tool.
pub(super) fn limited() -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| {
        let Input::Line(line) = input else { return usual(state, input) };
        Ok(match line.text.split_once(' ').unwrap_or((&line.text, "")) {
            ("limit", ms) => {
                let wait = SignedDuration::from_millis(ms.parse().expect("milliseconds"));
                let quota = Quota {
                    id: "five_hour".to_owned(),
                    label: "5 hours".to_owned(),
                    used_percent: Some(100.0),
                    resets: Some((Timestamp::now() + wait).to_string()),
                    exhausted: true,
                };
                vec![event(AgentEventKind::Quota(vec![quota])), refused()]
            }
            ("denied", _) => vec![refused()],
            ("tool", id) => {
                let (id, kind) = (id.to_owned(), "bash".to_owned());
                let start = ToolStart {
                    id: id.clone(),
                    parent: None,
                    kind,
                    native_name: "Bash".to_owned(),
                    title: "make".to_owned(),
                    target: None,
                    input: "{}".to_owned(),
                };
                let status = ToolStatus::Ok;
                let end = ToolEnd { id, status, output: None, exit_code: None, diffs: vec![] };
                vec![event(AgentEventKind::ToolStart(start)), event(AgentEventKind::ToolEnd(end))]
            }
            _ => return usual(state, input),
        })
    })
}

fn refused() -> aetheel_model::agent::Action {
    let message = "You've hit your limit".to_owned();
    let failure = AgentFailure { kind: FailureKind::Quota, message, retry_after_ms: None };
    done(TurnOutcome::Failed(failure))
}

/// An agent whose turns print these lines, one list per turn. Later turns answer with the prompt.
pub(super) fn agent(turns: &[&[&str]]) -> Arc<ScriptedLauncher> {
    let owned = |lines: &&[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    let turns: Arc<Vec<Vec<String>>> = Arc::new(turns.iter().map(owned).collect());
    let begun = Arc::new(AtomicUsize::new(0));
    ScriptedLauncher::new(move |agent: Agent| {
        let (turns, turn) = (turns.clone(), begun.fetch_add(1, Ordering::SeqCst));
        async move {
            agent.say(&["session s1"]).await;
            match turns.get(turn) {
                Some(lines) => {
                    agent.say(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await
                }
                None => agent.say(&[&format!("text {}", agent.prompt), "done"]).await,
            }
            agent.exit(Exit::Code(0), "").await;
        }
    })
}

async fn desk(turns: &[&[&str]]) -> Desk {
    let options =
        DeskOptions { understanding: limited(), feature: Some("model"), ..DeskOptions::default() };
    Desk::new(agent(turns), options).await
}

pub(super) fn lane(channel: u64) -> Lane {
    Lane::Channel(ChannelId::discord(channel))
}

pub(super) fn saved(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("config/state/limits.md")).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_waits_for_the_end_of_the_limit_and_is_answered_once() {
    let desk = desk(&[&["limit 300"]]).await;
    desk.ask(7, "hello");
    let (_, answer) = desk.collected.answers(1).await.remove(0);
    assert_eq!((answer.text.as_str(), answer.failure), ("hello", None));
    desk.dispatcher.turns.idle().await;
    assert_eq!(desk.launcher.prompts(), ["hello", "hello"]);
    assert_eq!(desk.collected.answers(1).await.len(), 1);
    assert!(!saved(desk.folder.path()).contains("channel:7"), "a success ends the count");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_learn_how_long_their_prompts_wait_and_other_lanes_continue() {
    let desk = desk(&[&[THREE_HOURS]]).await;
    desk.ask(7, "first");
    let notice = desk.collected.notices(1).await.remove(0);
    assert_eq!(notice.channel, Some(ChannelId::discord(7)));
    let text = &notice.text;
    assert!(text.contains("usage limit (5 hours). Your message waits"), "{text}");
    assert!(text.contains("is answered at <t:") && text.contains(":t>. `/stop`"), "{text}");
    desk.ask(7, "second");
    desk.ask(8, "elsewhere");
    let (_, answer) = desk.collected.answers(1).await.remove(0);
    assert_eq!(answer.text, "elsewhere");
    assert_eq!(desk.launcher.prompts(), ["first", "elsewhere"]);
    let status = desk.dispatcher.observer.lane_status(&lane(7)).await;
    assert!(status.warnings.0.iter().any(|line| line.contains("usage limit")), "{status:?}");
    assert_eq!(status.queue.waiting.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_the_lane_ends_the_wait() {
    let desk = desk(&[&[THREE_HOURS]]).await;
    desk.ask(7, "first");
    desk.collected.notices(1).await;
    assert_eq!(desk.dispatcher.turns.stop_durably(&lane(7)).await.waiting, 1);
    assert!(!saved(desk.folder.path()).contains("channel:7"));
    desk.ask(7, "again");
    let (_, answer) = desk.collected.answers(1).await.remove(0);
    assert_eq!(answer.text, "again");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_model_answers_the_waiting_prompts() {
    let desk = desk(&[&[THREE_HOURS]]).await;
    desk.ask(7, "first");
    desk.collected.notices(1).await;
    desk.dispatcher.settings.choose(&lane(7), Setting::Model, Some("small")).await.unwrap();
    let (_, answer) = desk.collected.answers(1).await.remove(0);
    assert_eq!(answer.text, "first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_showed_something_continues_in_the_same_conversation() {
    let desk = desk(&[&["text half", "tool t1", "limit 300"]]).await;
    desk.ask(7, "build it");
    let answers = desk.collected.answers(2).await;
    let (first, second) = (&answers[0].1, &answers[1].1);
    assert_eq!(first.text, "half");
    let failure = first.failure.as_deref().unwrap();
    assert!(failure.contains("I continue by myself at <t:"), "{failure}");
    assert!(second.text.contains("Continue the work on this request"), "{}", second.text);
    desk.dispatcher.turns.idle().await;
    let prompts = desk.launcher.prompts();
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    assert_eq!(prompts[0], "build it", "the prompt is not repeated");
}

/// An agent whose first turn prints `half` and then reaches the limit when the gate is open. Later
/// turns answer with the prompt.
fn gated(limit: &'static str) -> (watch::Sender<bool>, Arc<ScriptedLauncher>) {
    let (gate, passed) = watch::channel(false);
    let begun = Arc::new(AtomicUsize::new(0));
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let (mut passed, turn) = (passed.clone(), begun.fetch_add(1, Ordering::SeqCst));
        async move {
            agent.say(&["session s1"]).await;
            if turn == 0 {
                agent.say(&["text half", "tool t1"]).await;
                passed.wait_for(|open| *open).await.unwrap();
                agent.say(&[limit]).await;
            } else {
                agent.say(&[&format!("text {}", agent.prompt), "done"]).await;
            }
            agent.exit(Exit::Code(0), "").await;
        }
    });
    (gate, launcher)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_request_continues_before_the_prompts_that_were_written_meanwhile() {
    let (gate, launcher) = gated("limit 300");
    let options = DeskOptions { understanding: limited(), ..DeskOptions::default() };
    let desk = Desk::new(launcher, options).await;
    let ask = |person: &str, prompt: &str| {
        let event = NewEvent { author: Some(person.to_owned()), ..message(7, prompt) };
        desk.dispatcher.intake.submit(event).unwrap();
    };
    ask("Ann", "build it");
    ask("Bob", "and test it");
    ask("Ann", "and ship it");
    gate.send_replace(true);
    desk.collected.answers(4).await;
    let prompts = desk.launcher.prompts();
    let [_, continued, second, third] = &prompts[..] else { panic!("{prompts:?}") };
    assert!(
        continued.starts_with("[Continue this request of Ann, which a usage limit of the agent interrupted:]\n> build it\nContinue the work on this request"),
        "{continued}"
    );
    assert_eq!([second.as_str(), third], ["[Bob]: and test it", "[Ann]: and ship it"]);
}

#[test]
fn an_interrupted_request_continues_first_also_after_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let (gate, launcher) = gated("limit 1500");
    let shelf = Shelf::new(launcher.clone());
    let mut gateway = Gateway::begin(folder.path(), &shelf, setup());
    gateway.ask("build it");
    gateway.wait_until("the agent works", || !launcher.prompts().is_empty());
    gateway.ask("and test it");
    gateway.ask("and ship it");
    gate.send_replace(true);
    gateway.wait_until("the limit is saved", || saved(folder.path()).contains("channel:7"));
    for _ in 0..2 {
        gateway.die();
        gateway = Gateway::begin(folder.path(), &shelf, setup());
    }
    gateway.wait_until("all are answered", || launcher.prompts().len() == 4);
    gateway.runtime.block_on(gateway.dispatcher.turns.idle());
    gateway.die();
    let prompts = launcher.prompts();
    assert!(prompts[1].contains("> build it\nContinue the work"), "{prompts:?}");
    assert_eq!(prompts[2..], ["and test it", "and ship it"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_after_a_tool_is_named_once_and_its_time_once() {
    let desk = desk(&[&["text half", "tool t1", THREE_HOURS]]).await;
    desk.ask(7, "build it");
    let (_, answer) = desk.collected.answers(1).await.remove(0);
    let notice = desk.collected.notices(1).await.remove(0);
    assert_eq!(
        (answer.failure.as_deref(), answer.notices.len()),
        (
            Some(
                "scripted has reached a usage limit (5 hours). This is not finished. (usage limit)"
            ),
            0
        )
    );
    let text = notice.text;
    assert!(text.starts_with("I continue by myself at <t:"), "{text}");
    assert_eq!(text.matches("<t:").count(), 1, "{text}");
    let queue = desk.dispatcher.observer.queue_of(&lane(7));
    let wait = queue.waiting[0].wait.as_deref().unwrap_or_default();
    assert!(wait.starts_with("waits until <t:") && wait.contains("usage limit"), "{queue:?}");
    assert_eq!(queue.waiting[0].words, "build it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_without_an_end_fails_the_turn() {
    let desk = desk(&[&["denied"]]).await;
    desk.ask(7, "hello");
    let (_, answer) = desk.collected.answers(1).await.remove(0);
    let failure = answer.failure.unwrap();
    assert!(failure.contains("An allowance of the agent's account is used up."), "{failure}");
    assert_eq!(desk.launcher.prompts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_limit_ends_in_the_past_is_not_started_again_and_again() {
    let desk = desk(&[&["limit -60000"], &["limit -60000"]]).await;
    desk.ask(7, "hello");
    let notice = desk.collected.notices(1).await.remove(0);
    assert!(notice.text.contains("Your message waits"), "{}", notice.text);
    assert_eq!(desk.launcher.prompts().len(), 2);
    assert!(saved(desk.folder.path()).contains("attempt 2"), "{}", saved(desk.folder.path()));
}

fn setup() -> Setup {
    let backend = ScriptedBackend::new(limited());
    Setup::with(Arc::new(OneBackend(Arc::new(backend))))
}

/// Kills the gateway this often while a conversation waits, lets it continue, starts the gateway once
/// more, and returns the agent's prompts.
fn killed_while_waiting(turns: &[&[&str]], kills: usize) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let launcher = agent(turns);
    let shelf = Shelf::new(launcher.clone());
    let mut gateway = Gateway::begin(folder.path(), &shelf, setup());
    gateway.ask("build it");
    gateway.wait_until("the limit is saved", || saved(folder.path()).contains("channel:7"));
    for _ in 0..kills {
        gateway.die();
        gateway = Gateway::begin(folder.path(), &shelf, setup());
    }
    gateway.wait_until("the conversation continues", || launcher.prompts().len() > turns.len());
    gateway.runtime.block_on(gateway.dispatcher.turns.idle());
    gateway.die();
    let last = Gateway::begin(folder.path(), &shelf, setup());
    last.runtime.block_on(last.dispatcher.turns.idle());
    last.die();
    launcher.prompts()
}

#[test]
fn a_waiting_prompt_survives_every_restart_and_runs_once() {
    for kills in [0, 1, 3] {
        let prompts = killed_while_waiting(&[&["limit 1500"]], kills);
        assert_eq!(prompts, ["build it", "build it"], "{kills} restarts");
    }
}

#[test]
fn a_turn_that_showed_something_continues_once_after_every_restart() {
    for kills in [0, 1, 3] {
        let prompts = killed_while_waiting(&[&["text half", "tool t1", "limit 1500"]], kills);
        assert_eq!(prompts.len(), 2, "{kills} restarts: {prompts:?}");
        assert!(prompts[1].contains("Continue the work on this request"), "{prompts:?}");
    }
}

#[test]
fn a_lane_that_waits_still_waits_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let launcher = agent(&[&[THREE_HOURS]]);
    let shelf = Shelf::new(launcher.clone());
    let first = Gateway::begin(folder.path(), &shelf, setup());
    first.ask("build it");
    first.runtime.block_on(first.collected.notices(1));
    first.die();
    let second = Gateway::begin(folder.path(), &shelf, setup());
    second.runtime.block_on(second.collected.notices(1));
    assert_eq!(launcher.prompts(), ["build it"]);
    let waits = second.dispatcher.observer.queue_of(&lane(7)).waiting.len();
    assert_eq!(waits, 1);
    // The operator removes the line, and the next start tries again.
    second.die();
    std::fs::remove_file(folder.path().join("config/state/limits.md")).unwrap();
    let third = Gateway::begin(folder.path(), &shelf, setup());
    assert_eq!(third.answer(), ("build it".to_owned(), None));
    assert_eq!(launcher.prompts().len(), 2);
}
