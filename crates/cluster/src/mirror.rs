//! A node's state files in the database, for the node that takes over from it.

use tokio_postgres::types::Type;

use super::{Cluster, ClusterError};

/// The state files of a node. Cheap to clone.
#[derive(Clone)]
pub struct Mirror {
    cluster: Cluster,
}

impl Mirror {
    pub(super) fn of(cluster: Cluster) -> Self {
        Self { cluster }
    }

    /// Saves the files of `read` that differ from those in the database. Calls run one after the
    /// other, and each reads the files when its turn comes, so that the newest content is saved last.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the first database call that failed.
    pub async fn write_changed(
        &self,
        read: impl Future<Output = Vec<(String, Vec<u8>)>>,
    ) -> Result<(), ClusterError> {
        let mut known = self.cluster.inner.state_files.lock().await;
        for (name, body) in read.await {
            if known.get(&name) != Some(&body) {
                self.write(&name, &String::from_utf8_lossy(&body)).await?;
                known.insert(name, body);
            }
        }
        Ok(())
    }

    /// Saves the content of a file.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn write(&self, name: &str, body: &str) -> Result<(), ClusterError> {
        let statement = "kept as (
                 insert into aetheel.file (bot, node, name, body) select $1, $2, $4, $5 from me
                 on conflict (bot, node, name) do update
                 set body = excluded.body, changed = clock_timestamp()
                 returning 1
             )
             select from kept";
        self.cluster.inner.write(statement, &[(&name, Type::TEXT), (&body, Type::TEXT)]).await
    }

    /// Returns all files, sorted by name.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn read(&self) -> Result<Vec<(String, String)>, ClusterError> {
        let inner = &self.cluster.inner;
        let (bot, name) = (inner.bot(), &inner.options.name);
        let rows = inner
            .bulk()
            .call(async |client| {
                client
                    .query(
                        "select name, body from aetheel.file where bot = $1 and node = $2
                         order by name",
                        &[&bot, name],
                    )
                    .await
            })
            .await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }
}
