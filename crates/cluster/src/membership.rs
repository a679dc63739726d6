//! The membership of a node, and its two leases.
//!
//! The short lease permits the node to write to Discord and to take over from others. When it has
//! expired, another node may take over this node's lanes, and then gives it another start number.
//! Only that number decides whether this process may still write to the database. The long lease
//! permits the node's agents to run: until it expires, the holder keeps them running, a process
//! that outlives the gateway. A node that reaches the database again before another node took over
//! from it simply continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_postgres::types::Type;

use super::database::Database;
use super::lanes::open_lanes;
use super::{ClusterError, ClusterState, NodeOptions, RENEWALS_PER_LEASE, SEND_RATIO};
use aetheel_runtime::lease::{Lease, boot_ms};
use aetheel_runtime::supervisor;

/// The state that a node reports with each renewal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// How many more turns it can run; negative if more turns wait than it can run. A new lane is
    /// assigned to the node with the highest value.
    pub free_slots: f64,
    /// The number of running turns.
    pub running: u32,
    /// The number of waiting events.
    pub waiting: u32,
    /// Whether it transfers its lanes to others and accepts none.
    pub draining: bool,
    /// Digest of its operator's files.
    pub files: String,
    /// Digest of the loaded components.
    pub components: String,
}

/// The nodes of the bot, as of the last renewal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// The number of running nodes, including this one.
    pub live_nodes: usize,
    /// The number of dead nodes from which nobody has taken over ([`super::Cluster::claim_dead`]).
    pub dead_nodes: usize,
    /// The number of handovers that wait for this node ([`super::Cluster::handovers`]).
    pub handovers: usize,
    /// Whether an operator asked this node to transfer its lanes.
    pub drain_requested: bool,
    /// The node that is the leader, or was the last one.
    pub leader: Option<String>,
}

/// How a node joins its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// The machine was never part of the cluster.
    First,
    /// The node returns, and keeps its lanes and its journal.
    Returning,
    /// Another node took over from it, so the local records of its lanes are outdated.
    Replaced,
}

/// Acknowledged messages of yesterday are deleted once in this many renewals.
const PURGE_EVERY: u32 = 400;

/// Minimum time between the end of a renewal and the next one.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct Membership {
    /// The number of this process start.
    pub(super) start: i64,
    pub(super) join_kind: JoinKind,
    /// Permits writing to Discord.
    pub(super) lease: Lease,
    /// Permits its agents to run.
    pub(super) turns: Lease,
    /// When it last got its lease back after it had expired, in milliseconds of `boot_ms`; 0 if
    /// never.
    recovered_ms: AtomicU64,
}

impl Membership {
    /// Creates a membership whose leases were requested at `asked_ms`, an instant of `boot_ms`.
    pub(super) fn new(
        (start, join_kind): (i64, JoinKind),
        asked_ms: u64,
        options: &NodeOptions,
    ) -> Self {
        let (speaks, turns) = lease_spans_ms(options);
        Self {
            start,
            join_kind,
            lease: Lease::until(asked_ms + speaks),
            turns: Lease::until(asked_ms + turns),
            recovered_ms: AtomicU64::new(0),
        }
    }

    /// Extends the leases after a renewal that began at `asked_ms`, an instant of `boot_ms`.
    /// Returns whether the short lease had expired.
    fn extend_leases(&self, asked_ms: u64, options: &NodeOptions) -> bool {
        let (speaks, turns) = lease_spans_ms(options);
        let had_run_out = !self.lease.is_valid();
        if had_run_out {
            self.recovered_ms.store(boot_ms(), Ordering::Relaxed);
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

    /// Returns whether this node may take over from others. If it was without the database itself,
    /// other nodes probably were too, and have `takeover_grace` to return.
    pub(super) fn may_take_over(&self, options: &NodeOptions) -> bool {
        let back_ms = self.recovered_ms.load(Ordering::Relaxed);
        let since = Duration::from_millis(boot_ms().saturating_sub(back_ms));
        self.lease.is_valid() && (back_ms == 0 || since >= options.takeover_grace)
    }
}

/// Returns the durations of the short and the long lease in milliseconds, counted from the request
/// for them. Both end earlier here than in the database, by the same margin, because agents need
/// time to end.
fn lease_spans_ms(options: &NodeOptions) -> (u64, u64) {
    let speaks = options.lease * SEND_RATIO.0 / SEND_RATIO.1;
    let turns = options.turn_lease.max(options.lease) - (options.lease - speaks);
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(0);
    (millis(speaks), millis(turns))
}

/// Registers the node and requests its first leases. Returns the number of this process start, and
/// how the node joins. A repeated call returns the same [`JoinKind`].
pub(super) async fn register(
    database: &Database,
    options: &NodeOptions,
) -> Result<(i64, JoinKind), ClusterError> {
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
        "first" => JoinKind::First,
        "adopted" => JoinKind::Replaced,
        _ => JoinKind::Returning,
    };
    entered.map(|row| (row.get(0), joined(row.get(1)))).ok_or_else(|| {
        ClusterError::Refused(format!(
            "another machine has the name {:?}; give this one another `NODE_NAME`",
            options.name
        ))
    })
}

/// Records that the machine's local state matches this node.
pub(super) async fn confirm_local_state(inner: &ClusterState) -> Result<(), ClusterError> {
    let statement = "settled as (
             update aetheel.node set notes = 'kept' from me
             where node.bot = $1 and node.name = $2 and node.start = $3
             returning 1
         )
         select from settled";
    inner.write(statement, &[]).await
}

/// Starts the task that renews the leases until they are over.
pub(super) fn spawn_renewals(inner: &Arc<ClusterState>) {
    let inner = Arc::clone(inner);
    supervisor::spawn_finite("lease", async move {
        let (membership, span) = (&inner.membership, inner.options.lease);
        let (mut renewals, mut is_away, mut ran_out) = (0_u32, false, false);
        while !membership.lease.is_ended() {
            let asked_ms = boot_ms();
            match renew(&inner).await {
                Ok(true) => {
                    (is_away, ran_out) = (false, false);
                    after_renewal(&inner, asked_ms).await;
                }
                Ok(false) => {
                    return end_membership(
                        &inner,
                        "another node took over, or this node was started again",
                    );
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_away, true) {
                        tracing::warn!(%error, "cannot renew the lease of this node; trying again");
                    }
                    if !membership.lease.is_valid() && !std::mem::replace(&mut ran_out, true) {
                        tracing::error!(
                            "its lease has run out: this node sends nothing to discord until the database of the cluster is back; its agents continue"
                        );
                    }
                }
            }
            if !membership.turns.is_valid() {
                return end_membership(
                    &inner,
                    "the lease for its turns could not be renewed in time",
                );
            }
            if renewals.is_multiple_of(PURGE_EVERY)
                && let Err(error) = purge(&inner).await
            {
                tracing::debug!(%error, "cannot delete old messages");
            }
            renewals = renewals.wrapping_add(1);
            // The time of the call is subtracted, so that a slow database does not make renewals
            // rarer.
            let elapsed = Duration::from_millis(boot_ms().saturating_sub(asked_ms));
            let next = (span / RENEWALS_PER_LEASE).saturating_sub(elapsed).max(SHORTEST_INTERVAL);
            tokio::time::sleep(membership.turns.remaining().min(next)).await;
        }
    });
}

async fn after_renewal(inner: &ClusterState, asked_ms: u64) {
    let had_run_out = inner.membership.extend_leases(asked_ms, &inner.options);
    if had_run_out {
        tracing::info!(
            node = inner.options.name,
            "the database of the cluster is back, and no node took over; this node continues"
        );
    }
    // Lanes that were assigned since the last renewal, with a margin.
    let within = if had_run_out { inner.options.turn_lease } else { inner.options.lease };
    match open_lanes(&inner.renewals, &inner.options, Some(within.as_secs_f64())).await {
        Ok(roots) => inner.lanes.lock().mark_open(roots),
        Err(error) => tracing::debug!(%error, "cannot query the new lanes"),
    }
}

/// Deletes messages that were acknowledged more than a day ago.
async fn purge(inner: &ClusterState) -> Result<(), ClusterError> {
    let bot = inner.bot();
    // `skip locked` lets several nodes delete at the same time.
    let statement = "delete from aetheel.mail where bot = $1 and number in (
             select number from aetheel.mail
             where bot = $1 and done < clock_timestamp() - interval '1 day'
             order by number limit 10000 for update skip locked)";
    inner.renewals.call(async |client| client.execute(statement, &[&bot]).await).await.map(drop)
}

fn end_membership(inner: &ClusterState, why: &str) {
    if !inner.membership.lease.is_ended() {
        let node = &inner.options.name;
        tracing::error!(node, why, "this node has lost its place in the cluster, and stops");
        inner.membership.end();
    }
}

/// Renews the leases. Returns `false` if this process does not have the node's name any more.
async fn renew(inner: &ClusterState) -> Result<bool, ClusterError> {
    let (bot, name, start) = (inner.bot(), &inner.options.name, inner.membership.start);
    let lease = inner.options.lease.as_secs_f64();
    let turns = inner.options.turn_lease.as_secs_f64();
    let load = inner.load.lock().clone();
    // NaN and infinity cannot be compared with the values of other nodes.
    let room = if load.free_slots.is_finite() { load.free_slots } else { 0.0 };
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
             (select node from aetheel.seat where bot = $1)";
    let renewed = inner
        .renewals
        .call(async |client| {
            // A query with explicit types takes one round trip.
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
        drain_requested: row.get(0),
        live_nodes: number(1),
        dead_nodes: number(2),
        handovers: number(3),
        leader: row.get(4),
    };
    inner.peers.send_if_modified(|known| {
        let has_changed = *known != peers;
        *known = peers;
        has_changed
    });
    Ok(true)
}

/// Ends the leases, so that another node can take over at once, and clears an operator's request to
/// drain. The start number changes, so that a renewal that is in progress has no effect.
pub(super) async fn leave(inner: &ClusterState) {
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
        tracing::warn!(%error, "cannot release the lease of this node; others wait until it expires");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_whose_lease_had_expired_takes_over_nothing_within_the_grace_time() {
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
        let membership = Membership::new((1, JoinKind::Returning), boot_ms(), &hour);
        assert!(!membership.extend_leases(boot_ms(), &hour));
        assert!(membership.may_take_over(&hour), "the database was never unreachable");
        membership.lease.set(1);
        assert!(!membership.may_take_over(&none), "its lease has expired");
        assert!(membership.extend_leases(boot_ms(), &hour));
        assert!(!membership.may_take_over(&hour) && membership.may_take_over(&none));
    }
}
