//! A look at the database by somebody who takes no part. It changes nothing, and makes no tables.

use std::time::Duration;

use super::clocks;
use super::database::{Database, OLDEST_SERVER, SCHEMA, form};
use super::nodes::{self, Node};
use super::{Cluster, ClusterError, SKEW_LIMIT, SKEW_TOLD};

/// For one question.
const PATIENCE: Duration = Duration::from_secs(5);

/// What there is.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Version of the server, as 17.
    pub server: i32,
    /// Whether it is new enough.
    pub serves: bool,
    /// How far this machine's clock and the server's are apart, at least.
    pub apart: Duration,
    /// The form of its tables.
    pub tables: Tables,
    /// Everything known of all nodes; none where the tables cannot be read.
    pub nodes: Vec<Node>,
}

/// The tables as they are for this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// The first node makes them.
    None,
    /// Those of this program.
    Ours,
    /// The next node that starts makes them those of this program.
    Older(i32),
    /// Of a newer program that goes on beside this one.
    Newer(i32),
    /// Of a newer program, and this one cannot use them.
    TooNew(i32),
}

/// What clocks that are so far apart mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skew {
    /// Nothing.
    Fine,
    /// A node that joins is told of it.
    Told,
    /// No node can join.
    Refused,
}

impl Look {
    /// What the clocks mean for a node that joins.
    #[must_use]
    pub fn skew(&self) -> Skew {
        match self.apart {
            apart if apart > SKEW_LIMIT => Skew::Refused,
            apart if apart > SKEW_TOLD => Skew::Told,
            _ => Skew::Fine,
        }
    }
}

impl Cluster {
    /// Looks at the database.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn look(url: &str) -> Result<Look, ClusterError> {
        let database = Database::parse(url, PATIENCE)
            .map_err(|why| ClusterError::Refused(format!("CLUSTER_URL {why}")))?;
        let server = database.server().await.map_err(ClusterError::at_first)?;
        let apart = clocks::clocks_apart(&database).await?;
        let found = database.call(async |client| form(client).await).await?;
        let tables = match found {
            None => Tables::None,
            Some((SCHEMA, _)) => Tables::Ours,
            Some((version, since)) if since > SCHEMA => Tables::TooNew(version),
            Some((version, _)) if version > SCHEMA => Tables::Newer(version),
            Some((version, _)) => Tables::Older(version),
        };
        let nodes = match tables {
            Tables::Ours | Tables::Newer(_) => nodes::all(&database).await?,
            Tables::None | Tables::Older(_) | Tables::TooNew(_) => Vec::new(),
        };
        let serves = server >= OLDEST_SERVER;
        Ok(Look { server: server / 10_000, serves, apart, tables, nodes })
    }
}
