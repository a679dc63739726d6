//! Receives the messages for this node's lanes, and acknowledges them.
//!
//! A message is acknowledged when its event is in the journal, refused, or ignored. A message
//! without an acknowledgement is delivered again, to the node that has the lane by then. An event
//! that is already in the journal is recognised by its key. A message for a lane that this version
//! cannot read stays without an acknowledgement, so that a newer node processes it.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::mail::{EVENT_MESSAGE, FILE_NEWS};
use crate::retry::until_answered;
use crate::{Cluster, ClusterError, Inbox, ReceivedMessage};
use aetheel_dispatch::{ClusterChat, FileNeighbours, Intake, PromptRefusal};
use aetheel_model::event::NewEvent;
use aetheel_runtime::supervisor;

/// Most messages that one call of the database acknowledges.
const MAX_BATCH: usize = 256;
/// Delay before the messages are received again after an error, or a full queue is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Counts the received messages that are not acknowledged yet, by the root of their lane.
#[derive(Clone, Default)]
pub(super) struct InFlightMessages(Arc<(Mutex<HashMap<String, usize>>, Notify)>);

impl InFlightMessages {
    fn add(&self, root: &str) {
        *self.0.0.lock().entry(root.to_owned()).or_default() += 1;
    }

    fn ack(&self, root: &str) {
        let mut counts = self.0.0.lock();
        if let Some(count) = counts.get_mut(root) {
            *count -= 1;
            if *count == 0 {
                counts.remove(root);
            }
        }
        self.0.1.notify_waiters();
    }

    /// Waits until all messages of a lane are acknowledged, or all messages if `root` is `None`.
    pub(super) async fn wait_empty(&self, root: Option<&str>) {
        loop {
            let changed = self.0.1.notified();
            let is_empty = {
                let counts = self.0.0.lock();
                root.map_or(counts.is_empty(), |root| !counts.contains_key(root))
            };
            if is_empty {
                return;
            }
            changed.await;
        }
    }
}

/// Receives the messages for this node and passes them to the adapter or the dispatcher.
pub(super) struct InboxReader {
    pub(super) chat: Arc<dyn ClusterChat>,
    pub(super) intake: Intake,
    pub(super) file_neighbours: FileNeighbours,
    pub(super) in_flight: InFlightMessages,
    pub(super) cluster: Cluster,
}

impl InboxReader {
    /// Receives messages until the program ends.
    pub(super) async fn run(self, mut inbox: Inbox) {
        let (done, checked_off) = mpsc::unbounded_channel();
        let (events, submitted) = mpsc::unbounded_channel();
        let cluster = self.cluster.clone();
        supervisor::spawn_finite(
            "acknowledgements",
            ack_all(cluster, checked_off, self.in_flight.clone()),
        );
        supervisor::spawn_finite(
            "events from other nodes",
            submit_all(self.intake.clone(), submitted, done.clone()),
        );
        loop {
            let messages = match inbox.next().await {
                Ok(messages) => messages,
                Err(ClusterError::Fenced) => return pending().await,
                Err(error) => {
                    tracing::error!(%error, "cannot receive the messages for this node");
                    tokio::time::sleep(RETRY_DELAY).await;
                    continue;
                }
            };
            for message in messages {
                let root = message.root.clone().unwrap_or_default();
                self.in_flight.add(&root);
                let number = message.number;
                if message.kind == FILE_NEWS && self.file_neighbours.receive(&message.body) {
                    let _ = done.send((number, root));
                    continue;
                }
                let passed = pass_on(message, &done, &*self.chat, &events);
                if passed == PassedOn::Unread {
                    // It does not hold its lane here.
                    self.in_flight.ack(&root);
                }
                passed.log(number, &root);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassedOn {
    /// It has a reader, or gets one in the next process.
    Read,
    /// This version cannot read it. It stays in the database.
    Unread,
    /// This version cannot read it. It was news for this node only, and is dropped.
    Dropped,
}

impl PassedOn {
    fn log(self, number: i64, lane: &str) {
        match self {
            Self::Read => {}
            Self::Unread => {
                let hint = format!(
                    "upgrade this node, or move the lane to a newer one with `aetheel drain`; `update aetheel.mail set done = now() where number = {number}` in the database drops the event"
                );
                tracing::error!(
                    number,
                    lane,
                    hint,
                    "an event of a newer node cannot be read by this version; it stays in the database for a newer node"
                );
            }
            Self::Dropped => {
                tracing::warn!(
                    number,
                    "cannot read a message of another node, which may run another version"
                );
            }
        }
    }
}

/// Passes a message on. While the program shuts down nobody takes the message, so it stays
/// unacknowledged and the next process receives it.
fn pass_on(
    message: ReceivedMessage,
    done: &AckSender,
    chat: &dyn ClusterChat,
    events: &mpsc::UnboundedSender<RoutedEvent>,
) -> PassedOn {
    let ReceivedMessage { number, root, kind, body } = message;
    let lane = root.clone().unwrap_or_default();
    match kind.as_str() {
        EVENT_MESSAGE if let Ok(event) = serde_json::from_str(&body) => {
            let _ = events.send((event, number, lane));
            PassedOn::Read
        }
        _ if chat.receive(&kind, &body, ack_later(done, number, &lane)) => PassedOn::Read,
        _ if root.is_some() => PassedOn::Unread,
        _ => {
            let _ = done.send((number, lane));
            PassedOn::Dropped
        }
    }
}

/// Returns a function that acknowledges a message.
fn ack_later(done: &AckSender, number: i64, root: &str) -> Box<dyn FnOnce() + Send> {
    let (done, root) = (done.clone(), root.to_owned());
    Box::new(move || {
        let _ = done.send((number, root));
    })
}

/// Sender of the numbers of processed messages, each with the root of its lane.
type AckSender = mpsc::UnboundedSender<(i64, String)>;
type RoutedEvent = (NewEvent, i64, String);

async fn ack_all(
    cluster: Cluster,
    mut done: mpsc::UnboundedReceiver<(i64, String)>,
    in_flight: InFlightMessages,
) {
    let mut batch = Vec::new();
    while done.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let numbers: Vec<i64> = batch.iter().map(|(number, _)| *number).collect();
        until_answered(|| cluster.ack_messages(&numbers)).await;
        for (_, root) in batch.drain(..) {
            in_flight.ack(&root);
        }
    }
}

/// Submits the events that webhooks and schedules of other nodes have for lanes of this node, one
/// after the other.
async fn submit_all(
    intake: Intake,
    mut events: mpsc::UnboundedReceiver<RoutedEvent>,
    done: AckSender,
) {
    while let Some((event, number, root)) = events.recv().await {
        if submit(&intake, event).await {
            let _ = done.send((number, root));
        }
    }
}

/// Submits an event, and tries again while the queue is full. Returns `false` if the program is
/// shutting down; the event is then delivered again to the next process.
async fn submit(intake: &Intake, event: NewEvent) -> bool {
    loop {
        let submitted = match intake.submit_routed(event.clone()) {
            Ok(Some(accepted)) => accepted.wait_until_saved().await.map(drop),
            Ok(None) => Ok(()),
            Err(refusal) => Err(refusal),
        };
        match submitted {
            Ok(()) | Err(PromptRefusal::Known) => return true,
            Err(PromptRefusal::ShuttingDown) => return false,
            Err(
                PromptRefusal::Busy { .. } | PromptRefusal::Full { .. } | PromptRefusal::NotSaved,
            ) => {
                tokio::time::sleep(RETRY_DELAY).await;
            }
            Err(refusal) => {
                tracing::warn!(lane = %event.lane, "refused an event that another node accepted: {refusal}");
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_dispatch::ChannelFilter;
    use aetheel_model::event::{EventKind, EventOrigin, Lane};
    use aetheel_model::id::{ChannelId, MessageId};
    use aetheel_store::workspace::FileError;
    use async_trait::async_trait;

    /// Reads messages of the kind `chat` if their body is not empty.
    #[derive(Default)]
    struct Chat(Mutex<Vec<Box<dyn FnOnce() + Send>>>);

    #[async_trait]
    impl ClusterChat for Chat {
        fn receive(&self, kind: &str, body: &str, done: Box<dyn FnOnce() + Send>) -> bool {
            let is_read = kind == "chat" && !body.is_empty();
            if is_read {
                self.0.lock().push(done);
            }
            is_read
        }

        async fn report_closed(&self, _: &str, _: i64) {}

        fn share_requests(&self, _: usize) {}

        fn is_idle_in(&self, _: &ChannelFilter<'_>) -> bool {
            true
        }

        async fn export_channels(&self, _: &ChannelFilter<'_>) -> String {
            String::new()
        }

        async fn forget_channels(&self, _: &ChannelFilter<'_>) -> Result<(), FileError> {
            Ok(())
        }

        async fn import_channels(
            &self,
            _: &str,
            _: &ChannelFilter<'_>,
        ) -> Result<Vec<ChannelId>, FileError> {
            Ok(Vec::new())
        }

        fn mark_handled(&self, _: &[(ChannelId, MessageId)]) -> Vec<ChannelId> {
            Vec::new()
        }

        fn catch_up(&self, _: Vec<ChannelId>) {}
    }

    fn received(kind: &str, body: &str) -> ReceivedMessage {
        ReceivedMessage {
            number: 7,
            root: Some("discord:1".to_owned()),
            kind: kind.to_owned(),
            body: body.to_owned(),
        }
    }

    #[test]
    fn a_message_that_nobody_takes_any_more_stays_unacknowledged() {
        let (done, mut acknowledged) = mpsc::unbounded_channel();
        let (events, _) = mpsc::unbounded_channel();
        let chat = Chat::default();
        let read = PassedOn::Read;
        assert_eq!(pass_on(received("chat", "hello"), &done, &chat, &events), read);
        assert!(acknowledged.try_recv().is_err(), "before it is safe");
        chat.0.lock().pop().expect("the message")();
        assert_eq!(acknowledged.try_recv().unwrap(), (7, "discord:1".to_owned()));
        assert_eq!(pass_on(received("chat", "hello"), &done, &chat, &events), read);
        drop(chat);
        assert!(acknowledged.try_recv().is_err(), "the next process receives it");
    }

    #[test]
    fn a_message_of_a_newer_version_stays_for_it_if_it_has_a_lane() {
        let (done, mut acknowledged) = mpsc::unbounded_channel();
        let (events, mut submitted) = mpsc::unbounded_channel();
        let chat = Chat::default();
        let lane = Lane::Cron("daily".to_owned());
        let origin = EventOrigin::Internal { channel: None };
        let event = NewEvent::new(EventKind::Cron, lane, origin, "hello");
        let body = serde_json::to_string(&event).unwrap();
        let newer = body.replace(r#""kind":"cron""#, r#""kind":"of-a-later-version""#);
        assert_ne!(newer, body);
        for (kind, body) in
            [(EVENT_MESSAGE, newer.as_str()), ("chat", ""), ("of-a-later-version", "{}")]
        {
            let passed = pass_on(received(kind, body), &done, &chat, &events);
            assert_eq!(passed, PassedOn::Unread, "{kind}");
        }
        assert!(acknowledged.try_recv().is_err() && submitted.try_recv().is_err());
        let message = ReceivedMessage { root: None, ..received("of-a-later-version", "{}") };
        assert_eq!(pass_on(message, &done, &chat, &events), PassedOn::Dropped);
        assert!(acknowledged.try_recv().is_ok(), "news about the moment are not kept");
        assert_eq!(pass_on(received(EVENT_MESSAGE, &body), &done, &chat, &events), PassedOn::Read);
        assert_eq!(submitted.try_recv().unwrap().0, event);
    }
}
