//! Tests of the drift monitor: unknown output is reported once, while the turn runs. An unreadable
//! answer is a failure of its own kind. A backend that misreads more since a reload is rolled back.

use std::path::Path;
use std::sync::Arc;

use aetheel::startup::turn_parts;
use aetheel_dispatch::{Dispatcher, status_rows};
use aetheel_model::agent::{AgentEventKind, Exit, HostCommand, Input, TurnOutcome, Unrecognised};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::ChannelId;
use aetheel_model::queue::QueueLimits;
use aetheel_model::redact::Redactor;
use aetheel_recording::{EntryKind, GuestFailure, ParsedRecording};
use aetheel_turn::{Agents, InstalledAgent as KnownAgent};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::support::scripted::{
    Agent, Collected, Replaceable, ScriptedBackend, ScriptedLauncher, Understanding, done, event,
    message, parts, spawn, text_event,
};

const SEVEN: Lane = Lane::Channel(ChannelId::discord(7));
const SECRET: &str = "sk-canary-0123456789";

/// Understands `text X`, `done` and `spent`. `huh X` is unknown to it, and it crashes at `trap`. A
/// `narrow` one does not know `text`.
fn reader(narrow: bool) -> Understanding {
    Arc::new(move |_, input| {
        Ok(match input {
            Input::Command(HostCommand::StartTurn(start)) => vec![spawn(start, &[])],
            Input::Line(line) => match line.text.split_once(' ').unwrap_or((&line.text, "")) {
                ("text", text) if !narrow => vec![event(text_event(text))],
                ("done", _) => vec![done(TurnOutcome::Completed)],
                ("trap", _) => return Err(GuestFailure::Trapped("unreachable".to_owned())),
                (word, what) => {
                    let what =
                        if word == "huh" { what.to_owned() } else { format!("line {word:?}") };
                    let sample = format!(
                        r#"{{"type":"{what}","key":"{SECRET}","said":"{}"}}"#,
                        "x".repeat(500)
                    );
                    vec![event(AgentEventKind::Unrecognised(Unrecognised {
                        what,
                        path: Some("type".to_owned()),
                        sample,
                        ..Unrecognised::default()
                    }))]
                }
            },
            _ => vec![],
        })
    })
}

/// A dispatcher whose agent prints the parts of the prompt between `;` as lines, and pauses at
/// `wait` until `go` is set.
pub(super) struct Scene {
    dispatcher: Dispatcher,
    collected: Arc<Collected>,
    pub(super) backends: Arc<Replaceable>,
    pub(super) agents: Agents,
    go: watch::Sender<bool>,
    asked: usize,
}

impl Scene {
    async fn new(folder: &Path, backends: Replaceable, rollback: bool) -> Self {
        Self::with_lines(folder, backends, rollback, str::to_owned).await
    }

    /// Starts a dispatcher whose agent answers each piece of the prompt with the output of `lines`.
    pub(super) async fn with_lines(
        folder: &Path,
        backends: Replaceable,
        rollback: bool,
        lines: fn(&str) -> String,
    ) -> Self {
        let (go, may) = watch::channel(false);
        let launcher = ScriptedLauncher::new(move |agent: Agent| {
            let mut may = may.clone();
            async move {
                for line in agent.prompt.split(';') {
                    if line == "wait" {
                        let _ = may.wait_for(|may| *may).await;
                    } else {
                        agent.say(&[&lines(line)]).await;
                    }
                }
                agent.exit(Exit::Code(0), "").await;
            }
        });
        let (collected, backends) = (Arc::new(Collected::default()), Arc::new(backends));
        let limits =
            QueueLimits { max_concurrent: 5, max_depth: 100, busy_policy: BusyPolicy::Queue };
        let mut parts =
            parts(folder, "scripted", backends.clone(), launcher, &collected, limits).await;
        parts.host.agents.set(
            "scripted",
            KnownAgent { version: Some("1.4.2".to_owned()), ..KnownAgent::default() },
        );
        parts.redactor = Redactor::new(&[SECRET.to_owned().into()]);
        parts.rollback = rollback;
        let agents = parts.host.agents.clone();
        Self {
            dispatcher: Dispatcher::new(parts, turn_parts()),
            collected,
            backends,
            agents,
            go,
            asked: 0,
        }
    }

    fn ask(&mut self, prompt: &str) {
        self.dispatcher.intake.submit(message(7, prompt)).unwrap();
        self.asked += 1;
    }

    /// Returns the answer's text and its failure, as people see them.
    pub(super) async fn answer(&mut self, prompt: &str) -> (String, Option<String>) {
        self.ask(prompt);
        let answer = self.collected.answers(self.asked).await.pop().unwrap().1;
        self.dispatcher.turns.lane_idle(&SEVEN).await;
        (answer.text, answer.failure)
    }

    /// Runs a heartbeat to its end.
    pub(super) async fn heartbeat(&mut self, prompt: &str) {
        let lane = Lane::Heartbeat("inbox".to_owned());
        let origin = EventOrigin::Internal { channel: Some(ChannelId::discord(7)) };
        let event = NewEvent::new(EventKind::Heartbeat, lane.clone(), origin, prompt);
        self.dispatcher.intake.submit(event).unwrap();
        self.asked += 1;
        self.collected.answers(self.asked).await;
        self.dispatcher.turns.lane_idle(&lane).await;
    }

    pub(super) async fn notice(&self, count: usize) -> String {
        let notices = self.collected.notices(count).await;
        assert_eq!(notices.len(), count, "{notices:#?}");
        let last = notices.last().unwrap();
        assert_eq!((last.channel, last.about), (None, None), "for the operator");
        last.text.clone()
    }

    pub(super) async fn shut_down(self) {
        self.dispatcher.shutdown(std::time::Duration::from_secs(30)).await;
    }
}

pub(super) fn one(generation: Arc<ScriptedBackend>) -> Replaceable {
    let backends = Replaceable::default();
    backends.load(generation);
    backends
}

fn wide() -> Arc<ScriptedBackend> {
    ScriptedBackend::new(reader(false)).of_generation(1, "a")
}

fn narrow(number: u32, digest: &str) -> Arc<ScriptedBackend> {
    ScriptedBackend::new(reader(true)).of_generation(number, digest)
}

#[tokio::test]
async fn unknown_output_is_reported_once_during_the_turn_and_not_again_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::new(folder.path(), one(wide()), true).await;
    scene.ask("huh event foo;huh event foo;huh item `bar`;wait;text Hello;done");
    let told = scene.notice(1).await;
    assert!(scene.dispatcher.turns.is_busy(&SEVEN), "the turn still runs");
    for part in [
        "**scripted**, agent version 1.4.2, backend version 1@aaaaaaaaaaaa, recording `",
        "- `event foo` at `type`",
        "- `item 'bar'` at",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    assert!(
        told.contains(r#"{"type":"event foo","key":"***","said":"xxxxxxxxxxxxxxxx…"}"#),
        "{told}"
    );
    assert!(
        told.contains("aetheel backend replay")
            && told.contains("docs/drift.md")
            && !told.contains("more;"),
        "{told}"
    );
    scene.go.send(true).unwrap();
    assert_eq!(scene.collected.answers(1).await[0].1.text, "Hello");
    assert_eq!(scene.answer("huh event foo;text again;done").await.0, "again");
    scene.shut_down().await;
    let written = std::fs::read_to_string(folder.path().join("config/state/drift.md")).unwrap();
    assert!(
        written.contains("`scripted` agent `1.4.2` component `aaaaaaaaaaaa`: `event foo` 3 times"),
        "{written}"
    );

    // After a restart and with another component, only new kinds of output are reported.
    let mut scene = Scene::new(folder.path(), one(wide()), true).await;
    scene.answer("huh event foo;text Hello;done").await;
    scene.backends.load(ScriptedBackend::new(reader(false)).of_generation(2, "b"));
    scene.answer("huh event foo;text Hello;done").await;
    scene.answer("huh event new;text Hello;done").await;
    let told = scene.notice(1).await;
    assert!(told.contains("`event new`") && !told.contains("`event foo`"), "{told}");
    scene.shut_down().await;
    let written = std::fs::read_to_string(folder.path().join("config/state/drift.md")).unwrap();
    assert!(written.contains("component `aaaaaaaaaaaa`: `event foo` 4 times"), "{written}");
    assert!(written.contains("component `bbbbbbbbbbbb`: `event foo` 1 times"), "{written}");
}

#[tokio::test]
async fn unknown_output_is_reported_again_for_another_version_of_the_agent() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::new(folder.path(), one(wide()), true).await;
    scene.answer("huh event foo;text Hello;done").await;
    scene.notice(1).await;
    scene
        .agents
        .set("scripted", KnownAgent { version: Some("1.5.0".to_owned()), ..KnownAgent::default() });
    scene.answer("huh event foo;text Hello;done").await;
    assert!(scene.notice(2).await.contains("agent version 1.5.0"));
}

#[tokio::test]
async fn unreadable_output_is_a_failure_of_its_own_kind_and_is_recorded() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::new(folder.path(), one(narrow(1, "a")), true).await;
    let (text, failure) = scene.answer("text Hello;done").await;
    assert_eq!(text, "");
    let failure = failure.unwrap();
    assert!(
        failure.starts_with(
            "The agent answered, but in a form this version of its backend cannot read. "
        ),
        "{failure}"
    );
    assert!(failure.contains("(unread, "), "{failure}");
    // The turn ended without a result that the backend knows.
    let (_, failure) = scene.answer("text Hello").await;
    assert!(failure.unwrap().contains("(unread, "));
    // The agent printed no text, so nothing is wrong.
    assert_eq!(scene.answer("done").await, (String::new(), None));
    assert!(scene.notice(1).await.contains("- `line \"text\"`"));
    scene.shut_down().await;
    let mut endings = Vec::new();
    // Recordings of lost turns are saved a second time.
    let days =
        std::fs::read_dir(folder.path().join("recordings")).unwrap().map(|day| day.unwrap().path());
    for day in days.filter(|day| !day.ends_with("lost")) {
        for file in std::fs::read_dir(day).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let entries = ParsedRecording::read(&text).unwrap().entries;
            endings.extend(entries.into_iter().filter_map(|entry| {
                if let EntryKind::Ending { how, .. } = entry.kind { Some(how) } else { None }
            }));
        }
    }
    assert_eq!(
        endings.iter().filter(|how| *how == "unread: line \"text\"").count(),
        2,
        "{endings:?}"
    );
}

#[tokio::test]
async fn a_generation_that_reads_worse_is_rolled_back_once_and_the_operator_is_notified() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::new(folder.path(), one(wide()), true).await;
    for _ in 0..3 {
        assert_eq!(scene.answer("text Hello;done").await, ("Hello".to_owned(), None));
    }
    scene.backends.load(narrow(2, "b"));
    assert!(scene.answer("text Hello;done").await.1.is_some());
    assert!(scene.notice(1).await.contains("- `line \"text\"`"));
    assert!(scene.answer("trap;").await.1.is_some());
    assert!(scene.answer("text Hello;done").await.1.is_some());
    let told = scene.notice(2).await;
    for part in [
        "2@bbbbbbbbbbbb of **scripted**",
        "3 of its first 3 turns were misread, before that 0 of 3",
        "3@aaaaaaaaaaaa serves now",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    // The version that serves now can read the output that the other could not.
    assert_eq!(scene.answer("text Hello;done").await, ("Hello".to_owned(), None));
    // The same component is not rolled back again, however badly it reads.
    for _ in 0..4 {
        assert!(scene.answer("trap;").await.1.is_some());
    }
    scene.backends.load(ScriptedBackend::new(reader(false)).of_generation(4, "b"));
    for _ in 0..4 {
        assert!(scene.answer("trap;").await.1.is_some());
    }
    let rolled_back = scene.backends.clone();
    scene.shut_down().await;
    assert_eq!(rolled_back.rolled_back.borrow().len(), 1);
}

#[tokio::test]
async fn a_new_version_of_the_agent_does_not_cause_a_rollback() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::new(folder.path(), one(wide()), true).await;
    for _ in 0..5 {
        scene.answer("text Hello;done").await;
    }
    scene
        .agents
        .set("scripted", KnownAgent { version: Some("2.0.0".to_owned()), ..KnownAgent::default() });
    scene.backends.load(narrow(2, "b"));
    for _ in 0..5 {
        assert!(scene.answer("text Hello;done").await.1.is_some());
    }
    let backends = scene.backends.clone();
    scene.shut_down().await;
    assert!(backends.rolled_back.borrow().is_empty());
}

#[tokio::test]
async fn without_a_rollback_the_operator_learns_why_and_what_to_do() {
    for (rollback, refusal, expected) in [
        (
            true,
            Some("the folder cannot be written to"),
            "still serves: the folder cannot be written to.",
        ),
        (
            false,
            None,
            "BACKEND_ROLLBACK is `never`; `aetheel backend rollback scripted` rolls it back",
        ),
    ] {
        let folder = TempDir::new().unwrap();
        let mut backends = one(wide());
        backends.refusal = refusal;
        let mut scene = Scene::new(folder.path(), backends, rollback).await;
        for _ in 0..3 {
            scene.answer("text Hello;done").await;
        }
        scene.backends.load(narrow(2, "b"));
        for _ in 0..5 {
            scene.answer("trap;").await;
        }
        let told = scene.notice(1).await;
        assert!(told.contains(expected) && told.contains("(not rolled back)"), "{told}");
        let backends = scene.backends.clone();
        scene.shut_down().await;
        assert_eq!(backends.rolled_back.borrow().len(), usize::from(rollback), "asked once");
    }
}

#[tokio::test]
async fn the_status_shows_unknown_output_to_owners() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::new(folder.path(), one(wide()), true).await;
    scene.answer("huh event foo;huh event foo;text Hello;done").await;
    let view = scene.dispatcher.observer.lane_status(&SEVEN).await;
    let rows = |owner| {
        status_rows(&view, owner, jiff::Timestamp::now())
            .into_iter()
            .filter(|row| row.text.contains("event foo"))
            .count()
    };
    assert_eq!((rows(true), rows(false)), (1, 0), "{view:?}");
    scene.backends.load(ScriptedBackend::new(reader(false)).of_generation(2, "b"));
    let view = scene.dispatcher.observer.lane_status(&SEVEN).await;
    assert!(view.warnings.1.is_empty(), "another component has no unknown output yet: {view:?}");
}
