//! The leader of the bot's nodes: it is connected to Discord's gateway and runs the schedules.
//!
//! The table `aetheel.seat` has one row per bot, which names the leader.

use std::time::Duration;

use tokio_postgres::types::Type;

use super::{Cluster, ClusterError, ClusterState};

/// Time between two attempts to become the leader.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The time for which [`Cluster::logins`] returns a login, in milliseconds.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Common table expression that follows `me`. It returns a row if this process is the leader. The
/// row is locked, so that no other node can become the leader before the transaction ends.
const SEAT: &str = "seat as (
    select seat.bot from aetheel.seat join me on true
    where seat.bot = $1 and seat.node = $2 and seat.start = $3 for share of seat
)";

impl Cluster {
    /// Waits until this node is the leader. It stays the leader until its lease has expired and
    /// another node takes its place. A draining node waits until it is no longer draining.
    ///
    /// # Errors
    /// Returns [`ClusterError::Fenced`] if this node was taken over while it waited, and
    /// [`ClusterError::Refused`].
    pub async fn become_leader(&self) -> Result<(), ClusterError> {
        let inner = &self.inner;
        loop {
            if inner.membership.lease.is_ended() {
                return Err(ClusterError::Fenced);
            }
            match try_become_leader(inner).await {
                Ok(true) => {
                    tracing::info!(
                        node = inner.options.name,
                        "this node is the leader, which may log in to discord"
                    );
                    return Ok(());
                }
                Ok(false) => {}
                // The renewal task reports it.
                Err(ClusterError::Away(why)) => tracing::debug!(
                    why,
                    "cannot ask the database whether this node can be the leader"
                ),
                Err(error) => return Err(error),
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns whether this process is the leader.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn is_leader(&self) -> Result<bool, ClusterError> {
        let inner = &self.inner;
        let (bot, name, start) = (inner.bot(), &inner.options.name, inner.membership.start);
        let statement = "select from aetheel.seat where bot = $1 and node = $2 and start = $3";
        let row = inner
            .database
            .call(async |client| client.query_opt(statement, &[&bot, name, &start]).await)
            .await?;
        Ok(row.is_some())
    }

    /// Gives up the leadership if this node has it, so that another node can become the leader.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn resign_leader(&self) -> Result<(), ClusterError> {
        let statement = "given as (
                 delete from aetheel.seat using me where seat.bot = $1 and seat.node = $2
             )
             select from me";
        self.inner.write(statement, &[]).await
    }

    /// Returns the content of a file that belongs to the leader, whichever node it is.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn leader_file(&self, name: &str) -> Result<Option<String>, ClusterError> {
        let bot = self.inner.bot();
        let statement = "select body from aetheel.seat_file where bot = $1 and name = $2";
        let row = self
            .inner
            .database
            .call(async |client| client.query_opt(statement, &[&bot, &name]).await)
            .await?;
        Ok(row.map(|row| row.get(0)))
    }

    /// Saves the content of a file that belongs to the leader, whichever node it is.
    ///
    /// # Errors
    /// Returns a [`ClusterError`]; [`ClusterError::Fenced`] also if this node is not the
    /// leader.
    pub async fn write_leader_file(&self, name: &str, body: &str) -> Result<(), ClusterError> {
        let statement = format!(
            "{SEAT}, kept as (
                 insert into aetheel.seat_file (bot, name, body) select $1, $4, $5 from seat
                 on conflict (bot, name) do update set body = excluded.body
                 returning 1
             )
             select from kept"
        );
        self.inner.write(&statement, &[(&name, Type::TEXT), (&body, Type::TEXT)]).await
    }

    /// Returns the times of the bot's logins in the last 24 hours, on any node, in milliseconds
    /// since 1970, sorted.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn logins(&self) -> Result<Vec<i64>, ClusterError> {
        let bot = self.inner.bot();
        let statement = "select at_ms from aetheel.login
             where bot = $1 and at_ms > (extract(epoch from clock_timestamp()) * 1000)::int8 - $2
             order by at_ms";
        let rows = self
            .inner
            .database
            .call(async |client| client.query(statement, &[&bot, &DAY_MS]).await)
            .await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Records a login before it begins.
    ///
    /// # Errors
    /// Same as [`Cluster::write_leader_file`]. Only the leader may log in.
    pub async fn record_login(&self, at_ms: i64) -> Result<(), ClusterError> {
        let statement = format!(
            "{SEAT}, counted as (
                 insert into aetheel.login (bot, at_ms) select $1, $4 from seat returning 1
             ), old as (
                 delete from aetheel.login using seat
                 where login.bot = $1
                   and at_ms < (extract(epoch from clock_timestamp()) * 1000)::int8 - $5
             )
             select from counted"
        );
        self.inner.write(&statement, &[(&at_ms, Type::INT8), (&DAY_MS, Type::INT8)]).await
    }
}

/// Makes this node the leader unless another node with a valid lease is.
async fn try_become_leader(inner: &ClusterState) -> Result<bool, ClusterError> {
    let (bot, name, start) = (inner.bot(), &inner.options.name, inner.membership.start);
    // Writers that must be the leader lock its row, so this statement waits for them. It writes
    // nothing while another node is the leader, because all nodes call it regularly.
    let statement = "insert into aetheel.seat as seat (bot, node, start)
         select $1, $2, $3 from aetheel.node
         where bot = $1 and name = $2 and start = $3 and lease > clock_timestamp()
           and not (drain or draining)
           and not exists (select from aetheel.seat as other
                           join aetheel.node as its using (bot)
                           where other.bot = $1 and other.node <> $2
                             and its.name = other.node and its.lease > clock_timestamp())
         on conflict (bot) do update
         set node = excluded.node, start = excluded.start, taken = excluded.taken
         where seat.node = excluded.node
            or not exists (select from aetheel.node
                           where node.bot = seat.bot and node.name = seat.node
                             and node.lease > clock_timestamp())";
    let changed_rows = inner
        .database
        .call(async |client| client.execute(statement, &[&bot, name, &start]).await)
        .await?;
    Ok(changed_rows == 1)
}
