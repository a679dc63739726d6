//! Nodes and their leases.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::database::Database;
use super::lanes::open_lanes;
use super::{ClusterError, FENCE, Inner, NodeOptions, RENEWALS, SKEW_LIMIT, SKEW_TOLD};
use crate::lease::{Lease, boot_ms};
use crate::vigil;

/// A node, as all others know it.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The bot's user id.
    pub bot: u64,
    /// Version of its program.
    pub version: String,
    /// When it started.
    pub joined: Timestamp,
    /// How long its lease still lasts, in milliseconds; negative: for how long it is over.
    pub lease_ms: i64,
    /// Whether it has its bot's seat, or had it last.
    pub seat: bool,
    /// What its operator says it has.
    pub labels: Vec<String>,
    /// What it said of itself last.
    pub load: Load,
    /// Whether an operator wants it to hand over its lanes.
    pub drain_wanted: bool,
    /// How many lanes it has.
    pub lanes: u64,
    /// How many letters wait for it.
    pub letters: u64,
    /// Which machine has the name, or had it last.
    pub identity: String,
    /// It has something that another node must take over when it is gone.
    pub has_something: bool,
}

/// What a node says of itself with each renewal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// How many more turns it can run; less than zero when more wait than it can. A new lane goes
    /// to the node with the most.
    pub room: f64,
    /// Turns that run.
    pub running: u32,
    /// Events that wait.
    pub waiting: u32,
    /// It hands over its lanes, and takes none.
    pub draining: bool,
    /// Digest of its operator's files.
    pub files: String,
    /// Digest of the components that serve.
    pub components: String,
}

/// The nodes of the bot, as of the last renewal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// How many live, this one included.
    pub living: usize,
    /// How many are gone and left something that nobody has taken over ([`super::Cluster::adopt`]).
    pub left_behind: usize,
    /// How many handovers wait for this node ([`super::Cluster::handovers`]).
    pub handovers: usize,
    /// An operator wants this node to hand over its lanes.
    pub drain_wanted: bool,
    /// Which node has the seat, or had it last.
    pub seat: Option<String>,
    /// Number of the component that was handed to all nodes last
    /// ([`super::Cluster::next_component`]).
    pub component: i64,
}

/// How a node comes into its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// This machine never took part.
    First,
    /// It keeps its lanes and its journal.
    Again,
    /// Another node took over what it had: its own notes of lanes are void.
    Adopted,
}

/// After how many renewals letters of yesterday are forgotten.
const PURGE_EVERY: u32 = 400;

/// Shortest time between the end of a renewal and the next one.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// The place of this process among the nodes.
pub(super) struct Membership {
    /// The number of this process start.
    pub(super) start: i64,
    /// How it came.
    pub(super) joined: Joined,
    /// Until when it may act: for two thirds of the span after a renewal was asked for.
    pub(super) lease: Lease,
}

/// Until when a node may act whose lease was asked for at an instant of `boot_ms`.
pub(super) fn until(asked_ms: u64, span: Duration) -> u64 {
    let acts = span * FENCE.0 / FENCE.1;
    asked_ms + u64::try_from(acts.as_millis()).unwrap_or(0)
}

/// How far this machine's clock and the database's are apart, at least.
pub(super) async fn clocks_apart(database: &Database) -> Result<Duration, ClusterError> {
    let before = Timestamp::now();
    let theirs: f64 = database
        .call(async |client| {
            client
                .query_one("select extract(epoch from clock_timestamp())::float8 * 1000", &[])
                .await
        })
        .await?
        .get(0);
    let after = Timestamp::now();
    let (before, after) = (before.as_millisecond() as f64, after.as_millisecond() as f64);
    // Somewhere between asking and hearing.
    let apart = (before - theirs).max(theirs - after).max(0.0);
    Ok(Duration::from_millis(apart as u64))
}

/// Compares this machine's clock with the database's.
pub(super) async fn compare_clocks(database: &Database) -> Result<(), ClusterError> {
    let apart = clocks_apart(database).await?;
    let seconds = apart.as_secs();
    if apart > SKEW_LIMIT {
        return Err(ClusterError::Refused(format!(
            "its clock and this machine's differ by {seconds} s; set them by NTP"
        )));
    }
    if apart > SKEW_TOLD {
        tracing::warn!(
            seconds,
            "the clocks of this machine and of the cluster's database differ; set them by NTP"
        );
    }
    Ok(())
}

/// Takes the node's name and a first lease; returns the number of this process start, and how the
/// node comes. Doing it again says the same of how.
pub(super) async fn enter(
    database: &Database,
    options: &NodeOptions,
) -> Result<(i64, Joined), ClusterError> {
    let (bot, lease) = (options.bot.cast_signed(), options.lease.as_secs_f64());
    let version = env!("CARGO_PKG_VERSION");
    let entered = database
        .call(async |client| {
            client
                .query_opt(
                    "select * from aetheel.enter($1, $2, $3, $4, $5, $6, $7, $8)",
                    &[
                        &bot,
                        &options.name,
                        &options.identity,
                        &lease,
                        &version,
                        &options.labels,
                        &options.files,
                        &options.components,
                    ],
                )
                .await
        })
        .await?;
    let joined = |notes: &str| match notes {
        "first" => Joined::First,
        "adopted" => Joined::Adopted,
        _ => Joined::Again,
    };
    entered.map(|row| (row.get(0), joined(row.get(1)))).ok_or_else(|| {
        ClusterError::Refused(format!(
            "another machine takes part under the name {:?}; give this one another `NODE_NAME`",
            options.name
        ))
    })
}

/// Says that the machine's own notes are those of this node.
pub(super) async fn settled(inner: &Inner) -> Result<(), ClusterError> {
    let statement = "settled as (
             update aetheel.node set notes = 'kept' from me
             where node.bot = $1 and node.name = $2 and node.start = $3
             returning 1
         )
         select from settled";
    inner.write(statement, &[]).await
}

/// Renews the lease as long as the node takes part.
pub(super) fn keep(inner: &Arc<Inner>) {
    let inner = Arc::clone(inner);
    vigil::errand("lease", async move {
        let (lease, span) = (&inner.membership.lease, inner.options.lease);
        let mut renewals = 0_u32;
        while !lease.is_over() {
            let asked_ms = boot_ms();
            let renewal = timeout(lease.left(), renew(&inner)).await;
            match renewal {
                Ok(Ok(true)) => {
                    lease.extend(until(asked_ms, span));
                    // What was placed since the renewal before, and a while longer.
                    let within = Some(span.as_secs_f64());
                    match open_lanes(&inner.renewals, &inner.options, within).await {
                        Ok(roots) => inner.lanes.lock().are_open(roots),
                        Err(error) => tracing::debug!(%error, "cannot learn of new lanes"),
                    }
                }
                Ok(Ok(false)) => {
                    return lost(&inner, "its lease is over, or it has started once more");
                }
                Ok(Err(error)) => tracing::warn!(%error, "cannot renew the lease of this node"),
                Err(_) => {}
            }
            if !lease.lasts() {
                return lost(&inner, "its lease could not be renewed in time");
            }
            if renewals.is_multiple_of(PURGE_EVERY)
                && let Err(error) = purge(&inner).await
            {
                tracing::debug!(%error, "cannot forget letters of yesterday");
            }
            renewals = renewals.wrapping_add(1);
            // A slow database does not make renewals rarer.
            let taken = Duration::from_millis(boot_ms().saturating_sub(asked_ms));
            let next = (span / RENEWALS).saturating_sub(taken).max(SHORTEST_INTERVAL);
            tokio::time::sleep(lease.left().min(next)).await;
        }
    });
}

/// Forgets letters that were checked off a day ago.
async fn purge(inner: &Inner) -> Result<(), ClusterError> {
    let bot = inner.bot();
    // One node at a time has each of them.
    let statement = "delete from aetheel.mail where bot = $1 and number in (
             select number from aetheel.mail
             where bot = $1 and done < clock_timestamp() - interval '1 day'
             order by number limit 10000 for update skip locked)";
    inner.renewals.call(async |client| client.execute(statement, &[&bot]).await).await.map(drop)
}

fn lost(inner: &Inner, why: &str) {
    if !inner.membership.lease.is_over() {
        let node = &inner.options.name;
        tracing::error!(
            node,
            why,
            "this node has lost its place in the cluster, and does nothing any more"
        );
        inner.membership.lease.end();
    }
}

/// False: the lease is over, or not this process's any more.
async fn renew(inner: &Inner) -> Result<bool, ClusterError> {
    let (bot, name, start) = (inner.bot(), &inner.options.name, inner.membership.start);
    let lease = inner.options.lease.as_secs_f64();
    let load = inner.load.lock().clone();
    // A number that is none, or none that is finite, cannot be compared with others'.
    let room = if load.room.is_finite() { load.room } else { 0.0 };
    let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let (running, waiting) = (count(load.running), count(load.waiting));
    let statement = "update aetheel.node as me
         set lease = clock_timestamp() + make_interval(secs => $4), reported = clock_timestamp(),
             room = $5, running = $6, waiting = $7, draining = $8, files = $9, components = $10
         where bot = $1 and name = $2 and start = $3 and lease > clock_timestamp()
         returning drain,
             (select count(*) from aetheel.node where bot = $1 and lease > clock_timestamp()),
             (select count(*) from aetheel.node
              where bot = $1 and lease <= clock_timestamp() and aetheel.has_something(bot, name)),
             (select count(*) from aetheel.handover where bot = $1 and to_node = $2),
             (select node from aetheel.seat where bot = $1),
             (select coalesce(max(number), 0) from aetheel.component where bot = $1)";
    let renewed = inner
        .renewals
        .call(async |client| {
            // With types it is one round trip.
            client
                .query_typed(
                    statement,
                    &[
                        (&bot, Type::INT8),
                        (name, Type::TEXT),
                        (&start, Type::INT8),
                        (&lease, Type::FLOAT8),
                        (&room, Type::FLOAT8),
                        (&running, Type::INT4),
                        (&waiting, Type::INT4),
                        (&load.draining, Type::BOOL),
                        (&load.files, Type::TEXT),
                        (&load.components, Type::TEXT),
                    ],
                )
                .await
        })
        .await?;
    let Some(row) = renewed.first() else { return Ok(false) };
    let number = |at: usize| usize::try_from(row.get::<_, i64>(at)).unwrap_or(0);
    let peers = Peers {
        drain_wanted: row.get(0),
        living: number(1),
        left_behind: number(2),
        handovers: number(3),
        seat: row.get(4),
        component: row.get(5),
    };
    inner.peers.send_if_modified(|known| {
        let news = *known != peers;
        *known = peers;
        news
    });
    Ok(true)
}

/// Ends the lease, so that others follow at once. An operator's wish to drain it is fulfilled.
pub(super) async fn leave(inner: &Inner) {
    inner.membership.lease.end();
    let (bot, name, start) = (inner.bot(), &inner.options.name, inner.membership.start);
    let statement = "update aetheel.node set lease = clock_timestamp(), drain = false
         where bot = $1 and name = $2 and start = $3 and lease > clock_timestamp()";
    let left = inner
        .database
        .call(async |client| client.execute(statement, &[&bot, name, &start]).await)
        .await;
    if let Err(error) = left {
        tracing::warn!(%error, "cannot give the lease of this node back; others wait until it is over");
    }
}

/// All nodes, by name.
pub(super) async fn all(database: &Database) -> Result<Vec<Node>, ClusterError> {
    let statement = "select name, bot, version, (extract(epoch from joined) * 1000)::int8,
                (extract(epoch from lease - clock_timestamp()) * 1000)::int8,
                exists (select from aetheel.seat where seat.bot = node.bot and seat.node = name),
                labels, room, running, waiting, draining, files, components, drain,
                (select count(*) from aetheel.lane where lane.bot = node.bot and lane.node = name),
                (select count(*) from aetheel.mail
                 left join aetheel.lane on lane.bot = mail.bot and lane.root = mail.root
                 where mail.bot = node.bot and mail.done is null
                   and (mail.node = name or lane.node = name)),
                identity, aetheel.has_something(node.bot, name)
         from aetheel.node order by name, bot";
    let rows = database.call(async |client| client.query(statement, &[]).await).await?;
    let count = |row: &Row, at: usize| u32::try_from(row.get::<_, i32>(at)).unwrap_or(0);
    let node = |row: &Row| Node {
        name: row.get(0),
        bot: row.get::<_, i64>(1).cast_unsigned(),
        version: row.get(2),
        joined: Timestamp::from_millisecond(row.get(3)).unwrap_or_default(),
        lease_ms: row.get(4),
        seat: row.get(5),
        labels: row.get(6),
        load: Load {
            room: row.get(7),
            running: count(row, 8),
            waiting: count(row, 9),
            draining: row.get(10),
            files: row.get(11),
            components: row.get(12),
        },
        drain_wanted: row.get(13),
        lanes: row.get::<_, i64>(14).cast_unsigned(),
        letters: row.get::<_, i64>(15).cast_unsigned(),
        identity: row.get(16),
        has_something: row.get(17),
    };
    Ok(rows.iter().map(node).collect())
}

/// Notes whether an operator wants a node to hand over its lanes; false: no such node lives.
pub(super) async fn want_drain(
    database: &Database,
    name: &str,
    wanted: bool,
) -> Result<bool, ClusterError> {
    let statement = "update aetheel.node set drain = $2
         where name = $1 and lease > clock_timestamp()";
    let known =
        database.call(async |client| client.execute(statement, &[&name, &wanted]).await).await?;
    Ok(known > 0)
}
