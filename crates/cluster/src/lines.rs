//! A node's journal in the database: the lines of `state/queue.md`.

use tokio_postgres::types::Type;

use super::{Cluster, ClusterError, Value};

/// The lines of a node's journal, and this process's place behind them.
pub struct SharedLines {
    cluster: Cluster,
    /// Number of the batch that is written next.
    batch: i64,
    /// Number of the last try to write one.
    attempt: i64,
}

impl SharedLines {
    pub(super) fn of(cluster: Cluster) -> Self {
        Self { cluster, batch: 0, attempt: 0 }
    }

    /// Everything that this node wrote, earlier processes included, unless another node took it
    /// over.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn read(&self) -> Result<String, ClusterError> {
        let inner = &self.cluster.inner;
        let (bot, name) = (inner.bot(), &inner.options.name);
        let rows = inner
            .bulk()
            .call(async |client| {
                client
                    .query(
                        "select lines from aetheel.journal where bot = $1 and node = $2
                         order by start, batch",
                        &[&bot, name],
                    )
                    .await
            })
            .await?;
        Ok(rows.iter().map(|row| row.get::<_, &str>(0)).collect())
    }

    /// Adds whole lines; they are safe when this returns. After an error they may be there or come
    /// there; the next call puts its own in their place.
    ///
    /// # Errors
    /// [`ClusterError`]; of [`ClusterError::Fenced`] nothing is there, and nothing will be.
    pub async fn append(&mut self, lines: &str) -> Result<(), ClusterError> {
        self.write("select", lines).await
    }

    /// Puts these lines in the place of all.
    ///
    /// # Errors
    /// As [`SharedLines::append`].
    pub async fn replace(&mut self, lines: &str) -> Result<(), ClusterError> {
        let others = "delete from aetheel.journal using written
             where journal.bot = $1 and journal.node = $2 and (journal.start, journal.batch) < ($3, $4)";
        self.write(others, lines).await
    }

    /// `besides`: what is done in the same transaction, if the lines are `written`.
    async fn write(&mut self, besides: &str, lines: &str) -> Result<(), ClusterError> {
        self.attempt += 1;
        // A try that was given up may reach the server later than the next one, which has its
        // number: it must change nothing then. The same try may come twice: a call is repeated when
        // its connection breaks.
        let statement = format!(
            "written as (
                 insert into aetheel.journal as known (bot, node, start, batch, attempt, lines)
                 select $1, $2, $3, $4, $5, $6 from me
                 on conflict (bot, node, start, batch) do update
                 set attempt = excluded.attempt, lines = excluded.lines
                 where known.attempt <= excluded.attempt
                 returning 1
             ), besides as ({besides})
             select from written"
        );
        let numbered: [(Value<'_>, Type); 3] =
            [(&self.batch, Type::INT8), (&self.attempt, Type::INT8), (&lines, Type::TEXT)];
        let inner = &self.cluster.inner;
        inner.write_by(&inner.lines, &statement, &numbered).await?;
        self.batch += 1;
        Ok(())
    }
}
