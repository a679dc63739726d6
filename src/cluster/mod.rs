//! Several machines for one bot, by way of a PostgreSQL database: nodes, who of them serves, and
//! what the next one needs to go on.
//!
//! Owns the database; knows neither Discord nor agents. Every node has a lease, which it renews four
//! times in its span, and one node has the **seat**: it serves the bot. Whatever a node writes for
//! the bot, it writes in a transaction that finds it in the seat, with a lease that lasts; so what
//! another node reads when it has taken the seat is final. A node that could not renew its lease
//! for two thirds of its span counts itself out ([`Cluster::lease`]), on its own clock and before
//! anybody else may follow. Pinned by `tests/cluster/`.
//!
//! | room | owns |
//! |---|---|
//! | [`database`] | the connection, the tables and their form |
//! | [`membership`] | nodes and their leases |
//! | [`seat`] | who serves |
//! | [`lines`] | the journal in the database |
//! | [`mirror`] | state files in the database |

mod database;
mod lines;
mod membership;
mod mirror;
mod seat;

use std::sync::Arc;
use std::time::Duration;

use self::database::Database;
pub use self::lines::SharedLines;
use self::membership::Membership;
pub use self::membership::Node;
pub use self::mirror::Mirror;
pub use self::seat::Seat;
use crate::lease::{Lease, boot_ms};

/// Parts of a lease's span after which it is renewed, and after which its node counts itself out.
const RENEWALS: u32 = 4;
const FENCE: (u32, u32) = (2, 3);
/// Clocks that differ by more are refused: times of messages and of locks would make no sense.
const SKEW_LIMIT: Duration = Duration::from_secs(60);
/// Clocks that differ by more are told of.
const SKEW_TOLD: Duration = Duration::from_secs(2);

/// A value of a statement.
type Value<'a> = &'a (dyn tokio_postgres::types::ToSql + Sync);

/// Why something in the database was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// It cannot be reached, or does not answer. Whether what was asked took effect is not known.
    #[error("the database of the cluster is away: {0}")]
    Away(String),
    /// It refuses, and will again.
    #[error("the database of the cluster cannot be used: {0}")]
    Refused(String),
    /// Another node has the seat, or this one's lease is over.
    #[error("this node does not serve any more")]
    Fenced,
}

impl ClusterError {
    fn of(error: &tokio_postgres::Error) -> Self {
        let why = crate::plain::with_causes(error);
        match error.code().map(tokio_postgres::error::SqlState::code) {
            // Classes of SQLSTATE: connections, resources, an operator's intervention, and what is
            // in the way of another transaction (PostgreSQL 18, appendix A).
            Some(code)
                if ["08", "40", "53", "57", "58"].iter().any(|class| code.starts_with(class)) =>
            {
                Self::Away(why)
            }
            Some(_) => Self::Refused(why),
            None => Self::Away(why),
        }
    }
}

/// How a node takes part.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Its name, another one on every machine.
    pub name: String,
    /// Which machine has that name: made once, and kept there.
    pub identity: String,
    /// The bot's user id.
    pub bot: u64,
    /// How long a lease lasts.
    pub lease: Duration,
}

/// This node's part in the cluster. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    database: Database,
    options: NodeOptions,
    membership: Membership,
}

impl Inner {
    /// Writes for the bot (`$1`) if this node (its start is `$2`) has its seat, with a lease that
    /// lasts. `statement` goes on behind `with seat as (…),`: it writes if `seat` has a row, and
    /// returns one. Nobody else takes the seat before the transaction is over.
    async fn write(&self, statement: &str, more: &[Value<'_>]) -> Result<(), ClusterError> {
        if !self.membership.lease.lasts() {
            return Err(ClusterError::Fenced);
        }
        let (bot, start) = (self.options.bot.cast_signed(), self.membership.start);
        let statement = format!(
            "with seat as (
                 select seat.bot from aetheel.seat join aetheel.node on node.name = seat.node
                 where seat.bot = $1 and seat.start = $2 and node.start = $2
                   and node.lease > clock_timestamp()
                 for share of seat
             ), {statement}"
        );
        let mut values: Vec<Value<'_>> = vec![&bot, &start];
        values.extend(more);
        let written =
            self.database.call(async |client| client.execute(&statement, &values).await).await?;
        if written == 1 { Ok(()) } else { Err(ClusterError::Fenced) }
    }
}

impl Cluster {
    /// Looks whether an address is one of a database.
    ///
    /// # Errors
    /// What is wrong with it, to stand behind its name.
    pub fn check(url: &str) -> Result<(), String> {
        Database::parse(url, Duration::ZERO).map(drop)
    }

    /// The password in an address, to be kept out of everything.
    #[must_use]
    pub fn password(url: &str) -> Option<String> {
        let config: tokio_postgres::Config = url.parse().ok()?;
        config.get_password().map(|password| String::from_utf8_lossy(password).into_owned())
    }

    /// Joins the cluster: makes the tables, compares clocks, takes the node's name, and renews its
    /// lease from now on. Waits for a database that is away.
    ///
    /// # Errors
    /// [`ClusterError::Refused`], and why.
    pub async fn join(url: &str, options: NodeOptions) -> Result<Self, ClusterError> {
        // A call that takes longer than until the next renewal helps nobody.
        let database = Database::parse(url, options.lease / RENEWALS)
            .map_err(|why| ClusterError::Refused(format!("CLUSTER_URL {why}")))?;
        let mut told = false;
        loop {
            let asked_ms = boot_ms();
            match Self::try_join(&database, &options).await {
                Ok(start) => {
                    let until = membership::until(asked_ms, options.lease);
                    let membership = Membership { start, lease: Lease::until(until) };
                    let inner = Arc::new(Inner { database, options, membership });
                    membership::keep(&inner);
                    return Ok(Self { inner });
                }
                Err(ClusterError::Away(why)) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(why, "the database of the cluster is away; waiting for it");
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Err(refused) => return Err(refused),
            }
        }
    }

    async fn try_join(database: &Database, options: &NodeOptions) -> Result<i64, ClusterError> {
        database.prepare().await?;
        membership::compare_clocks(database).await?;
        membership::enter(database, options).await
    }

    /// The node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.options.name
    }

    /// Until when this node may act. An agent that runs after that may run beside that of another
    /// node.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.inner.membership.lease.clone()
    }

    /// Waits until this node has the seat.
    ///
    /// # Errors
    /// [`ClusterError::Fenced`]: this node's lease was over meanwhile.
    pub async fn take_seat(&self) -> Result<Seat, ClusterError> {
        seat::wait(&self.inner).await
    }

    /// Says that this node has taken over what the one before left.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn settled(&self) -> Result<(), ClusterError> {
        seat::settled(&self.inner).await
    }

    /// Gives seat and lease back, so that another node follows at once.
    pub async fn leave(&self) {
        membership::leave(&self.inner).await;
    }

    /// The journal of the bot.
    #[must_use]
    pub fn lines(&self) -> SharedLines {
        SharedLines::of(self.clone())
    }

    /// The state files of the bot.
    #[must_use]
    pub fn mirror(&self) -> Mirror {
        Mirror::of(self.clone())
    }

    /// Everything known of all nodes.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn nodes(url: &str) -> Result<Vec<Node>, ClusterError> {
        let database = Database::parse(url, Duration::from_secs(5))
            .map_err(|why| ClusterError::Refused(format!("CLUSTER_URL {why}")))?;
        membership::all(&database).await
    }
}
