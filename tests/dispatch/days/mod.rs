//! Tests with a clock that the test moves over days: usage limits, budgets, claims and later turns.
//! Nothing here waits for real time to pass.

mod budgets;
mod chaos;
mod later;
mod limits;
mod periods;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aetheel_dispatch::{Dispatcher, LaneWait, Notice, TurnAnswer};
use aetheel_model::agent::{
    AgentEventKind, AgentFailure, Exit, FailureKind, Input, Quota, TurnOutcome,
};
use aetheel_model::event::{Event, NewEvent};
use aetheel_model::id::UserId;
use aetheel_runtime::clock::{Clock, ClockControl};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::watch;

use super::budgets::spending;
use super::outlive::{Gateway, Setup};
use crate::support::scripted::{
    Agent, Collected, OneBackend, ScriptedBackend, ScriptedLauncher, Understanding, done, event,
    message,
};
use crate::support::shelf::Shelf;

const ANN: u64 = 4;
/// Longer than any wait of a task of the dispatcher, so that each of them looks again.
const LOOK: Duration = Duration::from_secs(5);
/// The limit for conditions that must come true without the clock.
const LIMIT: Duration = Duration::from_secs(120);

/// Understands `until TIME`: an allowance is used up until then. `refused WORDS` is a usage limit
/// with these words, `usage DOLLARS` reports a price, and `tool ID` uses a tool.
pub(super) fn spending_within_limits() -> Understanding {
    let usual = spending();
    Arc::new(move |state, input| {
        let Input::Line(line) = input else { return usual(state, input) };
        Ok(match line.text.split_once(' ').unwrap_or((&line.text, "")) {
            ("until", time) => {
                let quota = Quota {
                    id: "seven_day".to_owned(),
                    label: "7 days".to_owned(),
                    used_percent: Some(100.0),
                    resets: Some(time.to_owned()),
                    exhausted: true,
                };
                vec![event(AgentEventKind::Quota(vec![quota])), refused("You've hit your limit")]
            }
            ("refused", words) => vec![refused(words)],
            _ => return usual(state, input),
        })
    })
}

fn refused(words: &str) -> aetheel_model::agent::Action {
    let message = words.to_owned();
    let failure = AgentFailure { kind: FailureKind::Quota, message, retry_after_ms: None };
    done(TurnOutcome::Failed(failure))
}

/// Returns an agent whose turns print these lines, one list per turn. At `wait` it waits until it is
/// stopped, and at `gate` until the gate is open. Later turns answer with the prompt.
fn agent(turns: &[&[&str]]) -> (watch::Sender<bool>, Arc<ScriptedLauncher>) {
    let owned = |lines: &&[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    let turns: Arc<Vec<Vec<String>>> = Arc::new(turns.iter().map(owned).collect());
    let (begun, (gate, passed)) = (Arc::new(AtomicUsize::new(0)), watch::channel(false));
    let launcher = ScriptedLauncher::new(move |mut agent: Agent| {
        let (turns, turn) = (turns.clone(), begun.fetch_add(1, Ordering::SeqCst));
        let mut passed = passed.clone();
        async move {
            agent.say(&["session s1"]).await;
            let answer = [format!("text {}", agent.prompt), "done".to_owned()];
            for line in turns.get(turn).map_or(&answer[..], Vec::as_slice) {
                match line.as_str() {
                    "wait" => drop(agent.commands.recv().await),
                    "gate" => drop(passed.wait_for(|open| *open).await),
                    line => agent.say(&[line]).await,
                }
            }
            agent.exit(Exit::Code(0), "").await;
        }
    });
    (gate, launcher)
}

/// Gateway processes, one after the other, with one folder and one clock.
struct MovedGateway {
    folder: tempfile::TempDir,
    shelf: Shelf,
    launcher: Arc<ScriptedLauncher>,
    gate: watch::Sender<bool>,
    backend: Arc<ScriptedBackend>,
    clock: Clock,
    control: ClockControl,
    zone: TimeZone,
    process: Option<Gateway>,
    /// The number of tasks that always sleep: the watch of budgets, and those of a test.
    watches: usize,
    /// The answers and notices of the processes that ended.
    ended: Vec<Arc<Collected>>,
}

impl MovedGateway {
    /// Starts a gateway at a time, with these turns of its agent and this `budgets.md`.
    fn begin(zone: &str, start: &str, turns: &[&[&str]], budgets: &str) -> Self {
        let (gate, launcher) = agent(turns);
        let backend = ScriptedBackend::new(spending_within_limits());
        let mut gateway = Self::prepare((zone, start), backend, launcher, gate);
        gateway.write("budgets.md", budgets);
        gateway.start();
        gateway
    }

    /// Makes everything except the process.
    fn prepare(
        (zone, start): (&str, &str),
        backend: ScriptedBackend,
        launcher: Arc<ScriptedLauncher>,
        gate: watch::Sender<bool>,
    ) -> Self {
        let (clock, control) = Clock::manual(time(start));
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("config")).unwrap();
        Self {
            folder,
            shelf: Shelf::new(launcher.clone()),
            launcher,
            gate,
            backend: Arc::new(backend),
            clock,
            control,
            zone: TimeZone::get(zone).unwrap(),
            process: None,
            watches: 1,
            ended: Vec::new(),
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join("config").join(name), text).unwrap();
    }

    /// Starts a process on the folder.
    fn start(&mut self) {
        let setup = Setup {
            clock: self.clock.clone(),
            time_zone: self.zone.clone(),
            ..Setup::with(Arc::new(OneBackend(self.backend.clone())))
        };
        self.process = Some(Gateway::begin(self.folder.path(), &self.shelf, setup));
    }

    /// Kills the process.
    fn kill(&mut self) {
        let process = self.process.take().expect("a process");
        self.ended.push(process.collected.clone());
        process.die();
    }

    fn restart(&mut self) {
        self.kill();
        self.start();
    }

    fn process(&self) -> &Gateway {
        self.process.as_ref().expect("a process")
    }

    fn dispatcher(&self) -> &Dispatcher {
        &self.process().dispatcher
    }

    fn run<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        let limited = async { tokio::time::timeout(LIMIT, future).await };
        let done = self.process().runtime.block_on(limited);
        done.unwrap_or_else(|_| panic!("never: {what}, at {}", self.clock.now()))
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds() {
            assert!(Instant::now() < end, "never: {what}, at {}", self.clock.now());
            self.run(what, async { tokio::time::sleep(Duration::from_millis(2)).await });
        }
    }

    /// Submits a prompt of a person in a channel.
    fn ask_as(&self, person: u64, channel: u64, prompt: &str) {
        let (asker, key) = (Some(UserId::discord(person)), Some(format!("test:{prompt}")));
        let submitted = NewEvent { asker, key, ..message(channel, prompt) };
        self.run("the prompt is saved", async {
            self.dispatcher().intake.submit(submitted).unwrap().wait_until_saved().await.unwrap();
        });
    }

    fn ask(&self, channel: u64, prompt: &str) {
        self.ask_as(ANN, channel, prompt);
    }

    /// Submits a prompt, and waits until its lane is idle again.
    fn answered(&self, channel: u64, prompt: &str) {
        self.ask(channel, prompt);
        self.idle();
    }

    fn idle(&self) {
        self.run("nothing runs or waits", self.dispatcher().turns.idle());
    }

    /// Waits until the watch of budgets and the watch of this number of lanes have looked and sleep.
    fn settle(&self, lanes: usize) {
        let looked = format!("{lanes} lanes wait");
        self.until(&looked, || {
            let waits = self.waits();
            // The reason of an event is known once the watch has looked.
            let is_known = |wait: &LaneWait| {
                let queue = self.dispatcher().observer.queue_of(&wait.lane);
                queue.waiting.iter().any(|event| event.wait.is_some())
            };
            waits.len() == lanes && waits.iter().all(is_known)
        });
        self.run(&looked, self.control.wait_for_sleeps(self.watches + lanes.min(1)));
    }

    /// Waits until this number of lanes wait, and lets the time pass until then, and until each task
    /// looks again.
    fn pass_until(&self, to: &str, lanes: usize) {
        self.settle(lanes);
        self.advance_to(to);
        self.control.advance(LOOK);
    }

    fn advance_to(&self, to: &str) {
        let by = time(to).duration_since(self.clock.now());
        self.control.advance(by.try_into().unwrap_or_else(|_| panic!("{to} has passed")));
    }

    /// Lets the time pass until then, and checks that this number of lanes looked and still wait.
    fn still_waits_at(&self, to: &str, lanes: usize) {
        self.settle(lanes);
        let before = self.launcher.prompts();
        self.advance_to(to);
        self.settle(lanes);
        assert_eq!(self.waits().len(), lanes, "at {to}");
        assert_eq!(self.launcher.prompts(), before, "at {to}");
    }

    fn waits(&self) -> Vec<LaneWait> {
        self.run("the waits are known", self.dispatcher().waits.all())
    }

    /// Returns the answers of all processes.
    fn answers(&self) -> Vec<(Event, TurnAnswer)> {
        let all = self.ended.iter().chain([&self.process().collected]);
        all.flat_map(|collected| self.run("answers", collected.answers(0))).collect()
    }

    /// Returns the notices of all processes.
    fn notices(&self) -> Vec<Notice> {
        let all = self.ended.iter().chain([&self.process().collected]);
        all.flat_map(|collected| self.run("notices", collected.notices(0))).collect()
    }

    fn notices_with(&self, text: &str) -> Vec<Notice> {
        self.notices().into_iter().filter(|notice| notice.text.contains(text)).collect()
    }

    /// Presses a button about a budget as an owner.
    fn press(&self, label: &str) {
        let mut notices = self.notices();
        notices.reverse();
        let button = super::budgets::button(&notices, label);
        let pressed = self.run(label, super::budgets::press(self.dispatcher(), &button, true));
        assert!(pressed.is_ok(), "{label}: {pressed:?}");
    }

    /// Kills and starts the gateway once more, and returns all prompts when nothing runs.
    fn prompts_at_the_end(&mut self) -> Vec<String> {
        self.idle();
        self.restart();
        self.idle();
        self.control.advance(LOOK);
        self.settle(0);
        self.launcher.prompts()
    }
}

impl Drop for MovedGateway {
    fn drop(&mut self) {
        if let Some(process) = self.process.take()
            && !std::thread::panicking()
        {
            process.die();
        }
    }
}

/// Returns the last nanosecond before a time.
fn just_before(to: &str) -> String {
    (time(to) - jiff::SignedDuration::from_nanos(1)).to_string()
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}
