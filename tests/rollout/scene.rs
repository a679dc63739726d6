//! A dispatcher with a new version on rollout.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aetheel::startup::turn_parts;
use aetheel_dispatch::{Dispatcher, Notice, Person};
use aetheel_model::agent::{Exit, HostCommand, Input, TurnOutcome};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::Lane;
use aetheel_model::id::{ChannelId, UserId};
use aetheel_model::queue::QueueLimits;
use aetheel_model::rollout::Rollout;
use aetheel_recording::{Backend, GuestFailure};
use aetheel_store::workspace::{RolloutNote, StateFile};

use crate::support::scripted::{
    Agent, Collected, Replaceable, ScriptedBackend, ScriptedLauncher, Understanding, done, event,
    message, parts, spawn, text_event,
};

/// Understands `text X` and `done`. If it is `deaf`, it does not know the text `secret`. It fails at
/// the text `trap` if it `fails`.
fn reader(deaf: bool, fails: bool) -> Understanding {
    Arc::new(move |_, input| {
        Ok(match input {
            Input::Command(HostCommand::StartTurn(start)) => vec![spawn(start, &[])],
            Input::Line(line) => match line.text.split_once(' ').unwrap_or((&line.text, "")) {
                ("text", "secret") if deaf => vec![],
                ("text", "trap") if fails => {
                    return Err(GuestFailure::Trapped("out of bounds".to_owned()));
                }
                ("text", text) => vec![event(text_event(text))],
                ("done", _) => vec![done(TurnOutcome::Completed)],
                _ => vec![],
            },
            _ => vec![],
        })
    })
}

/// Makes a version with this digest. If it is `deaf`, it loses the text `secret`.
pub fn version(deaf: bool, number: u32, digest: &str) -> Arc<ScriptedBackend> {
    ScriptedBackend::new(reader(deaf, false)).of_generation(number, digest)
}

/// Makes a version with this digest that fails at the text `trap`.
pub fn trapping(digest: &str) -> Arc<ScriptedBackend> {
    ScriptedBackend::new(reader(false, true)).of_generation(2, digest)
}

/// Returns a person.
pub fn person(owner: bool) -> Person {
    Person::User { id: UserId::discord(4), roles: vec![], owner, name: "somebody".to_owned() }
}

/// A dispatcher whose agent prints the parts of the prompt between `;` as lines.
pub struct Scene {
    pub dispatcher: Dispatcher,
    pub collected: Arc<Collected>,
    pub backends: Arc<Replaceable>,
    asked: usize,
}

impl Scene {
    pub async fn new(folder: &Path, rollout: Rollout, successor: Arc<dyn Backend>) -> Self {
        Self::with(folder, rollout, version(false, 1, "a"), Some(successor), None).await
    }

    pub async fn with(
        folder: &Path,
        rollout: Rollout,
        serving: Arc<ScriptedBackend>,
        successor: Option<Arc<dyn Backend>>,
        machine: Option<&str>,
    ) -> Self {
        let launcher = ScriptedLauncher::new(|agent: Agent| async move {
            for line in agent.prompt.split(';') {
                agent.say(&[line]).await;
            }
            agent.exit(Exit::Code(0), "").await;
        });
        let backends = Arc::new(Replaceable::default());
        backends.load(serving);
        *backends.successor.lock().unwrap() = successor;
        let collected = Arc::new(Collected::default());
        let limits =
            QueueLimits { max_concurrent: 5, max_depth: 100, busy_policy: BusyPolicy::Queue };
        let mut parts =
            parts(folder, "scripted", backends.clone(), launcher, &collected, limits).await;
        parts.rollout = rollout;
        parts.machine = machine.map(str::to_owned);
        parts.journal = Some(parts.workspace.journal().await.unwrap());
        let dispatcher = Dispatcher::new(parts, turn_parts());
        let _ = dispatcher.recovery.recover().await;
        Self { dispatcher, collected, backends, asked: 0 }
    }

    pub async fn answer(&mut self, prompt: &str) -> String {
        self.answer_in(7, prompt).await
    }

    /// Sends a prompt in a channel, and returns the answer after the turn has ended.
    pub async fn answer_in(&mut self, channel: u64, prompt: &str) -> String {
        self.dispatcher.intake.submit(message(channel, prompt)).unwrap();
        self.next_answer(channel).await
    }

    /// Returns the next answer, which is in this channel.
    pub async fn next_answer(&mut self, channel: u64) -> String {
        self.asked += 1;
        let (event, answer) = self.collected.answers(self.asked).await.pop().unwrap();
        let lane = Lane::Channel(ChannelId::discord(channel));
        assert_eq!(event.lane, lane);
        self.dispatcher.turns.lane_idle(&lane).await;
        answer.text
    }

    pub async fn notice(&self, count: usize) -> Notice {
        self.collected.notices(count).await.pop().unwrap()
    }

    pub fn promoted(&self) -> Vec<String> {
        self.backends.promoted.borrow().clone()
    }

    pub fn withdrawn(&self) -> Vec<String> {
        self.backends.withdrawn.borrow().clone()
    }

    pub async fn end(self) {
        self.dispatcher.shutdown(Duration::from_secs(30)).await;
    }

    /// Waits until this many turns were compared or skipped, and returns both numbers.
    pub async fn counts(folder: &Path, count: u64) -> (u64, u64) {
        let has = |note: &RolloutNote| note.compared + note.skipped >= count;
        let note = Self::noted(folder, |note| note.is_some_and(has)).await.unwrap();
        (note.compared, note.skipped)
    }

    /// Waits until the saved rollout satisfies a condition, and returns it.
    pub async fn noted(
        folder: &Path,
        is_it: impl Fn(Option<&RolloutNote>) -> bool,
    ) -> Option<RolloutNote> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let note = StateFile::<RolloutNote>::read_folder(&folder.join("config")).unwrap().pop();
            if is_it(note.as_ref()) {
                return note;
            }
            assert!(Instant::now() < deadline, "waited in vain: {note:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
