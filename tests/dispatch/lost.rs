//! Tests of replies that no parser could read: each kind of loss, reading an agent's output to its
//! end, and a single delivery, whatever process dies at which time.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aetheel::startup::turn_parts;
use aetheel_dispatch::{Dispatcher, OfferEffect, OfferRefusal, Person, TurnAnswer};
use aetheel_model::agent::{
    AgentEventKind as Told, Exit, FailureKind, Input, SessionId, ToolStart, TurnOutcome,
    Unrecognised,
};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::{Event, EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::{ChannelId, MessageId, UserId};
use aetheel_model::queue::QueueLimits;
use aetheel_model::redact::Redactor;
use aetheel_recording::{Backend, GuestFailure, ParsedRecording, Recorder, RecordingLimits};
use aetheel_store::workspace::{Journal, LostState, LostTurn, Workspace};
use aetheel_turn::{Backends, ProcessCommand};
use tokio::sync::watch;

use crate::support::scripted::{
    Agent, Collected, ScriptedBackend, ScriptedLauncher, Understanding, done, event, failure,
    message, parts, plain, text_event,
};

const ANN: u64 = 4;
const BOB: u64 = 5;

/// Calls `of` for a line `riddle X`, and treats all other lines like `plain`.
fn riddles(
    of: impl Fn(&str) -> Result<Vec<aetheel_model::agent::Action>, GuestFailure> + Send + Sync + 'static,
) -> Understanding {
    let plain = plain();
    Arc::new(move |state, input| match input {
        Input::Line(line) if line.text.starts_with("riddle ") => {
            of(line.text.trim_start_matches("riddle "))
        }
        _ => plain(state, input),
    })
}

/// The newer parser, which reads riddles.
fn solved() -> Arc<dyn Backend> {
    ScriptedBackend::new(riddles(|text| Ok(vec![event(text_event(text))]))).of_generation(2, "2")
}

fn trapping() -> Understanding {
    riddles(|_| Err(GuestFailure::Trapped("out of bounds".to_owned())))
}

/// The only backend, which can be replaced.
struct Replaceable(Mutex<Arc<dyn Backend>>);

impl Backends for Replaceable {
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>> {
        Some(self.0.lock().unwrap().clone()).filter(|backend| backend.descriptor().name == name)
    }

    fn names(&self) -> Vec<String> {
        vec!["scripted".to_owned()]
    }
}

/// One gateway process with a folder.
struct Gateway {
    dispatcher: Dispatcher,
    collected: Arc<Collected>,
    launcher: Arc<ScriptedLauncher>,
    backends: Arc<Replaceable>,
    workspace: Workspace,
    journal: Option<Journal>,
    runtime: tokio::runtime::Runtime,
}

impl Gateway {
    fn begin(folder: &Path, backend: Arc<dyn Backend>, launcher: Arc<ScriptedLauncher>) -> Self {
        Self::with(folder, backend, launcher, true, Duration::from_secs(60))
    }

    fn with(
        folder: &Path,
        backend: Arc<dyn Backend>,
        launcher: Arc<ScriptedLauncher>,
        journal: bool,
        timeout: Duration,
    ) -> Self {
        Self::recorded(folder, backend, launcher, (journal, timeout), RecordingLimits::UNLIMITED)
    }

    fn recorded(
        folder: &Path,
        backend: Arc<dyn Backend>,
        launcher: Arc<ScriptedLauncher>,
        (journal, timeout): (bool, Duration),
        room: RecordingLimits,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let collected = Arc::new(Collected::default());
        let backends = Arc::new(Replaceable(Mutex::new(backend)));
        let limits =
            QueueLimits { max_concurrent: 2, max_depth: 100, busy_policy: BusyPolicy::Queue };
        let (dispatcher, workspace, journal) = runtime.block_on(async {
            let mut parts =
                parts(folder, "scripted", backends.clone(), launcher.clone(), &collected, limits)
                    .await;
            if journal {
                parts.journal = Some(parts.workspace.journal().await.unwrap());
            }
            parts.host.limits.query_timeout = timeout;
            parts.recorder = Recorder::new(folder.join("recordings"), room, Redactor::default());
            let (workspace, journal) = (parts.workspace.clone(), parts.journal.clone());
            let dispatcher = Dispatcher::new(parts, turn_parts());
            let _ = dispatcher.recovery.recover().await;
            (dispatcher, workspace, journal)
        });
        Self { dispatcher, collected, launcher, backends, workspace, journal, runtime }
    }

    fn ask(&self, prompt: &str) {
        let origin = EventOrigin::Message {
            channel: ChannelId::discord(7),
            message: MessageId::discord(100 + prompt.len() as u64),
        };
        let submitted = NewEvent {
            asker: Some(UserId::discord(ANN)),
            origin,
            key: Some(format!("test:{prompt}")),
            ..message(7, prompt)
        };
        self.runtime
            .block_on(async {
                self.dispatcher.intake.submit(submitted).unwrap().wait_until_saved().await
            })
            .unwrap();
    }

    fn answers(&self, count: usize) -> Vec<(Event, TurnAnswer)> {
        self.runtime.block_on(self.collected.answers(count))
    }

    fn lost(&self) -> Vec<LostTurn> {
        self.runtime.block_on(self.workspace.state.lost.all())
    }

    fn replace(&self, backend: Arc<dyn Backend>) {
        *self.backends.0.lock().unwrap() = backend;
    }

    fn reread(&self) {
        self.runtime.block_on(self.dispatcher.redelivery.reread_lost(None));
    }

    fn press(&self, id: &str, person: u64) -> Result<OfferEffect, OfferRefusal> {
        self.runtime.block_on(self.dispatcher.recovery.accept_offer(id, &user(person, false), true))
    }

    /// Waits until nothing runs or waits.
    fn wait_until_idle(&self) {
        self.runtime.block_on(self.dispatcher.turns.idle());
    }

    /// Waits until the journal marks an event as complete, and returns the journal.
    fn wait_until_complete(&self, folder: &Path, event: u64) -> String {
        let file = folder.join("config/state/queue.md");
        let wanted = format!("- [x] `{event}`");
        let wait = async {
            loop {
                let text = std::fs::read_to_string(&file).unwrap();
                if text.contains(&wanted) {
                    return text;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        self.runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(30), wait).await })
            .expect("the event is marked as complete")
    }

    /// Ends like a killed program: everything that runs is dropped and writes no more files.
    fn die(self) {
        if let Some(journal) = &self.journal {
            self.runtime.block_on(journal.flush());
        }
        self.runtime.shutdown_timeout(Duration::from_secs(60));
    }
}

fn user(id: u64, owner: bool) -> Person {
    Person::User { id: UserId::discord(id), roles: vec![], owner, name: "somebody".to_owned() }
}

/// Agents that print these lines and end.
fn saying(lines: &'static [&'static str]) -> Arc<ScriptedLauncher> {
    ScriptedLauncher::new(move |agent: Agent| async move {
        agent.say(lines).await;
        agent.exit(Exit::Code(0), "").await;
    })
}

fn recording(folder: &Path, turn: &LostTurn) -> String {
    std::fs::read_to_string(folder.join("recordings").join(&turn.recording)).unwrap()
}

/// Runs a process in which a reply was lost. Returns it with the lost turn.
fn one_lost(folder: &Path) -> (Gateway, LostTurn) {
    let gateway = Gateway::begin(
        folder,
        Arc::new(ScriptedBackend::new(trapping())),
        saying(&["session s-1", "riddle the answer", "done"]),
    );
    gateway.ask("one");
    gateway.answers(1);
    gateway.wait_until_complete(folder, 1);
    let lost = gateway.lost().remove(0);
    (gateway, lost)
}

#[test]
fn every_kind_of_loss_keeps_its_recording_and_offers_a_retry() {
    // If a part of the answer was shown, the reply is not lost.
    let protocol = || {
        Ok(vec![
            event(text_event("half")),
            done(TurnOutcome::Failed(failure(FailureKind::Protocol))),
        ])
    };
    let unknown = || {
        event(Told::Unrecognised(Unrecognised {
            what: "riddle".to_owned(),
            path: None,
            sample: String::new(),
            ..Unrecognised::default()
        }))
    };
    let tool = || {
        let (id, kind, native_name) = ("t".to_owned(), "bash".to_owned(), "Bash".to_owned());
        event(Told::ToolStart(ToolStart {
            id,
            parent: None,
            kind,
            native_name,
            title: String::new(),
            target: None,
            input: "{}".to_owned(),
        }))
    };
    let kinds: [(&str, Understanding); 6] = [
        ("unread", riddles(move |_| Ok(vec![unknown()]))),
        // The agent used a tool and then printed an unreadable answer.
        ("unread", riddles(move |_| Ok(vec![tool(), unknown()]))),
        ("backend refused", riddles(|_| Err(GuestFailure::Refused("no".to_owned())))),
        ("backend crashed", trapping()),
        ("backend cut off", riddles(|_| Err(GuestFailure::CutOff("time".to_owned())))),
        ("protocol", riddles(move |_| protocol())),
    ];
    for (kind, understanding) in kinds {
        let folder = tempfile::tempdir().unwrap();
        let gateway = Gateway::begin(
            folder.path(),
            Arc::new(ScriptedBackend::new(understanding)),
            saying(&["riddle it works", "done"]),
        );
        gateway.ask("one");
        let answer = gateway.answers(1).remove(0).1;
        assert!(answer.failure.as_ref().unwrap().contains(kind), "{answer:?}");
        let lost = gateway.lost().remove(0);
        let offer = answer.offer.expect("an offer to retry");
        assert_eq!(
            (offer.id, offer.label.as_str()),
            (
                format!("lost-{}", lost.turn),
                "Show the answer again (when a newer backend can read it)"
            )
        );
        assert_eq!(
            (lost.state, lost.lane.clone(), lost.event),
            (LostState::Lost, Lane::Channel(ChannelId::discord(7)), 1)
        );
        assert_eq!(
            (lost.channel, lost.message, lost.asker),
            (
                Some(ChannelId::discord(7)),
                Some(MessageId::discord(103)),
                Some(UserId::discord(ANN))
            )
        );
        assert_eq!(
            gateway.press(&format!("lost-{}", lost.turn), ANN),
            Err(OfferRefusal::NotYet),
            "there is no newer component"
        );
        gateway.replace(solved());
        assert_eq!(
            gateway.press(&format!("lost-{}", lost.turn), ANN),
            Ok(OfferEffect::Delivered),
            "{kind}"
        );
        let (asked, answer) = gateway.answers(2).remove(1);
        assert_eq!((answer.text.as_str(), &answer.failure), ("it works", &None), "{kind}");
        assert_eq!(
            answer.notices,
            [format!("This reply could not be read at first. (recovered, {})", lost.turn)]
        );
        assert_eq!(
            (asked.request.origin, asked.request.lane),
            (
                EventOrigin::Message {
                    channel: ChannelId::discord(7),
                    message: MessageId::discord(103)
                },
                Lane::Channel(ChannelId::discord(7))
            )
        );
        gateway.wait_until_idle();
        assert_eq!(gateway.lost()[0].state, LostState::Delivered);
        assert_eq!(
            gateway.press(&format!("lost-{}", lost.turn), ANN),
            Err(OfferRefusal::Delivered)
        );
        assert_eq!(gateway.launcher.prompts(), ["one"], "no agent was started");
    }
}

#[test]
fn missing_answers_and_other_failures_do_not_count_as_lost_replies() {
    let plain_words = plain();
    let at_once: Understanding = Arc::new(|_, _| Err(GuestFailure::Trapped("at once".to_owned())));
    let signed_out: Understanding = Arc::new(move |state, input| match input {
        Input::Line(line) if line.text == "out" => {
            Ok(vec![done(TurnOutcome::Failed(failure(FailureKind::Authentication)))])
        }
        _ => plain_words(state, input),
    });
    for understanding in [at_once, signed_out] {
        let folder = tempfile::tempdir().unwrap();
        let gateway = Gateway::begin(
            folder.path(),
            Arc::new(ScriptedBackend::new(understanding)),
            saying(&["out"]),
        );
        gateway.ask("one");
        let answer = gateway.answers(1).remove(0).1;
        assert!(answer.failure.is_some() && answer.offer.is_none(), "{answer:?}");
        assert!(gateway.lost().is_empty());
        assert!(!folder.path().join("recordings/lost").exists());
    }
}

#[test]
fn the_output_of_an_agent_whose_guest_failed_is_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let launcher = ScriptedLauncher::new(|mut agent: Agent| async move {
        agent.say(&["riddle one "]).await;
        // The agent continues because its stdin is closed, and is not killed.
        match agent.commands.recv().await {
            Some(ProcessCommand::CloseStdin) | None => {}
            Some(other) => panic!("not asked for: {other:?}"),
        }
        agent.say(&["riddle two", "done"]).await;
        agent.exit(Exit::Code(0), "").await;
    });
    let gateway =
        Gateway::begin(folder.path(), Arc::new(ScriptedBackend::new(trapping())), launcher);
    gateway.ask("one");
    let answer = gateway.answers(1).remove(0).1;
    assert!(answer.failure.unwrap().contains("(backend crashed, "));
    let lost = gateway.lost().remove(0);
    let recorded = recording(folder.path(), &lost);
    let host = recorded.find("no guest sees what follows").expect("the text was read");
    let second = recorded.find("riddle two").expect("the loss was saved");
    assert!(host < second && recorded[second..].contains("exited"), "{recorded}");
    gateway.replace(solved());
    gateway.press(&format!("lost-{}", lost.turn), ANN).unwrap();
    assert_eq!(gateway.answers(2)[1].1.text, "one two");
}

#[test]
fn an_agent_whose_guest_failed_obeys_the_time_limit_and_a_stop() {
    for (timeout, kind) in
        [(Duration::from_millis(300), "(backend crashed, "), (Duration::from_secs(60), "Stopped.")]
    {
        let folder = tempfile::tempdir().unwrap();
        let (said, mut heard) = watch::channel(false);
        let launcher = ScriptedLauncher::new(move |mut agent: Agent| {
            let said = said.clone();
            async move {
                agent.say(&["riddle and never an end"]).await;
                while let Some(command) = agent.commands.recv().await {
                    match command {
                        ProcessCommand::CloseStdin => said.send_replace(true),
                        ProcessCommand::Stop { .. } => break,
                        _ => continue,
                    };
                }
                agent.exit(Exit::Signal(15), "").await;
            }
        });
        let gateway = Gateway::with(
            folder.path(),
            Arc::new(ScriptedBackend::new(trapping())),
            launcher,
            true,
            timeout,
        );
        gateway.ask("one");
        gateway.runtime.block_on(heard.wait_for(|heard| *heard)).unwrap();
        if timeout > Duration::from_secs(1) {
            let _inside = gateway.runtime.enter();
            assert!(gateway.dispatcher.turns.stop(&Lane::Channel(ChannelId::discord(7))));
        }
        let failure = gateway.answers(1).remove(0).1.failure.unwrap();
        assert!(failure.contains(kind), "{failure}");
    }
}

#[test]
fn a_generation_that_reads_lost_replies_is_announced_once_and_delivers_all() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, _) = one_lost(folder.path());
    gateway.ask("three");
    gateway.answers(2);
    gateway.reread();
    let useless = riddles(|_| Err(GuestFailure::Refused("still not".to_owned())));
    gateway.replace(ScriptedBackend::new(useless).of_generation(3, "3"));
    gateway.reread();
    assert!(
        gateway.lost().iter().all(|turn| turn.state == LostState::Lost && turn.tried.is_some())
    );
    assert_eq!(gateway.runtime.block_on(gateway.collected.notices(0)).len(), 0);
    gateway.replace(solved());
    gateway.reread();
    gateway.reread();
    let notices = gateway.runtime.block_on(gateway.collected.notices(1));
    let for_owners = gateway
        .runtime
        .block_on(gateway.dispatcher.observer.lane_status(&Lane::Channel(ChannelId::discord(7))))
        .warnings
        .1;
    assert!(
        for_owners
            .iter()
            .any(|warning| warning.contains("0 wait for a newer backend, 2 can be delivered")),
        "{for_owners:?}"
    );
    assert_eq!((notices.len(), notices[0].channel), (1, None));
    assert_eq!(
        notices[0].text,
        "The new version of the `scripted` backend (2@222222222222) can now read 2 answers that were lost. (recoverable)"
    );
    let offer = notices[0].offers[0].clone();
    assert_eq!(offer.label, "Deliver them");
    assert_eq!(gateway.press(&offer.id, ANN), Err(OfferRefusal::NotOperator));
    let owner = user(BOB, true);
    let press = || {
        gateway.runtime.block_on(gateway.dispatcher.recovery.accept_offer(&offer.id, &owner, true))
    };
    assert_eq!(press(), Ok(OfferEffect::Delivered));
    let texts: Vec<String> =
        gateway.answers(4).into_iter().skip(2).map(|(_, answer)| answer.text).collect();
    assert_eq!(texts, ["the answer", "the answer"]);
    gateway.wait_until_idle();
    assert_eq!(press(), Err(OfferRefusal::Gone));
    let stranger = gateway.runtime.block_on(gateway.dispatcher.recovery.accept_offer(
        "lost-ab12",
        &user(BOB, false),
        false,
    ));
    assert_eq!(stranger, Err(OfferRefusal::NotAdmitted));
}

#[test]
fn the_button_works_as_soon_as_its_notice_is_posted_and_after_a_kill_before_it_is_noted() {
    for killed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (mut gateway, lost) = one_lost(folder.path());
        let owner = user(BOB, true);
        gateway.replace(solved());
        // Discord has the notice, and its response is not here yet.
        gateway.collected.holds_responses.send_replace(true);
        let redelivery = gateway.dispatcher.redelivery.clone();
        let rereading = gateway.runtime.spawn(async move { redelivery.reread_lost(None).await });
        let notice = gateway.runtime.block_on(gateway.collected.notices(1)).remove(0);
        assert_eq!(gateway.lost()[0].state, LostState::Lost, "it is not marked yet");
        if killed {
            gateway.die();
            let launcher = saying(&["riddle asked again", "done"]);
            gateway = Gateway::begin(folder.path(), solved(), launcher);
        }
        let (first, second) = gateway.runtime.block_on(async {
            let press =
                || gateway.dispatcher.recovery.accept_offer(&notice.offers[0].id, &owner, true);
            tokio::join!(press(), press())
        });
        let counts = [first, second].map(|pressed| pressed.is_ok());
        assert!(counts.contains(&true), "killed: {killed}, {first:?} {second:?}");
        let answers = gateway.answers(if killed { 1 } else { 2 });
        assert_eq!(answers.last().unwrap().1.text, "the answer");
        gateway.wait_until_idle();
        if !killed {
            gateway.collected.holds_responses.send_replace(false);
            gateway.runtime.block_on(rereading).unwrap();
        }
        gateway.reread();
        let all = answers.len();
        assert_eq!(gateway.answers(all).len(), all, "killed: {killed}");
        assert_eq!(gateway.lost()[0].state, LostState::Delivered, "of {}", lost.turn);
        let pressed = gateway.runtime.block_on(gateway.dispatcher.recovery.accept_offer(
            &notice.offers[0].id,
            &owner,
            true,
        ));
        assert_eq!(pressed, Err(OfferRefusal::Gone));
    }
}

#[test]
fn a_recovered_reply_waits_for_its_lanes_turn_and_survives_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (first, lost) = one_lost(folder.path());
    first.die();
    let (gate, opened) = watch::channel(false);
    let launcher = ScriptedLauncher::new(move |mut agent: Agent| {
        let mut opened = opened.clone();
        async move {
            let _ = opened.wait_for(|open| *open).await;
            agent.commands.recv().await;
            agent.exit(Exit::Signal(2), "").await;
        }
    });
    let gateway = Gateway::begin(folder.path(), solved(), launcher);
    gateway.ask("two");
    assert_eq!(
        gateway.press(&format!("lost-{}", lost.turn), BOB),
        Ok(OfferEffect::Delivered),
        "everybody who may use the bot there may press"
    );
    assert_eq!(gateway.answers(0).len(), 0, "a turn runs");
    {
        let _inside = gateway.runtime.enter();
        assert!(gateway.dispatcher.turns.stop(&Lane::Channel(ChannelId::discord(7))));
    }
    gate.send_replace(true);
    let answers = gateway.answers(2);
    assert!(answers[0].1.failure.as_ref().unwrap().contains("Stopped."), "{answers:?}");
    assert_eq!(answers[1].1.text, "the answer");
}

#[test]
fn a_recording_truncated_at_its_size_limit_gets_no_invented_end() {
    let folder = tempfile::tempdir().unwrap();
    let launcher = ScriptedLauncher::new(|agent: Agent| async move {
        agent.say(&["session s-1", "riddle the beginning"]).await;
        for _ in 0..2_000 {
            agent.say(&["riddle and so on, for more than there is room for"]).await;
        }
        agent.say(&["done"]).await;
        agent.exit(Exit::Code(0), "").await;
    });
    let room = RecordingLimits { bytes: 80_000, ..RecordingLimits::UNLIMITED };
    let backend = Arc::new(ScriptedBackend::new(trapping()));
    let gateway =
        Gateway::recorded(folder.path(), backend, launcher, (true, Duration::from_secs(60)), room);
    gateway.ask("one");
    gateway.answers(1);
    gateway.wait_until_complete(folder.path(), 1);
    let lost = gateway.lost().remove(0);
    let text = recording(folder.path(), &lost);
    assert!(text.len() <= 20_000, "{}", text.len());
    let tape = ParsedRecording::read(&text).unwrap();
    assert!(tape.cut().unwrap().contains("RECORDINGS_MAX_MIB"), "{:?}", tape.cut());
    // The newer parser reads every remaining line, and finds half an answer.
    gateway.replace(solved());
    let path = folder.path().join("recordings").join(&lost.recording);
    let read =
        gateway.runtime.block_on(aetheel_recording::reread::reread(&*solved(), &path, &lost.turn));
    assert!(
        read.as_ref().is_err_and(|why| why
            .to_string()
            .starts_with("the recording was cut before the end of the turn")),
        "{read:?}"
    );
    gateway.reread();
    assert_eq!(gateway.press(&format!("lost-{}", lost.turn), ANN), Err(OfferRefusal::NotYet));
    assert_eq!((gateway.lost()[0].state, gateway.answers(1).len()), (LostState::Lost, 1));
}

#[test]
fn button_and_command_together_deliver_once() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, lost) = one_lost(folder.path());
    gateway.replace(solved());
    let turns = vec![lost.turn.clone()];
    let id = format!("lost-{}", lost.turn);
    let (owner, dispatcher) = (user(ANN, true), &gateway.dispatcher);
    let (pressed, again, asked) = gateway.runtime.block_on(async {
        tokio::join!(
            dispatcher.recovery.accept_offer(&id, &owner, true),
            dispatcher.recovery.accept_offer(&id, &owner, true),
            dispatcher.redelivery.deliver_all(&turns)
        )
    });
    let delivered = usize::from(pressed.is_ok()) + usize::from(again.is_ok()) + asked;
    // The person whose press takes too long is informed, and the delivery continues.
    assert!(delivered <= 1, "{pressed:?} {again:?} {asked}");
    gateway.answers(2);
    gateway.wait_until_idle();
    gateway.reread();
    assert_eq!(gateway.runtime.block_on(gateway.dispatcher.redelivery.deliver_all(&turns)), 0);
    assert_eq!(gateway.answers(2).len(), 2, "the failure and its recovery");
}

/// All states that the files can have when the gateway dies: the reply is delivered exactly once.
#[test]
fn a_reply_is_delivered_once_whenever_the_gateway_dies() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, lost) = one_lost(folder.path());
    let state = folder.path().join("config/state");
    let read = |name: &str| std::fs::read_to_string(state.join(name)).unwrap();
    let (queue_before, lost_before) = (read("queue.md"), read("lost.md"));
    let id = format!("lost-{}", lost.turn);
    gateway.replace(solved());
    gateway.press(&id, ANN).unwrap();
    gateway.answers(2);
    let stem = gateway.collected.traces.lock().unwrap()[1].stem.clone();
    assert!(
        !gateway.collected.traces.lock().unwrap()[1].resumed,
        "a first delivery has no earlier messages to find"
    );
    gateway.wait_until_complete(folder.path(), 2);
    let (queue_after, lost_after) = (read("queue.md"), read("lost.md"));
    gateway.die();
    let accepted = queue_after
        .lines()
        .find(|line| line.contains("- [ ] `2`"))
        .expect("the event that delivers it")
        .to_owned()
        + "\n";
    assert!(accepted.contains("answered"), "with its answer, in one line: {accepted}");
    assert!(lost_after.contains("delivered") && lost_before.contains(" lost at "), "{lost_after}");
    let torn = &accepted[..accepted.len() / 2];
    // The journal, the ledger, whether the reply is still delivered automatically, and whether it
    // is delivered when the button is pressed.
    let deaths = [
        ("before anything", queue_before.clone(), &lost_before, false, true),
        ("while it was written down", format!("{queue_before}{torn}"), &lost_before, false, true),
        ("before it was posted", format!("{queue_before}{accepted}"), &lost_before, true, false),
        (
            "while it was posted",
            format!("{queue_before}{accepted}- `2` posted `71`\n"),
            &lost_before,
            true,
            false,
        ),
        (
            "before it was checked off",
            format!("{queue_before}{accepted}- `2` posted `71`\n"),
            &lost_after,
            true,
            false,
        ),
        ("before the ledger knew", queue_after.clone(), &lost_before, false, false),
        ("afterwards", queue_after.clone(), &lost_after, false, false),
    ];
    for (when, queue, ledger, by_itself, by_press) in deaths {
        std::fs::write(state.join("queue.md"), &queue).unwrap();
        std::fs::write(state.join("lost.md"), ledger).unwrap();
        let gateway =
            Gateway::begin(folder.path(), solved(), saying(&["riddle asked again", "done"]));
        let pressed = gateway.press(&id, ANN);
        assert_eq!(
            pressed,
            if by_press { Ok(OfferEffect::Delivered) } else { Err(OfferRefusal::Delivered) },
            "{when}"
        );
        let comes = usize::from(by_itself || by_press);
        let answers = gateway.answers(comes);
        gateway.wait_until_idle();
        gateway.reread();
        assert_eq!(gateway.answers(comes).len(), comes, "{when}");
        assert!(
            answers.iter().all(|(_, answer)| answer.text == "the answer"),
            "{when}: {answers:?}"
        );
        if by_itself {
            let traces = gateway.collected.traces.lock().unwrap();
            assert_eq!(
                (&traces[0].stem, traces[0].resumed),
                (&stem, true),
                "{when}: its messages are found again"
            );
        }
        assert_eq!(
            gateway.launcher.prompts(),
            Vec::<String>::new(),
            "{when}: no agent was started"
        );
        if comes > 0 {
            assert_eq!(gateway.lost()[0].state, LostState::Delivered, "{when}");
        }
        gateway.die();
    }
}

#[test]
fn a_recovered_turn_sets_the_session_unless_another_turn_has_set_one() {
    let s = |id: &str| Some(SessionId::new(id).unwrap());
    // The session before the reply is recovered, and afterwards.
    for (now, then) in [(None, s("s-9")), (s("s-5"), s("s-5"))] {
        let folder = tempfile::tempdir().unwrap();
        let old = riddles(|_| Err(GuestFailure::Refused("no".to_owned())));
        let gateway = Gateway::begin(
            folder.path(),
            Arc::new(ScriptedBackend::new(old)),
            saying(&["riddle x", "session s-9", "done"]),
        );
        gateway.ask("one");
        gateway.answers(1);
        let bindings = gateway.workspace.state.bindings.clone();
        let lane = Lane::Channel(ChannelId::discord(7));
        let bound = || gateway.runtime.block_on(bindings.get(&lane, "scripted")).session;
        assert_eq!(bound(), None, "the parser never saw it");
        gateway.runtime.block_on(bindings.set_session(&lane, "scripted", now)).unwrap();
        gateway.replace(solved());
        gateway.press(&format!("lost-{}", gateway.lost()[0].turn), ANN).unwrap();
        assert_eq!(gateway.answers(2)[1].1.text, "x");
        assert_eq!(bound(), then);
    }
}

#[test]
fn an_event_that_runs_again_supersedes_its_lost_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, lost) = one_lost(folder.path());
    gateway.die();
    // The process died before the failure was delivered.
    let queue = folder.path().join("config/state/queue.md");
    let text = std::fs::read_to_string(&queue).unwrap();
    let kept: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("- [x]") && !line.contains("answered"))
        .collect();
    std::fs::write(&queue, kept.join("\n") + "\n").unwrap();
    let gateway = Gateway::begin(folder.path(), solved(), saying(&["riddle this time", "done"]));
    assert_eq!(gateway.answers(1)[0].1.text, "this time");
    gateway.wait_until_idle();
    assert_eq!(gateway.lost()[0].state, LostState::GivenUp);
    gateway.reread();
    assert_eq!(gateway.press(&format!("lost-{}", lost.turn), ANN), Err(OfferRefusal::Gone));
    assert_eq!(gateway.runtime.block_on(gateway.collected.notices(0)).len(), 0);
}

#[test]
fn the_terminal_recovers_its_own_lost_turns_and_a_gateway_ignores_them() {
    let folder = tempfile::tempdir().unwrap();
    let old = Arc::new(ScriptedBackend::new(trapping()));
    let console = Gateway::with(
        folder.path(),
        old,
        saying(&["riddle at the terminal", "done"]),
        false,
        Duration::from_secs(60),
    );
    let asked = NewEvent::new(EventKind::Message, Lane::Console, EventOrigin::Console, "go");
    {
        let _inside = console.runtime.enter();
        console.dispatcher.intake.submit(asked).unwrap();
    }
    assert!(console.answers(1)[0].1.offer.is_some());
    let recover = |console: &Gateway| {
        console.runtime.block_on(console.dispatcher.redelivery.recover_lane(&Lane::Console))
    };
    assert!(recover(&console).starts_with("recovered: 0; still unreadable: 1"));

    let gateway = Gateway::begin(folder.path(), solved(), saying(&[]));
    gateway.reread();
    assert_eq!(gateway.runtime.block_on(gateway.collected.notices(0)).len(), 0);
    assert_eq!(
        gateway.press(&format!("lost-{}", gateway.lost()[0].turn), ANN),
        Err(OfferRefusal::Gone)
    );
    gateway.die();

    console.replace(solved());
    assert_eq!(recover(&console), "recovered: 1");
    assert_eq!(console.answers(2)[1].1.text, "at the terminal");
    console.wait_until_idle();
    assert_eq!(recover(&console), "no reply is lost");
}
