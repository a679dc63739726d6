//! Reads the state of the database without joining the cluster. Changes nothing and creates no
//! tables.

use std::time::Duration;

use super::clocks;
use super::database::{Database, OLDEST_SERVER, SCHEMA, schema_version};
use super::nodes::{self, Node};
use super::{Cluster, ClusterError, SKEW_LIMIT, SKEW_WARNING_LIMIT};

const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of the database.
#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseStatus {
    /// Major version of the server, for example 17.
    pub server: i32,
    /// Whether this version is supported.
    pub is_supported: bool,
    /// A lower bound for the difference between this machine's clock and the server's.
    pub clock_skew: Duration,
    /// The state of its schema.
    pub tables: Tables,
    /// All nodes; empty if the tables cannot be read.
    pub nodes: Vec<Node>,
}

/// The state of the schema, compared with the version that this program needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// There are no tables; the first node creates them.
    None,
    /// The version is this program's.
    Current,
    /// The version is older; the next node that starts upgrades it.
    Older(i32),
    /// The version is newer, but this program can use it.
    Newer(i32),
    /// The version is newer, and this program cannot use it.
    TooNew(i32),
}

/// The consequence of a clock difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skew {
    /// None.
    Negligible,
    /// A node that joins logs a warning.
    Warning,
    /// A node cannot join.
    Refused,
}

impl DatabaseStatus {
    /// Returns the consequence of the clock difference for a node that joins.
    #[must_use]
    pub fn skew(&self) -> Skew {
        match self.clock_skew {
            apart if apart > SKEW_LIMIT => Skew::Refused,
            apart if apart > SKEW_WARNING_LIMIT => Skew::Warning,
            _ => Skew::Negligible,
        }
    }
}

impl Cluster {
    /// Reads the state of the database.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn inspect(url: &str) -> Result<DatabaseStatus, ClusterError> {
        let database = Database::parse(url, QUERY_TIMEOUT)?;
        let server = database.server().await.map_err(ClusterError::on_first_connect)?;
        let apart = clocks::clock_skew(&database).await?;
        let found = database.call(async |client| schema_version(client).await).await?;
        let tables = match found {
            None => Tables::None,
            Some((SCHEMA, _)) => Tables::Current,
            Some((version, since)) if since > SCHEMA => Tables::TooNew(version),
            Some((version, _)) if version > SCHEMA => Tables::Newer(version),
            Some((version, _)) => Tables::Older(version),
        };
        let nodes = match tables {
            Tables::Current | Tables::Newer(_) => nodes::all(&database).await?,
            Tables::None | Tables::Older(_) | Tables::TooNew(_) => Vec::new(),
        };
        let serves = server >= OLDEST_SERVER;
        Ok(DatabaseStatus {
            server: server / 10_000,
            is_supported: serves,
            clock_skew: apart,
            tables,
            nodes,
        })
    }
}
