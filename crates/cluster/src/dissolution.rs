//! Dissolves a cluster when its last node leaves and continues alone.

use super::mail::EVENT_MESSAGE;
use super::{Cluster, ClusterError};

/// The reasons why the cluster cannot be dissolved yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DissolutionBlockers {
    /// Other nodes that are running, or that have data which no node has taken over.
    pub others: Vec<String>,
    /// The number of unprocessed messages from webhooks and schedules.
    pub messages: u64,
}

impl Cluster {
    /// Returns the data of this bot that other nodes still have. Only messages with events of
    /// webhooks and schedules count, because a machine that runs alone reads the other ones from
    /// the chat platform.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn dissolution_blockers(&self) -> Result<DissolutionBlockers, ClusterError> {
        let (bot, name) = (self.inner.bot(), &self.inner.options.name);
        let others = "select name from aetheel.node where bot = $1 and name <> $2 and (
                 lease > clock_timestamp()
                 or exists (select from aetheel.lane where lane.bot = $1 and lane.node = node.name)
                 or exists (select from aetheel.journal where journal.bot = $1 and journal.node = node.name)
             ) order by name";
        let messages =
            "select count(*) from aetheel.mail where bot = $1 and kind = $2 and done is null";
        self.inner
            .database
            .call(async |client| {
                let others = client.query(others, &[&bot, name]).await?;
                let messages: i64 =
                    client.query_one(messages, &[&bot, &EVENT_MESSAGE]).await?.get(0);
                Ok(DissolutionBlockers {
                    others: others.iter().map(|row| row.get(0)).collect(),
                    messages: messages.cast_unsigned(),
                })
            })
            .await
    }

    /// Deletes all data of the bot from the database, after this node has imported it. Ends this
    /// node's lease.
    ///
    /// # Errors
    /// Returns a [`ClusterError`]; then nothing was deleted, or, after [`ClusterError::Away`],
    /// possibly everything.
    pub async fn dissolve(&self) -> Result<(), ClusterError> {
        let statement = "gone as (
                 delete from aetheel.lane using me where lane.bot = $1
             ), threads as (delete from aetheel.thread using me where thread.bot = $1),
             mail as (delete from aetheel.mail using me where mail.bot = $1),
             journal as (delete from aetheel.journal using me where journal.bot = $1),
             files as (delete from aetheel.file using me where file.bot = $1),
             handovers as (delete from aetheel.handover using me where handover.bot = $1),
             logins as (delete from aetheel.login using me where login.bot = $1),
             spent as (delete from aetheel.budget_turn using me where budget_turn.bot = $1),
             grants as (delete from aetheel.budget_grant using me where budget_grant.bot = $1),
             seats as (delete from aetheel.seat_file using me where seat_file.bot = $1),
             seat as (delete from aetheel.seat using me where seat.bot = $1),
             others as (delete from aetheel.node using me where node.bot = $1 and node.name <> $2)
             select from me";
        self.inner.write(statement, &[]).await?;
        self.inner.membership.end();
        let (bot, name) = (self.inner.bot(), &self.inner.options.name);
        let own = "delete from aetheel.node where bot = $1 and name = $2";
        self.inner.database.call(async |client| client.execute(own, &[&bot, name]).await).await?;
        Ok(())
    }
}
