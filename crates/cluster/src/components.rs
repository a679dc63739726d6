//! Components that an operator handed to all nodes: of each file the newest.
//!
//! Kept as bytes that nobody has judged: each node does, by its own rules.

use tokio_postgres::types::Type;

use super::database::Database;
use super::{BULK_TIMEOUT, Cluster, ClusterError};

/// A component on its way to all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// The name of its file, as whoever handed it out says.
    pub file: String,
    /// SHA-256 of the bytes in lower-case hex, as whoever handed it out says.
    pub digest: String,
    /// The component.
    pub bytes: Vec<u8>,
    /// What stands in its `.minisig`.
    pub signature: Option<Vec<u8>>,
    /// The node it comes from.
    pub from: String,
}

/// One that this node has not looked at yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Its number; what was handed out later has a higher one.
    pub number: i64,
    /// The component; without bytes where it has more than were asked for.
    pub component: Component,
}

impl Cluster {
    /// Hands a component to all nodes of a bot, those that come later included, in place of what had
    /// the name of its file. Needs no node of its own, and waits for none.
    ///
    /// # Errors
    /// [`ClusterError`]; of all but [`ClusterError::Away`] nothing was handed out.
    pub async fn hand_out(url: &str, bot: u64, component: &Component) -> Result<(), ClusterError> {
        let database = Database::parse(url, BULK_TIMEOUT)
            .map_err(|why| ClusterError::Refused(format!("CLUSTER_URL {why}")))?;
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

    /// The next component that this node has not looked at, of at most so many bytes: see
    /// [`super::Peers::component`].
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn next_component(&self, most: u64) -> Result<Option<Handed>, ClusterError> {
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
        Ok(row.map(|row| Handed {
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

    /// Says that this node has looked at all components up to a number, and took or refused them.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn looked_at_component(&self, number: i64) -> Result<(), ClusterError> {
        let statement = "looked as (
                 update aetheel.node set component = greatest(component, $4) from me
                 where node.bot = $1 and node.name = $2 and node.start = $3
                 returning 1
             )
             select from looked";
        self.inner.write(statement, &[(&number, Type::INT8)]).await
    }
}
