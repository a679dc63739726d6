//! Tests of turns that outlive the gateway: the next process continues with the same agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aetheel::startup::turn_parts;
use aetheel_dispatch::{Dispatcher, Person};
use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, Ask, AskDecision, AskKind, Chunk, HostCommand, Input,
    Safety, ToolEnd, ToolStart, ToolStatus, Write,
};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::NewEvent;
use aetheel_model::id::UserId;
use aetheel_model::observed::{ObservedEvent, ObservedKind};
use aetheel_model::queue::QueueLimits;
use aetheel_recording::Recorder;
use aetheel_runtime::clock::Clock;
use aetheel_store::workspace::Journal;
use aetheel_turn::{
    Backends, NoObservers, NoPolicies, Policies, ProcessCommand, ToolLimits, TurnObservers,
};
use jiff::tz::TimeZone;
use tokio::sync::{mpsc, watch};

use crate::support::observers::CollectingObserver;
use crate::support::scripted::{
    Agent, Collected, OneBackend, Replaceable, ScriptedBackend, ScriptedLauncher, Understanding,
    event, message, parts, plain, text_event,
};
use crate::support::shelf::Shelf;

const ANN: u64 = 4;

/// One gateway process with a folder. Its agents belong to the shelf and outlive it.
pub(super) struct Gateway {
    pub(super) dispatcher: Dispatcher,
    pub(super) collected: Arc<Collected>,
    journal: Journal,
    recorder: Recorder,
    pub(super) runtime: tokio::runtime::Runtime,
}

pub(super) struct Setup {
    pub(super) backend: &'static str,
    pub(super) backends: Arc<dyn Backends>,
    pub(super) safety: Safety,
    pub(super) policies: Arc<dyn Policies>,
    /// The time that an interrupted agent has to end, if it is not the default.
    pub(super) stop_grace: Option<Duration>,
    pub(super) clock: Clock,
    pub(super) time_zone: TimeZone,
    /// How often the host's tools may be called, if it is not the default.
    pub(super) tool_limits: Option<ToolLimits>,
    /// How many idle agents are kept, if it is not the default.
    pub(super) max_idle_links: Option<usize>,
    pub(super) observers: Arc<dyn TurnObservers>,
}

impl Setup {
    pub(super) fn of(understanding: Understanding) -> Self {
        let backend = ScriptedBackend::with_feature(understanding, Some("steer"));
        Self::with(Arc::new(OneBackend(Arc::new(backend))))
    }

    pub(super) fn with(backends: Arc<dyn Backends>) -> Self {
        let policies = Arc::new(NoPolicies);
        Self {
            backend: "scripted",
            backends,
            safety: Safety::Edit,
            policies,
            stop_grace: None,
            clock: Clock::system(),
            time_zone: TimeZone::UTC,
            tool_limits: None,
            max_idle_links: None,
            observers: Arc::new(NoObservers),
        }
    }
}

impl Gateway {
    pub(super) fn begin(folder: &Path, shelf: &Shelf, setup: Setup) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let collected = Arc::new(Collected::default());
        let limits =
            QueueLimits { max_concurrent: 5, max_depth: 100, busy_policy: BusyPolicy::Queue };
        let launcher = Arc::new(shelf.clone());
        let (dispatcher, journal, recorder) = runtime.block_on(async {
            let mut parts =
                parts(folder, setup.backend, setup.backends, launcher, &collected, limits).await;
            parts.choices.safety = setup.safety;
            parts.choices.time_zone = setup.time_zone;
            parts.policies = setup.policies;
            parts.host.limits.stop_grace = setup.stop_grace.unwrap_or(parts.host.limits.stop_grace);
            parts.observers = setup.observers;
            let journal = parts.workspace.journal_at(setup.clock.now_ms()).await.unwrap();
            parts.clock = setup.clock;
            parts.journal = Some(journal.clone());
            parts.host.tool_limits = setup.tool_limits.unwrap_or(parts.host.tool_limits);
            parts.host.limits.links_warm =
                setup.max_idle_links.unwrap_or(parts.host.limits.links_warm);
            let recorder = parts.recorder.clone();
            let dispatcher = Dispatcher::new(parts, turn_parts());
            dispatcher.recovery.restore_agents().await;
            let _ = dispatcher.recovery.recover().await;
            (dispatcher, journal, recorder)
        });
        Self { dispatcher, collected, journal, recorder, runtime }
    }

    pub(super) fn ask(&self, prompt: &str) {
        self.ask_in(7, prompt);
    }

    pub(super) fn ask_in(&self, channel: u64, prompt: &str) {
        let key = Some(format!("test:{prompt}"));
        let asker = Some(UserId::discord(ANN));
        let submitted = NewEvent { asker, key, ..message(channel, prompt) };
        self.runtime
            .block_on(async {
                self.dispatcher.intake.submit(submitted).unwrap().wait_until_saved().await
            })
            .unwrap();
    }

    /// Returns the text and the failure of the first answer.
    pub(super) fn answer(&self) -> (String, Option<String>) {
        let (_, answer) = self.runtime.block_on(self.collected.answers(1)).remove(0);
        (answer.text, answer.failure)
    }

    pub(super) fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        let wait = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let met = self
            .runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(60), wait).await });
        assert!(met.is_ok(), "never: {what}");
    }

    pub(super) fn wait_for_text(&self, text: &str) {
        self.wait_until(text, || self.collected.shown.lock().unwrap().contains(&text_event(text)));
    }

    /// Drops everything in memory. Its threads, which a kill would end, write nothing more.
    pub(super) fn die(self) {
        self.runtime.block_on(self.journal.flush());
        self.runtime.shutdown_timeout(Duration::from_secs(60));
        self.recorder.flush();
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// An agent that says one text, waits until the flag is set, says another text and ends.
fn in_two_halves() -> (watch::Sender<bool>, Arc<ScriptedLauncher>) {
    let (leave, given) = watch::channel(false);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let mut given = given.clone();
        async move {
            agent.say(&["session s1", "text one, "]).await;
            let _ = given.wait_for(|given| *given).await;
            agent.say(&["text two", "done"]).await;
            agent.exit(aetheel_model::agent::Exit::Code(0), "").await;
        }
    });
    (leave, launcher)
}

/// Runs a process that dies after the first half of an answer. Its agent continues to the end.
fn dead_halfway() -> (tempfile::TempDir, Shelf, Arc<ScriptedLauncher>) {
    let (folder, (leave, agents)) = (folder(), in_two_halves());
    let shelf = Shelf::new(agents.clone());
    let first = Gateway::begin(folder.path(), &shelf, Setup::of(plain()));
    first.ask("go");
    first.wait_for_text("one, ");
    first.die();
    leave.send_replace(true);
    (folder, shelf, agents)
}

pub(super) fn recording(folder: &Path) -> PathBuf {
    let day = std::fs::read_dir(folder.join("recordings")).unwrap().next().unwrap().unwrap().path();
    std::fs::read_dir(day).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn a_turn_continues_where_the_gateway_died_and_its_agent_is_asked_once() {
    let (folder, shelf, agents) = dead_halfway();
    let second = Gateway::begin(folder.path(), &shelf, Setup::of(plain()));
    assert_eq!(second.answer(), ("one, two".to_owned(), None));
    assert_eq!(agents.prompts().len(), 1);
    assert_eq!(second.collected.traces.lock().unwrap().len(), 1, "it continues its messages");
    second.wait_until("nothing is held", || shelf.held().is_empty());
    second.runtime.block_on(second.dispatcher.turns.idle());
    second.ask("again");
    assert_eq!(second.runtime.block_on(second.collected.answers(2)).len(), 2);
}

/// Changes the start time of a recording, as if the gateway had been away for `by`.
fn age(recording: &Path, by: Duration) {
    let text = std::fs::read_to_string(recording).unwrap();
    let (before, rest) = text.split_once(r#""started":""#).unwrap();
    let (started, after) = rest.split_once('"').unwrap();
    let earlier = started.parse::<jiff::Timestamp>().unwrap() - by;
    std::fs::write(recording, format!(r#"{before}"started":"{earlier}"{after}"#)).unwrap();
}

#[test]
fn the_duration_of_a_turn_includes_the_absence_of_the_gateway() {
    const ABSENCE: Duration = Duration::from_secs(30);
    let (folder, (leave, agents)) = (folder(), in_two_halves());
    let shelf = Shelf::new(agents);
    let first = Gateway::begin(folder.path(), &shelf, Setup::of(plain()));
    first.ask("go");
    first.wait_for_text("one, ");
    first.die();
    age(&recording(folder.path()), ABSENCE);
    let second = Gateway::begin(folder.path(), &shelf, Setup::of(plain()));
    leave.send_replace(true);
    let (_, answer) = second.runtime.block_on(second.collected.answers(1)).remove(0);
    assert!(answer.took >= ABSENCE, "{:?}", answer.took);
}

#[test]
fn a_turn_interrupted_by_many_crashes_is_answered_once() {
    let (folder, (leave, agents)) = (folder(), in_two_halves());
    let shelf = Shelf::new(agents.clone());
    let mut gateway = Gateway::begin(folder.path(), &shelf, Setup::of(plain()));
    gateway.ask("go");
    for _ in 0..8 {
        gateway.wait_for_text("one, ");
        gateway.die();
        gateway = Gateway::begin(folder.path(), &shelf, Setup::of(plain()));
    }
    leave.send_replace(true);
    assert_eq!(gateway.answer(), ("one, two".to_owned(), None));
    assert_eq!(agents.prompts().len(), 1);
}

#[test]
fn a_recording_truncated_anywhere_leads_to_the_complete_answer_once() {
    let (folder, shelf, agents) = dead_halfway();
    shelf.wait_for_exits();
    let (path, queue) = (recording(folder.path()), folder.path().join("config/state/queue.md"));
    let (whole, state) = (std::fs::read(&path).unwrap(), std::fs::read(&queue).unwrap());
    // The recording contains the start of the turn before the agent is started, so the guest can be
    // replayed from there.
    let text = String::from_utf8(whole.clone()).unwrap();
    let at = text.find("start-turn").unwrap();
    let starts = at + text[at..].find('\n').unwrap();
    for cut in (0..=whole.len()).step_by(whole.len() / 60 + 1).chain([whole.len()]) {
        std::fs::write(&path, &whole[..cut]).unwrap();
        std::fs::write(&queue, &state).unwrap();
        shelf.forget_recorded();
        shelf.make_folders();
        let (copy, asked) = (shelf.copy(), agents.prompts().len());
        let gateway = Gateway::begin(folder.path(), &copy, Setup::of(plain()));
        assert_eq!(gateway.answer(), ("one, two".to_owned(), None), "cut at {cut}");
        gateway.runtime.block_on(gateway.dispatcher.turns.idle());
        assert_eq!(gateway.runtime.block_on(gateway.collected.answers(1)).len(), 1, "cut at {cut}");
        gateway.die();
        assert_eq!(agents.prompts().len() - asked, usize::from(cut <= starts), "cut at {cut}");
    }
}

/// Understands `ask`, and writes the decision to the agent as a line.
pub(super) fn asking() -> Understanding {
    asking_with(question())
}

fn asking_with(question: Ask) -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| match input {
        Input::Line(line) if line.text == "ask" => Ok(vec![Action::Ask(question.clone())]),
        Input::Command(HostCommand::Answer(answer)) => {
            let told = format!("{:?}\n", answer.decision);
            Ok(vec![Action::Write(Write { proc: 1, body: vec![Chunk::Text(told)] })])
        }
        _ => usual(state, input),
    })
}

fn question() -> Ask {
    Ask {
        ask: 9,
        session: 1,
        turn: 1,
        title: "May I?".to_owned(),
        kind: AskKind::Permission(ToolStart {
            id: "t".into(),
            parent: None,
            kind: "bash".into(),
            native_name: "Bash".into(),
            title: "run".into(),
            target: Some("make".to_owned()),
            input: "{}".into(),
        }),
        always_label: None,
        options: vec![],
        diffs: vec![],
        changeable: false,
        parent: None,
        deadline_ms: None,
    }
}

/// An agent that asks and forwards what it receives. It answers when the flag is set.
pub(super) fn asking_agents()
-> (mpsc::UnboundedReceiver<String>, watch::Sender<bool>, Arc<ScriptedLauncher>) {
    let (told, received) = mpsc::unbounded_channel();
    let (leave, given) = watch::channel(false);
    let launcher = ScriptedLauncher::new(move |mut agent: Agent| {
        let (told, mut given) = (told.clone(), given.clone());
        async move {
            agent.say(&["text before ", "ask"]).await;
            while let Some(command) = agent.commands.recv().await {
                let ProcessCommand::Write(bytes) = command else { continue };
                told.send(String::from_utf8(bytes).unwrap().trim().to_owned()).unwrap();
                let _ = given.wait_for(|given| *given).await;
                agent.say(&["text after", "done"]).await;
                return agent.exit(aetheel_model::agent::Exit::Code(0), "").await;
            }
        }
    });
    (received, leave, launcher)
}

pub(super) fn ann() -> Person {
    Person::User { id: UserId::discord(ANN), roles: vec![], owner: false, name: "ann".to_owned() }
}

#[test]
fn an_open_question_has_the_same_id_and_its_answer_reaches_the_agent_once() {
    let (folder, (mut told, leave, agents)) = (folder(), asking_agents());
    leave.send_replace(true);
    let shelf = Shelf::new(agents.clone());
    let first = Gateway::begin(folder.path(), &shelf, Setup::of(asking()));
    first.ask("go");
    let id = first.runtime.block_on(first.collected.questions(1)).remove(0).id;
    first.die();
    let second = Gateway::begin(folder.path(), &shelf, Setup::of(asking()));
    assert_eq!(
        *second.collected.continued.lock().unwrap(),
        std::slice::from_ref(&id),
        "it is known before anybody presses a button"
    );
    let shown = second.runtime.block_on(second.collected.questions(1)).remove(0);
    assert_eq!(shown.id, id);
    second.dispatcher.questions.answer(&id, &ann(), AskDecision::AllowOnce).unwrap();
    assert_eq!(second.answer(), ("before after".to_owned(), None));
    assert_eq!(told.blocking_recv().as_deref(), Some("AllowOnce"));
    assert!(told.try_recv().is_err());
    assert_eq!(agents.prompts().len(), 1);
}

#[test]
fn a_question_stays_open_however_often_the_gateway_dies() {
    let (folder, (_told, leave, agents)) = (folder(), asking_agents());
    leave.send_replace(true);
    let shelf = Shelf::new(agents.clone());
    let mut gateway = Gateway::begin(folder.path(), &shelf, Setup::of(asking()));
    gateway.ask("go");
    let id = gateway.runtime.block_on(gateway.collected.questions(1)).remove(0).id;
    for _ in 0..12 {
        gateway.die();
        gateway = Gateway::begin(folder.path(), &shelf, Setup::of(asking()));
        assert_eq!(gateway.runtime.block_on(gateway.collected.questions(1)).remove(0).id, id);
    }
    gateway.dispatcher.questions.answer(&id, &ann(), AskDecision::AllowOnce).unwrap();
    assert_eq!(gateway.answer(), ("before after".to_owned(), None));
    assert_eq!(agents.prompts().len(), 1);
}

#[test]
fn a_question_answered_before_a_crash_is_neither_asked_nor_answered_again() {
    let (folder, (mut told, leave, agents)) = (folder(), asking_agents());
    let shelf = Shelf::new(agents.clone());
    let first = Gateway::begin(folder.path(), &shelf, Setup::of(asking()));
    first.ask("go");
    let id = first.runtime.block_on(first.collected.questions(1)).remove(0).id;
    first.dispatcher.questions.answer(&id, &ann(), AskDecision::Deny(None)).unwrap();
    assert_eq!(told.blocking_recv().as_deref(), Some("Deny(None)"));
    first.die();
    let second = Gateway::begin(folder.path(), &shelf, Setup::of(asking()));
    assert!(second.collected.continued.lock().unwrap().is_empty());
    leave.send_replace(true);
    assert_eq!(second.answer(), ("before after".to_owned(), None));
    assert!(told.try_recv().is_err(), "one decision reached the agent");
    assert_eq!(second.runtime.block_on(second.collected.questions(0)).len(), 0);
}

#[test]
fn a_refused_question_is_answered_once_wherever_the_gateway_dies() {
    let (folder, (mut told, leave, agents)) = (folder(), asking_agents());
    let shelf = Shelf::new(agents);
    // Keys from here up belong to the host.
    let setup = || Setup::of(asking_with(Ask { ask: 0x8000_0009, ..question() }));
    let first = Gateway::begin(folder.path(), &shelf, setup());
    first.ask("go");
    assert_eq!(told.blocking_recv().as_deref(), Some("Dismissed"));
    first.die();
    leave.send_replace(true);
    shelf.wait_for_exits();
    let (path, queue) = (recording(folder.path()), folder.path().join("config/state/queue.md"));
    let (text, state) = (std::fs::read_to_string(&path).unwrap(), std::fs::read(&queue).unwrap());
    let asked = text.find(r#""out":{"ask""#).expect("the question is recorded");
    let ends = text.match_indices('\n').map(|(at, _)| at + 1).filter(|end| *end > asked);
    for cut in ends {
        std::fs::write(&path, &text[..cut]).unwrap();
        std::fs::write(&queue, &state).unwrap();
        shelf.forget_recorded();
        shelf.make_folders();
        let gateway = Gateway::begin(folder.path(), &shelf.copy(), setup());
        assert_eq!(gateway.answer(), ("before after".to_owned(), None), "cut at {cut}");
        gateway.runtime.block_on(gateway.dispatcher.turns.idle());
        gateway.die();
        let recorded = std::fs::read_to_string(&path).unwrap();
        let answers = recorded.matches(r#""in":{"command":{"answer""#).count();
        assert_eq!(answers, 1, "cut at {cut}:\n{recorded}");
    }
}

#[test]
fn a_continued_turn_does_not_keep_a_revoked_safety_level() {
    let (folder, (leave, agents)) = (folder(), in_two_halves());
    let shelf = Shelf::new(agents.clone());
    let first = Gateway::begin(folder.path(), &shelf, Setup::of(plain()));
    first.ask("go");
    first.wait_for_text("one, ");
    first.die();
    let narrower = Setup { safety: Safety::Default, ..Setup::of(plain()) };
    let second = Gateway::begin(folder.path(), &shelf, narrower);
    let (_, failure) = second.answer();
    assert!(failure.as_deref().unwrap().contains("the level of safety"), "{failure:?}");
    second.wait_until("its agent to end", || shelf.held().is_empty());
    drop(leave);
}

/// Like `plain`, with the beginning and the end of a tool in the lines `begin` and `end`.
fn with_tool() -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| match input {
        Input::Line(line) if line.text == "begin" => {
            Ok(vec![event(AgentEventKind::ToolStart(ToolStart {
                id: "t1".into(),
                parent: None,
                kind: "bash".into(),
                native_name: "Bash".into(),
                title: "run".into(),
                target: None,
                input: "{}".into(),
            }))])
        }
        Input::Line(line) if line.text == "end" => {
            Ok(vec![event(AgentEventKind::ToolEnd(ToolEnd {
                id: "t1".into(),
                status: ToolStatus::Ok,
                output: None,
                exit_code: None,
                diffs: vec![],
            }))])
        }
        _ => usual(state, input),
    })
}

#[test]
fn the_next_process_knows_when_a_running_tool_began() {
    let (leave, given) = watch::channel(false);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let mut given = given.clone();
        async move {
            agent.say(&["session s1", "begin", "text one, "]).await;
            let _ = given.wait_for(|given| *given).await;
            agent.say(&["end", "text two", "done"]).await;
            agent.exit(aetheel_model::agent::Exit::Code(0), "").await;
        }
    });
    let (folder, shelf) = (folder(), Shelf::new(launcher));
    let setup = |observers: &Arc<CollectingObserver>| Setup {
        observers: observers.clone(),
        ..Setup::of(with_tool())
    };
    let [former, latter] = [(); 2].map(|()| Arc::new(CollectingObserver::default()));
    let first = Gateway::begin(folder.path(), &shelf, setup(&former));
    first.ask("go");
    first.wait_for_text("one, ");
    first.die();
    age(&recording(folder.path()), Duration::from_secs(30));
    let second = Gateway::begin(folder.path(), &shelf, setup(&latter));
    leave.send_replace(true);
    assert_eq!(second.answer().0, "one, two");
    second.runtime.block_on(second.dispatcher.turns.idle());
    let is_tool = |event: &&ObservedEvent| {
        matches!(event.kind, ObservedKind::ToolBegun { .. } | ObservedKind::ToolEnded { .. })
    };
    let before = former.events.lock().unwrap().iter().find(is_tool).cloned().expect("a tool");
    let restored = latter.restored.lock().unwrap().clone();
    assert_eq!((restored.len(), &restored[0].kind), (1, &before.kind), "{restored:?}");
    let earlier = before.at_ms - restored[0].at_ms;
    assert!(earlier >= 29_000, "it began at its recorded time: {earlier}");
    let seen = latter.events.lock().unwrap().clone();
    let tools: Vec<&ObservedEvent> = seen.iter().filter(is_tool).collect();
    assert!(
        matches!(tools[..], [ObservedEvent { kind: ObservedKind::ToolEnded { .. }, .. }]),
        "{seen:?}"
    );
}

/// Like `plain`, with an additional notice, and with the text in capitals if `capitals` is set.
fn other(capitals: bool) -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| {
        let mut actions = usual(state, input)?;
        for action in &mut actions {
            if let Action::Event(AgentEvent { kind: AgentEventKind::Text(text), .. }) = action
                && capitals
            {
                text.text = text.text.to_uppercase();
            }
        }
        if matches!(input, Input::Line(_)) {
            actions.push(event(AgentEventKind::Thinking(match text_event("hm") {
                AgentEventKind::Text(text) => text,
                _ => unreachable!(),
            })));
        }
        Ok(actions)
    })
}

#[test]
fn a_running_turn_moves_only_to_a_generation_whose_replay_agrees() {
    for agrees in [true, false] {
        let (folder, (leave, agents)) = (folder(), in_two_halves());
        let shelf = Shelf::new(agents.clone());
        let loads = Arc::new(Replaceable::default());
        loads.load(ScriptedBackend::new(plain()).of_generation(1, "a"));
        let setup = Setup::with(loads.clone());
        let gateway = Gateway::begin(folder.path(), &shelf, setup);
        gateway.ask("go");
        gateway.wait_for_text("one, ");
        loads.load(ScriptedBackend::new(other(!agrees)).of_generation(2, "b"));
        gateway.runtime.block_on(async {
            gateway.dispatcher.backends.upgrade_turns(&["scripted".to_owned()])
        });
        if agrees {
            let path = recording(folder.path());
            gateway.wait_until("the turn to move", || {
                std::fs::read_to_string(&path).unwrap().contains("from here on generation 2")
            });
        }
        leave.send_replace(true);
        assert_eq!(gateway.answer(), ("one, two".to_owned(), None), "agrees: {agrees}");
        let thought = gateway.collected.shown.lock().unwrap().iter().any(
            |event| matches!(event, AgentEventKind::Thinking(thinking) if thinking.text == "hm"),
        );
        assert_eq!(thought, agrees, "which generation reads the second half");
        assert_eq!(agents.prompts().len(), 1);
    }
}

#[test]
fn a_component_replaced_while_down_continues_the_turn_only_if_its_replay_agrees() {
    for agrees in [true, false] {
        let (folder, (leave, agents)) = (folder(), in_two_halves());
        let shelf = Shelf::new(agents.clone());
        let generation = |number, understanding, digest| {
            let loads = Replaceable::default();
            loads.load(ScriptedBackend::new(understanding).of_generation(number, digest));
            Setup::with(Arc::new(loads))
        };
        let first = Gateway::begin(folder.path(), &shelf, generation(1, plain(), "a"));
        first.ask("go");
        first.wait_for_text("one, ");
        first.die();
        leave.send_replace(true);
        let second = Gateway::begin(folder.path(), &shelf, generation(2, other(!agrees), "b"));
        let text = if agrees { "one, two" } else { "ONE, TWO" };
        assert_eq!(second.answer(), (text.to_owned(), None));
        assert_eq!(agents.prompts().len(), if agrees { 1 } else { 2 });
    }
}

/// Understands `write`: writes an attachment that does not exist, and then a line.
fn writing_unknown_attachments() -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| match input {
        Input::Line(line) if line.text == "write" => {
            let write = |chunk| Action::Write(Write { proc: 1, body: vec![chunk] });
            Ok(vec![write(Chunk::Base64(99)), write(Chunk::Text("received\n".to_owned()))])
        }
        _ => usual(state, input),
    })
}

#[test]
fn a_write_that_was_dropped_does_not_repeat_the_next_one_after_a_crash() {
    for is_cut in [false, true] {
        let (folder, (told, mut received)) = (folder(), mpsc::unbounded_channel());
        let (leave, given) = watch::channel(false);
        let agents = ScriptedLauncher::new(move |mut agent: Agent| {
            let (told, mut given) = (told.clone(), given.clone());
            async move {
                agent.say(&["text one, ", "write"]).await;
                loop {
                    tokio::select! {
                        Some(command) = agent.commands.recv() => {
                            if let ProcessCommand::Write(bytes) = command {
                                told.send(bytes).unwrap();
                            }
                        }
                        _ = given.wait_for(|given| *given) => break,
                    }
                }
                agent.say(&["text two", "done"]).await;
                agent.exit(aetheel_model::agent::Exit::Code(0), "").await;
            }
        });
        let shelf = Shelf::new(agents);
        let setup = || Setup::of(writing_unknown_attachments());
        let mut gateway = Gateway::begin(folder.path(), &shelf, setup());
        gateway.ask("go");
        assert_eq!(received.blocking_recv().as_deref(), Some(&b"received\n"[..]));
        gateway.die();
        if is_cut {
            // The gateway died before it recorded what it did.
            let path = recording(folder.path());
            let text = std::fs::read_to_string(&path).unwrap();
            let at = text.find(r#""out":{"write""#).unwrap();
            std::fs::write(&path, &text[..=text[..at].rfind('\n').unwrap()]).unwrap();
        }
        // Two crashes, because the first one completes the recording.
        for _ in 0..2 {
            gateway = Gateway::begin(folder.path(), &shelf, setup());
            gateway.wait_for_text("one, ");
            gateway.die();
        }
        gateway = Gateway::begin(folder.path(), &shelf, setup());
        leave.send_replace(true);
        assert_eq!(gateway.answer(), ("one, two".to_owned(), None));
        assert!(received.try_recv().is_err(), "the line was repeated; cut: {is_cut}");
    }
}
