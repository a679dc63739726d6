//! Components (the WebAssembly files of backends) that an operator sent to all nodes. The database
//! keeps the latest one of each file name.
//!
//! The database stores the bytes unchecked. Each node decides by its own trust rules whether it
//! uses them.

use tokio_postgres::types::Type;

use super::database::Database;
use super::{BULK_TIMEOUT, Cluster, ClusterError};

/// A component that is sent to all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// The name of its file, as the sender gave it.
    pub file: String,
    /// SHA-256 of the bytes in lower-case hex, as computed by the sender.
    pub digest: String,
    /// The component.
    pub bytes: Vec<u8>,
    /// The content of its `.minisig` file.
    pub signature: Option<Vec<u8>>,
    /// The name of the node that sent it.
    pub from: String,
}

/// A component that this node has not examined yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedComponent {
    /// Its number. Components that were sent later have higher numbers.
    pub number: i64,
    /// The component. `bytes` is empty if it is larger than the requested limit.
    pub component: Component,
}

impl Cluster {
    /// Sends a component to all nodes of a bot, including nodes that join later. It replaces the
    /// component with the same file name. Does not need to run on a node, and does not wait for the
    /// nodes.
    ///
    /// # Errors
    /// Returns a [`ClusterError`]. Unless it is [`ClusterError::Away`], nothing was sent.
    pub async fn publish_component(
        url: &str,
        bot: u64,
        component: &Component,
    ) -> Result<(), ClusterError> {
        let database = Database::parse(url, BULK_TIMEOUT)?;
        database.prepare().await?;
        let Component { file, digest, bytes, signature, from } = component;
        let bot = bot.cast_signed();
        let statement = "select aetheel.hand_out($1, $2, $3, $4, $5, $6)";
        database
            .call(async |client| {
                client.execute(statement, &[&bot, file, digest, bytes, signature, from]).await
            })
            .await
            .map(drop)
    }

    /// Returns the next component that this node has not examined. Its bytes are left out if there
    /// are more than `most`. See [`super::Peers::component`].
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn next_component(
        &self,
        most: u64,
    ) -> Result<Option<PublishedComponent>, ClusterError> {
        let (bot, name) = (self.inner.bot(), &self.inner.options.name);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let statement = "select number, file, digest, from_node,
                    case when octet_length(body) <= $3::int8 then body else ''::bytea end,
                    case when octet_length(body) <= $3::int8 then signature end
             from aetheel.component
             where bot = $1 and number > (select component from aetheel.node
                                          where node.bot = $1 and node.name = $2)
             order by number limit 1";
        let row = self
            .inner
            .bulk()
            .call(async |client| client.query_opt(statement, &[&bot, name, &most]).await)
            .await?;
        Ok(row.map(|row| PublishedComponent {
            number: row.get(0),
            component: Component {
                file: row.get(1),
                digest: row.get(2),
                from: row.get(3),
                bytes: row.get(4),
                signature: row.get(5),
            },
        }))
    }

    /// Records that this node has accepted or refused all components up to a number.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn mark_component_seen(&self, number: i64) -> Result<(), ClusterError> {
        let statement = "looked as (
                 update aetheel.node set component = greatest(component, $4) from me
                 where node.bot = $1 and node.name = $2 and node.start = $3
                 returning 1
             )
             select from looked";
        self.inner.write(statement, &[(&number, Type::INT8)]).await
    }
}
