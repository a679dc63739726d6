//! Handovers: the lanes and the state that one node transfers to another.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Cluster, ClusterError, LaneRow, SEND_RATIO, SqlValue, first_number};
use aetheel_model::id::ChannelId;

/// The lanes and the state of another node, transferred to this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Its number. Later handovers have higher numbers.
    pub id: i64,
    /// The name of the previous node.
    pub from: String,
    /// The roots of the lanes that are transferred.
    pub roots: Vec<String>,
    /// Threads of these lanes, each with the root of its lane.
    pub threads: Vec<(ChannelId, String)>,
    /// Lines of the previous node's journal.
    pub journal: String,
    /// State files: name and content.
    pub files: Vec<(String, String)>,
}

impl Handover {
    /// Returns the lanes, each with its threads.
    #[must_use]
    pub fn lanes(&self) -> Vec<LaneRow> {
        let threads_of = |root: &String| {
            let threads = self.threads.iter().filter(|(_, of)| of == root);
            threads.map(|(thread, _)| *thread).collect()
        };
        let row = |root: &String| LaneRow { root: root.clone(), threads: threads_of(root) };
        self.roots.iter().map(row).collect()
    }
}

impl Cluster {
    /// Reserves a block of event numbers and returns the first one. All of them are higher than any
    /// number that was reserved before. A node moves to a new block after an import, so that new
    /// events of a lane come after the imported ones.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn next_number_block(&self) -> Result<u64, ClusterError> {
        let next = "select nextval('aetheel.start')";
        let row =
            self.inner.database.call(async |client| client.query_one(next, &[]).await).await?;
        Ok(first_number(row.get::<_, i64>(0).cast_unsigned()))
    }

    /// Takes over from all nodes whose lease has expired. Their lanes become this node's, and the
    /// rest arrives through [`Cluster::handovers`]. Returns the number of nodes that this node took
    /// over from.
    ///
    /// Does nothing if this node is draining, if its own lease has run out, or within
    /// [`super::NodeOptions::takeover_grace`].
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn claim_dead(&self) -> Result<usize, ClusterError> {
        if !self.inner.membership.may_take_over(&self.inner.options) {
            return Ok(0);
        }
        // Checks first without the bot's lock whether there is anything to take over, because all
        // nodes call this regularly.
        let statement = "select aetheel.adopt($1, $2, $3)
             where exists (select from aetheel.node
                           where bot = $1 and name <> $2 and lease <= clock_timestamp()
                             and aetheel.has_something($1, name))
               and clock_timestamp() >= pg_postmaster_start_time() + make_interval(secs => $4)
               and exists (select from aetheel.node
                           where bot = $1 and name = $2
                             and clock_timestamp() >= joined + make_interval(secs => $4))
                or not exists (select from aetheel.node
                               where bot = $1 and name = $2 and start = $3)";
        let grace = self.inner.options.takeover_grace.as_secs_f64();
        let rows = self.inner.fenced(statement, &[(&grace, Type::FLOAT8)]).await?;
        let nodes: i64 = rows.first().map_or(0, |row| row.get(0));
        Ok(usize::try_from(nodes).unwrap_or(0))
    }

    /// Returns the handovers for this node that are not imported yet, oldest first. Cheap enough to
    /// be called often.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn handovers(&self) -> Result<Vec<Handover>, ClusterError> {
        let (bot, name) = (self.inner.bot(), &self.inner.options.name);
        let some = "select from aetheel.handover where bot = $1 and to_node = $2 limit 1";
        let database = &self.inner.database;
        if database
            .call(async |client| client.query_opt(some, &[&bot, name]).await)
            .await?
            .is_none()
        {
            return Ok(Vec::new());
        }
        let statement = "select id, from_node, roots, journal, names, bodies,
                    array(select thread from aetheel.thread
                          where thread.bot = $1 and root = any (roots) order by thread),
                    array(select root from aetheel.thread
                          where thread.bot = $1 and root = any (roots) order by thread)
             from aetheel.handover where bot = $1 and to_node = $2 order by id";
        let rows = self
            .inner
            .bulk()
            .call(async |client| client.query(statement, &[&bot, name]).await)
            .await?;
        let handover = |row: &Row| Handover {
            id: row.get(0),
            from: row.get(1),
            roots: row.get(2),
            journal: row.get(3),
            files: row.get::<_, Vec<String>>(4).into_iter().zip(row.get::<_, Vec<_>>(5)).collect(),
            threads: row
                .get::<_, Vec<i64>>(6)
                .into_iter()
                .map(ChannelId::from_column)
                .zip(row.get::<_, Vec<_>>(7))
                .collect(),
        };
        Ok(rows.iter().map(handover).collect())
    }

    /// Acknowledges a handover after it was saved in this node's journal and files. Deletes the
    /// handover and opens its lanes in the database. Lanes in which turns had begun (`active`) stay
    /// closed while an agent on the other machine may still run in them
    /// ([`Cluster::open_waiting_lanes`]). Returns the lanes of the handover that are open now. A
    /// repeated call returns the same, so it can follow a call whose result is unknown.
    ///
    /// This process delivers no message of these lanes and reports them as moving until
    /// [`Cluster::release_lanes`] is called, so that their earlier events come first.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn ack_handover(
        &self,
        handover: &Handover,
        active: &[String],
    ) -> Result<Vec<String>, ClusterError> {
        let values: [(SqlValue<'_>, Type); 2] =
            [(&handover.id, Type::INT8), (&active, Type::TEXT_ARRAY)];
        let statement = "select from aetheel.taken_in($1, $2, $3, $4, $5)";
        self.open_held(&handover.roots, statement, &values).await
    }

    /// Opens taken-over lanes in which no agent of the other machine can run any more: its lease
    /// for turns has expired, or its next process reported that the agents have ended. Returns
    /// the lanes among `waiting` that are open now, which are held back as by
    /// [`Cluster::ack_handover`]. A repeated call returns the same, so it can follow a call whose
    /// result is unknown.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn open_waiting_lanes(
        &self,
        waiting: &[String],
    ) -> Result<Vec<String>, ClusterError> {
        self.open_held(waiting, "select from aetheel.open_waited($1, $2, $3)", &[]).await
    }

    /// Holds lanes back in this process and runs a statement that may open them. Returns the lanes
    /// that the database says are open here.
    async fn open_held(
        &self,
        roots: &[String],
        statement: &str,
        values: &[(SqlValue<'_>, Type)],
    ) -> Result<Vec<String>, ClusterError> {
        {
            let mut lanes = self.inner.lanes.lock();
            for root in roots {
                lanes.hold(root);
            }
        }
        self.inner.fenced(statement, values).await?;
        let statement = "select root from aetheel.lane
             where bot = $1 and node = $2 and root = any ($4) and open and not held
               and exists (select from aetheel.node
                           where node.bot = $1 and node.name = $2 and node.start = $3)
             order by root";
        let values: [(SqlValue<'_>, Type); 1] = [(&roots, Type::TEXT_ARRAY)];
        let rows = self.inner.fenced(statement, &values).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Begins to deliver the messages of lanes that [`Cluster::ack_handover`] or
    /// [`Cluster::open_waiting_lanes`] returned. The events that wait in these lanes must be in the
    /// queue before.
    pub fn release_lanes(&self, roots: &[String]) {
        if !roots.is_empty() {
            self.inner.lanes.lock().import(roots.iter().cloned().collect());
            self.inner.mail_notify.notify_one();
        }
    }

    /// Reports that this machine's agents have ended or are about to, except those of turns that
    /// this node still has, and those in the `wanted` lanes. Other nodes can then open the lanes
    /// that they took over from this machine, and give the wanted ones back
    /// ([`Cluster::give_back`]). While this machine lives, wanted lanes are not opened elsewhere
    /// before another report leaves them out.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn report_agents_ended(&self, wanted: &[String]) -> Result<(), ClusterError> {
        let inner = &self.inner;
        // Time for the agents to end.
        let moment = (inner.options.lease / SEND_RATIO.1).as_secs_f64();
        let statement = "ended as (
                 update aetheel.lane
                 set wanted = not open and root = any ($6),
                     waits_until = case when root = any ($6) then waits_until
                         else least(waits_until, clock_timestamp() + make_interval(secs => $5)) end
                 from me where lane.bot = $1 and lane.waits_for = $4
             )
             select from me";
        let values: [(SqlValue<'_>, Type); 3] = [
            (&inner.options.identity, Type::TEXT),
            (&moment, Type::FLOAT8),
            (&wanted, Type::TEXT_ARRAY),
        ];
        inner.write(statement, &values).await
    }

    /// Gives a lane that this node has not opened back to the machine that wants it, with its
    /// journal lines and files. Returns the name of the lane's node after the call, or `None`,
    /// without changing anything, if the lane stays here. The call can be repeated. A lane is
    /// either given back or opened ([`Cluster::open_waiting_lanes`]), never both.
    ///
    /// # Errors
    /// Returns a [`ClusterError`]. After [`ClusterError::Away`] the lane may have been given back.
    pub async fn give_back(
        &self,
        root: &str,
        journal: &str,
        files: &[(String, String)],
    ) -> Result<Option<String>, ClusterError> {
        self.send_lane("give_back", root, journal, files).await
    }

    /// Transfers an idle lane with its journal lines and files to the most suitable other node.
    /// Returns the name of the lane's node after the call. Returns `None`, without changing
    /// anything, if no other node accepts lanes. The call can be repeated.
    ///
    /// # Errors
    /// Returns a [`ClusterError`]. After [`ClusterError::Away`] the lane may have been transferred,
    /// and its messages stay held.
    pub async fn transfer_lane(
        &self,
        root: &str,
        journal: &str,
        files: &[(String, String)],
    ) -> Result<Option<String>, ClusterError> {
        // No event of the lane may begin here from now on, whatever the result of the transfer.
        let held_before = self.inner.lanes.lock().hold(root);
        let new_node = self.send_lane("hand_over", root, journal, files).await?;
        if new_node.is_none() && !held_before {
            self.inner.let_go(root).await?;
        }
        Ok(new_node)
    }

    /// Calls a function of the database that transfers a lane.
    async fn send_lane(
        &self,
        function: &str,
        root: &str,
        journal: &str,
        files: &[(String, String)],
    ) -> Result<Option<String>, ClusterError> {
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        let bodies: Vec<&str> = files.iter().map(|(_, body)| body.as_str()).collect();
        let values: [(SqlValue<'_>, Type); 4] = [
            (&root, Type::TEXT),
            (&journal, Type::TEXT),
            (&names, Type::TEXT_ARRAY),
            (&bodies, Type::TEXT_ARRAY),
        ];
        let statement = format!("select aetheel.{function}($1, $2, $3, $4, $5, $6, $7)");
        let rows = self.inner.fenced(&statement, &values).await?;
        Ok(rows.first().and_then(|row| row.get(0)))
    }
}
