//! A node's place among the others, and its two leases.
//!
//! The lease to speak is short: while it lasts, the node sends to Discord and takes what others
//! left. When it is over, another node may take its lanes over, and gives it another start number:
//! that number alone decides what this process may still write. The lease for turns is longer: until
//! it is over, the node's agents go on under their holder, and a node that can reach the database
//! again, and that nobody took over, goes on where it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_postgres::types::Type;

use super::database::Database;
use super::lanes::open_lanes;
use super::{ClusterError, FENCE, Inner, NodeOptions, RENEWALS};
use aetheel_model::lease::{Lease, boot_ms};
use aetheel_model::vigil;

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
    /// Until when it may speak.
    pub(super) lease: Lease,
    /// Until when its agents may run.
    pub(super) turns: Lease,
    /// When it last got its lease back after that had run out, an instant of `boot_ms`; 0: never.
    back_ms: AtomicU64,
}

impl Membership {
    /// A place whose leases were asked for at an instant of `boot_ms`.
    pub(super) fn new(
        (start, joined): (i64, Joined),
        asked_ms: u64,
        options: &NodeOptions,
    ) -> Self {
        let (speaks, turns) = spans(options);
        Self {
            start,
            joined,
            lease: Lease::until(asked_ms + speaks),
            turns: Lease::until(asked_ms + turns),
            back_ms: AtomicU64::new(0),
        }
    }

    /// The leases were renewed by a call that began at an instant of `boot_ms`. Returns whether the
    /// lease to speak had run out.
    fn renewed(&self, asked_ms: u64, options: &NodeOptions) -> bool {
        let (speaks, turns) = spans(options);
        let had_run_out = !self.lease.lasts();
        if had_run_out {
            self.back_ms.store(boot_ms(), Ordering::Relaxed);
        }
        self.turns.extend(asked_ms + turns);
        self.lease.extend(asked_ms + speaks);
        had_run_out
    }

    /// Ends both leases for good.
    pub(super) fn end(&self) {
        self.lease.end();
        self.turns.end();
    }

    /// Whether this node may take over from others: others lost their leases with the database as
    /// this one did, and have `takeover_grace` to come back.
    pub(super) fn may_take_over(&self, options: &NodeOptions) -> bool {
        let back_ms = self.back_ms.load(Ordering::Relaxed);
        let since = Duration::from_millis(boot_ms().saturating_sub(back_ms));
        self.lease.lasts() && (back_ms == 0 || since >= options.takeover_grace)
    }
}

/// For how many milliseconds after a renewal was asked for a node may speak, and its agents may run.
/// Both end before they do in the database, by the same margin: agents take a moment to end.
fn spans(options: &NodeOptions) -> (u64, u64) {
    let speaks = options.lease * FENCE.0 / FENCE.1;
    let turns = options.turn_lease.max(options.lease) - (options.lease - speaks);
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(0);
    (millis(speaks), millis(turns))
}

/// Takes the node's name and first leases; returns the number of this process start, and how the
/// node comes. Doing it again says the same of how.
pub(super) async fn enter(
    database: &Database,
    options: &NodeOptions,
) -> Result<(i64, Joined), ClusterError> {
    let (bot, lease) = (options.bot.cast_signed(), options.lease.as_secs_f64());
    let turns = options.turn_lease.as_secs_f64();
    let version = env!("CARGO_PKG_VERSION");
    let entered = database
        .call(async |client| {
            client
                .query_opt(
                    "select * from aetheel.enter($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                    &[
                        &bot,
                        &options.name,
                        &options.identity,
                        &lease,
                        &turns,
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

/// Renews the leases as long as the node takes part.
pub(super) fn keep(inner: &Arc<Inner>) {
    let inner = Arc::clone(inner);
    vigil::errand("lease", async move {
        let (membership, span) = (&inner.membership, inner.options.lease);
        let (mut renewals, mut ran_out) = (0_u32, false);
        while !membership.lease.is_over() {
            let asked_ms = boot_ms();
            match renew(&inner).await {
                Ok(true) => {
                    ran_out = false;
                    renewed(&inner, asked_ms).await;
                }
                Ok(false) => {
                    return lost(&inner, "another node took over, or it has started once more");
                }
                Err(error) => {
                    if !inner.away.send_replace(true) {
                        tracing::warn!(%error, "cannot renew the lease of this node; trying again");
                    }
                    if !membership.lease.lasts() && !std::mem::replace(&mut ran_out, true) {
                        tracing::error!(
                            "its lease has run out: this node sends nothing to discord until the database of the cluster is back; its agents go on"
                        );
                    }
                }
            }
            if !membership.turns.lasts() {
                return lost(&inner, "the lease for its turns could not be renewed in time");
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
            tokio::time::sleep(membership.turns.left().min(next)).await;
        }
    });
}

async fn renewed(inner: &Inner, asked_ms: u64) {
    inner.away.send_replace(false);
    let had_run_out = inner.membership.renewed(asked_ms, &inner.options);
    if had_run_out {
        tracing::info!(
            node = inner.options.name,
            "the database of the cluster is back, and nobody took over; this node goes on"
        );
    }
    // What was placed since the renewal before, and a while longer.
    let within = if had_run_out { inner.options.turn_lease } else { inner.options.lease };
    match open_lanes(&inner.renewals, &inner.options, Some(within.as_secs_f64())).await {
        Ok(roots) => inner.lanes.lock().are_open(roots),
        Err(error) => tracing::debug!(%error, "cannot learn of new lanes"),
    }
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
        inner.membership.end();
    }
}

/// False: the node is not this process's any more.
async fn renew(inner: &Inner) -> Result<bool, ClusterError> {
    let (bot, name, start) = (inner.bot(), &inner.options.name, inner.membership.start);
    let lease = inner.options.lease.as_secs_f64();
    let turns = inner.options.turn_lease.as_secs_f64();
    let load = inner.load.lock().clone();
    // A number that is none, or none that is finite, cannot be compared with others'.
    let room = if load.room.is_finite() { load.room } else { 0.0 };
    let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let (running, waiting) = (count(load.running), count(load.waiting));
    let statement = "update aetheel.node as me
         set lease = clock_timestamp() + make_interval(secs => $4), reported = clock_timestamp(),
             room = $5, running = $6, waiting = $7, draining = $8, files = $9, components = $10,
             turns = clock_timestamp() + make_interval(secs => $11)
         where bot = $1 and name = $2 and start = $3
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
                        (&turns, Type::FLOAT8),
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

/// Ends the leases, so that others follow at once. An operator's wish to drain it is fulfilled. The
/// start number changes, so that a renewal that is under way comes to nothing.
pub(super) async fn leave(inner: &Inner) {
    inner.membership.end();
    let (bot, name, start) = (inner.bot(), &inner.options.name, inner.membership.start);
    let statement = "update aetheel.node
         set lease = clock_timestamp(), turns = clock_timestamp(), drain = false,
             start = nextval('aetheel.start')
         where bot = $1 and name = $2 and start = $3";
    let left = inner
        .database
        .call(async |client| client.execute(statement, &[&bot, name, &start]).await)
        .await;
    if let Err(error) = left {
        tracing::warn!(%error, "cannot give the lease of this node back; others wait until it is over");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_whose_lease_had_run_out_takes_nothing_over_for_a_while() {
        let options = |takeover_grace| NodeOptions {
            name: "ann".to_owned(),
            identity: "ann".to_owned(),
            bot: 1,
            lease: Duration::from_secs(6),
            turn_lease: Duration::from_secs(90),
            takeover_grace,
            labels: Vec::new(),
            files: String::new(),
            components: String::new(),
        };
        let (none, hour) = (options(Duration::ZERO), options(Duration::from_secs(3_600)));
        let membership = Membership::new((1, Joined::Again), boot_ms(), &hour);
        assert!(!membership.renewed(boot_ms(), &hour));
        assert!(membership.may_take_over(&hour), "it was never without the database");
        membership.lease.set(1);
        assert!(!membership.may_take_over(&none), "it may not speak");
        assert!(membership.renewed(boot_ms(), &hour));
        assert!(!membership.may_take_over(&hour) && membership.may_take_over(&none));
    }
}
