//! The state of all nodes, for commands that inspect the cluster from outside.

use jiff::Timestamp;
use tokio_postgres::Row;

use super::ClusterError;
use super::database::Database;
use super::membership::Load;

/// The published state of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The bot's user id.
    pub bot: u64,
    /// The version of its program.
    pub version: String,
    /// When it started.
    pub joined: Timestamp,
    /// Remaining time of its lease in milliseconds; negative if it has expired.
    pub lease_ms: i64,
    /// Whether it is the leader, or was the last one.
    pub is_leader: bool,
    /// Labels that its operator gave it.
    pub labels: Vec<String>,
    /// Its last report of its load.
    pub load: Load,
    /// Whether an operator asked it to transfer its lanes.
    pub drain_requested: bool,
    /// Its lanes and messages.
    pub work: NodeWork,
    /// The id of the machine that has the name, or had it last.
    pub identity: String,
}

/// The lanes and messages of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeWork {
    /// The number of its lanes.
    pub lanes: u64,
    /// The number of messages that wait for it.
    pub messages: u64,
    /// Whether it has lanes or state that another node must take over if it is dead.
    pub has_something: bool,
}

/// Returns all nodes, sorted by name.
pub(super) async fn all(database: &Database) -> Result<Vec<Node>, ClusterError> {
    let statement = "select name, bot, version, (extract(epoch from joined) * 1000)::int8,
                (extract(epoch from lease - clock_timestamp()) * 1000)::int8,
                exists (select from aetheel.seat where seat.bot = node.bot and seat.node = name),
                labels, room, running, waiting, draining, files, components, drain,
                (select count(*) from aetheel.lane where lane.bot = node.bot and lane.node = name),
                (select count(*) from aetheel.mail
                 left join aetheel.lane on lane.bot = mail.bot and lane.root = mail.root
                 where mail.bot = node.bot and mail.done is null
                   and (mail.node = name or lane.node = name)),
                identity, aetheel.has_something(node.bot, name)
         from aetheel.node order by name, bot";
    let rows = database.call(async |client| client.query(statement, &[]).await).await?;
    let count = |row: &Row, at: usize| u32::try_from(row.get::<_, i32>(at)).unwrap_or(0);
    let node = |row: &Row| Node {
        name: row.get(0),
        bot: row.get::<_, i64>(1).cast_unsigned(),
        version: row.get(2),
        joined: Timestamp::from_millisecond(row.get(3)).unwrap_or_default(),
        lease_ms: row.get(4),
        is_leader: row.get(5),
        labels: row.get(6),
        load: Load {
            free_slots: row.get(7),
            running: count(row, 8),
            waiting: count(row, 9),
            draining: row.get(10),
            files: row.get(11),
            components: row.get(12),
        },
        drain_requested: row.get(13),
        work: NodeWork {
            lanes: row.get::<_, i64>(14).cast_unsigned(),
            messages: row.get::<_, i64>(15).cast_unsigned(),
            has_something: row.get(17),
        },
        identity: row.get(16),
    };
    Ok(rows.iter().map(node).collect())
}

/// Saves whether an operator wants a node to transfer its lanes. Returns `false` if no running node
/// has this name.
pub(super) async fn request_drain(
    database: &Database,
    name: &str,
    wanted: bool,
) -> Result<bool, ClusterError> {
    let statement = "update aetheel.node set drain = $2
         where name = $1 and lease > clock_timestamp()";
    let known =
        database.call(async |client| client.execute(statement, &[&name, &wanted]).await).await?;
    Ok(known > 0)
}
