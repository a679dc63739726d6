//! Several machines serve one bot through a PostgreSQL database.
//!
//! Owns the database: the nodes, the lanes that each node has, the messages between nodes, and the
//! state that one node exports to another. Also contains the tasks of a running node, which reach
//! the chat platform and the dispatcher through the ports of `aetheel-dispatch`. Must not know
//! another adapter. This is the only crate that uses `tokio-postgres`.
//!
//! The main type is [`Cluster`]. Every node has a lease ([`Cluster::lease`]), which it renews four
//! times per lease duration. A node that could not renew it for two thirds of the duration sends
//! nothing more, measured by its own clock, before another node can take over. A takeover gives the
//! dead node a new start number. Every write runs in a transaction that checks the start number and
//! locks the node's row, so the state that another node reads after a takeover is final. A second,
//! longer lease ([`Cluster::turn_lease`]) limits the node's agents: lanes in which an agent may
//! still run stay closed at the new node until that lease is over. `tests/cluster/` tests this
//! crate.
//!
//! A lane is a queue of events whose turns run one after the other, such as that of a channel or of
//! a thread. A channel and its threads always belong to the same node, so this crate names them
//! together by the *root*: the lane of the channel, such as `channel:7`.
//!
//! | module | content |
//! |---|---|
//! | [`database`] | connections and the schema |
//! | [`error`] | the reasons why an operation failed |
//! | [`clocks`] | the difference between this machine's clock and the database's |
//! | [`join`] | joining the cluster |
//! | [`membership`] | this node, its leases and its published description |
//! | [`nodes`] | the list of all nodes |
//! | [`leader`] | the node that is logged in to Discord and runs the schedules |
//! | [`lanes`] | which node has which lane |
//! | [`mail`] | messages to the node that has a lane |
//! | [`handover`] | state that one node gives to another |
//! | [`dissolution`] | the end of a cluster |
//! | [`inspect`] | reading the state without joining |
//! | [`journal`] | a node's journal in the database |
//! | [`mirror`] | a node's state files in the database |
//! | [`budgets`] | the use of budgets on all nodes |
//! | [`retry`] | repeats calls of the database |
//! | [`start`] | the start of a node with the state of its machine |
//! | [`node`] | a running node and its tasks |
//!
//! Operations of more than one statement are functions of the database (`schema/`): one call is one
//! transaction.

mod budgets;
mod clocks;
mod database;
mod dissolution;
mod error;
mod handover;
mod inspect;
mod join;
mod journal;
mod lanes;
mod leader;
mod mail;
mod membership;
mod mirror;
mod node;
mod nodes;
mod retry;
mod start;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use self::database::Database;
pub use self::dissolution::DissolutionBlockers;
pub use self::error::{ClusterError, UrlError};
pub use self::handover::Handover;
pub use self::inspect::{DatabaseStatus, Skew, Tables};
pub use self::journal::JournalLines;
pub use self::lanes::{LaneOwner, LaneRow};
pub use self::mail::{Inbox, ReceivedMessage};
use self::membership::Membership;
pub use self::membership::{JoinKind, Load, Peers};
pub use self::mirror::Mirror;
pub use self::node::{ClusterNode, LeaderFile, NodeParts};
pub use self::nodes::{Node, NodeWork};
pub use self::start::{LocalState, LocalStateError, create_identity, read_identity};
use aetheel_runtime::lease::Lease;

/// How many times a lease is renewed within its duration.
const RENEWALS_PER_LEASE: u32 = 4;
/// Numerator and denominator of the part of its duration after which a node stops sending.
const SEND_RATIO: (u32, u32) = (2, 3);
/// The number of low bits of an event number that count the events of one process start.
const EVENT_NUMBER_BITS: u32 = 32;
/// A node whose clock differs by more cannot join: times of messages and of locks would be wrong.
const SKEW_LIMIT: Duration = Duration::from_secs(60);
/// A node whose clock differs by more logs a warning.
const SKEW_WARNING_LIMIT: Duration = Duration::from_secs(2);

/// Time limit for transfers that may be large.
const BULK_TIMEOUT: Duration = Duration::from_secs(60);
type SqlValue<'a> = &'a (dyn tokio_postgres::types::ToSql + Sync);

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Its name, unique in the cluster.
    pub name: String,
    /// The id of the machine that has the name. Created once and kept in the machine's state
    /// folder.
    pub identity: String,
    /// The bot's user id.
    pub bot: u64,
    /// Duration of the lease that permits writing to Discord.
    pub lease: Duration,
    /// Duration of the lease that permits agents to run; at least `lease`.
    pub turn_lease: Duration,
    /// After the database started, after this node started, and after the database was unreachable,
    /// this node takes over nothing for this time. Nodes whose leases expired because the database
    /// was unreachable can return in that time.
    pub takeover_grace: Duration,
    /// Labels to which lanes can be pinned.
    pub labels: Vec<String>,
    /// Digest of the operator's files at the start.
    pub files: String,
    /// Digest of the loaded components at the start.
    pub components: String,
}

/// A node's membership in the cluster. Cheap to clone; clones share all state.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<ClusterState>,
}

struct ClusterState {
    /// The connection for most calls.
    database: Database,
    renewals: Database,
    /// The connection for journal lines, so that they never wait for other calls.
    journal: Database,
    options: NodeOptions,
    membership: Membership,
    /// The load to report with the next renewal.
    load: Mutex<Load>,
    peers: watch::Sender<Peers>,
    lanes: Mutex<lanes::NodeLanes>,
    /// Ensures that only one query for messages runs at a time.
    poll_lock: tokio::sync::Mutex<()>,
    /// Notified when there may be messages.
    mail_notify: Arc<Notify>,
    /// The content of each state file in the database, as this process has written it.
    state_files: tokio::sync::Mutex<HashMap<String, Vec<u8>>>,
}

impl ClusterState {
    fn new(database: Database, options: NodeOptions, membership: Membership) -> Self {
        let load = Load {
            files: options.files.clone(),
            components: options.components.clone(),
            ..Load::default()
        };
        Self {
            renewals: database.another_connection(options.lease / RENEWALS_PER_LEASE),
            journal: database.another_connection(options.lease / RENEWALS_PER_LEASE),
            database,
            options,
            membership,
            load: Mutex::new(load),
            peers: watch::Sender::default(),
            lanes: Mutex::default(),
            poll_lock: tokio::sync::Mutex::default(),
            mail_notify: Arc::default(),
            state_files: tokio::sync::Mutex::default(),
        }
    }

    fn bot(&self) -> i64 {
        self.options.bot.cast_signed()
    }

    /// Returns a connection for large transfers.
    fn bulk(&self) -> Database {
        self.database.another_connection(BULK_TIMEOUT)
    }

    /// Writes for this node (`$1` is the bot, `$2` the node, `$3` its start) unless it was taken
    /// over. `statement` follows `with me as (…),`. It must write only if `me` has a row, and
    /// return one row if it did. No node can take over from this one before the transaction ends.
    async fn write(
        &self,
        statement: &str,
        more: &[(SqlValue<'_>, Type)],
    ) -> Result<(), ClusterError> {
        self.write_by(&self.database, statement, more).await
    }

    /// Same as [`ClusterState::write`], on a given connection.
    async fn write_by(
        &self,
        database: &Database,
        statement: &str,
        more: &[(SqlValue<'_>, Type)],
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

    /// Runs a statement that checks the start number itself, in one round trip. The first three
    /// parameters are those of [`ClusterState::write`].
    async fn fenced(
        &self,
        statement: &str,
        more: &[(SqlValue<'_>, Type)],
    ) -> Result<Vec<Row>, ClusterError> {
        self.fenced_by(&self.database, statement, more).await
    }

    async fn fenced_by(
        &self,
        database: &Database,
        statement: &str,
        more: &[(SqlValue<'_>, Type)],
    ) -> Result<Vec<Row>, ClusterError> {
        let lease = &self.membership.lease;
        if lease.is_ended() {
            return Err(ClusterError::Fenced);
        }
        if !lease.is_valid() {
            // The next renewal shows whether another node took over.
            return Err(ClusterError::Away("the lease of this node has run out".to_owned()));
        }
        let (bot, start) = (self.bot(), self.membership.start);
        let mut values: Vec<(SqlValue<'_>, Type)> =
            vec![(&bot, Type::INT8), (&self.options.name, Type::TEXT), (&start, Type::INT8)];
        values.extend(more.iter().cloned());
        database.call(async |client| client.query_typed(statement, &values).await).await
    }
}

fn first_number(start: u64) -> u64 {
    start << EVENT_NUMBER_BITS
}

impl Cluster {
    /// Returns the node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.options.name
    }

    /// Returns the lease that permits this node to write to Discord. It ends for good when another
    /// node takes over. Before that, it may expire and be extended again when the database is back.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.inner.membership.lease.clone()
    }

    /// Returns the lease that permits this node's agents to run. After it, an agent of another node
    /// may run in the same lane.
    #[must_use]
    pub fn turn_lease(&self) -> Lease {
        self.inner.membership.turns.clone()
    }

    /// Returns how this node joined. Restarts keep this value until
    /// [`Cluster::confirm_local_state`] is called, so that a process that crashes in between is
    /// followed by one that does the same work.
    #[must_use]
    pub fn join_kind(&self) -> JoinKind {
        self.inner.membership.join_kind
    }

    /// Records that this machine's local state matches this node: it has uploaded its own state, or
    /// set aside the state that another node took over.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn confirm_local_state(&self) -> Result<(), ClusterError> {
        membership::confirm_local_state(&self.inner).await
    }

    /// Returns the first event number of this process start. The numbers of all starts of all nodes
    /// are different, and later starts have higher numbers.
    #[must_use]
    pub fn first_number(&self) -> u64 {
        first_number(self.inner.membership.start.cast_unsigned())
    }

    /// Sets the load that this node reports from the next renewal on.
    pub fn report(&self, load: Load) {
        *self.inner.load.lock() = load;
    }

    /// Returns a receiver for the state of the bot's nodes, updated with each renewal.
    #[must_use]
    pub fn peers(&self) -> watch::Receiver<Peers> {
        self.inner.peers.subscribe()
    }

    /// Releases the leases, so that another node can take over at once.
    pub async fn leave(&self) {
        membership::leave(&self.inner).await;
    }

    /// Returns access to this node's journal. Only one instance in a process may write; others may
    /// read.
    #[must_use]
    pub fn journal(&self) -> JournalLines {
        JournalLines::of(self.clone())
    }

    /// Returns access to this node's state files.
    #[must_use]
    pub fn mirror(&self) -> Mirror {
        Mirror::of(self.clone())
    }

    /// Returns all nodes.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn nodes(url: &str) -> Result<Vec<Node>, ClusterError> {
        let database = Database::parse(url, Duration::from_secs(5))?;
        database.has_tables().await.map_err(ClusterError::on_first_connect)?;
        nodes::all(&database).await
    }

    /// Asks a node to transfer its lanes to others, or withdraws that. Returns `false` if no
    /// running node has this name. The request survives a crash of the node, and ends when the node
    /// leaves.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn request_drain(url: &str, node: &str, wanted: bool) -> Result<bool, ClusterError> {
        let database = Database::parse(url, Duration::from_secs(5))?;
        database.has_tables().await.map_err(ClusterError::on_first_connect)?;
        nodes::request_drain(&database, node, wanted).await
    }
}
