//! The last node leaves its cluster, to serve alone.

use super::{Cluster, ClusterError};

/// What is in the way of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InTheWay {
    /// Other nodes that work, or left something that nobody has taken over.
    pub others: Vec<String>,
    /// Letters of webhooks and schedules that nobody has taken.
    pub letters: u64,
}

impl Cluster {
    /// Looks what other nodes have yet of the bot. Messages of Discord do not count: who serves
    /// alone reads what was missed.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn in_the_way(&self, kind: &str) -> Result<InTheWay, ClusterError> {
        let (bot, name) = (self.inner.bot(), &self.inner.options.name);
        let others = "select name from aetheel.node where bot = $1 and name <> $2 and (
                 lease > clock_timestamp()
                 or exists (select from aetheel.lane where lane.bot = $1 and lane.node = node.name)
                 or exists (select from aetheel.journal where journal.bot = $1 and journal.node = node.name)
             ) order by name";
        let letters =
            "select count(*) from aetheel.mail where bot = $1 and kind = $2 and done is null";
        self.inner
            .database
            .call(async |client| {
                let others = client.query(others, &[&bot, name]).await?;
                let letters: i64 = client.query_one(letters, &[&bot, &kind]).await?.get(0);
                Ok(InTheWay {
                    others: others.iter().map(|row| row.get(0)).collect(),
                    letters: letters.cast_unsigned(),
                })
            })
            .await
    }

    /// Forgets everything of the bot in the database: this node has it all. Its lease is over then.
    ///
    /// # Errors
    /// [`ClusterError`]; nothing was forgotten, or, of [`ClusterError::Away`], all of it.
    pub async fn dissolve(&self) -> Result<(), ClusterError> {
        let statement = "gone as (
                 delete from aetheel.lane using me where lane.bot = $1
             ), threads as (delete from aetheel.thread using me where thread.bot = $1),
             mail as (delete from aetheel.mail using me where mail.bot = $1),
             journal as (delete from aetheel.journal using me where journal.bot = $1),
             files as (delete from aetheel.file using me where file.bot = $1),
             handovers as (delete from aetheel.handover using me where handover.bot = $1),
             logins as (delete from aetheel.login using me where login.bot = $1),
             components as (delete from aetheel.component using me where component.bot = $1),
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
