//! Several machines serve one bot through a PostgreSQL database.
//!
//! Owns the database: the nodes, the lanes that each node has, the messages between nodes, and the
//! state that one node exports to another. Must not know Discord or agents. This is the only crate
//! that uses `tokio-postgres`.
//!
//! The main type is [`Cluster`]. Every node has a lease ([`Cluster::lease`]), which it renews four
//! times per lease duration. A node that could not renew it for two thirds of the duration sends
//! nothing more, measured by its own clock, before another node can take over. A takeover gives the
//! dead node a new start number. Every write runs in a transaction that checks the start number and
//! locks the node's row, so the state that another node reads after a takeover is final. A second,
//! longer lease ([`Cluster::turns`]) limits the node's agents: lanes in which an agent may still run
//! stay closed at the new node until that lease is over. `tests/cluster/` tests this crate.
//!
//! | module | content |
//! |---|---|
//! | [`database`] | connections and the schema |
//! | [`error`] | the reasons why an operation failed |
//! | [`clocks`] | the difference between this machine's clock and the database's |
//! | [`membership`] | this node, its leases and its published description |
//! | [`nodes`] | the list of all nodes |
//! | [`seat`] | the node that is logged in to Discord |
//! | [`lanes`] | which node has which lane |
//! | [`mail`] | messages to the node that has a lane |
//! | [`handover`] | state that one node gives to another |
//! | [`leaving`] | the end of a cluster |
//! | [`look`] | reading the state without joining |
//! | [`components`] | components that an operator sent to all nodes |
//! | [`lines`] | a node's journal in the database |
//! | [`mirror`] | a node's state files in the database |
//!
//! Operations of more than one statement are functions of the database (`schema/`): one call is one
//! transaction.

mod clocks;
mod components;
mod database;
mod error;
mod handover;
mod lanes;
mod leaving;
mod lines;
mod look;
mod mail;
mod membership;
mod mirror;
mod nodes;
mod seat;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

pub use self::components::{Component, Handed};
use self::database::Database;
pub use self::error::ClusterError;
pub use self::handover::Handover;
pub use self::lanes::{LaneRow, Owner};
pub use self::leaving::InTheWay;
pub use self::lines::SharedLines;
pub use self::look::{Look, Skew, Tables};
pub use self::mail::{Inbox, Letter, Taken};
use self::membership::Membership;
pub use self::membership::{Joined, Load, Peers};
pub use self::mirror::Mirror;
pub use self::nodes::Node;
use aetheel_model::lease::{Lease, boot_ms};

/// Parts of a lease's span after which it is renewed, and after which its node stops to speak.
const RENEWALS: u32 = 4;
const FENCE: (u32, u32) = (2, 3);
/// How many events a process start has numbers for, as a power of two.
const NUMBERS: u32 = 32;
/// Clocks that differ by more are refused: times of messages and of locks would make no sense.
const SKEW_LIMIT: Duration = Duration::from_secs(60);
/// Clocks that differ by more are told of.
const SKEW_TOLD: Duration = Duration::from_secs(2);

/// For what may be large, and must not hold up anything else.
const BULK_TIMEOUT: Duration = Duration::from_secs(60);
/// A value of a statement.
type Value<'a> = &'a (dyn tokio_postgres::types::ToSql + Sync);

/// How a node takes part.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Its name, another one on every machine.
    pub name: String,
    /// Which machine has that name: made once, and kept there.
    pub identity: String,
    /// The bot's user id.
    pub bot: u64,
    /// How long the lease to speak lasts.
    pub lease: Duration,
    /// How long the lease for turns lasts; not shorter than the other one.
    pub turn_lease: Duration,
    /// How long after a start of the database, after its own, and after a time without the
    /// database this node takes nothing over: nodes whose leases ran out because the database was
    /// away come back in that time.
    pub takeover_grace: Duration,
    /// What it has, so that lanes can be pinned to it.
    pub labels: Vec<String>,
    /// Digest of its operator's files, until it reports another one.
    pub files: String,
    /// Digest of the components that serve, until it reports another one.
    pub components: String,
}

/// This node's part in the cluster. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    /// For ordinary calls.
    database: Database,
    /// For what must not wait for those.
    renewals: Database,
    /// For lines of the journal, which people wait for.
    lines: Database,
    options: NodeOptions,
    membership: Membership,
    /// What goes out with the next renewal.
    load: Mutex<Load>,
    peers: watch::Sender<Peers>,
    /// Whether the last renewal failed.
    away: watch::Sender<bool>,
    lanes: Mutex<lanes::Known>,
    /// Held by whoever looks for letters.
    looking: tokio::sync::Mutex<()>,
    /// There may be letters.
    heard: Arc<Notify>,
}

impl Inner {
    fn new(database: Database, options: NodeOptions, membership: Membership) -> Self {
        let load = Load {
            files: options.files.clone(),
            components: options.components.clone(),
            ..Load::default()
        };
        Self {
            renewals: database.apart(options.lease / RENEWALS),
            lines: database.apart(options.lease / RENEWALS),
            database,
            options,
            membership,
            load: Mutex::new(load),
            peers: watch::Sender::default(),
            away: watch::Sender::new(false),
            lanes: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
            heard: Arc::default(),
        }
    }

    fn bot(&self) -> i64 {
        self.options.bot.cast_signed()
    }

    /// A connection for what may be large.
    fn bulk(&self) -> Database {
        self.database.apart(BULK_TIMEOUT)
    }

    /// Writes for this node (`$1` is the bot, `$2` the node, `$3` its start) if nobody took over.
    /// `statement` goes on behind `with me as (…),`: it writes if `me` has a row, and returns one.
    /// Nobody takes over what the node has before the transaction is over.
    async fn write(&self, statement: &str, more: &[(Value<'_>, Type)]) -> Result<(), ClusterError> {
        self.write_by(&self.database, statement, more).await
    }

    /// The same on one of the connections.
    async fn write_by(
        &self,
        database: &Database,
        statement: &str,
        more: &[(Value<'_>, Type)],
    ) -> Result<(), ClusterError> {
        let statement = format!(
            "with me as (
                 select from aetheel.node
                 where bot = $1 and name = $2 and start = $3
                 for share
             ), {statement}"
        );
        let written = self.fenced_by(database, &statement, more).await?;
        if written.len() == 1 { Ok(()) } else { Err(ClusterError::Fenced) }
    }

    /// Calls what looks at the start number itself, in one round trip; values as in
    /// [`Inner::write`].
    async fn fenced(
        &self,
        statement: &str,
        more: &[(Value<'_>, Type)],
    ) -> Result<Vec<Row>, ClusterError> {
        self.fenced_by(&self.database, statement, more).await
    }

    async fn fenced_by(
        &self,
        database: &Database,
        statement: &str,
        more: &[(Value<'_>, Type)],
    ) -> Result<Vec<Row>, ClusterError> {
        let lease = &self.membership.lease;
        if lease.is_over() {
            return Err(ClusterError::Fenced);
        }
        if !lease.lasts() {
            // The next renewal shows whether another node took over.
            return Err(ClusterError::Away("the lease of this node has run out".to_owned()));
        }
        let (bot, start) = (self.bot(), self.membership.start);
        let mut values: Vec<(Value<'_>, Type)> =
            vec![(&bot, Type::INT8), (&self.options.name, Type::TEXT), (&start, Type::INT8)];
        values.extend(more.iter().cloned());
        database.call(async |client| client.query_typed(statement, &values).await).await
    }
}

/// The first number of a process start's events.
fn first_number(start: u64) -> u64 {
    start << NUMBERS
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
            match Self::try_join(&database, &options).await.map_err(ClusterError::at_first) {
                Ok((start, joined, roots)) => {
                    let membership = Membership::new((start, joined), asked_ms, &options);
                    let inner = Arc::new(Inner::new(database, options, membership));
                    inner.lanes.lock().are_open(roots);
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

    async fn try_join(
        database: &Database,
        options: &NodeOptions,
    ) -> Result<(i64, Joined, Vec<String>), ClusterError> {
        database.prepare().await?;
        clocks::compare_clocks(database).await?;
        let (start, joined) = membership::enter(database, options).await?;
        Ok((start, joined, lanes::open_lanes(database, options, None).await?))
    }

    /// The node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.options.name
    }

    /// Until when this node may speak. It ends for good when another node took over; before that
    /// it may run out, and be extended again once the database is back.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.inner.membership.lease.clone()
    }

    /// Until when this node's agents may run. One that runs after that may run beside that of
    /// another node.
    #[must_use]
    pub fn turns(&self) -> Lease {
        self.inner.membership.turns.clone()
    }

    /// Whether the database is away, as far as renewals of the lease show.
    #[must_use]
    pub fn away(&self) -> watch::Receiver<bool> {
        self.inner.away.subscribe()
    }

    /// How this node came. It stays so over restarts until [`Cluster::settled`], so that one that
    /// dies on the way begins with the same.
    #[must_use]
    pub fn joined(&self) -> Joined {
        self.inner.membership.joined
    }

    /// Says that this machine's own notes are those of this node: what it had alone is brought, or
    /// what another node took over is put aside.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn settled(&self) -> Result<(), ClusterError> {
        membership::settled(&self.inner).await
    }

    /// The first number of this process start's events: those of all starts of all nodes differ,
    /// and those of a later start are higher.
    #[must_use]
    pub fn first_number(&self) -> u64 {
        first_number(self.inner.membership.start.cast_unsigned())
    }

    /// What this node says of itself from the next renewal on.
    pub fn report(&self, load: Load) {
        *self.inner.load.lock() = load;
    }

    /// The nodes of the bot; seen again with each renewal.
    #[must_use]
    pub fn peers(&self) -> watch::Receiver<Peers> {
        self.inner.peers.subscribe()
    }

    /// Gives the lease back, so that others follow at once.
    pub async fn leave(&self) {
        membership::leave(&self.inner).await;
    }

    /// The journal of this node. One writes in a process; more of them may read.
    #[must_use]
    pub fn lines(&self) -> SharedLines {
        SharedLines::of(self.clone())
    }

    /// The state files of this node.
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
        database.has_tables().await.map_err(ClusterError::at_first)?;
        nodes::all(&database).await
    }

    /// Asks a node to hand over its lanes, or not to any more; false: no node of this name lives.
    /// The wish outlives a crash of the node, and ends when it leaves.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn want_drain(url: &str, node: &str, wanted: bool) -> Result<bool, ClusterError> {
        let database = Database::parse(url, Duration::from_secs(5))
            .map_err(|why| ClusterError::Refused(format!("CLUSTER_URL {why}")))?;
        database.has_tables().await.map_err(ClusterError::at_first)?;
        nodes::want_drain(&database, node, wanted).await
    }
}
