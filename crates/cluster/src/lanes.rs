//! Assigns lanes to nodes, and caches which lanes this node has.

use std::collections::{BTreeMap, HashSet};

use tokio_postgres::types::Type;

use super::database::Database;
use super::{Cluster, ClusterError, ClusterState, NodeOptions};
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;

/// A lane of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneRow {
    /// The lane's name, such as `channel:7`.
    pub root: String,
    /// The known threads of the channel.
    pub threads: Vec<ChannelId>,
}

impl LaneRow {
    /// Returns whether a lane is this one or one of its threads.
    #[must_use]
    pub fn has(&self, lane: &Lane) -> bool {
        let is_thread = matches!(lane, Lane::Channel(channel) if self.threads.contains(channel));
        is_thread || lane.to_string() == self.root
    }
}

/// The node that serves a lane, according to the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneOwner {
    /// This node.
    ThisNode,
    /// This node, but the lane is being transferred to it or from it.
    Moving,
    /// Another node.
    OtherNode,
    /// No node. The string is the lane's root, for [`Cluster::claim`].
    Unassigned(String),
}

/// The lanes of this node and their messages, as far as this process knows.
#[derive(Default)]
pub(super) struct NodeLanes {
    /// Lanes of this node that are open and not held.
    open: HashSet<String>,
    /// Lanes whose messages must not be delivered, even by a query that has already begun.
    held: HashSet<String>,
    /// Messages that were delivered in this process, with their lanes.
    in_flight: BTreeMap<i64, Option<String>>,
    /// Numbers of acknowledged messages of `in_flight`. They are removed when the next query
    /// begins, because a running query may still return them.
    pub(super) acknowledged: Vec<i64>,
}

impl NodeLanes {
    /// Removes acknowledged messages, and returns the numbers of the others. Called when a query
    /// begins.
    pub(super) fn in_flight_numbers(&mut self) -> Vec<i64> {
        for number in self.acknowledged.drain(..) {
            self.in_flight.remove(&number);
        }
        self.in_flight.keys().copied().collect()
    }

    /// Marks a message as delivered. Returns `false` if it must not be delivered, because its lane
    /// was held after the query began, or because it was delivered before.
    pub(super) fn mark_delivered(&mut self, number: i64, root: Option<&str>) -> bool {
        if let Some(root) = root {
            if self.held.contains(root) {
                return false;
            }
            self.open.insert(root.to_owned());
        }
        self.in_flight.insert(number, root.map(str::to_owned)).is_none()
    }

    /// Adds lanes that are open in the database, except those that are held here.
    pub(super) fn mark_open(&mut self, roots: impl IntoIterator<Item = String>) {
        self.open.extend(roots.into_iter().filter(|root| !self.held.contains(root)));
    }

    /// Adds lanes that were transferred to this node and are open. If this node had them before,
    /// the messages that were in flight then are delivered again.
    pub(super) fn import(&mut self, roots: HashSet<String>) {
        self.in_flight.retain(|_, lane| lane.as_ref().is_none_or(|root| !roots.contains(root)));
        self.held.retain(|root| !roots.contains(root));
        self.open.extend(roots);
    }

    /// Holds a lane. Returns whether it was held before.
    pub(super) fn hold(&mut self, root: &str) -> bool {
        self.open.remove(root);
        !self.held.insert(root.to_owned())
    }

    fn in_flight_count(&self, root: &str) -> usize {
        let of_it = self.in_flight.values().filter(|lane| lane.as_deref() == Some(root)).count();
        let done = |number: &&i64| {
            self.in_flight.get(number).is_some_and(|lane| lane.as_deref() == Some(root))
        };
        of_it - self.acknowledged.iter().filter(done).collect::<HashSet<_>>().len()
    }
}

impl Cluster {
    /// Assigns lanes without a node to this node. A machine that joins a cluster claims its lanes
    /// in this way.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn claim(&self, roots: &[String]) -> Result<(), ClusterError> {
        let values: [(super::SqlValue<'_>, Type); 1] = [(&roots, Type::TEXT_ARRAY)];
        let rows =
            self.inner.fenced("select * from aetheel.claim($1, $2, $3, $4)", &values).await?;
        self.inner.lanes.lock().mark_open(rows.iter().map(|row| row.get(0)));
        Ok(())
    }

    /// Returns the lanes of this node, sorted by root.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn my_lanes(&self) -> Result<Vec<LaneRow>, ClusterError> {
        self.lanes_where("node = $2").await
    }

    /// Returns the lanes of this node that stay closed because an agent may still run in them on
    /// another machine, sorted by root. Includes those of handovers that are not acknowledged.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn waiting_lanes(&self) -> Result<Vec<LaneRow>, ClusterError> {
        self.lanes_where("node = $2 and not open and waits_for is not null").await
    }

    /// Returns the closed lanes that wait for agents of this machine, sorted by root. Another node
    /// took them over from an earlier process.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn lanes_waiting_for_this_machine(&self) -> Result<Vec<LaneRow>, ClusterError> {
        let identity = "(select identity from aetheel.node where bot = $1 and name = $2)";
        self.lanes_where(&format!("not open and waits_for = {identity}")).await
    }

    /// Returns the lanes of this node that another machine wants back
    /// ([`Cluster::report_agents_ended`]), sorted by root.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn wanted_lanes(&self) -> Result<Vec<LaneRow>, ClusterError> {
        self.lanes_where("node = $2 and not open and wanted").await
    }

    async fn lanes_where(&self, condition: &str) -> Result<Vec<LaneRow>, ClusterError> {
        let (bot, name) = (self.inner.bot(), &self.inner.options.name);
        let statement = format!(
            "select root, array(select thread from aetheel.thread
                            where thread.bot = lane.bot and thread.root = lane.root order by thread)
             from aetheel.lane where bot = $1 and {condition} order by root"
        );
        let rows = self
            .inner
            .bulk()
            .call(async |client| client.query(statement.as_str(), &[&bot, name]).await)
            .await?;
        let threads = |row: &tokio_postgres::Row| {
            row.get::<_, Vec<i64>>(1).into_iter().map(ChannelId::from_column).collect()
        };
        Ok(rows.iter().map(|row| LaneRow { root: row.get(0), threads: threads(row) }).collect())
    }

    /// Returns the lanes and threads that belong to other nodes, according to the database.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn lanes_of_other_nodes(
        &self,
        lanes: &[Lane],
    ) -> Result<HashSet<Lane>, ClusterError> {
        let (bot, name) = (self.inner.bot(), &self.inner.options.name);
        let roots: Vec<String> = lanes.iter().map(Lane::to_string).collect();
        let channels: Vec<Option<i64>> = lanes
            .iter()
            .map(|lane| match lane {
                Lane::Channel(channel) => channel.column(),
                _ => None,
            })
            .collect();
        let statement = "select mine.place
             from unnest($3::text[], $4::int8[]) with ordinality as mine (root, channel, place)
             left join aetheel.thread on thread.bot = $1 and thread.thread = mine.channel
             join aetheel.lane on lane.bot = $1 and lane.root = coalesce(thread.root, mine.root)
             where lane.node <> $2";
        let rows = self
            .inner
            .bulk()
            .call(async |client| client.query(statement, &[&bot, name, &roots, &channels]).await)
            .await?;
        let lane = |row: &tokio_postgres::Row| {
            let place = usize::try_from(row.get::<_, i64>(0) - 1).ok()?;
            lanes.get(place).cloned()
        };
        Ok(rows.iter().filter_map(lane).collect())
    }

    /// Returns the node that has the lane of a channel or thread. A thread whose channel is unknown
    /// is a lane of its own.
    ///
    /// # Errors
    /// Returns [`ClusterError::Fenced`] if another process took over from this one.
    pub async fn owner_of(&self, channel: ChannelId) -> Result<LaneOwner, ClusterError> {
        let own_root = format!("channel:{channel}");
        if self.has_open_lane(&own_root) && self.inner.membership.lease.is_valid() {
            return Ok(LaneOwner::ThisNode);
        }
        let statement = "select its.root, lane.node, lane.open and not lane.held
             from (select coalesce((select root from aetheel.thread
                                    where bot = $1 and thread = $4), $5) as root) as its
             left join aetheel.lane on lane.bot = $1 and lane.root = its.root
             where exists (select from aetheel.node
                           where node.bot = $1 and node.name = $2 and node.start = $3)";
        let thread = channel.column();
        let values: [(super::SqlValue<'_>, Type); 2] =
            [(&thread, Type::INT8), (&own_root, Type::TEXT)];
        let rows = self.inner.fenced(statement, &values).await?;
        let row = rows.first().ok_or(ClusterError::Fenced)?;
        let root: String = row.get(0);
        let held = self.inner.lanes.lock().held.contains(&root);
        Ok(match (row.get::<_, Option<&str>>(1), row.get::<_, Option<bool>>(2)) {
            (None, _) => LaneOwner::Unassigned(root),
            (Some(node), _) if node != self.name() => LaneOwner::OtherNode,
            (Some(_), Some(true)) if !held => LaneOwner::ThisNode,
            (Some(_), _) => LaneOwner::Moving,
        })
    }

    /// Returns the root of a channel or thread, or `None` if no message about it was posted yet.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn find_root(&self, channel: ChannelId) -> Result<Option<String>, ClusterError> {
        let (bot, thread) = (self.inner.bot(), channel.column());
        let itself = format!("channel:{channel}");
        let statement = "select root from aetheel.thread where bot = $1 and thread = $2
             union all select root from aetheel.lane where bot = $1 and root = $3
             limit 1";
        let row = self
            .inner
            .database
            .call(async |client| client.query_opt(statement, &[&bot, &thread, &itself]).await)
            .await?;
        Ok(row.map(|row| row.get(0)))
    }

    /// Returns whether this node has the lane and it is open, as far as this process knows. Events
    /// of other lanes must be posted ([`Cluster::post`]). If such a lane belongs to this node after
    /// all, they are delivered to it.
    #[must_use]
    pub fn has_open_lane(&self, root: &str) -> bool {
        self.inner.lanes.lock().open.contains(root)
    }

    /// Returns the number of messages of a lane that were delivered in this process and are not
    /// acknowledged.
    #[must_use]
    pub fn in_flight_count(&self, root: &str) -> usize {
        self.inner.lanes.lock().in_flight_count(root)
    }

    /// Holds back the messages of a lane of this node, or releases them. While a lane is held, none
    /// of its messages is delivered, not even by a query that has already begun.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn hold_messages(&self, root: &str, hold: bool) -> Result<(), ClusterError> {
        if hold {
            self.inner.lanes.lock().hold(root);
        }
        let statement = "held as (
                 update aetheel.lane set held = $5 from me
                 where lane.bot = $1 and lane.node = $2 and root = $4
                 returning open
             )
             select from me";
        self.inner.write(statement, &[(&root, Type::TEXT), (&hold, Type::BOOL)]).await?;
        if !hold {
            self.inner.let_go(root).await?;
        }
        Ok(())
    }
}

impl ClusterState {
    /// Releases a held lane, and opens it if the database says that it is open.
    pub(super) async fn let_go(&self, root: &str) -> Result<(), ClusterError> {
        let (bot, name) = (self.bot(), &self.options.name);
        let statement = "select from aetheel.lane
             where bot = $1 and node = $2 and root = $3 and open and not held";
        let open = self
            .database
            .call(async |client| client.query_opt(statement, &[&bot, name, &root]).await)
            .await?;
        let mut lanes = self.lanes.lock();
        lanes.held.remove(root);
        if open.is_some() {
            lanes.open.insert(root.to_owned());
        }
        drop(lanes);
        self.mail_notify.notify_one();
        Ok(())
    }
}

/// Returns the open lanes of a node that are not held. With `within`, returns only those that were
/// assigned in the last `within` seconds.
pub(super) async fn open_lanes(
    database: &Database,
    options: &NodeOptions,
    within: Option<f64>,
) -> Result<Vec<String>, ClusterError> {
    let (bot, name) = (options.bot.cast_signed(), &options.name);
    let statement = "select root from aetheel.lane
         where bot = $1 and node = $2 and open and not held
           and ($3::float8 is null or placed > clock_timestamp() - make_interval(secs => $3))";
    let rows = database
        .call(async |client| {
            let values: [(super::SqlValue<'_>, Type); 3] =
                [(&bot, Type::INT8), (name, Type::TEXT), (&within, Type::FLOAT8)];
            client.query_typed(statement, &values).await
        })
        .await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_belong_to_the_lane_of_their_channel() {
        let row = LaneRow {
            root: "channel:7".to_owned(),
            threads: [8, 9].map(ChannelId::discord).into(),
        };
        assert!(
            row.has(&Lane::Channel(ChannelId::discord(7)))
                && row.has(&Lane::Channel(ChannelId::discord(9)))
        );
        assert!(!row.has(&Lane::Channel(ChannelId::discord(70))));
        let row = LaneRow { root: "cron:x".to_owned(), threads: Vec::new() };
        assert!(row.has(&Lane::Cron("x".into())));
    }
}
