//! State files in the database, so that the next node goes on with them.

use super::{Cluster, ClusterError};

/// The state files of a bot. Cheap to clone.
#[derive(Clone)]
pub struct Mirror {
    cluster: Cluster,
}

impl Mirror {
    pub(super) fn of(cluster: Cluster) -> Self {
        Self { cluster }
    }

    /// All files, by name.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn read(&self) -> Result<Vec<(String, String)>, ClusterError> {
        let inner = &self.cluster.inner;
        let bot = inner.options.bot.cast_signed();
        let rows = inner
            .database
            .call(async |client| {
                client
                    .query(
                        "select name, body from aetheel.file where bot = $1 order by name",
                        &[&bot],
                    )
                    .await
            })
            .await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Keeps what a file says now.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn write(&self, name: &str, body: &str) -> Result<(), ClusterError> {
        let statement = "kept as (
                 insert into aetheel.file (bot, name, body) select $1, $3, $4 from seat
                 on conflict (bot, name) do update set body = excluded.body, changed = now()
                 returning 1
             )
             select from kept";
        self.cluster.inner.write(statement, &[&name, &body]).await
    }
}
