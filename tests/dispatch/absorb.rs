//! Tests of a node that imports the open events of a dead node, whatever state they are in.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use aetheel::startup::turn_parts;
use aetheel_dispatch::{Dispatcher, OfferEffect, OfferRefusal, Person, PromptRefusal, Router};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::{Event, EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::{ChannelId, UserId};
use aetheel_model::queue::QueueLimits;
use aetheel_store::workspace::{Journal, JournalMark, LineStore};

use super::kept::quick;
use super::router::Other;
use crate::support::scripted::{
    Collected, OneBackend, ScriptedBackend, ScriptedLauncher, behind_a_gate, message, parts, plain,
};

const ANN: u64 = 4;

/// Journal lines that outlive their node.
#[derive(Clone, Default)]
struct Lines {
    text: Arc<Mutex<String>>,
    full: Arc<AtomicBool>,
    /// Lines with this text cannot be added. If empty, all lines can.
    refused: Arc<Mutex<String>>,
}

impl Lines {
    fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    fn check(&self) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) { Err(io::Error::other("full")) } else { Ok(()) }
    }
}

impl LineStore for Lines {
    fn append(&mut self, lines: &str) -> io::Result<()> {
        self.check()?;
        let refused = self.refused.lock().unwrap();
        if !refused.is_empty() && lines.contains(&*refused) {
            return Err(io::Error::other("refused"));
        }
        self.text.lock().unwrap().push_str(lines);
        Ok(())
    }

    fn replace(&mut self, lines: &str) -> io::Result<()> {
        self.check()?;
        lines.clone_into(&mut self.text.lock().unwrap());
        Ok(())
    }

    fn name(&self) -> String {
        "lines of a test".to_owned()
    }
}

/// A node with its journal and one slot.
struct Node {
    dispatcher: Dispatcher,
    collected: Arc<Collected>,
    launcher: Arc<ScriptedLauncher>,
    journal: Journal,
    lines: Lines,
    _folder: tempfile::TempDir,
}

impl Node {
    /// Starts a node with the number `start` and these journal lines.
    async fn begin(start: u64, text: &str, launcher: Arc<ScriptedLauncher>) -> Self {
        Self::begin_with(start, text, launcher, None).await
    }

    /// Starts it as one of several nodes.
    async fn begin_shared(start: u64, text: &str, launcher: Arc<ScriptedLauncher>) -> Self {
        Self::begin_with(start, text, launcher, Some(Arc::new(Other::default()))).await
    }

    async fn begin_with(
        start: u64,
        text: &str,
        launcher: Arc<ScriptedLauncher>,
        router: Option<Arc<dyn Router>>,
    ) -> Self {
        let (folder, collected) = (tempfile::tempdir().unwrap(), Arc::new(Collected::default()));
        let backends = Arc::new(OneBackend(Arc::new(ScriptedBackend::with_feature(plain(), None))));
        let limits =
            QueueLimits { max_concurrent: 5, max_depth: 100, busy_policy: BusyPolicy::Queue };
        let mut parts =
            parts(folder.path(), "scripted", backends, launcher.clone(), &collected, limits).await;
        let lines = Lines::default();
        let store = Box::new(lines.clone());
        let journal =
            parts.workspace.journal_in(text.to_owned(), store, start << 32).await.unwrap();
        parts.journal = Some(journal.clone());
        parts.router = router;
        let dispatcher = Dispatcher::new(parts, turn_parts());
        let _ = dispatcher.recovery.recover().await;
        Self { dispatcher, collected, launcher, journal, lines, _folder: folder }
    }

    async fn ask(&self, channel: u64, prompt: &str) -> u64 {
        let key = Some(format!("test:{prompt}"));
        let event = NewEvent { asker: Some(UserId::discord(ANN)), key, ..message(channel, prompt) };
        self.dispatcher.intake.submit(event).unwrap().wait_until_saved().await.unwrap()
    }

    async fn absorb(&self, text: &str, first: u64) -> usize {
        let absorbed = self.dispatcher.transfer.import_lanes(text, first, |_| true).await.unwrap();
        let count = absorbed.len();
        absorbed.begin();
        count
    }

    /// Waits until the node is idle, then returns its prompts, sorted.
    async fn prompts(&self) -> Vec<String> {
        self.dispatcher.turns.idle().await;
        let mut prompts = self.launcher.prompts();
        prompts.sort();
        prompts
    }

    async fn press(&self, id: &str) -> Result<OfferEffect, OfferRefusal> {
        let ann = Person::User {
            id: UserId::discord(ANN),
            roles: vec![],
            owner: false,
            name: "Ann".to_owned(),
        };
        self.dispatcher.recovery.accept_offer(id, &ann, true).await
    }
}

/// An event of a node, with a key.
fn event(sequence: u64, channel: u64, prompt: &str) -> Event {
    let key = Some(format!("test:{prompt}"));
    NewEvent { asker: Some(UserId::discord(ANN)), key, ..message(channel, prompt) }
        .accepted(sequence, jiff::Timestamp::now().as_millisecond())
}

/// Returns the journal of a node that died with an event in every state.
async fn journal_of_a_dead_node(start: u64) -> String {
    let folder = tempfile::tempdir().unwrap();
    let workspace = aetheel_store::workspace::Workspace::open(folder.path()).await.unwrap();
    let (lines, first) = (Lines::default(), start << 32);
    let store = Box::new(lines.clone());
    let journal = workspace.journal_in(String::new(), store, first).await.unwrap();
    let now = jiff::Timestamp::now().as_millisecond();
    let accept = |number: u64, channel: u64, prompt: &str| {
        let event = event(first + number, channel, prompt);
        journal.accepted(&event);
        event
    };
    accept(1, 11, "ran");
    drop(journal.mark(first + 1, JournalMark::Started));
    accept(2, 11, "waited");
    accept(3, 12, "used a tool");
    drop(journal.mark(first + 3, JournalMark::Started));
    journal.mark(first + 3, JournalMark::UsedTool);
    accept(4, 13, "answered");
    let answer = serde_json::json!({"text": "the kept answer", "failure": null, "notices": [], "backend": "b", "model": null, "usage": null, "took": {"secs": 1, "nanos": 0}});
    journal.mark(first + 4, JournalMark::Answered(answer.to_string()));
    accept(5, 14, "offered");
    journal.mark(first + 5, JournalMark::UsedTool);
    journal.mark(first + 5, JournalMark::Offered { at_ms: now, aside: false });
    accept(6, 12, "heard by what used a tool");
    journal.mark(first + 6, JournalMark::JoinedTurn(first + 3));
    accept(7, 15, "heard by what is over");
    journal.mark(first + 7, JournalMark::JoinedTurn(first + 90));
    accept(8, 11, "heard by what ran");
    journal.mark(first + 8, JournalMark::JoinedTurn(first + 1));
    journal.finished(&accept(9, 16, "finished"), now);
    let hook = NewEvent {
        key: Some("boot:1".to_owned()),
        ..NewEvent::new(
            EventKind::Hook,
            Lane::Hook("startup".to_owned()),
            EventOrigin::Internal { channel: None },
            "hook",
        )
    };
    journal.accepted(&hook.accepted(first + 10, now));
    assert!(journal.flush().await);
    lines.text()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_node_continues_an_interrupted_request_before_what_waited() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = aetheel_store::workspace::Workspace::open(folder.path()).await.unwrap();
    let (lines, first) = (Lines::default(), 1_u64 << 32);
    let store = Box::new(lines.clone());
    let journal = workspace.journal_in(String::new(), store, first).await.unwrap();
    for (number, prompt) in [(2, "second"), (3, "third")] {
        journal.accepted(&event(first + number, 11, prompt));
    }
    let mut interrupted = event(first + 4, 11, "first");
    interrupted.request.key = Some("limit:0a1b2c3d".to_owned());
    interrupted.request.continues = Some(first + 1);
    journal.accepted(&interrupted);
    assert!(journal.flush().await);
    let node = Node::begin_shared(2, "", quick()).await;
    node.ask(11, "fourth").await;
    node.dispatcher.turns.idle().await;
    assert_eq!(node.absorb(&lines.text(), first).await, 3);
    node.dispatcher.turns.idle().await;
    let prompts = node.launcher.prompts();
    assert!(prompts[1].contains("> first\nContinue the work on this request"), "{prompts:?}");
    assert_eq!(
        (prompts[0].as_str(), &prompts[2..]),
        ("fourth", &["second", "third"].map(str::to_owned)[..])
    );
}

/// Checks that `node` handles the events of `journal_of_a_dead_node`. The result is the same on
/// every node.
async fn check_handled(node: &Node, start: u64) {
    let answers = node.collected.answers(5).await;
    let mut told: Vec<String> = answers
        .iter()
        .map(|(_, answer)| answer.failure.clone().unwrap_or_else(|| answer.text.clone()))
        .map(|text| text.chars().take(34).collect())
        .collect();
    told.sort();
    assert_eq!(
        told,
        [
            "The agent had received this when I",
            "heard by what ran",
            "ran",
            "the kept answer",
            "waited"
        ]
    );
    let mine: Vec<&str> = answers
        .iter()
        .filter(|(event, _)| event.lane == Lane::Channel(ChannelId::discord(11)))
        .map(|(_, answer)| &*answer.text)
        .collect();
    assert_eq!(mine, ["ran", "waited", "heard by what ran"], "in order");
    let notices = node.collected.notices(1).await;
    assert_eq!((notices.len(), notices[0].channel), (1, Some(ChannelId::discord(12))));
    let offer = notices[0].offers[0].clone();
    assert_eq!(offer.id, format!("{}-0", (start << 32) + 3));
    assert!(offer.id.len() < 64);
    assert_eq!(node.press(&offer.id).await, Ok(OfferEffect::Started));
    assert_eq!(node.press(&format!("{}-0", (start << 32) + 5)).await, Ok(OfferEffect::Started));
    node.collected.answers(7).await;
    assert_eq!(
        node.prompts().await,
        ["heard by what ran", "offered", "ran", "used a tool", "waited"]
    );
    assert!(
        node.journal.contains_key("test:finished")
            && node.journal.contains_key("test:heard by what is over")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_events_are_treated_as_after_a_restart() {
    let text = journal_of_a_dead_node(5).await;
    // The dead node itself, without its hook's event, and a node that knows nothing about these
    // events.
    let own: String = text
        .lines()
        .filter(|line| !line.contains("boot:1"))
        .map(|line| format!("{line}\n"))
        .collect();
    let again = Node::begin(6, &own, quick()).await;
    check_handled(&again, 5).await;
    let other = Node::begin(2, "", quick()).await;
    assert_eq!(other.absorb(&text, 0).await, 8);
    check_handled(&other, 5).await;
    // A third node imports what is left in both journals: nothing.
    let third = Node::begin(9, "", quick()).await;
    assert!(other.journal.flush().await);
    assert_eq!(third.absorb(&other.lines.text(), 0).await, 0);
    assert!(third.journal.contains_key("test:ran"));
    let taken = NewEvent { key: Some("test:ran".to_owned()), ..message(11, "ran") };
    assert_eq!(third.dispatcher.intake.submit(taken).err(), Some(PromptRefusal::Known));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_imported_twice_run_once_whatever_dies_in_between() {
    let text = journal_of_a_dead_node(5).await;
    let node = Node::begin(2, "", quick()).await;
    // The node dies before anything begins.
    assert_eq!(node.dispatcher.transfer.import_lanes(&text, 0, |_| true).await.unwrap().len(), 8);
    let again = Node::begin(7, &node.lines.text(), quick()).await;
    assert_eq!(again.absorb(&text, 0).await, 0, "it is there already");
    check_handled(&again, 5).await;
    assert_eq!(again.absorb(&text, 0).await, 0, "it is over");
    assert!(again.journal.flush().await);
    let last = Node::begin(8, &again.lines.text(), quick()).await;
    assert_eq!(last.absorb(&text, 0).await, 0);
    assert_eq!(last.prompts().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_accepted_here_under_another_number_do_not_run_again() {
    let text = journal_of_a_dead_node(5).await;
    let node = Node::begin(2, "", quick()).await;
    node.ask(11, "ran").await;
    node.collected.answers(1).await;
    assert_eq!(node.absorb(&text, 0).await, 7);
    node.collected.answers(4).await;
    assert_eq!(node.prompts().await.iter().filter(|prompt| *prompt == "ran").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_events_wait_behind_imported_ones() {
    let (gate, launcher) = behind_a_gate(false);
    let node = Node::begin(2, "", launcher).await;
    let first = node.ask(20, "mine").await;
    assert_eq!(first, (2 << 32) + 1);
    assert_eq!(node.absorb(&journal_of_a_dead_node(5).await, 9 << 32).await, 8);
    let new = node.ask(11, "new").await;
    assert_eq!(new, (9 << 32) + 1, "after all existing numbers");
    gate.send_replace(true);
    node.dispatcher.turns.idle().await;
    let prompts = node.launcher.prompts();
    let place = |prompt: &str| prompts.iter().position(|known| known == prompt).unwrap();
    assert!(place("ran") < place("waited") && place("waited") < place("new"), "{prompts:?}");
    assert!(node.journal.flush().await);
    let later = Node::begin(12, &node.lines.text(), quick()).await;
    assert_eq!(later.ask(11, "later").await, (12 << 32) + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_cannot_be_written_are_not_imported() {
    let text = journal_of_a_dead_node(5).await;
    let node = Node::begin(2, "", quick()).await;
    node.lines.full.store(true, Ordering::SeqCst);
    let refused = node.dispatcher.transfer.import_lanes(&text, 0, |_| true).await;
    assert_eq!(refused.err(), Some(PromptRefusal::NotSaved));
    assert!(node.journal.open_events().is_empty() && !node.journal.contains_key("test:finished"));
    node.lines.full.store(false, Ordering::SeqCst);
    assert_eq!(node.absorb(&text, 0).await, 8);
    check_handled(&node, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_is_idle_once_none_of_its_events_is_in_flight() {
    let (gate, launcher) = behind_a_gate(false);
    let node = Node::begin(2, "", launcher).await;
    let seven = |lane: &Lane| *lane == Lane::Channel(ChannelId::discord(7));
    let other = |lane: &Lane| *lane == Lane::Channel(ChannelId::discord(8));
    assert!(node.dispatcher.transfer.is_idle_in(seven));
    node.ask(7, "one").await;
    node.ask(7, "two").await;
    assert!(
        !node.dispatcher.transfer.is_idle_in(seven) && node.dispatcher.transfer.is_idle_in(other)
    );
    let to_open = NewEvent { opens_thread: true, ..message(8, "a thread") };
    node.dispatcher.intake.submit(to_open).unwrap().wait_until_saved().await.unwrap();
    assert!(!node.dispatcher.transfer.is_idle_in(other), "the lane is paused");
    gate.send_replace(true);
    node.collected.answers(2).await;
    node.dispatcher.turns.lane_idle(&Lane::Channel(ChannelId::discord(7))).await;
    let idle = async {
        while !node.dispatcher.transfer.is_idle_in(seven) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), idle).await.unwrap();
    let declined = node.dispatcher.intake.decline(message(9, "no"), "No.").await.unwrap().unwrap();
    let nine = |lane: &Lane| *lane == Lane::Channel(ChannelId::discord(9));
    assert!(!node.dispatcher.transfer.is_idle_in(nine), "a refusal is being delivered");
    node.dispatcher.intake.refusal_sent(declined);
    assert!(node.dispatcher.transfer.is_idle_in(nine));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_keeps_its_offers_when_it_moves_and_returns() {
    let (one, two) = (Node::begin(2, "", quick()).await, Node::begin(3, "", quick()).await);
    one.absorb(&journal_of_a_dead_node(1).await, 0).await;
    one.collected.notices(1).await;
    let fourteen = |lane: &Lane| *lane == Lane::Channel(ChannelId::discord(14));
    let id = format!("{}-0", (1_u64 << 32) + 5);
    assert!(one.dispatcher.transfer.is_idle_in(fourteen), "people decide about it");
    for (from, to) in [(&one, &two), (&two, &one), (&one, &two)] {
        let left = from.dispatcher.transfer.export_lanes(fourteen);
        assert_eq!(to.absorb(&left, 0).await, 1);
        assert!(from.dispatcher.transfer.forget_lanes(fourteen).await);
        assert_eq!(from.press(&id).await, Err(OfferRefusal::Gone));
    }
    assert_eq!(two.press(&id).await, Ok(OfferEffect::Started));
    two.collected.answers(1).await;
    assert_eq!(two.prompts().await, ["offered"]);
    assert!(
        two.dispatcher
            .transfer
            .export_lanes(|lane| *lane == Lane::Channel(ChannelId::discord(11)))
            .is_empty()
    );
    one.dispatcher.turns.idle().await;
    assert!(
        one.dispatcher
            .transfer
            .export_lanes(|lane| *lane == Lane::Channel(ChannelId::discord(11)))
            .contains("message `11/1`")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_served_alone_gets_its_own_block_of_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let alone = old_journal(folder.path()).await;
    let node = Node::begin(4, &alone, quick()).await;
    let answers = node.collected.answers(1).await;
    assert_eq!(answers[0].0.sequence, (4 << 32) + 1);
    assert_eq!(node.collected.notices(1).await.len(), 1, "its old button has no effect any more");
    assert_eq!(node.ask(7, "new").await, (4 << 32) + 3);
}

/// Returns the journal file of a machine that served alone, with a waiting event and an offered
/// one.
async fn old_journal(folder: &Path) -> String {
    let workspace = aetheel_store::workspace::Workspace::open(folder).await.unwrap();
    let journal = workspace.journal().await.unwrap();
    journal.accepted(&event(1, 7, "one"));
    journal.accepted(&event(2, 8, "two"));
    journal.mark(
        2,
        JournalMark::Offered { at_ms: jiff::Timestamp::now().as_millisecond(), aside: false },
    );
    assert!(journal.flush().await);
    std::fs::read_to_string(folder.join("state/queue.md")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_people_are_asked_about_every_turn_that_had_begun() {
    let text = journal_of_a_dead_node(5).await;
    let heir = Node::begin_shared(6, "", quick()).await;
    heir.absorb(&text, 0).await;
    let own: String = text
        .lines()
        .filter(|line| !line.contains("boot:1"))
        .map(|line| format!("{line}\n"))
        .collect();
    let own = Node::begin_shared(6, &own, quick()).await;
    for node in [&heir, &own] {
        let notices = node.collected.notices(2).await;
        let mut told: Vec<(Option<ChannelId>, bool)> = notices
            .iter()
            .map(|notice| (notice.channel, notice.text.contains("may have used a tool")))
            .collect();
        told.sort();
        assert_eq!(
            told,
            [(Some(ChannelId::discord(11)), true), (Some(ChannelId::discord(12)), false)]
        );
        assert_eq!(node.prompts().await, ["waited"], "no turn that had begun is repeated");
        let offer =
            notices.iter().find(|notice| notice.channel == Some(ChannelId::discord(11))).unwrap();
        let pressed = node.press(&offer.offers[0].id).await;
        assert_eq!(pressed, Ok(OfferEffect::Started));
        assert_eq!(node.prompts().await, ["ran", "waited"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_another_node_has_are_not_imported() {
    let text = journal_of_a_dead_node(5).await;
    let node = Node::begin_shared(6, "", quick()).await;
    let lanes = node.dispatcher.transfer.open_lanes_of(&text);
    assert!(
        lanes.contains(&Lane::Channel(ChannelId::discord(11)))
            && lanes.contains(&Lane::Channel(ChannelId::discord(12))),
        "{lanes:?}"
    );
    let theirs = |lane: &Lane| *lane != Lane::Channel(ChannelId::discord(11));
    let absorbed = node.dispatcher.transfer.import_lanes(&text, 0, theirs).await.unwrap();
    assert_eq!(absorbed.len(), 5);
    absorbed.begin();
    assert_eq!(node.prompts().await, [""; 0]);
    assert!(
        !node.journal.contains_key("test:waited") && node.journal.contains_key("test:finished")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_begins_only_after_other_nodes_can_know_of_it() {
    let launcher = quick();
    let node = Node::begin_shared(6, "", launcher.clone()).await;
    " started".clone_into(&mut node.lines.refused.lock().unwrap());
    node.ask(11, "first").await;
    while !node.journal.is_failing() {
        tokio::task::yield_now().await;
    }
    assert_eq!(launcher.prompts(), [""; 0]);
    node.lines.refused.lock().unwrap().clear();
    assert_eq!(node.prompts().await, ["first"]);
}
