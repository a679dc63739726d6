//! The seat: which node holds Discord's gateway connection and runs schedules, and what goes with
//! it.

use std::time::Duration;

use tokio_postgres::types::Type;

use super::{Cluster, ClusterError, Inner};

/// Between two looks whether the seat is free.
const LOOK: Duration = Duration::from_millis(500);
/// For how long logins count, in milliseconds.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// The row of the seat, if it is this process's; goes behind `me`. Nobody takes the seat before the
/// transaction is over.
const SEAT: &str = "seat as (
    select seat.bot from aetheel.seat join me on true
    where seat.bot = $1 and seat.node = $2 and seat.start = $3 for share of seat
)";

impl Cluster {
    /// Waits until this node has the seat, which it keeps until its lease runs out and another node
    /// takes the seat. A node that is to hand over its lanes waits until it is not to any more.
    ///
    /// # Errors
    /// [`ClusterError::Fenced`]: this node's lease was over meanwhile; [`ClusterError::Refused`].
    pub async fn take_seat(&self) -> Result<(), ClusterError> {
        let inner = &self.inner;
        loop {
            if inner.membership.lease.is_over() {
                return Err(ClusterError::Fenced);
            }
            match take(inner).await {
                Ok(true) => {
                    tracing::info!(node = inner.options.name, "this node has the bot's seat");
                    return Ok(());
                }
                Ok(false) => {}
                // Whoever renews the lease tells of it.
                Err(ClusterError::Away(why)) => tracing::debug!(why, "cannot ask for the seat"),
                Err(error) => return Err(error),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether this process has the seat.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn has_seat(&self) -> Result<bool, ClusterError> {
        let inner = &self.inner;
        let (bot, name, start) = (inner.bot(), &inner.options.name, inner.membership.start);
        let statement = "select from aetheel.seat where bot = $1 and node = $2 and start = $3";
        let row = inner
            .database
            .call(async |client| client.query_opt(statement, &[&bot, name, &start]).await)
            .await?;
        Ok(row.is_some())
    }

    /// Gives the seat up, if this node has it: another one takes it.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn give_seat(&self) -> Result<(), ClusterError> {
        let statement = "given as (
                 delete from aetheel.seat using me where seat.bot = $1 and seat.node = $2
             )
             select from me";
        self.inner.write(statement, &[]).await
    }

    /// What a file says that goes with the seat.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn seat_file(&self, name: &str) -> Result<Option<String>, ClusterError> {
        let bot = self.inner.bot();
        let statement = "select body from aetheel.seat_file where bot = $1 and name = $2";
        let row = self
            .inner
            .database
            .call(async |client| client.query_opt(statement, &[&bot, &name]).await)
            .await?;
        Ok(row.map(|row| row.get(0)))
    }

    /// Keeps what a file says that goes with the seat.
    ///
    /// # Errors
    /// [`ClusterError`]; [`ClusterError::Fenced`] too when this node does not have the seat.
    pub async fn keep_seat_file(&self, name: &str, body: &str) -> Result<(), ClusterError> {
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

    /// When the bot logged in within the last 24 hours, on whatever node: milliseconds since 1970,
    /// in order.
    ///
    /// # Errors
    /// [`ClusterError`]
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

    /// Counts a login, before it is done.
    ///
    /// # Errors
    /// As [`Cluster::keep_seat_file`]: whoever does not have the seat must not log in.
    pub async fn logging_in(&self, at_ms: i64) -> Result<(), ClusterError> {
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

/// Takes the seat if no other node has it whose lease lasts.
async fn take(inner: &Inner) -> Result<bool, ClusterError> {
    let (bot, name, start) = (inner.bot(), &inner.options.name, inner.membership.start);
    // Whoever writes by the seat holds its row, so this waits until they are through. Where another
    // node has it nothing is written: all nodes ask all the time.
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
    let taken = inner
        .database
        .call(async |client| client.execute(statement, &[&bot, name, &start]).await)
        .await?;
    Ok(taken == 1)
}
