//! A node's journal in the database: every accepted event and its state. A machine without a
//! cluster writes the same lines to `state/queue.md`.

use tokio_postgres::types::Type;

use super::{Cluster, ClusterError, SqlValue};

/// Writes and reads the lines of a node's journal.
pub struct JournalLines {
    cluster: Cluster,
    batch: i64,
    /// Number of the latest attempt to write a batch.
    attempt: i64,
}

impl JournalLines {
    pub(super) fn of(cluster: Cluster) -> Self {
        Self { cluster, batch: 0, attempt: 0 }
    }

    /// Returns the whole journal of this node, including the lines of earlier processes. It is
    /// empty if another node took it over.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
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

    /// Appends complete lines. They are durable when this returns. After an error they may have
    /// been written, or may still be written; the next call replaces them.
    ///
    /// # Errors
    /// Returns a [`ClusterError`]. After [`ClusterError::Fenced`] the lines are not written and
    /// never will be.
    pub async fn append(&mut self, lines: &str) -> Result<(), ClusterError> {
        self.write("select", lines).await
    }

    /// Replaces the whole journal with these lines.
    ///
    /// # Errors
    /// Same as [`JournalLines::append`].
    pub async fn replace(&mut self, lines: &str) -> Result<(), ClusterError> {
        let others = "delete from aetheel.journal using written
             where journal.bot = $1 and journal.node = $2 and (journal.start, journal.batch) < ($3, $4)";
        self.write(others, lines).await
    }

    /// Writes a batch. `besides` is a statement for the same transaction. It runs if the common
    /// table expression `written` has a row.
    async fn write(&mut self, besides: &str, lines: &str) -> Result<(), ClusterError> {
        self.attempt += 1;
        // An abandoned attempt may reach the server after its successor, which has the same batch
        // number. It must then change nothing. The same attempt may arrive twice, because a call is
        // repeated when its connection breaks.
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
        let numbered: [(SqlValue<'_>, Type); 3] =
            [(&self.batch, Type::INT8), (&self.attempt, Type::INT8), (&lines, Type::TEXT)];
        let inner = &self.cluster.inner;
        inner.write_by(&inner.journal, &statement, &numbered).await?;
        self.batch += 1;
        Ok(())
    }
}
