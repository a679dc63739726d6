//! Messages between nodes: events that one node receives for a lane of another node.
//!
//! Messages are numbered in the order in which they become visible, because numbers are assigned under
//! one lock for each bot (`aetheel.alone`), like moves of lanes and new nodes. Each message is
//! delivered to the node that has its lane at that moment, and kept until it is acknowledged.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Cluster, ClusterError, ClusterState};
use aetheel_dispatch::ClusterMessage;
use aetheel_model::id::ChannelId;
use aetheel_model::plain::hex;

/// Kind of a message between nodes that contains an event of a webhook or schedule.
pub(crate) const EVENT_MESSAGE: &str = "event";
/// Kind of a message with news about the files of shared directories.
pub(crate) const FILE_NEWS: &str = "files";
/// Time between two queries, because a notification may get lost.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Delay before the next query when the database is unreachable.
const RETRY_DELAY: Duration = Duration::from_millis(250);
const MAX_MESSAGES: i64 = 500;
/// Longer keys are replaced by their beginning and a digest, because an index limits their length.
const MAX_KEY_BYTES: usize = 512;

/// A message that was delivered to this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Its number, used to acknowledge it. Later messages have higher numbers.
    pub number: i64,
    /// The root of its lane, or `None` if it is addressed to this node.
    pub root: Option<String>,
    /// The type of its body.
    pub kind: String,
    /// The content, as JSON.
    pub body: String,
}

impl ReceivedMessage {
    fn of(row: &Row) -> Self {
        Self { number: row.get(0), root: row.get(1), kind: row.get(2), body: row.get(3) }
    }
}

impl Cluster {
    /// Posts messages, in their order. Assigns a lane without a node to one. Skips messages with a
    /// known key, so that the call can be repeated if its result is unknown.
    ///
    /// # Errors
    /// Returns a [`ClusterError`]. Unless it is [`ClusterError::Away`], nothing was posted.
    pub async fn post(&self, messages: &[ClusterMessage]) -> Result<(), ClusterError> {
        if messages.is_empty() {
            return Ok(());
        }
        let column = |of: fn(&ClusterMessage) -> &str| -> Vec<String> {
            messages.iter().map(|message| without_nul(of(message))).collect()
        };
        let keys: Vec<String> = messages.iter().map(|message| short_key(&message.key)).collect();
        let roots = column(|message| &message.root);
        let threads: Vec<Option<i64>> =
            messages.iter().map(|message| message.thread.and_then(ChannelId::column)).collect();
        let kinds = column(|message| &message.kind);
        let bodies = column(|message| &message.body);
        let labels: Vec<Option<String>> =
            messages.iter().map(|message| message.label.as_deref().map(without_nul)).collect();
        let inner = &self.inner;
        inner
            .fenced(
                "select aetheel.post($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                &[
                    (&keys, Type::TEXT_ARRAY),
                    (&roots, Type::TEXT_ARRAY),
                    (&threads, Type::INT8_ARRAY),
                    (&kinds, Type::TEXT_ARRAY),
                    (&bodies, Type::TEXT_ARRAY),
                    (&labels, Type::TEXT_ARRAY),
                ],
            )
            .await
            .map(drop)
    }

    /// Posts a message to each node that is running or may return with running agents, including
    /// this one.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn broadcast(&self, kind: &str, body: &str) -> Result<(), ClusterError> {
        let mark = uuid::Uuid::new_v4().to_string();
        let (kind, body) = (without_nul(kind), without_nul(body));
        let values = [(&mark, Type::TEXT), (&kind, Type::TEXT), (&body, Type::TEXT)];
        let values =
            values.each_ref().map(|(value, kind)| (*value as super::SqlValue<'_>, kind.clone()));
        self.inner
            .fenced("select aetheel.tell_all($1, $2, $3, $4, $5, $6)", &values)
            .await
            .map(drop)
    }

    /// Returns the messages for lanes of this node that stay closed because an agent may still run
    /// on another machine, sorted by number. Each has the time at which the lane opens at the
    /// latest if the other machine does not return, in seconds since 1970.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn closed_messages(&self) -> Result<Vec<(ReceivedMessage, i64)>, ClusterError> {
        let (bot, name) = (self.inner.bot(), &self.inner.options.name);
        let statement = "select mail.number, mail.root, mail.kind, mail.body,
                    ceil(extract(epoch from lane.waits_until))::int8
             from aetheel.mail
             join aetheel.lane on lane.bot = mail.bot and lane.root = mail.root
             where mail.bot = $1 and mail.done is null and lane.node = $2
               and not lane.open and lane.waits_until is not null
             order by mail.number limit $3";
        let rows = self
            .inner
            .database
            .call(async |client| client.query(statement, &[&bot, name, &MAX_MESSAGES]).await)
            .await?;
        Ok(rows.iter().map(|row| (ReceivedMessage::of(row), row.get(4))).collect())
    }

    /// Starts to receive the messages for this node.
    #[must_use]
    pub fn inbox(&self) -> Inbox {
        let mail_notify = Arc::clone(&self.inner.mail_notify);
        let inner = Arc::clone(&self.inner);
        let listens = tokio::spawn(async move { listen(&inner).await });
        Inbox { inner: Arc::clone(&self.inner), mail_notify, listener: listens }
    }

    /// Acknowledges messages that are in this node's journal or were refused. Deletes their
    /// content; their keys stay known for a day. For speed, this does not wait for the disk: if the
    /// database crashes within a second, an acknowledgement may be lost, and the message is then
    /// delivered again.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub async fn ack_messages(&self, numbers: &[i64]) -> Result<(), ClusterError> {
        if numbers.is_empty() {
            return Ok(());
        }
        let statement = "checked as (
                 update aetheel.mail set done = clock_timestamp(), body = '' from me
                 where mail.bot = $1 and number = any($4) and done is null
             )
             select set_config('synchronous_commit', 'off', true) from me";
        self.inner.write(statement, &[(&numbers, Type::INT8_ARRAY)]).await?;
        self.inner.lanes.lock().acknowledged.extend(numbers);
        Ok(())
    }
}

/// Receives the messages for one node.
pub struct Inbox {
    inner: Arc<ClusterState>,
    mail_notify: Arc<Notify>,
    listener: JoinHandle<()>,
}

impl Inbox {
    /// Waits for messages to this node and to its open lanes that are not held, sorted by number.
    /// Each message is returned once in this process. Waits while the database is unreachable. This
    /// method is cancel safe.
    ///
    /// # Errors
    /// Returns [`ClusterError::Fenced`] if the node's lease was taken over, and
    /// [`ClusterError::Refused`].
    pub async fn next(&mut self) -> Result<Vec<ReceivedMessage>, ClusterError> {
        loop {
            if self.inner.membership.lease.is_ended() {
                return Err(ClusterError::Fenced);
            }
            match poll_messages(&self.inner).await {
                Ok(messages) if messages.is_empty() => {
                    let _ = tokio::time::timeout(POLL_INTERVAL, self.mail_notify.notified()).await;
                }
                Err(ClusterError::Away(why)) => {
                    tracing::debug!(why, "cannot query for messages");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                looked => return looked,
            }
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// Listens for notifications until the node's lease is over.
async fn listen(inner: &ClusterState) {
    let payload = format!("{} {}", inner.options.bot.cast_signed(), inner.options.name);
    while !inner.membership.lease.is_ended() {
        let why = inner.database.listen("aetheel_mail", &payload, &inner.mail_notify).await;
        tracing::debug!(%why, "cannot listen for messages; querying for them");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn poll_messages(inner: &ClusterState) -> Result<Vec<ReceivedMessage>, ClusterError> {
    // Only one query at a time: an acknowledged message may be forgotten once no query is running
    // that began before.
    let _alone = inner.poll_lock.lock().await;
    let given = inner.lanes.lock().in_flight_numbers();
    let statement = "select mail.number, mail.root, mail.kind, mail.body
         from aetheel.mail
         left join aetheel.lane on lane.bot = mail.bot and lane.root = mail.root
         where mail.bot = $1 and mail.done is null
           and (mail.node = $2 or lane.node = $2 and lane.open and not lane.held)
           and not exists (select from unnest($4) as given (number) where given.number = mail.number)
           and exists (select from aetheel.node
                       where node.bot = $1 and node.name = $2 and node.start = $3
                         and node.lease > clock_timestamp())
         order by mail.number limit $5";
    let values: [(super::SqlValue<'_>, Type); 2] =
        [(&given, Type::INT8_ARRAY), (&MAX_MESSAGES, Type::INT8)];
    let rows = inner.fenced(statement, &values).await?;
    let messages = rows.iter().map(ReceivedMessage::of);
    // No `await` from here on: a message is marked as delivered only if it is returned.
    let mut lanes = inner.lanes.lock();
    Ok(messages
        .filter(|message| lanes.mark_delivered(message.number, message.root.as_deref()))
        .collect())
}

/// Replaces NUL characters, which PostgreSQL cannot store. In JSON they are escaped.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn short_key(key: &str) -> String {
    if key.len() <= MAX_KEY_BYTES {
        return without_nul(key);
    }
    let digest = hex(&Sha256::digest(key));
    let begin: String = without_nul(key).chars().take(64).collect();
    format!("{begin}…{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_any_length_fit_an_index_and_stay_distinct() {
        assert_eq!(short_key("message:1"), "message:1");
        let (one, other) = ("x\0é".repeat(5_000), "x\0é".repeat(5_001));
        assert!(short_key(&one).len() <= MAX_KEY_BYTES);
        assert!(!short_key(&one).contains('\0'));
        assert_ne!(short_key(&one), short_key(&other));
    }
}
