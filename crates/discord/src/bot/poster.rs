//! Sends the events that the leader of a cluster receives to the nodes that have their channels.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{error, warn};

use super::Discord;
use super::unposted::Unposted;
use crate::connection::gateway_event::{EventContent, GatewayEvent, RecentChannel};
use aetheel_dispatch::{ClusterMail, ClusterMessage};
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use aetheel_runtime::supervisor;
use aetheel_store::workspace::Workspace;

/// Kind of a message between nodes that contains an event from Discord.
pub(super) const DISCORD_EVENT: &str = "discord";
/// Largest number of events whose messages one call of the database writes.
const MAX_BATCH: usize = 256;
/// Time for reading what people wrote in channels that no node has. Other messages wait meanwhile.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after [`UNREAD_TIMEOUT`] in which Discord still announces the guilds of the same login.
const LOGIN_SPAN: Duration = Duration::from_secs(60);
const MAX_CACHED_CHANNELS: usize = 100_000;
/// How long a channel is known to have no node before the database is asked again.
const UNOWNED_CACHE_TIME: Duration = Duration::from_secs(10);

/// Sends events from Discord to the nodes that have their channels.
pub(super) struct Poster {
    nodes: Arc<dyn ClusterMail>,
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
        nodes: Arc<dyn ClusterMail>,
        discord: Discord,
        workspace: Workspace,
        unposted: Unposted,
    ) -> Self {
        let (roots, owned, unowned) = (HashMap::new(), HashSet::new(), HashMap::new());
        Self { nodes, discord, workspace, roots, owned, unowned, unposted, unread_until: None }
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
                } else if let EventContent::RecentChannels(channels) = event.content {
                    messages.extend(self.unread(channels).await);
                } else if let Ok(body) = serde_json::to_string(&event) {
                    self.nodes.broadcast(DISCORD_EVENT, &body).await;
                }
            }
            if !self.nodes.post(&messages).await {
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
            for channel in channels {
                if self.is_unowned(channel.root()).await {
                    let settings =
                        self.workspace.channels().await.of(&Lane::Channel(channel.root()));
                    let all = settings.require_mention == Some(false);
                    let discord = self.discord.clone();
                    reads.spawn(async move { discord.unread_messages(channel, all).await });
                }
            }
            while let Some(read) = reads.join_next().await {
                events.extend(read.into_iter().flatten());
            }
        };
        if tokio::time::timeout_at(until.into(), read_all).await.is_err() {
            warn!(
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
            let is_posted = self.nodes.post(std::slice::from_ref(message)).await;
            let event = serde_json::from_str::<GatewayEvent>(&message.body).ok();
            if let Some(event) = event.filter(|_| !is_posted) {
                let key = message.key.as_str();
                error!(key, "the database cannot store an event, which is dropped");
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
            root: of.to_string(),
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
        if self.nodes.find_root(root).await.is_some() {
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
        let known = match self.nodes.find_root(channel).await {
            Some(Lane::Channel(root)) => Some(root),
            _ => event.root(),
        };
        let root = match known {
            Some(root) => root,
            None => match self.discord.root_channel(channel).await {
                Ok(root) => root,
                Err(error) => {
                    warn!(
                        channel = channel.to_field(),
                        %error,
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
