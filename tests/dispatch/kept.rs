//! Tests of accepted events when the gateway dies, for each state in the journal, with one process
//! after the other.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aetheel::startup::turn_parts;
use aetheel_dispatch::{
    Dispatcher, OfferEffect, OfferRefusal, OpenedThread, Person, PromptRefusal, StopResult,
};
use aetheel_model::agent::{AgentEventKind, Exit, ToolStart};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::{EventKind as Asked, EventOrigin, Lane, NewEvent};
use aetheel_model::id::{ChannelId, MessageId, UserId};
use aetheel_model::queue::QueueLimits;
use aetheel_store::workspace::Journal;
use tokio::sync::watch;

use crate::support::scripted::{
    Agent, Collected, OneBackend, ScriptedBackend, ScriptedLauncher, Understanding, event, message,
    parts, plain,
};

const ANN: u64 = 4;

/// One gateway process with the journal of a folder.
pub(super) struct Gateway {
    pub(super) dispatcher: Dispatcher,
    collected: Arc<Collected>,
    launcher: Arc<ScriptedLauncher>,
    journal: Journal,
    pub(super) runtime: tokio::runtime::Runtime,
}

impl Gateway {
    /// Starts one with a runtime of its own, so that it can be killed.
    pub(super) fn begin(
        folder: &Path,
        understanding: &Understanding,
        launcher: Arc<ScriptedLauncher>,
        slots: usize,
    ) -> Self {
        Self::begin_with(folder, understanding, launcher, slots, |_| {})
    }

    /// Starts one after a change of the outlet.
    fn begin_with(
        folder: &Path,
        understanding: &Understanding,
        launcher: Arc<ScriptedLauncher>,
        slots: usize,
        change: impl FnOnce(&Collected),
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let collected = Arc::new(Collected::default());
        change(&collected);
        let backends = Arc::new(OneBackend(Arc::new(ScriptedBackend::with_feature(
            understanding.clone(),
            Some("steer"),
        ))));
        let limits =
            QueueLimits { max_concurrent: slots, max_depth: 100, busy_policy: BusyPolicy::Queue };
        let (dispatcher, journal) = runtime.block_on(async {
            let mut parts =
                parts(folder, "scripted", backends, launcher.clone(), &collected, limits).await;
            let journal = parts.workspace.journal().await.unwrap();
            parts.journal = Some(journal.clone());
            let dispatcher = Dispatcher::new(parts, turn_parts());
            let _ = dispatcher.recovery.recover().await;
            (dispatcher, journal)
        });
        Self { dispatcher, collected, launcher, journal, runtime }
    }

    /// Submits a prompt and waits until it is on disk.
    pub(super) fn ask(&self, prompt: &str) -> u64 {
        let key = Some(format!("test:{prompt}"));
        let submitted = NewEvent { asker: Some(UserId::discord(ANN)), key, ..message(7, prompt) };
        self.runtime
            .block_on(async {
                self.dispatcher.intake.submit(submitted).unwrap().wait_until_saved().await
            })
            .unwrap()
    }

    pub(super) fn prompts(&self) -> Vec<String> {
        self.launcher.prompts()
    }

    pub(super) fn answers(&self, count: usize) -> Vec<(u64, String, Option<String>)> {
        let answers = self.runtime.block_on(self.collected.answers(count));
        answers
            .into_iter()
            .map(|(event, answer)| (event.sequence, answer.text, answer.failure))
            .collect()
    }

    /// Waits until a turn shows something.
    pub(super) fn wait_for_output(&self) {
        let wait = async {
            while self.collected.shown.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let shown = self
            .runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(30), wait).await });
        assert!(shown.is_ok(), "the turn shows nothing");
    }

    /// Waits until the journal contains the wanted text.
    pub(super) fn wait_for_journal(&self, folder: &Path, wanted: impl Fn(&str) -> bool) {
        let wait = async {
            while !wanted(&file(folder)) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let noted = self
            .runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(30), wait).await });
        assert!(noted.is_ok(), "the journal never contained it:\n{}", file(folder));
    }

    /// Ends like a killed program: everything that runs is dropped and writes no more files.
    pub(super) fn die(self) {
        self.runtime.block_on(self.journal.flush());
        self.runtime.shutdown_timeout(Duration::from_secs(60));
    }
}

pub(super) fn file(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("config/state/queue.md")).unwrap()
}

/// Like `plain`, but also understands `tool`.
pub(super) fn with_tools() -> Understanding {
    let plain = plain();
    Arc::new(move |state, input| {
        if let aetheel_model::agent::Input::Line(line) = input
            && line.text == "tool"
        {
            let start = ToolStart {
                id: "t1".to_owned(),
                parent: None,
                kind: "bash".to_owned(),
                native_name: "Bash".to_owned(),
                title: "ls".to_owned(),
                target: None,
                input: "{}".to_owned(),
            };
            return Ok(vec![event(AgentEventKind::ToolStart(start))]);
        }
        plain(state, input)
    })
}

/// Agents that print these lines and never end.
fn stuck(lines: &'static [&'static str]) -> Arc<ScriptedLauncher> {
    ScriptedLauncher::new(move |agent: Agent| async move {
        agent.say(lines).await;
        std::future::pending::<()>().await;
    })
}

/// Agents that repeat the prompt.
pub(super) fn quick() -> Arc<ScriptedLauncher> {
    ScriptedLauncher::new(|agent: Agent| async move {
        let said = format!("text {}", agent.prompt);
        agent.say(&[&said, "done"]).await;
        agent.exit(Exit::Code(0), "").await;
    })
}

fn ann() -> Person {
    person(ANN)
}

fn person(id: u64) -> Person {
    Person::User {
        id: UserId::discord(id),
        roles: vec![],
        owner: false,
        name: "somebody".to_owned(),
    }
}

#[test]
fn waiting_prompts_run_after_a_restart_in_order_and_before_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::begin(folder.path(), &plain(), stuck(&[]), 1);
    assert_eq!(["one", "two", "three"].map(|prompt| first.ask(prompt)), [1, 2, 3]);
    first.die();
    let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
    assert_eq!(second.ask("four"), 4, "numbers continue");
    let answers: Vec<String> = second.answers(4).into_iter().map(|(_, text, _)| text).collect();
    assert_eq!(answers, ["one", "two", "three", "four"]);
    let again = NewEvent { key: Some("test:two".to_owned()), ..message(7, "two") };
    let _inside = second.runtime.enter();
    assert_eq!(second.dispatcher.intake.submit(again).err(), Some(PromptRefusal::Known));
    second.wait_for_journal(folder.path(), |text| text.matches("- [x]").count() == 4);
    second.die();
    let third = Gateway::begin(folder.path(), &plain(), quick(), 1);
    assert_eq!(third.ask("five"), 5);
    assert_eq!(third.answers(1).len(), 1);
    assert_eq!(third.prompts(), ["five"], "nothing runs twice");
}

#[test]
fn a_turn_without_tools_runs_again_and_finds_its_messages() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::begin(folder.path(), &plain(), stuck(&["text half"]), 1);
    first.ask("one");
    first.wait_for_journal(folder.path(), |text| text.contains("`1` started"));
    {
        let traces = first.collected.traces.lock().unwrap();
        assert!(!traces[0].resumed && traces[0].posted.is_empty());
        (traces[0].note)(&[71, 72].map(MessageId::discord));
    }
    first.wait_for_journal(folder.path(), |text| text.contains("posted `71 72`"));
    let stem = first.collected.traces.lock().unwrap()[0].stem.clone();
    assert!(
        stem.len() <= 17 && stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.'),
        "{stem}"
    );
    first.die();
    let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
    assert_eq!(second.answers(1), [(1, "one".to_owned(), None)]);
    let traces = second.collected.traces.lock().unwrap();
    assert!(
        traces[0].resumed
            && traces[0].posted == [71, 72].map(MessageId::discord)
            && traces[0].stem == stem
    );
}

#[test]
fn a_turn_that_used_a_tool_is_offered_and_repeated_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::begin(folder.path(), &with_tools(), stuck(&["tool"]), 1);
    first.ask("one");
    first.ask("two");
    first.wait_for_journal(folder.path(), |text| text.contains("`1` used a tool"));
    first.die();

    let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
    assert_eq!(second.answers(1), [(2, "two".to_owned(), None)], "the lane continues");
    let notices = second.runtime.block_on(second.collected.notices(1));
    assert_eq!(
        (notices[0].channel, notices[0].about),
        (Some(ChannelId::discord(7)), Some(MessageId::discord(1)))
    );
    assert!(notices[0].text.contains("already used a tool"), "{notices:?}");
    let offer = notices[0].offers[0].clone();
    assert_eq!(offer.label, "Try again");
    second.wait_for_journal(folder.path(), |text| text.contains("`1` offered"));
    second.die();

    let third = Gateway::begin(folder.path(), &plain(), quick(), 1);
    let press = |id: &str, person: &Person| {
        third.runtime.block_on(third.dispatcher.recovery.accept_offer(id, person, true))
    };
    assert_eq!(press(&offer.id, &person(5)), Err(OfferRefusal::NotYours));
    assert_eq!(press(&offer.id, &Person::Terminal), Err(OfferRefusal::NotYours));
    assert_eq!(press("99-0", &ann()), Err(OfferRefusal::Gone));
    assert_eq!(press(&offer.id, &ann()), Ok(OfferEffect::Started));
    assert_eq!(press(&offer.id, &ann()), Err(OfferRefusal::Gone), "a second press has no effect");
    assert_eq!(third.answers(1), [(1, "one".to_owned(), None)]);
    assert_eq!(third.prompts(), ["one"], "and the question was not asked again");
    assert_eq!(third.runtime.block_on(third.collected.notices(0)).len(), 0);
    let traces = third.collected.traces.lock().unwrap();
    assert!(!traces[0].resumed && traces[0].stem.ends_with(".1"), "its answer is a new message");
}

#[test]
fn a_button_that_the_previous_process_posted_works_after_the_offer_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::begin(folder.path(), &with_tools(), stuck(&["tool"]), 1);
    first.ask("one");
    first.wait_for_journal(folder.path(), |text| text.contains("`1` used a tool"));
    first.die();

    // Both processes post the button. The second one ends before it has recorded that.
    let holds = |outlet: &Collected| {
        outlet.holds_responses.send_replace(true);
    };
    let second = Gateway::begin_with(folder.path(), &plain(), quick(), 1, holds);
    let offer = second.runtime.block_on(second.collected.notices(1))[0].offers[0].clone();
    second.die();
    assert!(!file(folder.path()).contains("`1` offered"));
    let third = Gateway::begin_with(folder.path(), &plain(), quick(), 1, holds);
    assert_eq!(third.runtime.block_on(third.collected.notices(1))[0].offers.first(), Some(&offer));

    let press =
        || third.runtime.block_on(third.dispatcher.recovery.accept_offer(&offer.id, &ann(), true));
    // `Gone` would remove the button, and nobody could start the event again.
    assert_eq!(press(), Err(OfferRefusal::NotReady));
    third.collected.holds_responses.send_replace(false);
    third.wait_for_journal(folder.path(), |text| text.contains("`1` offered"));
    assert_eq!(press(), Ok(OfferEffect::Started));
    assert_eq!(third.answers(1), [(1, "one".to_owned(), None)]);
}

#[test]
fn a_perhaps_undelivered_answer_is_delivered_without_another_turn() {
    let folder = tempfile::tempdir().unwrap();
    // The first process dies when its answer is in the journal, before the delivery.
    let first = Gateway::begin(folder.path(), &plain(), quick(), 1);
    first.ask("one");
    first.answers(1);
    first.wait_for_journal(folder.path(), |text| text.contains("- [x] `1`"));
    first.die();
    let text = file(folder.path());
    let before: Vec<&str> = text.lines().filter(|line| !line.starts_with("- [x]")).collect();
    assert!(before.iter().any(|line| line.contains("`1` answered")), "{text}");
    std::fs::write(folder.path().join("config/state/queue.md"), before.join("\n") + "\n").unwrap();

    let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
    assert_eq!(second.answers(1), [(1, "one".to_owned(), None)]);
    assert_eq!(second.prompts(), Vec::<String>::new(), "the agent was not asked again");
    second.wait_for_journal(folder.path(), |text| text.contains("- [x] `1`"));
}

#[test]
fn a_prompt_that_ran_at_three_crashes_is_set_aside_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    for start in 1..=3 {
        let gateway = Gateway::begin(folder.path(), &plain(), stuck(&[]), 1);
        if start == 1 {
            gateway.ask("deadly");
        }
        gateway
            .wait_for_journal(folder.path(), |text| text.matches("`1` started").count() == start);
        gateway.die();
    }
    let fourth = Gateway::begin(folder.path(), &plain(), quick(), 1);
    let notices = fourth.runtime.block_on(fourth.collected.notices(2));
    assert_eq!(
        (notices[0].channel, notices[1].channel),
        (Some(ChannelId::discord(7)), None),
        "its channel and the operator's"
    );
    assert!(
        notices
            .iter()
            .all(|notice| notice.text.contains("(set aside)") && !notice.offers.is_empty()),
        "{notices:?}"
    );
    fourth.wait_for_journal(folder.path(), |text| text.contains("`1` aside"));
    assert_eq!(fourth.prompts(), Vec::<String>::new());
    fourth
        .runtime
        .block_on(fourth.dispatcher.recovery.accept_offer(
            &notices[0].offers[0].clone().id,
            &ann(),
            true,
        ))
        .unwrap();
    assert_eq!(fourth.answers(1), [(1, "deadly".to_owned(), None)]);
}

#[test]
fn a_shutdown_keeps_prompts_that_were_not_visibly_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (told, stopped) = watch::channel(0);
    let told = Mutex::new(told);
    let launcher = ScriptedLauncher::new(move |mut agent: Agent| {
        told.lock().unwrap().send_modify(|count| *count += 1);
        async move {
            agent.say(&["text half"]).await;
            agent.commands.recv().await;
            agent.exit(Exit::Signal(15), "").await;
        }
    });
    let first = Gateway::begin(folder.path(), &plain(), launcher, 1);
    first.ask("running");
    first.ask("waiting");
    let mut stopped = stopped.clone();
    first.runtime.block_on(stopped.wait_for(|count| *count == 1)).unwrap();
    first.runtime.block_on(first.dispatcher.shutdown(Duration::ZERO));
    let told = first.answers(1);
    assert_eq!(told.len(), 1, "the user gets no notice, since the answer follows");
    assert!(told[0].2.as_ref().unwrap().contains("(restarting, "), "{told:?}");
    first.die();
    let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
    let answers: Vec<String> = second.answers(2).into_iter().map(|(_, text, _)| text).collect();
    assert_eq!(answers, ["running", "waiting"]);
}

#[test]
fn a_stopped_hook_runs_again_after_a_restart_only_if_it_has_a_key() {
    for (key, prompts) in [(None, vec![]), (Some("boot:1".to_owned()), vec!["hello".to_owned()])] {
        let folder = tempfile::tempdir().unwrap();
        let launcher = ScriptedLauncher::new(|mut agent: Agent| async move {
            agent.say(&["text half"]).await;
            agent.commands.recv().await;
            agent.exit(Exit::Signal(15), "").await;
        });
        let first = Gateway::begin(folder.path(), &plain(), launcher, 1);
        let (lane, origin) =
            (Lane::Hook("startup".to_owned()), EventOrigin::Internal { channel: None });
        let hook =
            NewEvent { key: key.clone(), ..NewEvent::new(Asked::Hook, lane, origin, "hello") };
        first
            .runtime
            .block_on(async {
                first.dispatcher.intake.submit(hook).unwrap().wait_until_saved().await
            })
            .unwrap();
        first.wait_for_journal(folder.path(), |text| text.contains("started"));
        first.runtime.block_on(first.dispatcher.shutdown(Duration::ZERO));
        let failure = first.answers(1).remove(0).2.unwrap();
        assert_eq!(failure.contains("(restarting, "), key.is_some(), "{failure}");
        first.die();
        let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
        second.runtime.block_on(second.dispatcher.turns.idle());
        assert_eq!(second.prompts(), prompts);
    }
}

#[test]
fn a_stopped_prompt_does_not_return() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::begin(folder.path(), &plain(), stuck(&[]), 1);
    first.ask("running");
    first.ask("waiting");
    {
        let _inside = first.runtime.enter();
        assert!(
            first
                .dispatcher
                .turns
                .stop(&aetheel_model::event::Lane::Channel(ChannelId::discord(7)))
        );
    }
    first.wait_for_journal(folder.path(), |text| text.contains("- [x] `2`"));
    first.die();
    let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
    second.ask("new");
    second.wait_for_journal(folder.path(), |text| text.contains("- [x] `3`"));
    assert!(!second.prompts().contains(&"waiting".to_owned()));
}

#[test]
fn edits_and_withdrawals_of_waiting_prompts_survive_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::begin(folder.path(), &plain(), stuck(&[]), 1);
    for prompt in ["one", "tpyo", "never mind"] {
        first.ask(prompt);
    }
    {
        let _inside = first.runtime.enter();
        assert_eq!(first.dispatcher.intake.amend("test:tpyo", "typo"), Ok(true));
        assert!(first.dispatcher.intake.withdraw("test:never mind"));
    }
    // When this event is on disk, all events before it are too.
    first.ask("last");
    first.die();
    let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
    second.answers(3);
    assert_eq!(second.prompts(), ["one", "typo", "last"]);
}

/// Ends like a gateway that is asked to stop: turns are stopped at once.
fn shut_down(gateway: &Gateway) {
    gateway.runtime.block_on(gateway.dispatcher.shutdown(Duration::ZERO));
}

#[test]
fn a_turn_that_a_shutdown_stopped_after_a_tool_is_offered_as_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let launcher = ScriptedLauncher::new(|mut agent: Agent| async move {
        agent.say(&["text half", "tool"]).await;
        agent.commands.recv().await;
        agent.exit(Exit::Signal(15), "").await;
    });
    let first = Gateway::begin(folder.path(), &with_tools(), launcher, 1);
    first.ask("one");
    first.wait_for_journal(folder.path(), |text| text.contains("`1` used a tool"));
    (first.collected.traces.lock().unwrap()[0].note)(&[71, 72].map(MessageId::discord));
    shut_down(&first);
    let told = first.answers(1).remove(0).2.unwrap();
    assert!(told.contains("I ask whether to try again. (restarting, "), "{told}");
    first.die();

    let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
    let notice = second.runtime.block_on(second.collected.notices(1)).remove(0);
    assert!(notice.text.ends_with("(interrupted)") && !notice.offers.is_empty(), "{notice:?}");
    assert_eq!(
        *second.collected.unfinished.lock().unwrap(),
        [71, 72].map(MessageId::discord),
        "the draft is marked as unfinished"
    );
    assert_eq!(second.prompts(), Vec::<String>::new());
    second.wait_for_journal(folder.path(), |text| text.contains("`1` offered"));
    second.die();

    let third = Gateway::begin(folder.path(), &plain(), quick(), 1);
    third
        .runtime
        .block_on(third.dispatcher.recovery.accept_offer(&notice.offers[0].id, &ann(), true))
        .unwrap();
    assert_eq!(third.answers(1), [(1, "one".to_owned(), None)]);
    let traces = third.collected.traces.lock().unwrap();
    assert_eq!(
        traces[0].posted,
        [71, 72].map(MessageId::discord),
        "the text is never posted twice"
    );
    assert!(traces[0].stem.ends_with(".1"));
}

#[test]
fn a_refusal_is_shown_once_and_never_runs_whenever_the_gateway_dies() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::begin(folder.path(), &plain(), quick(), 1);
    let refused =
        |prompt: &str| NewEvent { key: Some(format!("test:{prompt}")), ..message(7, prompt) };
    let decline = |gateway: &Gateway, prompt: &str| {
        gateway.runtime.block_on(gateway.dispatcher.intake.decline(refused(prompt), "No.")).unwrap()
    };
    // One refusal was shown to the user, and for the other the process died before that.
    let told = decline(&first, "told").unwrap();
    first.dispatcher.intake.refusal_sent(told);
    let untold = decline(&first, "untold").unwrap();
    assert!(decline(&first, "untold").is_none(), "it is refused already");
    first.die();

    let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
    assert_eq!(second.answers(1), [(2, String::new(), Some("No.".to_owned()))]);
    assert_eq!(
        second.collected.traces.lock().unwrap()[0].stem,
        untold.stem,
        "Discord recognises a repeated message by this"
    );
    {
        let _inside = second.runtime.enter();
        for prompt in ["told", "untold"] {
            assert_eq!(
                second.dispatcher.intake.submit(refused(prompt)).err(),
                Some(PromptRefusal::Known),
                "{prompt}"
            );
        }
    }
    second.wait_for_journal(folder.path(), |text| text.contains("- [x] `2`"));
    second.die();
    let third = Gateway::begin(folder.path(), &plain(), quick(), 1);
    assert_eq!(third.ask("new"), 3);
    assert_eq!(third.answers(1).len(), 1);
    assert_eq!(third.prompts(), ["new"]);
}

#[test]
fn a_stopped_turn_does_not_return_if_the_gateway_dies_before_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::begin(folder.path(), &plain(), stuck(&[]), 1);
    first.ask("running");
    first.ask("waiting");
    first.wait_for_journal(folder.path(), |text| text.contains("`1` started"));
    let stopped = first
        .runtime
        .block_on(first.dispatcher.turns.stop_durably(&Lane::Channel(ChannelId::discord(7))));
    assert_eq!(stopped, StopResult { running: true, waiting: 1 });
    first.die();
    let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
    second.ask("new");
    let told = second.answers(1).remove(0);
    // The first process may also have shown it before it died.
    if told.0 == 1 {
        assert!(told.2.as_ref().is_some_and(|told| told.starts_with("Stopped")), "{told:?}");
        second.answers(2);
    }
    assert_eq!(second.prompts(), ["new"]);
}

#[test]
fn a_turn_that_panics_is_offered_at_once_and_frees_its_lane() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::begin(folder.path(), &plain(), quick(), 1);
    gateway.ask("panic");
    gateway.ask("fine");
    assert_eq!(gateway.answers(1), [(2, "fine".to_owned(), None)], "the lane continues");
    let notice = gateway.runtime.block_on(gateway.collected.notices(1)).remove(0);
    assert_eq!(
        (notice.channel, notice.about),
        (Some(ChannelId::discord(7)), Some(MessageId::discord(1)))
    );
    assert!(
        notice.text.ends_with("(internal)")
            && notice.offers.iter().any(|offer| offer.label == "Try again"),
        "{}",
        notice.text
    );
    gateway.wait_for_journal(folder.path(), |text| text.contains("`1` offered"));
}

#[test]
fn a_tool_is_shown_only_after_its_use_is_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let launcher = ScriptedLauncher::new(|mut agent: Agent| async move {
        agent.say(&["tool"]).await;
        agent.commands.recv().await;
        agent.exit(Exit::Signal(15), "").await;
    });
    let gateway = Gateway::begin(folder.path(), &with_tools(), launcher, 1);
    let (seen, path) = (Arc::new(Mutex::new(Vec::new())), folder.path().to_owned());
    let noted = seen.clone();
    let look = move |event: &AgentEventKind| {
        if matches!(event, AgentEventKind::ToolStart(_)) {
            noted.lock().unwrap().push(file(&path).contains("used a tool"));
        }
    };
    assert!(gateway.collected.look.set(Box::new(look)).is_ok());
    for prompt in 0..10 {
        gateway.ask(&prompt.to_string());
        let (seen, until) = (seen.clone(), prompt + 1);
        let wait = async move {
            while seen.lock().unwrap().len() < until {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(
            gateway
                .runtime
                .block_on(async { tokio::time::timeout(Duration::from_secs(30), wait).await })
                .is_ok()
        );
        let sequence = prompt + 1;
        assert!(file(folder.path()).contains(&format!("`{sequence}` used a tool")));
        gateway
            .runtime
            .block_on(gateway.dispatcher.turns.stop_durably(&Lane::Channel(ChannelId::discord(7))));
        gateway.answers(until);
    }
    assert_eq!(*seen.lock().unwrap(), [true; 10]);
}

#[test]
fn a_thread_is_opened_once_and_its_prompt_runs_once_whenever_the_gateway_dies() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::begin(folder.path(), &plain(), quick(), 1);
    let origin = EventOrigin::Interaction {
        channel: ChannelId::discord(7),
        interaction: MessageId::discord(50),
        pass: None,
    };
    let asked = NewEvent {
        asker: Some(UserId::discord(ANN)),
        key: Some("test:new".to_owned()),
        origin,
        opens_thread: true,
        ..message(7, "new")
    };
    first
        .runtime
        .block_on(async {
            first.dispatcher.intake.submit(asked.clone()).unwrap().wait_until_saved().await
        })
        .unwrap();
    // Discord does not answer: the prompt neither runs nor blocks the channel.
    first
        .runtime
        .block_on(first.collected.threads.subscribe().wait_for(|threads| *threads == [1]))
        .unwrap();
    first.ask("in the channel");
    assert_eq!(first.answers(1), [(2, "in the channel".to_owned(), None)]);
    first.die();

    let opened = OpenedThread { thread: ChannelId::discord(900), first: MessageId::discord(901) };
    let second = Gateway::begin_with(folder.path(), &plain(), stuck(&[]), 1, |outlet| {
        *outlet.thread.lock().unwrap() = Some(Ok(opened));
    });
    second.wait_for_journal(folder.path(), |text| text.contains("`1` started"));
    {
        let _inside = second.runtime.enter();
        assert!(
            second.dispatcher.turns.is_busy(&Lane::Channel(ChannelId::discord(900)))
                && !second.dispatcher.turns.is_busy(&Lane::Channel(ChannelId::discord(7)))
        );
        assert_eq!(second.dispatcher.intake.submit(asked).err(), Some(PromptRefusal::Known));
    }
    second.die();

    let third = Gateway::begin(folder.path(), &plain(), quick(), 1);
    assert_eq!(third.answers(1), [(1, "new".to_owned(), None)]);
    assert_eq!(third.prompts(), ["new"]);
    assert_eq!(third.collected.threads.borrow().len(), 0, "there is one already");
}

#[test]
fn a_thread_that_cannot_be_opened_is_reported_and_ends_the_event() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::begin_with(folder.path(), &plain(), quick(), 1, |outlet| {
        *outlet.thread.lock().unwrap() = Some(Err("Not here.".to_owned()));
    });
    let asked =
        NewEvent { key: Some("test:new".to_owned()), opens_thread: true, ..message(7, "new") };
    gateway
        .runtime
        .block_on(async {
            gateway.dispatcher.intake.submit(asked).unwrap().wait_until_saved().await
        })
        .unwrap();
    assert_eq!(gateway.answers(1), [(1, String::new(), Some("Not here.".to_owned()))]);
    gateway.wait_for_journal(folder.path(), |text| text.contains("- [x] `1`"));
    gateway.runtime.block_on(gateway.dispatcher.turns.idle());
    assert_eq!(gateway.prompts(), Vec::<String>::new());
}
