//! The cost of several nodes: the whole program without a cluster, and as one, two and four nodes
//! of a cluster, all on this machine and with the same total number of parallel turns. PostgreSQL
//! syncs to disk. The counts are the same in every profile, since the series of one run are
//! compared.

use std::fs;
use std::time::{Duration, Instant};

use crate::local_discord::{ANN, CROWD, LocalDiscord};
use crate::messages::{ENVIRONMENT, all_answered, answered, cpu_of, drain, lift_limits};
use crate::outlive::holder::Holder;
use crate::postgres::Postgres;
use crate::program::{Home, Running};
use crate::{cpu, report};

/// Number of nodes of each series. 0 is a machine that serves alone, without a database.
const SERIES: [usize; 4] = [0, 1, 2, 4];
const CHANNELS: usize = 1_000;
/// Messages one after the other, in channels that have a session.
const ALONE: usize = 100;
/// Parallel turns of all nodes together.
const SLOTS: usize = 16;

struct Node {
    running: Running,
    holder: Holder,
    _home: Home,
}

/// Measures messages through each number of nodes, and prints the figures.
pub async fn measure() {
    report::part(
        "messages through nodes of a cluster, all on this machine (PostgreSQL with fsync)",
    );
    for nodes in SERIES {
        series(nodes).await;
    }
}

async fn series(nodes: usize) {
    let local = LocalDiscord::start().await;
    lift_limits(&local);
    let postgres = (nodes > 0).then(Postgres::start_durable);
    let slots = (SLOTS / nodes.max(1)).to_string();
    let started: Vec<Node> = (0..nodes.max(1))
        .map(|number| node(&local, postgres.as_ref(), &format!("node{number}"), &slots))
        .collect();
    // Messages that are posted before a login are read later, if at all.
    local.wait_for("a login", |local| (local.connections() > 0).then_some(())).await;
    let name = match nodes {
        0 => "alone".to_owned(),
        1 => "1 node".to_owned(),
        _ => format!("{nodes} nodes"),
    };
    let gateways = || started.iter().map(|node| cpu_of(node.running.id())).sum::<Duration>();
    let holders = || started.iter().map(|node| cpu_of(node.holder.id())).sum::<Duration>();

    let before = (gateways(), holders(), postgres.as_ref().map(Spent::of));
    let begun = Instant::now();
    let messages =
        (0..CHANNELS as u64).map(|number| local.mention(CROWD + number, ANN, "hello")).collect();
    all_answered(&local, messages).await;
    let took = begun.elapsed();
    let each = |used: Duration| report::time(used / CHANNELS as u32);
    let rate = CHANNELS as f64 / took.as_secs_f64();
    report::figure(
        &format!("{name}: messages per second, {CHANNELS} channels"),
        &format!("{rate:.0}/s"),
    );
    report::figure(
        &format!("{name}: processor time per message, gateways + holders"),
        &format!("{} + {}", each(gateways() - before.0), each(holders() - before.1)),
    );
    if let (Some(postgres), Some(before)) = (&postgres, before.2) {
        before.print(postgres, &name, CHANNELS);
    }

    let before = postgres.as_ref().map(Spent::of);
    let (mut typing, mut answers) = (Vec::new(), Vec::new());
    for number in 0..ALONE as u64 {
        let (channel, begun) = (CROWD + number, Instant::now());
        let message = local.mention(channel, ANN, "hello again");
        answered(&local, channel, message).await;
        answers.push(begun.elapsed());
        typing.extend(local.typing(channel).last().map(|at| at.duration_since(begun)));
    }
    report::figure(&format!("{name}: from message to typing"), &report::spread(&typing));
    report::figure(&format!("{name}: from message to the whole answer"), &report::spread(&answers));
    if let (Some(postgres), Some(before)) = (&postgres, before) {
        before.print(postgres, &format!("{name}, one by one"), ALONE);
    }
    for Node { running, holder, .. } in started {
        drop(running);
        holder.end().await;
    }
}

fn node(local: &LocalDiscord, postgres: Option<&Postgres>, name: &str, slots: &str) -> Node {
    let home = Home::new();
    let mut environment = ENVIRONMENT.to_vec();
    environment.extend([
        ("DISCORD_API_BASE", local.url()),
        ("MAX_CONCURRENT_QUERIES", slots),
        ("AGENT_HOLDER", "require"),
        ("NODE_NAME", name),
    ]);
    let url = postgres.map(Postgres::url).unwrap_or_default();
    if postgres.is_some() {
        environment.push(("CLUSTER_URL", &url));
    }
    let mut running = home.start(&["run"], &environment);
    running.until("aetheel is ready");
    drain(running.log());
    Node { running, holder: Holder::of_program(&home), _home: home }
}

/// The resources that a database has used so far.
struct Spent {
    processor: Duration,
    /// Transactions that wrote something.
    transactions: u64,
    /// Bytes of its write-ahead log.
    log: u64,
}

impl Spent {
    fn of(postgres: &Postgres) -> Self {
        let figures = postgres
            .ask("select pg_snapshot_xmax(pg_current_snapshot()), pg_current_wal_lsn() - '0/0'");
        let (transactions, log) = figures.split_once('|').unwrap();
        Self {
            processor: processor_of(postgres.id()),
            transactions: transactions.parse().unwrap(),
            log: log.parse().unwrap(),
        }
    }

    /// Prints the resources used since `self` was measured, per message.
    fn print(&self, postgres: &Postgres, what: &str, messages: usize) {
        let now = Self::of(postgres);
        let each = now.processor.saturating_sub(self.processor) / messages as u32;
        report::figure(&format!("{what}: PostgreSQL's processor time"), &report::time(each));
        let of = |now: u64, before: u64| (now - before) as f64 / messages as f64;
        let (transactions, log) =
            (of(now.transactions, self.transactions), of(now.log, self.log) / 1e3);
        report::figure(
            &format!("{what}: transactions that write, and log"),
            &format!("{transactions:.1}, {log:.1} kB"),
        );
    }
}

/// Returns the processor time of a process and its children, including those that have ended.
fn processor_of(process: u32) -> Duration {
    let used = cpu::used_by(&process.to_string());
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    let each = children.split_whitespace().map(|child| cpu::used_by(child).own);
    used.own + used.children + each.sum::<Duration>()
}
