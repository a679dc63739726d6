//! Messages between nodes: sends each event from Discord to the node that has its channel, and
//! receives the messages for this node's lanes.
//!
//! A message is acknowledged when its event is in the journal, refused, or ignored. A message
//! without an acknowledgement is delivered again, to the node that has the lane by then. An event
//! that is already in the journal is recognised by its key.

use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, RwLock, mpsc};

use super::unposted::Unposted;
use crate::cluster::{Cluster, ClusterError, Inbox, Letter, Taken};
use crate::discord::{Discord, Heard, Parent, Receipt};
use crate::dispatch::{Dispatcher, Refusal};
use crate::event::{Lane, NewEvent};
use crate::startup::clustering::EVENT;
use crate::vigil;
use crate::workspace::Workspace;

/// Kind of a message that contains an event from Discord.
const HEARD: &str = "discord";
/// Most messages that one call of the database writes or acknowledges.
const BATCH: usize = 256;
/// Delay before the database is called again, or a full queue is tried again.
const AGAIN_INTERVAL: Duration = Duration::from_millis(250);
/// Largest number of entries of each cache of channels.
const THREADS: usize = 100_000;
/// How long a channel is known to have no node before the database is asked again.
const NOBODYS_SPAN: Duration = Duration::from_secs(10);

/// Evaluates a call of the database, and repeats it while the database cannot be reached. Returns
/// `None` if the database refused the call.
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
        ClusterError::Away(_) | ClusterError::Untrusted(_) => {
            tokio::time::sleep(AGAIN_INTERVAL).await;
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
    roots: HashMap<u64, u64>,
    /// Channels that some node has. A channel with a node always keeps one.
    placed: HashSet<u64>,
    /// Channels without a node, each with the time of the lookup.
    nobodys: HashMap<u64, Instant>,
    unposted: Unposted,
}

impl Poster {
    pub(super) fn new(
        cluster: Cluster,
        discord: Discord,
        workspace: Workspace,
        unposted: Unposted,
    ) -> Self {
        let (roots, placed, nobodys) = (HashMap::new(), HashSet::new(), HashMap::new());
        Self { cluster, discord, workspace, roots, placed, nobodys, unposted }
    }

    /// Sends events until the sender of `heard` is dropped.
    pub(super) async fn run(mut self, mut heard: mpsc::UnboundedReceiver<Heard>) {
        let mut batch = Vec::new();
        while heard.recv_many(&mut batch, BATCH).await > 0 {
            let (mut letters, count) = (Vec::new(), batch.len());
            for heard in batch.drain(..) {
                if let Some(channel) = heard.channel() {
                    letters.extend(self.letter(heard, channel).await);
                } else if let Ok(body) = serde_json::to_string(&heard) {
                    patiently!(self.cluster.tell_all(HEARD, &body));
                }
            }
            if !letters.is_empty() {
                patiently!(self.cluster.post(&letters));
            }
            self.unposted.posted(count);
        }
    }

    /// Makes the message for an event. Returns `None` if no node has the channel and the event does
    /// not have to be processed.
    async fn letter(&mut self, mut heard: Heard, channel: u64) -> Option<Letter> {
        let root = self.root(&heard, channel).await;
        let (lane, of) = (Lane::Channel(channel), Lane::Channel(root));
        let settings = {
            let channels = self.workspace.channels().await;
            channels.of(&lane).or(&channels.of(&of))
        };
        let wanted = heard.addressed || settings.require_mention == Some(false);
        if !wanted && self.is_nobodys(root).await {
            return None;
        }
        heard.parent = Parent::Known((root != channel).then_some(root));
        if self.placed.len() >= THREADS {
            self.placed.clear();
        }
        self.placed.insert(root);
        Some(Letter {
            key: heard.key(),
            root: root_of(&of),
            thread: (root != channel).then_some(channel),
            kind: HEARD.to_owned(),
            body: serde_json::to_string(&heard).ok()?,
            label: settings.node,
        })
    }

    async fn is_nobodys(&mut self, root: u64) -> bool {
        if self.placed.contains(&root) {
            return false;
        }
        let fresh = |at: &Instant| at.elapsed() < NOBODYS_SPAN;
        if self.nobodys.get(&root).is_some_and(fresh) {
            return true;
        }
        if patiently!(self.cluster.root_known(root)).flatten().is_some() {
            return false;
        }
        if self.nobodys.len() >= THREADS {
            self.nobodys.clear();
        }
        self.nobodys.insert(root, Instant::now());
        true
    }

    /// Returns the parent channel of a thread, or the channel itself. A thread that a machine
    /// imported before the cluster knew its parent counts as a channel.
    async fn root(&mut self, heard: &Heard, channel: u64) -> u64 {
        if let Some(root) = self.roots.get(&channel) {
            return *root;
        }
        let known = patiently!(self.cluster.root_known(channel)).flatten();
        let known = known.and_then(|root| match root.parse() {
            Ok(Lane::Channel(root)) => Some(root),
            _ => None,
        });
        let root = match (known, heard.parent) {
            (Some(root), _) => root,
            (None, Parent::Known(parent)) => parent.unwrap_or(channel),
            (None, Parent::Unknown) => match self.discord.root_of(channel).await {
                Ok(root) => root,
                Err(error) => {
                    tracing::warn!(
                        channel,
                        error,
                        "cannot ask discord whether this is a thread; it is treated as a channel"
                    );
                    return channel;
                }
            },
        };
        if self.roots.len() >= THREADS {
            self.roots.clear();
        }
        self.roots.insert(channel, root);
        root
    }
}

/// Counts the received messages that are not acknowledged yet, by the root of their lane.
#[derive(Clone, Default)]
pub(super) struct Hands(Arc<(Mutex<HashMap<String, usize>>, Notify)>);

impl Hands {
    fn take(&self, root: &str) {
        *self.0.0.lock().entry(root.to_owned()).or_default() += 1;
    }

    fn lay_down(&self, root: &str) {
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
    pub(super) async fn empty(&self, root: Option<&str>) {
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

/// Locked for writing while lanes are imported from another node, so that no message of these lanes
/// is processed before the import is complete.
pub(super) type Gate = Arc<RwLock<()>>;

/// Receives the messages for this node and passes them to Discord's reader or the dispatcher.
pub(super) struct Reader {
    pub(super) gate: Gate,
    pub(super) discord: mpsc::UnboundedSender<(Heard, Receipt)>,
    pub(super) dispatcher: Dispatcher,
    pub(super) hands: Hands,
    pub(super) cluster: Cluster,
}

impl Reader {
    /// Receives messages until the program ends.
    pub(super) async fn run(self, mut inbox: Inbox) {
        let (done, checked_off) = mpsc::unbounded_channel();
        let (events, submitted) = mpsc::unbounded_channel();
        let cluster = self.cluster.clone();
        vigil::errand("acknowledgements", check_off(cluster, checked_off, self.hands.clone()));
        vigil::errand(
            "events from other nodes",
            submit_all(self.dispatcher.clone(), submitted, done.clone()),
        );
        loop {
            let letters = match inbox.next().await {
                Ok(letters) => letters,
                Err(ClusterError::Fenced) => return pending().await,
                Err(error) => {
                    tracing::error!(%error, "cannot receive the messages for this node");
                    tokio::time::sleep(AGAIN_INTERVAL).await;
                    continue;
                }
            };
            let _open = self.gate.read().await;
            for letter in letters {
                let root = letter.root.clone().unwrap_or_default();
                self.hands.take(&root);
                let number = letter.number;
                if !pass_on(letter, &done, &self.discord, &events) {
                    tracing::warn!(
                        number,
                        "cannot read a message of another node, which may run another version"
                    );
                    let _ = done.send((number, root));
                }
            }
        }
    }
}

/// Passes a message on. Returns `false` if this version cannot read it. While the program shuts
/// down nobody takes the message, so it stays unacknowledged and the next process receives it.
fn pass_on(
    letter: Taken,
    done: &Done,
    discord: &mpsc::UnboundedSender<(Heard, Receipt)>,
    events: &mpsc::UnboundedSender<Submitted>,
) -> bool {
    let Taken { number, root, kind, body } = letter;
    let root = root.unwrap_or_default();
    match kind.as_str() {
        HEARD => {
            let Ok(heard) = serde_json::from_str(&body) else { return false };
            let done = done.clone();
            let receipt = Receipt::new(move || {
                let _ = done.send((number, root));
            });
            let _ = discord.send((heard, receipt));
        }
        EVENT => {
            let Ok(event) = serde_json::from_str(&body) else { return false };
            let _ = events.send((event, number, root));
        }
        _ => return false,
    }
    true
}

/// Sender of the numbers of processed messages, each with the root of its lane.
type Done = mpsc::UnboundedSender<(i64, String)>;
type Submitted = (NewEvent, i64, String);

async fn check_off(
    cluster: Cluster,
    mut done: mpsc::UnboundedReceiver<(i64, String)>,
    hands: Hands,
) {
    let mut batch = Vec::new();
    while done.recv_many(&mut batch, BATCH).await > 0 {
        let numbers: Vec<i64> = batch.iter().map(|(number, _)| *number).collect();
        patiently!(cluster.done(&numbers));
        for (_, root) in batch.drain(..) {
            hands.lay_down(&root);
        }
    }
}

/// Submits the events that webhooks and schedules of other nodes have for lanes of this node, one
/// after the other.
async fn submit_all(
    dispatcher: Dispatcher,
    mut events: mpsc::UnboundedReceiver<Submitted>,
    done: Done,
) {
    while let Some((event, number, root)) = events.recv().await {
        if submit(&dispatcher, event).await {
            let _ = done.send((number, root));
        }
    }
}

/// Submits an event, and tries again while the queue is full. Returns `false` if the program is
/// shutting down; the event is then delivered again to the next process.
async fn submit(dispatcher: &Dispatcher, event: NewEvent) -> bool {
    loop {
        let taken = match dispatcher.submit_sent(event.clone()) {
            Ok(Some(accepted)) => accepted.safe().await.map(drop),
            Ok(None) => Ok(()),
            Err(refusal) => Err(refusal),
        };
        match taken {
            Ok(()) | Err(Refusal::Known) => return true,
            Err(Refusal::ShuttingDown) => return false,
            Err(Refusal::Busy { .. } | Refusal::Full { .. } | Refusal::NotSaved) => {
                tokio::time::sleep(AGAIN_INTERVAL).await;
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

    fn taken(kind: &str, body: String) -> Taken {
        Taken { number: 7, root: Some("discord:1".to_owned()), kind: kind.to_owned(), body }
    }

    #[test]
    fn a_message_that_nobody_takes_any_more_stays_unacknowledged() {
        let heard = Heard {
            name: "MESSAGE_CREATE".to_owned(),
            data: Value::Null,
            names: Vec::new(),
            parent: Parent::Unknown,
            addressed: true,
        };
        let body = serde_json::to_string(&heard).unwrap();
        let (done, mut acknowledged) = mpsc::unbounded_channel();
        let (discord, mut reader) = mpsc::unbounded_channel();
        let (events, _) = mpsc::unbounded_channel();
        assert!(!pass_on(taken("of-a-later-version", body.clone()), &done, &discord, &events));
        assert!(pass_on(taken(HEARD, body.clone()), &done, &discord, &events));
        let (_, receipt): (Heard, Receipt) = reader.try_recv().unwrap();
        assert!(acknowledged.try_recv().is_err(), "before it is safe");
        receipt.done();
        assert_eq!(acknowledged.try_recv().unwrap(), (7, "discord:1".to_owned()));
        drop(reader);
        assert!(pass_on(taken(HEARD, body), &done, &discord, &events), "it can be read");
        assert!(acknowledged.try_recv().is_err(), "the next process receives it");
    }
}
