//! Tests of budgets over the nodes of a cluster: the turns of all nodes count, each once, and a
//! decision of an owner holds on all nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aetheel::startup::turn_parts;
use aetheel_cluster::{Cluster, NodeOptions};
use aetheel_dispatch::{Dispatcher, Notice, OfferRefusal};
use aetheel_model::agent::{AgentEventKind, Exit};
use aetheel_model::budget::AccountUse;
use aetheel_model::choice::BusyPolicy;
use aetheel_model::queue::QueueLimits;
use aetheel_store::workspace::Workspace;
use tokio::sync::{Semaphore, mpsc};

use super::{LEASE, TIMEOUT, declare_dead, node, options};
use crate::dispatch::budgets::{RAISED, agent, button, press, spending};
use crate::support::link::{Link, Way};
use crate::support::postgres::Postgres;
use crate::support::router::ServesAll;
use crate::support::scripted::{
    Agent, Collected, OneBackend, ScriptedBackend, ScriptedLauncher, message, parts,
};

/// The gateway of a node.
struct Serving {
    dispatcher: Dispatcher,
    collected: Arc<Collected>,
    folder: Arc<tempfile::TempDir>,
    workspace: Workspace,
}

impl Serving {
    /// Starts the gateway of a new node.
    async fn new(cluster: Cluster, launcher: &Arc<ScriptedLauncher>, budgets: &str) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(folder.path().join("config")).unwrap();
        std::fs::write(folder.path().join("config/budgets.md"), budgets).unwrap();
        Self::in_folder(cluster, launcher, folder).await
    }

    async fn in_folder(
        cluster: Cluster,
        launcher: &Arc<ScriptedLauncher>,
        folder: Arc<tempfile::TempDir>,
    ) -> Self {
        let collected = Arc::new(Collected::default());
        let limits =
            QueueLimits { max_concurrent: 5, max_depth: 1_000, busy_policy: BusyPolicy::Queue };
        let backends = Arc::new(OneBackend(Arc::new(ScriptedBackend::new(spending()))));
        let launcher = launcher.clone();
        let mut parts =
            parts(folder.path(), "scripted", backends, launcher, &collected, limits).await;
        parts.router = Some(Arc::new(ServesAll::with_budgets(cluster)));
        let workspace = parts.workspace.clone();
        Self { dispatcher: Dispatcher::new(parts, turn_parts()), collected, folder, workspace }
    }

    fn ask(&self, channel: u64, prompt: &str) {
        self.dispatcher.intake.submit(message(channel, prompt)).unwrap();
    }

    async fn uses(&self) -> Vec<AccountUse> {
        self.dispatcher.budgets.uses().await
    }

    /// Returns the use of the only account.
    async fn used(&self) -> u64 {
        self.uses().await.first().map_or(0, |used| used.used)
    }

    /// Waits for notices in this many conversations. Returns all notices.
    async fn waiting(&self, lanes: usize) -> Vec<Notice> {
        for count in lanes.. {
            let notices = self.collected.notices(count).await;
            if notices.iter().filter(|notice| notice.channel.is_some()).count() >= lanes {
                return notices;
            }
        }
        unreachable!("the list of notices ends")
    }

    /// Returns how many notices the operator got from this node.
    async fn operator_notices(&self) -> usize {
        let notices = self.collected.notices(0).await;
        notices.iter().filter(|notice| notice.channel.is_none()).count()
    }
}

/// Returns once a condition about a node holds.
async fn until(node: &Serving, wanted: impl Fn(&[AccountUse]) -> bool) {
    let waiting = async {
        while !wanted(&node.uses().await) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.expect("the use of a budget");
}

const DOLLAR: &str = "## team\n- cap: $1 a day\n";
const NAMES: [&str; 3] = ["ann", "bob", "cyd"];

async fn three(postgres: &Postgres, launcher: &Arc<ScriptedLauncher>, rules: &str) -> Vec<Serving> {
    let mut nodes = Vec::new();
    for name in NAMES {
        nodes.push(Serving::new(node(postgres, name).await, launcher, rules).await);
    }
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_exceed_a_cap_by_one_request_for_each_lane_in_500_turns() {
    const TURNS: u64 = 500;
    const LANES: u64 = 15;
    const REQUEST: u64 = 100_000;
    const CAP: u64 = 20_000_000;
    let postgres = Postgres::start();
    let (requests, made) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
    let (allowed, counter) = (requests.clone(), made.clone());
    // Each turn makes two requests of ten cents. A request ends when the test lets it end.
    let launcher = ScriptedLauncher::new(move |mut agent: Agent| {
        let (allowed, counter) = (allowed.clone(), counter.clone());
        async move {
            for usage in ["usage 0.1", "usage 0.2"] {
                tokio::select! {
                    request = allowed.acquire() => request.unwrap().forget(),
                    _ = agent.commands.recv() => return agent.exit(Exit::Code(0), "").await,
                }
                counter.fetch_add(1, Ordering::SeqCst);
                agent.say(&[usage]).await;
            }
            agent.say(&["text ok", "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    let nodes = three(&postgres, &launcher, "## team\n- cap: $20 a day\n").await;
    let (reported, mut reports) = mpsc::unbounded_channel();
    for (number, node) in nodes.iter().enumerate() {
        let reported = reported.clone();
        let look = move |event: &AgentEventKind| {
            if matches!(event, AgentEventKind::Usage(_)) {
                let _ = reported.send(number);
            }
        };
        assert!(node.collected.look.set(Box::new(look)).is_ok());
    }
    for number in 0..TURNS {
        let lane = number % LANES;
        nodes[(lane % 3) as usize].ask(1 + lane, &format!("prompt {number}"));
    }
    requests.add_permits(LANES as usize);
    // A request follows each report of a node that knows of no reached cap.
    loop {
        let number = reports.recv().await.unwrap();
        if nodes[number].uses().await.iter().any(AccountUse::is_reached) {
            break;
        }
        requests.add_permits(1);
    }
    let mut notices = Vec::new();
    for node in &nodes {
        notices.extend(node.waiting(5).await);
        let used = node.used().await;
        assert!((CAP..=CAP + LANES * REQUEST).contains(&used), "{used}");
    }
    assert!(made.load(Ordering::SeqCst) * REQUEST <= CAP + LANES * REQUEST);
    let lift = button(&notices, "No cap until tomorrow");
    assert!(press(&nodes[2].dispatcher, &lift, true).await.is_ok());
    requests.add_permits(10_000);
    let (mut answered, mut operator_notices) = (0, 0);
    for node in &nodes {
        node.dispatcher.turns.idle().await;
        let answers = node.collected.answers(0).await;
        let events: BTreeSet<u64> = answers.iter().map(|(event, _)| event.sequence).collect();
        assert_eq!(answers.len(), events.len(), "no prompt is answered twice");
        assert!(answers.iter().all(|(_, answer)| answer.failure.is_none()));
        answered += answers.len();
        operator_notices += node.operator_notices().await;
    }
    assert_eq!((answered, operator_notices), (500, 2), "one warning and one question");
    assert!(launcher.prompts().len() as u64 <= TURNS + LANES, "only stopped turns ran again");
    // Each turn counts once on each node.
    let made = made.load(Ordering::SeqCst) * REQUEST;
    for node in &nodes {
        // Reports the last turns of the node.
        node.used().await;
    }
    let used = [nodes[0].used().await, nodes[1].used().await, nodes[2].used().await];
    assert_eq!(used, [used[0]; 3]);
    assert!((made - LANES * REQUEST..=made).contains(&used[0]), "{used:?} of {made}");
    let rows = "select count(*) from aetheel.budget_turn where state = 'finished'";
    assert_eq!(postgres.ask(rows), launcher.prompts().len().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_begin_turns_at_the_same_time_share_a_cap_of_turns() {
    let postgres = Postgres::start();
    let launcher = agent(&[]);
    let nodes = three(&postgres, &launcher, "## all\n- cap: 4 turns a day\n").await;
    for lane in 0..9 {
        nodes[lane % 3].ask(1 + lane as u64, "hello");
    }
    let settled = async {
        loop {
            let (mut answered, mut waiting) = (0, 0);
            for node in &nodes {
                answered += node.collected.answers(0).await.len();
                let notices = node.collected.notices(0).await;
                waiting += notices.iter().filter(|notice| notice.channel.is_some()).count();
            }
            if answered + waiting == 9 {
                return (answered, waiting);
            }
            tokio::task::yield_now().await;
        }
    };
    let settled = tokio::time::timeout(TIMEOUT, settled).await.expect("answers and notices");
    assert_eq!((settled, launcher.prompts().len()), ((4, 5), 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raise_on_one_node_resumes_the_lanes_of_all_nodes_once() {
    let postgres = Postgres::start();
    let launcher = agent(&[&["usage 1.5"]]);
    let nodes = three(&postgres, &launcher, DOLLAR).await;
    nodes[0].ask(1, "one");
    let notices = nodes[0].waiting(1).await;
    nodes[1].ask(2, "two");
    nodes[2].ask(3, "three");
    for node in &nodes[1..] {
        let text = node.waiting(1).await.remove(0).text;
        assert!(text.contains("$1.50 of $1.00 a day"), "{text}");
    }
    assert_eq!(launcher.prompts(), ["one"], "the cap holds on all nodes");
    // Two owners decide at the same time.
    let raise = button(&notices, "Raise to $3.00");
    let pressed = tokio::join!(
        press(&nodes[1].dispatcher, &raise, true),
        press(&nodes[2].dispatcher, &raise, true)
    );
    let gone = Err(OfferRefusal::Gone);
    assert!(pressed == (RAISED, gone) || pressed == (gone, RAISED), "{pressed:?}");
    for node in &nodes {
        node.collected.answers(1).await;
    }
    for node in &nodes {
        node.dispatcher.turns.idle().await;
        assert_eq!(node.collected.answers(1).await.len(), 1);
        assert_eq!(press(&node.dispatcher, &raise, true).await, gone);
        let saved = node.folder.path().join("config/state/budgets.md");
        let saved = std::fs::read_to_string(saved).unwrap();
        assert!(saved.contains("raised `3000000`"), "{saved}");
    }
    let mut prompts = launcher.prompts();
    prompts.sort();
    assert_eq!(prompts, ["one", "one", "three", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_a_node_that_was_taken_over_counts_once() {
    let postgres = Postgres::start();
    let launcher = agent(&[&["text half", "usage 0.6", "wait"], &["usage 0.3", "done"]]);
    let rules = "## team\n- cap: $2 a day\n";
    let cluster = node(&postgres, "ann").await;
    cluster.claim(&["channel:1".to_owned()]).await.unwrap();
    let ann = Serving::new(cluster, &launcher, rules).await;
    let cluster = node(&postgres, "bob").await;
    let bob = Serving::new(cluster.clone(), &launcher, rules).await;
    ann.ask(1, "build it");
    until(&bob, |uses| uses.iter().any(|used| used.used == 600_000)).await;
    declare_dead(&postgres, "ann");
    assert_eq!(cluster.claim_dead().await, Ok(1));
    assert_eq!(bob.used().await, 600_000, "what the turn used is not lost");
    let state = "select state from aetheel.budget_turn";
    assert_eq!(postgres.ask(state), "closed");
    // The event runs again on the other node.
    bob.ask(1, "build it");
    bob.collected.answers(1).await;
    assert_eq!(bob.used().await, 900_000);
    // The first turn ends on the machine that was taken over, which joins again.
    let folder = ann.folder.clone();
    ann.dispatcher.turns.stop_durably(&"channel:1".parse().unwrap()).await;
    ann.dispatcher.turns.idle().await;
    ann.workspace.turns().flush().await;
    drop(ann);
    let again = Serving::in_folder(node(&postgres, "ann").await, &launcher, folder).await;
    assert_eq!((again.used().await, bob.used().await), (900_000, 900_000));
    let finished = "select string_agg(state, ' ') from aetheel.budget_turn";
    assert_eq!(postgres.ask(finished), "finished finished");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_turn_with_a_cap_begins_while_the_database_is_away() {
    let postgres = Postgres::start();
    let folder = tempfile::Builder::new().prefix("link").tempdir_in("/tmp").unwrap();
    let link = Link::to_postgres(folder.path(), postgres.folder());
    let options = NodeOptions { turn_lease: LEASE, ..options("ann", "ann", LEASE) };
    let cluster = Cluster::join(&postgres.url_by(folder.path()), options).await.unwrap();
    let launcher = agent(&[&["usage 0.5", "wait"], &["usage 0.1", "text ok", "done"]]);
    let ann = Serving::new(cluster, &launcher, "## team\n- cap: 2 turns a day\n").await;
    let bob = Serving::new(node(&postgres, "bob").await, &launcher, DOLLAR).await;
    ann.ask(1, "one");
    while launcher.prompts().is_empty() {
        tokio::task::yield_now().await;
    }
    link.set(Way::Cut);
    ann.ask(2, "two");
    // Another node uses up the cap, which this node cannot know.
    bob.ask(3, "three");
    bob.collected.answers(1).await;
    for _ in 0..3 {
        assert_eq!(ann.used().await, 1, "the use of the others is unknown");
    }
    assert_eq!(launcher.prompts(), ["one", "three"]);
    link.set(Way::Open);
    let notices = ann.waiting(1).await;
    assert!(notices[0].text.contains("2 turns of 2 turns a day"), "{}", notices[0].text);
    assert_eq!(launcher.prompts(), ["one", "three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turns_and_decisions_of_a_machine_that_joins_count_in_the_cluster() {
    let postgres = Postgres::start();
    let launcher = agent(&[&["text ok", "usage 0.7", "done"], &["text ok", "usage 0.2", "done"]]);
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let config = folder.path().join("config");
    std::fs::create_dir_all(config.join("state")).unwrap();
    std::fs::write(config.join("budgets.md"), DOLLAR).unwrap();
    {
        // The machine runs alone.
        let collected = Arc::new(Collected::default());
        let limits =
            QueueLimits { max_concurrent: 5, max_depth: 10, busy_policy: BusyPolicy::Queue };
        let backends = Arc::new(OneBackend(Arc::new(ScriptedBackend::new(spending()))));
        let agents = launcher.clone();
        let parts = parts(folder.path(), "scripted", backends, agents, &collected, limits).await;
        let turns = parts.workspace.turns();
        let alone = Dispatcher::new(parts, turn_parts());
        alone.intake.submit(message(1, "one")).unwrap();
        collected.answers(1).await;
        alone.turns.idle().await;
        turns.flush().await;
    }
    let bob = Serving::new(node(&postgres, "bob").await, &launcher, DOLLAR).await;
    assert_eq!(bob.used().await, 0);
    for _ in 0..2 {
        let ann = Serving::in_folder(node(&postgres, "ann").await, &launcher, folder.clone()).await;
        assert_eq!((ann.used().await, bob.used().await), (700_000, 700_000));
    }
    bob.ask(2, "two");
    bob.collected.answers(1).await;
    bob.dispatcher.turns.idle().await;
    let cyd = Serving::new(node(&postgres, "cyd").await, &launcher, DOLLAR).await;
    assert_eq!(cyd.used().await, 900_000);
}
