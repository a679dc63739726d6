//! Nodes and their leases.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::timeout;

use super::database::Database;
use super::{ClusterError, FENCE, Inner, NodeOptions, RENEWALS, SKEW_LIMIT, SKEW_TOLD};
use crate::lease::{Lease, boot_ms};
use crate::vigil;

/// A node, as all others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Version of its program.
    pub version: String,
    /// When it started.
    pub joined: Timestamp,
    /// How long its lease still lasts, in milliseconds; negative: for how long it is over.
    pub lease_ms: i64,
    /// The bots it serves, by user id.
    pub serves: Vec<u64>,
}

/// The place of this process among the nodes.
pub(super) struct Membership {
    /// The number of this process start.
    pub(super) start: i64,
    /// Until when it may act: for two thirds of the span after a renewal was asked for.
    pub(super) lease: Lease,
}

/// Until when a node may act whose lease was asked for at an instant of `boot_ms`.
pub(super) fn until(asked_ms: u64, span: Duration) -> u64 {
    let acts = span * FENCE.0 / FENCE.1;
    asked_ms + u64::try_from(acts.as_millis()).unwrap_or(0)
}

/// Compares this machine's clock with the database's.
pub(super) async fn compare_clocks(database: &Database) -> Result<(), ClusterError> {
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
    let apart = Duration::from_millis(apart as u64);
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

/// Takes the node's name and a first lease; returns the number of this process start.
pub(super) async fn enter(database: &Database, options: &NodeOptions) -> Result<i64, ClusterError> {
    let lease = options.lease.as_secs_f64();
    let version = env!("CARGO_PKG_VERSION");
    let entered = database
        .call(async |client| {
            client
                .query_opt(
                    "insert into aetheel.node (name, identity, start, lease, version)
                     values ($1, $2, nextval('aetheel.start'), now() + make_interval(secs => $3), $4)
                     on conflict (name) do update
                     set identity = excluded.identity, start = excluded.start, lease = excluded.lease,
                         joined = now(), version = excluded.version
                     where aetheel.node.identity = excluded.identity or aetheel.node.lease < now()
                     returning start",
                    &[&options.name, &options.identity, &lease, &version],
                )
                .await
        })
        .await?;
    entered.map(|row| row.get(0)).ok_or_else(|| {
        ClusterError::Refused(format!(
            "another machine takes part under the name {:?}; give this one another `NODE_NAME`",
            options.name
        ))
    })
}

/// Renews the lease as long as the node takes part.
pub(super) fn keep(inner: &Arc<Inner>) {
    let inner = Arc::clone(inner);
    vigil::errand("lease", async move {
        let (lease, span) = (&inner.membership.lease, inner.options.lease);
        while !lease.is_over() {
            let asked_ms = boot_ms();
            let renewal = timeout(lease.left(), renew(&inner)).await;
            match renewal {
                Ok(Ok(true)) => lease.extend(until(asked_ms, span)),
                Ok(Ok(false)) => {
                    return lost(&inner, "its lease is over, or it has started once more");
                }
                Ok(Err(error)) => tracing::warn!(%error, "cannot renew the lease of this node"),
                Err(_) => {}
            }
            if !lease.lasts() {
                return lost(&inner, "its lease could not be renewed in time");
            }
            tokio::time::sleep(lease.left().min(span / RENEWALS)).await;
        }
    });
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
    let (name, start) = (&inner.options.name, inner.membership.start);
    let lease = inner.options.lease.as_secs_f64();
    let renewed = inner
        .database
        .call(async |client| {
            client
                .execute(
                    "update aetheel.node set lease = now() + make_interval(secs => $3)
                     where name = $1 and start = $2 and lease > now()",
                    &[name, &start, &lease],
                )
                .await
        })
        .await?;
    Ok(renewed == 1)
}

/// Ends the lease, and gives the seat back.
pub(super) async fn leave(inner: &Inner) {
    inner.membership.lease.end();
    let (name, start) = (&inner.options.name, inner.membership.start);
    let left = inner
        .database
        .call(async |client| {
            client
                .execute(
                    "update aetheel.node set lease = now() where name = $1 and start = $2 and lease > now()",
                    &[name, &start],
                )
                .await
        })
        .await;
    if let Err(error) = left {
        tracing::warn!(%error, "cannot give the lease of this node back; others wait until it is over");
    }
}

/// All nodes, by name.
pub(super) async fn all(database: &Database) -> Result<Vec<Node>, ClusterError> {
    let rows = database
        .call(async |client| {
            client
                .query(
                    "select name, version, (extract(epoch from joined) * 1000)::int8,
                            (extract(epoch from lease - now()) * 1000)::int8,
                            array(select bot from aetheel.seat where node = name order by bot)
                     from aetheel.node order by name",
                    &[],
                )
                .await
        })
        .await?;
    let node = |row: &tokio_postgres::Row| Node {
        name: row.get(0),
        version: row.get(1),
        joined: Timestamp::from_millisecond(row.get(2)).unwrap_or_default(),
        lease_ms: row.get(3),
        serves: row.get::<_, Vec<i64>>(4).into_iter().map(i64::cast_unsigned).collect(),
    };
    Ok(rows.iter().map(node).collect())
}
