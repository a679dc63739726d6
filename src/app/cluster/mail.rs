//! Messages between nodes: sends each event from Discord to the node that has its channel, and
//! receives the messages for this node's lanes.
//!
//! A message is acknowledged when its event is in the journal, refused, or ignored. A message
//! without an acknowledgement is delivered again, to the node that has the lane by then. An event
//! that is already in the journal is recognised by its key. A message for a lane that this version
//! cannot read stays without an acknowledgement, so that a newer node processes it.

use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::unposted::Unposted;
use crate::startup::clustering::EVENT_MESSAGE;
use aetheel_cluster::{Cluster, ClusterError, ClusterMessage, Inbox, ReceivedMessage};
use aetheel_discord::{Discord, GatewayEvent, Receipt, RecentChannel};
use aetheel_dispatch::{FileNeighbours, Intake, PromptRefusal};
use aetheel_model::event::{Lane, NewEvent};
use aetheel_model::id::ChannelId;
use aetheel_runtime::supervisor;
use aetheel_store::workspace::Workspace;

/// Kind of a message that contains an event from Discord.
const DISCORD_EVENT: &str = "discord";
/// Kind of a message with news about the files of shared directories.
pub(super) const FILE_NEWS: &str = "files";
/// Most messages that one call of the database writes or acknowledges.
const MAX_BATCH: usize = 256;
/// Delay before the database is called again, or a full queue is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Time for reading what people wrote in channels that no node has. Other messages wait meanwhile.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after [`UNREAD_TIMEOUT`] in which Discord still announces the guilds of the same login.
const LOGIN_SPAN: Duration = Duration::from_secs(60);
/// Largest number of entries of each cache of channels.
const MAX_CACHED_CHANNELS: usize = 100_000;
/// How long a channel is known to have no node before the database is asked again.
const UNOWNED_CACHE_TIME: Duration = Duration::from_secs(10);

/// Evaluates a call of the database, and repeats it while the database cannot be reached or refuses
/// this node. Returns `None` if the database can never accept the values of the call.
macro_rules! patiently {
    ($ask:expr) => {
        loop {
            match $ask.await {
                Ok(answer) => break Some(answer),
                Err(error) if $crate::app::cluster::mail::is_worth_another_try(&error).await => {}
                Err(_) => break None,
            }
        }
    };
}
pub(super) use patiently;

/// Returns whether a failed call of the database is to be repeated, after a delay. Never returns
/// once another node has replaced this one, because the program is about to end.
pub(super) async fn is_worth_another_try(error: &ClusterError) -> bool {
    match error {
        ClusterError::Away(why) | ClusterError::Untrusted(why) => {
            tracing::debug!(why, "a call of the cluster's database failed; trying again");
            tokio::time::sleep(RETRY_DELAY).await;
            true
        }
        ClusterError::Fenced => pending().await,
        ClusterError::Refused(why) => {
            tracing::error!(why, "the database of the cluster refused an operation");
            false
        }
    }
}

/// Returns the name of a root lane in messages between nodes.
pub(super) fn root_of(lane: &Lane) -> String {
    lane.to_string()
}

/// Sends events from Discord to the nodes that have their channels.
pub(super) struct Poster {
    cluster: Cluster,
    discord: Discord,
    workspace: Workspace,
    /// Cached parent channel of each thread; a channel maps to itself.
    roots: HashMap<ChannelId, ChannelId>,
    /// Channels that some node has. A channel with a node always keeps one.
    owned: HashSet<ChannelId>,
    /// Channels without a node, each with the time of the lookup.
    unowned: HashMap<ChannelId, Instant>,
    unposted: Unposted,
    /// The time until which messages in channels without a node are read after the last login.
    unread_until: Option<Instant>,
}

impl Poster {
    pub(super) fn new(
        cluster: Cluster,
        discord: Discord,
        workspace: Workspace,
        unposted: Unposted,
    ) -> Self {
        let (roots, owned, unowned) = (HashMap::new(), HashSet::new(), HashMap::new());
        Self { cluster, discord, workspace, roots, owned, unowned, unposted, unread_until: None }
    }

    /// Sends the events that arrive in `events` until its sender is dropped. An event is dropped
    /// only if the database cannot store it; its author is then notified.
    pub(super) async fn run(mut self, mut events: mpsc::UnboundedReceiver<GatewayEvent>) {
        let mut batch = Vec::new();
        while events.recv_many(&mut batch, MAX_BATCH).await > 0 {
            let (mut messages, count) = (Vec::new(), batch.len());
            for event in batch.drain(..) {
                if let Some(channel) = event.channel() {
                    messages.extend(self.message(event, channel).await);
                } else if let Some(channels) = event.recent_channels() {
                    messages.extend(self.unread(channels).await);
                } else if let Ok(body) = serde_json::to_string(&event) {
                    patiently!(self.cluster.broadcast(DISCORD_EVENT, &body));
                }
            }
            if patiently!(self.cluster.post(&messages)).is_none() {
                self.post_one_by_one(&messages).await;
            }
            self.unposted.posted(count);
        }
    }

    /// Makes the messages for what people wrote to the bot in channels that no node has. A leader
    /// that ended may have received these messages while the database refused it. The node of any
    /// other channel reads such messages itself. Takes at most [`UNREAD_TIMEOUT`] for all guilds of a
    /// login.
    async fn unread(&mut self, channels: Vec<RecentChannel>) -> Vec<ClusterMessage> {
        let now = Instant::now();
        let of_this_login = |until: &Instant| now < *until + LOGIN_SPAN;
        let until = self.unread_until.filter(of_this_login).unwrap_or(now + UNREAD_TIMEOUT);
        self.unread_until = Some(until);
        if now >= until {
            return Vec::new();
        }
        let (mut reads, mut events) = (JoinSet::new(), Vec::new());
        let read_all = async {
            for place in channels {
                if self.is_unowned(place.root()).await {
                    let settings = self.workspace.channels().await.of(&Lane::Channel(place.root()));
                    let all = settings.require_mention == Some(false);
                    let discord = self.discord.clone();
                    reads.spawn(async move { discord.unread_messages(place, all).await });
                }
            }
            while let Some(read) = reads.join_next().await {
                events.extend(read.into_iter().flatten());
            }
        };
        if tokio::time::timeout_at(until.into(), read_all).await.is_err() {
            tracing::warn!(
                "discord does not return messages in time that a leader which ended may have received; in channels without a machine, people must repeat what they wrote in the last minutes"
            );
        }
        let mut messages = Vec::new();
        for event in events {
            if let Some(channel) = event.channel() {
                messages.extend(self.message(event, channel).await);
            }
        }
        messages
    }

    /// Sends messages of which the database cannot store at least one.
    async fn post_one_by_one(&self, messages: &[ClusterMessage]) {
        for message in messages {
            let is_posted = patiently!(self.cluster.post(std::slice::from_ref(message))).is_some();
            let event = serde_json::from_str::<GatewayEvent>(&message.body).ok();
            if let Some(event) = event.filter(|_| !is_posted) {
                let key = message.key.as_str();
                tracing::error!(key, "the database cannot store an event, which is dropped");
                let discord = self.discord.clone();
                supervisor::spawn_finite("refused event", async move {
                    discord.report_refused(&event).await;
                });
            }
        }
    }

    /// Makes the message for an event. Returns `None` if no node has the channel and the event does
    /// not have to be processed.
    async fn message(
        &mut self,
        mut event: GatewayEvent,
        channel: ChannelId,
    ) -> Option<ClusterMessage> {
        let root = self.root(&event, channel).await;
        let (lane, of) = (Lane::Channel(channel), Lane::Channel(root));
        let settings = {
            let channels = self.workspace.channels().await;
            channels.of(&lane).or(&channels.of(&of))
        };
        let wanted = event.addressed || settings.require_mention == Some(false);
        if !wanted && self.is_unowned(root).await {
            return None;
        }
        event.set_root(root);
        if self.owned.len() >= MAX_CACHED_CHANNELS {
            self.owned.clear();
        }
        self.owned.insert(root);
        Some(ClusterMessage {
            key: event.key(),
            root: root_of(&of),
            thread: (root != channel).then_some(channel),
            kind: DISCORD_EVENT.to_owned(),
            body: serde_json::to_string(&event).ok()?,
            label: settings.node,
        })
    }

    async fn is_unowned(&mut self, root: ChannelId) -> bool {
        if self.owned.contains(&root) {
            return false;
        }
        let fresh = |at: &Instant| at.elapsed() < UNOWNED_CACHE_TIME;
        if self.unowned.get(&root).is_some_and(fresh) {
            return true;
        }
        if patiently!(self.cluster.find_root(root)).flatten().is_some() {
            return false;
        }
        if self.unowned.len() >= MAX_CACHED_CHANNELS {
            self.unowned.clear();
        }
        self.unowned.insert(root, Instant::now());
        true
    }

    /// Returns the parent channel of a thread, or the channel itself. A thread that a machine
    /// imported before the cluster knew its parent counts as a channel.
    async fn root(&mut self, event: &GatewayEvent, channel: ChannelId) -> ChannelId {
        if let Some(root) = self.roots.get(&channel) {
            return *root;
        }
        let known = patiently!(self.cluster.find_root(channel)).flatten();
        let known = known.and_then(|root| match root.parse() {
            Ok(Lane::Channel(root)) => Some(root),
            _ => None,
        });
        let root = match known.or_else(|| event.root()) {
            Some(root) => root,
            None => match self.discord.root_channel(channel).await {
                Ok(root) => root,
                Err(error) => {
                    tracing::warn!(
                        channel = channel.to_field(),
                        error = error.to_string(),
                        "cannot ask discord whether this is a thread; it is treated as a channel"
                    );
                    return channel;
                }
            },
        };
        if self.roots.len() >= MAX_CACHED_CHANNELS {
            self.roots.clear();
        }
        self.roots.insert(channel, root);
        root
    }
}

/// Counts the received messages that are not acknowledged yet, by the root of their lane.
#[derive(Clone, Default)]
pub(super) struct InFlightMessages(Arc<(Mutex<HashMap<String, usize>>, Notify)>);

impl InFlightMessages {
    fn add(&self, root: &str) {
        *self.0.0.lock().entry(root.to_owned()).or_default() += 1;
    }

    fn ack(&self, root: &str) {
        let mut taken = self.0.0.lock();
        if let Some(count) = taken.get_mut(root) {
            *count -= 1;
            if *count == 0 {
                taken.remove(root);
            }
        }
        self.0.1.notify_waiters();
    }

    /// Waits until all messages of a lane are acknowledged, or all messages if `root` is `None`.
    pub(super) async fn wait_empty(&self, root: Option<&str>) {
        loop {
            let changed = self.0.1.notified();
            let is_empty = {
                let taken = self.0.0.lock();
                root.map_or(taken.is_empty(), |root| !taken.contains_key(root))
            };
            if is_empty {
                return;
            }
            changed.await;
        }
    }
}

/// Receives the messages for this node and passes them to Discord's reader or the dispatcher.
pub(super) struct InboxReader {
    pub(super) discord: mpsc::UnboundedSender<(GatewayEvent, Receipt)>,
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
            let letters = match inbox.next().await {
                Ok(letters) => letters,
                Err(ClusterError::Fenced) => return pending().await,
                Err(error) => {
                    tracing::error!(%error, "cannot receive the messages for this node");
                    tokio::time::sleep(RETRY_DELAY).await;
                    continue;
                }
            };
            for letter in letters {
                let root = letter.root.clone().unwrap_or_default();
                self.in_flight.add(&root);
                let number = letter.number;
                if letter.kind == FILE_NEWS && self.file_neighbours.receive(&letter.body) {
                    let _ = done.send((number, root));
                    continue;
                }
                let passed = pass_on(letter, &done, &self.discord, &events);
                if passed == PassedOn::Kept {
                    // It does not hold its lane here.
                    self.in_flight.ack(&root);
                }
                passed.log(number, &root);
            }
        }
    }
}

/// The result of passing a message on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassedOn {
    /// It has a reader, or gets one in the next process.
    Read,
    /// This version cannot read it. It stays in the database.
    Kept,
    /// This version cannot read it. It was news for this node only, and is dropped.
    Dropped,
}

impl PassedOn {
    fn log(self, number: i64, lane: &str) {
        match self {
            Self::Read => {}
            Self::Kept => {
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
    letter: ReceivedMessage,
    done: &AckSender,
    discord: &mpsc::UnboundedSender<(GatewayEvent, Receipt)>,
    events: &mpsc::UnboundedSender<RoutedEvent>,
) -> PassedOn {
    let ReceivedMessage { number, root, kind, body } = letter;
    let lane = root.clone().unwrap_or_default();
    match kind.as_str() {
        DISCORD_EVENT if let Ok(event) = serde_json::from_str(&body) => {
            let done = done.clone();
            let receipt = Receipt::new(move || {
                let _ = done.send((number, lane));
            });
            let _ = discord.send((event, receipt));
            PassedOn::Read
        }
        EVENT_MESSAGE if let Ok(event) = serde_json::from_str(&body) => {
            let _ = events.send((event, number, lane));
            PassedOn::Read
        }
        _ if root.is_some() => PassedOn::Kept,
        _ => {
            let _ = done.send((number, lane));
            PassedOn::Dropped
        }
    }
}

/// Sender of the numbers of processed messages, each with the root of its lane.
type AckSender = mpsc::UnboundedSender<(i64, String)>;
type RoutedEvent = (NewEvent, i64, String);

async fn ack_all(
    cluster: Cluster,
    mut done: mpsc::UnboundedReceiver<(i64, String)>,
    hands: InFlightMessages,
) {
    let mut batch = Vec::new();
    while done.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let numbers: Vec<i64> = batch.iter().map(|(number, _)| *number).collect();
        patiently!(cluster.ack_messages(&numbers));
        for (_, root) in batch.drain(..) {
            hands.ack(&root);
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
        let taken = match intake.submit_routed(event.clone()) {
            Ok(Some(accepted)) => accepted.wait_until_saved().await.map(drop),
            Ok(None) => Ok(()),
            Err(refusal) => Err(refusal),
        };
        match taken {
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
    use serde_json::Value;

    use super::*;
    use aetheel_discord::Parent;
    use aetheel_model::event::{EventKind, EventOrigin};

    fn taken(kind: &str, body: String) -> ReceivedMessage {
        ReceivedMessage {
            number: 7,
            root: Some("discord:1".to_owned()),
            kind: kind.to_owned(),
            body,
        }
    }

    #[test]
    fn a_message_that_nobody_takes_any_more_stays_unacknowledged() {
        let event = GatewayEvent {
            name: "MESSAGE_CREATE".to_owned(),
            data: Value::Null,
            names: Vec::new(),
            parent: Parent::Unknown,
            addressed: true,
        };
        let body = serde_json::to_string(&event).unwrap();
        let (done, mut acknowledged) = mpsc::unbounded_channel();
        let (discord, mut reader) = mpsc::unbounded_channel();
        let (events, _) = mpsc::unbounded_channel();
        let read = PassedOn::Read;
        assert_eq!(pass_on(taken(DISCORD_EVENT, body.clone()), &done, &discord, &events), read);
        let (_, receipt): (GatewayEvent, Receipt) = reader.try_recv().unwrap();
        assert!(acknowledged.try_recv().is_err(), "before it is safe");
        receipt.done();
        assert_eq!(acknowledged.try_recv().unwrap(), (7, "discord:1".to_owned()));
        drop(reader);
        assert_eq!(pass_on(taken(DISCORD_EVENT, body), &done, &discord, &events), read);
        assert!(acknowledged.try_recv().is_err(), "the next process receives it");
    }

    #[test]
    fn a_message_of_a_newer_version_stays_for_it_if_it_has_a_lane() {
        let (done, mut acknowledged) = mpsc::unbounded_channel();
        let (discord, _reader) = mpsc::unbounded_channel();
        let (events, mut submitted) = mpsc::unbounded_channel();
        let lane = Lane::Cron("daily".to_owned());
        let origin = EventOrigin::Internal { channel: None };
        let event = NewEvent::new(EventKind::Cron, lane, origin, "hello");
        let body = serde_json::to_string(&event).unwrap();
        let newer = body.replace(r#""kind":"cron""#, r#""kind":"of-a-later-version""#);
        assert_ne!(newer, body);
        for (kind, body) in
            [(EVENT_MESSAGE, newer.as_str()), (DISCORD_EVENT, "[]"), ("of-a-later-version", "{}")]
        {
            let letter = taken(kind, body.to_owned());
            assert_eq!(pass_on(letter, &done, &discord, &events), PassedOn::Kept, "{kind}");
        }
        assert!(acknowledged.try_recv().is_err() && submitted.try_recv().is_err());
        let news = ReceivedMessage { root: None, ..taken("of-a-later-version", "{}".to_owned()) };
        assert_eq!(pass_on(news, &done, &discord, &events), PassedOn::Dropped);
        assert!(acknowledged.try_recv().is_ok(), "news about the moment are not kept");
        let known = taken(EVENT_MESSAGE, body);
        assert_eq!(pass_on(known, &done, &discord, &events), PassedOn::Read);
        assert_eq!(submitted.try_recv().unwrap().0, event);
    }
}
