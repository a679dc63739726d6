//! A Discord on loopback: HTTP interface and gateway, with rate limits and faults, plain or over
//! TLS.
//!
//! Every request is checked against Discord's OpenAPI description and against a few rules that it
//! does not contain: no message pings anybody, every message has a nonce, and none is too long. A
//! violation fails the test when the [`LocalDiscord`] is dropped. The real program can use it: set
//! `DISCORD_API_BASE` to [`LocalDiscord::url`] and `DISCORD_BOT_TOKEN` to [`TOKEN`].
#![allow(dead_code, reason = "several test modules use parts of it")]

mod faults;
mod gateway;
mod multipart;
mod presses;
mod rest;
mod schema;
mod state;
mod tls;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::link::Link;
pub use faults::Fault;
pub use state::{
    ANN, APPLICATION, BOB, BOT, BOT_ROLE, CHANNEL, CROWD, DIRECT, GUILD, Interaction, Message,
    NOOR, OTHER, OTHER_BOT, OWNER, ROLE, Request, THREAD, TOKEN, room,
};
use state::{Control, State};
use tls::{Authority, Front};

/// A generous limit for everything that a test waits for, because the machine may be busy.
pub const LIMIT: Duration = Duration::from_secs(30);

struct World {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

impl World {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().expect("no panic under this lock"))
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

/// A Discord with one guild. It has two channels, a thread, a person ([`ANN`]), the application's
/// owner and another bot.
pub struct LocalDiscord {
    world: Arc<World>,
    url: String,
    authority: Option<Authority>,
    tasks: Vec<JoinHandle<()>>,
}

impl LocalDiscord {
    /// Starts a Discord on free ports.
    pub async fn start() -> Self {
        Self::open(None).await
    }

    /// Starts a Discord that uses HTTPS and WSS, with its own certificate authority.
    pub async fn start_with_tls() -> Self {
        Self::open(Some(Authority::new())).await
    }

    async fn open(authority: Option<Authority>) -> Self {
        let http = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let secure = if authority.is_some() { "s" } else { "" };
        let url = format!("http{secure}://{}", http.local_addr().expect("an address"));
        let gateway = format!("ws{secure}://{}", socket.local_addr().expect("an address"));
        let acceptor = authority.as_ref().map(Authority::acceptor);
        let world = Arc::new(World {
            state: Mutex::new(State::new(gateway)),
            changed: watch::channel(0).0,
        });
        let router = axum::Router::new().fallback(rest::handle).with_state(Arc::clone(&world));
        let tasks = vec![
            tokio::spawn(gateway::serve(Arc::clone(&world), socket, acceptor.clone())),
            tokio::spawn(async move {
                axum::serve(Front::new(http, acceptor), router).await.expect("serves")
            }),
        ];
        Self { world, url, authority, tasks }
    }

    /// Adds links that a test can cut, for one program. Returns the value for `DISCORD_API_BASE`
    /// and the links of requests and of the gateway.
    pub async fn linked(&self) -> (String, [Link; 2]) {
        let at = |url: &str| url.split_once("//").expect("a URL").1.parse().expect("an address");
        let gateway = self.world.with(|state| state.gateway.url.clone());
        let (requests, host) = Link::to_port(at(&self.url)).await;
        let (events, socket) = Link::to_port(at(&gateway)).await;
        self.world.with(|state| {
            state.gateway.others.insert(host.to_string(), format!("ws://{socket}"));
        });
        (format!("http://{host}"), [requests, events])
    }

    /// Returns the PEM file of the authority's certificate, or `None` without TLS.
    pub fn authority(&self) -> Option<&Path> {
        self.authority.as_ref().map(Authority::file)
    }

    /// Returns the value for `DISCORD_API_BASE`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A user writes a message. Returns its id.
    pub fn say(&self, channel: u64, user: u64, text: &str) -> u64 {
        self.write(channel, user, text, None, false)
    }

    /// A user writes a message that mentions the bot.
    pub fn mention(&self, channel: u64, user: u64, text: &str) -> u64 {
        self.say(channel, user, &format!("<@{BOT}> {text}"))
    }

    /// Adds a message to the bot that was written `ago`, without an event.
    pub fn mention_earlier(&self, channel: u64, user: u64, text: &str, ago: Duration) -> u64 {
        self.world.with(|state| state.post_earlier(channel, user, &format!("<@{BOT}> {text}"), ago))
    }

    /// A user replies to a message.
    pub fn reply(&self, to: u64, user: u64, text: &str) -> u64 {
        let channel = self.world.with(|state| state.messages[&to].channel);
        self.write(channel, user, text, Some(to), false)
    }

    /// A user forwards a message.
    pub fn forward(&self, message: u64, channel: u64, user: u64) -> u64 {
        let id = self.world.with(|state| {
            let id = state.post(channel, user, "", None).id;
            state.messages.get_mut(&id).expect("just posted").forwards = Some(message);
            let forward = state.messages[&id].clone();
            let event = state.message_json(&forward, true);
            state.dispatch("MESSAGE_CREATE", &event);
            id
        });
        self.world.notify();
        id
    }

    /// Posts a message as a Discord webhook does, and returns its id.
    pub fn webhook(&self, channel: u64, text: &str) -> u64 {
        self.write(channel, ANN, text, None, true)
    }

    fn write(
        &self,
        channel: u64,
        user: u64,
        text: &str,
        reply_to: Option<u64>,
        webhook: bool,
    ) -> u64 {
        let id = self.world.with(|state| {
            let id = state.post(channel, user, text, reply_to).id;
            state.messages.get_mut(&id).expect("just posted").webhook = webhook;
            let message = state.messages[&id].clone();
            let event = state.message_json(&message, true);
            state.dispatch("MESSAGE_CREATE", &event);
            id
        });
        self.world.notify();
        id
    }

    /// Sends any event to the bot.
    pub fn send_event(&self, name: &str, data: &Value) {
        self.world.with(|state| state.dispatch(name, data));
        self.world.notify();
    }

    /// Sends the event of a message again, as Discord sometimes does.
    pub fn repeat(&self, message: u64) {
        self.world.with(|state| {
            let message = state.messages[&message].clone();
            let event = state.message_json(&message, true);
            state.dispatch("MESSAGE_CREATE", &event);
        });
    }

    /// Adds a link preview to a message. Discord sends an update for it that is not an edit.
    pub fn unfurl(&self, message: u64) {
        self.world.with(|state| {
            let message = state.messages[&message].clone();
            let mut event = state.message_json(&message, true);
            event["embeds"] =
                json!([{"type": "link", "url": "https://example.com/", "title": "An example"}]);
            event["edited_timestamp"] = Value::Null;
            state.dispatch("MESSAGE_UPDATE", &event);
        });
    }

    /// A user runs a slash command. Returns the id of the interaction.
    pub fn slash(&self, channel: u64, user: u64, name: &str, prompt: Option<&str>) -> u64 {
        let id = self.world.with(|state| {
            let event = rest::slash_json(state, channel, user, name, prompt);
            state.dispatch("INTERACTION_CREATE", &event);
            event["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")
        });
        self.world.notify();
        id
    }

    /// A user types an option of a slash command, the first one or the one that `name` names as
    /// `COMMAND:OPTION`. Returns the suggestions as pairs of value and label.
    pub async fn suggestions(
        &self,
        channel: u64,
        user: u64,
        name: &str,
        typed: &str,
    ) -> Vec<(String, String)> {
        let registered = self.commands();
        let (name, option) = name.split_once(':').unwrap_or((name, ""));
        let command =
            registered.as_array().expect("commands").iter().find(|command| command["name"] == name);
        let command = command.unwrap_or_else(|| panic!("no command /{name}\n{}", self.story()));
        let options = command["options"].as_array().expect("options");
        let named = options.iter().find(|known| known["name"] == option);
        let option = named.unwrap_or(&options[0]).clone();
        assert_eq!(option["autocomplete"], true, "no autocompletion for /{name}");
        let id: u64 = self.world.with(|state| {
            let event = rest::typing_json(state, channel, user, name, &option, typed);
            state.dispatch("INTERACTION_CREATE", &event);
            event["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")
        });
        self.world.notify();
        let suggested = self.wait_for("suggestions", |local| local.interaction(id).suggested).await;
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        suggested
            .as_array()
            .expect("a list")
            .iter()
            .map(|choice| (text(&choice["value"]), text(&choice["name"])))
            .collect()
    }

    /// Waits for the answer to a slash command.
    pub async fn answer_to(&self, interaction: u64) -> Message {
        let said = |local: &Self| {
            let original = local.interaction(interaction).original?;
            let message = local.world.with(|state| state.messages.get(&original).cloned())?;
            (!message.content.is_empty()).then_some(message)
        };
        self.wait_for("an answer to a command", said).await
    }

    /// Deletes a message, as its author or a moderator does.
    pub fn delete(&self, message: u64) {
        self.world.with(|state| {
            let found = state.messages.get_mut(&message).expect("a message");
            found.deleted = true;
            let event = json!({"id": message.to_string(), "channel_id": found.channel.to_string(), "guild_id": GUILD.to_string()});
            state.dispatch("MESSAGE_DELETE", &event);
        });
        self.world.notify();
    }

    /// Grants the application the message content intent. Must be called before the bot starts.
    pub fn let_read(&self) {
        self.world.with(|state| state.reads = true);
    }

    /// A user edits a message.
    pub fn edit(&self, message: u64, text: &str) {
        self.changed(message, text, true);
    }

    /// Sends an update of a message that is not an edit, as for a link preview.
    pub fn preview(&self, message: u64, text: &str) {
        self.changed(message, text, false);
    }

    fn changed(&self, message: u64, text: &str, by_author: bool) {
        self.world.with(|state| {
            let found = state.messages.get_mut(&message).expect("a message");
            text.clone_into(&mut found.content);
            let found = found.clone();
            let mut event = state.message_json(&found, true);
            event["edited_timestamp"] =
                if by_author { json!("2026-08-06T12:00:02.000000+00:00") } else { Value::Null };
            state.dispatch("MESSAGE_UPDATE", &event);
        });
    }

    /// Stores a file and returns its URL. It is served with this status and `Content-Length`.
    pub fn keep_file(
        &self,
        name: &str,
        status: u16,
        announced: Option<u64>,
        bytes: &[u8],
    ) -> String {
        let path = self.world.with(|state| {
            let path = format!("/attachments/{}/{name}", state.id());
            state.kept.insert(path.clone(), (status, announced, bytes.to_vec()));
            path
        });
        format!("{}{path}", self.url)
    }

    /// A user writes to the bot and attaches files: name, type, announced size, URL.
    pub fn send_files(
        &self,
        channel: u64,
        user: u64,
        text: &str,
        files: &[(&str, &str, u64, &str)],
    ) -> u64 {
        let id = self.world.with(|state| {
            let id = state.post(channel, user, &format!("<@{BOT}> {text}"), None).id;
            let attachments = files
                .iter()
                .map(|(name, media_type, size, url)| {
                    json!({"id": state.id().to_string(), "filename": name, "content_type": media_type, "size": size, "url": url, "proxy_url": url})
                })
                .collect();
            state.messages.get_mut(&id).expect("just posted").attachments = attachments;
            let message = state.messages[&id].clone();
            let event = state.message_json(&message, true);
            state.dispatch("MESSAGE_CREATE", &event);
            id
        });
        self.world.notify();
        id
    }

    /// Returns the bot's reactions to a message.
    pub fn reactions(&self, message: u64) -> Vec<String> {
        self.world.with(|state| {
            state
                .reactions
                .iter()
                .filter(|(on, _)| *on == message)
                .map(|(_, emoji)| emoji.clone())
                .collect()
        })
    }

    /// Returns the threads that were opened: id, parent channel, name.
    pub fn threads(&self) -> Vec<(u64, u64, String)> {
        self.world.with(|state| {
            state
                .threads
                .iter()
                .map(|(id, (channel, name, _))| (*id, *channel, name.clone()))
                .collect()
        })
    }

    /// Returns the bot's messages in a channel that were not deleted, oldest first.
    pub fn messages(&self, channel: u64) -> Vec<Message> {
        self.world.with(|state| {
            let of_bot = |message: &&Message| {
                message.channel == channel && message.author == BOT && !message.deleted
            };
            state.messages.values().filter(of_bot).cloned().collect()
        })
    }

    /// Returns the bot's replies that were not deleted, by the id of the message they reply to.
    pub fn replies(&self) -> HashMap<u64, Vec<Message>> {
        self.world.with(|state| {
            let mut replies: HashMap<u64, Vec<Message>> = HashMap::new();
            for message in
                state.messages.values().filter(|message| message.author == BOT && !message.deleted)
            {
                if let Some(to) = message.reply_to {
                    replies.entry(to).or_default().push(message.clone());
                }
            }
            replies
        })
    }

    /// Waits until something changes here, for at most 50 ms.
    pub async fn wait_a_moment(&self) {
        let mut changed = self.world.changed.subscribe();
        let _ = tokio::time::timeout(Duration::from_millis(50), changed.changed()).await;
    }

    /// Returns the texts of the bot's messages in a channel, oldest first.
    pub fn texts(&self, channel: u64) -> Vec<String> {
        self.messages(channel).into_iter().map(|message| message.content).collect()
    }

    /// Returns the messages that the bot reacted to, once for each reaction.
    pub fn marked(&self) -> Vec<u64> {
        self.world.with(|state| state.marked.clone())
    }

    /// Returns the times of the typing calls in a channel.
    pub fn typing(&self, channel: u64) -> Vec<std::time::Instant> {
        self.world.with(|state| {
            state.typing.iter().filter(|(at, _)| *at == channel).map(|(_, when)| *when).collect()
        })
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.world.with(|state| state.requests.clone())
    }

    /// Returns how many requests exceeded the limit per second.
    pub fn crowded(&self) -> usize {
        self.world.with(|state| state.crowded)
    }

    /// Returns the state of an interaction.
    pub fn interaction(&self, id: u64) -> Interaction {
        self.world.with(|state| {
            state.interactions.iter().find(|known| known.id == id).cloned().expect("an interaction")
        })
    }

    /// Returns the commands the bot registered, as JSON.
    pub fn commands(&self) -> Value {
        self.world.with(|state| state.commands.clone())
    }

    /// Returns how often the bot logged in, and how often it resumed.
    pub fn logins(&self) -> (usize, usize) {
        self.world.with(|state| (state.gateway.identified, state.gateway.resumed))
    }

    /// Returns the shard and the number of shards of every login.
    pub fn shards(&self) -> Vec<(u64, u64)> {
        self.world.with(|state| {
            state.gateway.logins.iter().map(|(shard, count, _)| (*shard, *count)).collect()
        })
    }

    /// Returns the close codes of the connections that the bot closed, `None` for a close without a
    /// code.
    pub fn closed_with(&self) -> Vec<Option<u16>> {
        self.world.with(|state| state.gateway.closed_with.clone())
    }

    /// Counts the gateway connections that are open.
    pub fn connections(&self) -> usize {
        self.world.with(|state| state.gateway.connections.len())
    }

    /// Returns how many gateway connections were refused.
    pub fn refused(&self) -> usize {
        self.world.with(|state| state.gateway.refused)
    }

    /// Returns the switches that cause faults.
    pub fn faults(&self) -> Faults<'_> {
        Faults { world: &self.world }
    }

    /// Waits until `found` returns a value. After [`LIMIT`], panics and prints all messages and
    /// requests.
    pub async fn wait_for<T>(&self, what: &str, found: impl FnMut(&Self) -> Option<T>) -> T {
        self.wait_within(LIMIT, what, found).await
    }

    /// Like [`Self::wait_for`], with another limit.
    pub async fn wait_within<T>(
        &self,
        limit: Duration,
        what: &str,
        mut found: impl FnMut(&Self) -> Option<T>,
    ) -> T {
        let mut changed = self.world.changed.subscribe();
        let wait = async {
            loop {
                if let Some(value) = found(self) {
                    return value;
                }
                // Some conditions depend on things outside of this Discord, so look again now and
                // then.
                let _ = tokio::time::timeout(Duration::from_millis(50), changed.changed()).await;
            }
        };
        match tokio::time::timeout(limit, wait).await {
            Ok(value) => value,
            Err(_) => panic!("timed out waiting for {what}\n{}", self.story()),
        }
    }

    /// Waits for a message of the bot whose text fits.
    pub async fn wait_for_message(&self, channel: u64, says: impl Fn(&str) -> bool) -> Message {
        self.wait_for("a message", |discord| {
            discord.messages(channel).into_iter().find(|message| says(&message.content))
        })
        .await
    }

    fn story(&self) -> String {
        self.world.with(|state| {
            let mut story = String::new();
            for message in state.messages.values() {
                story.push_str(&format!(
                    "  message {} in {} by {}: {:?}\n",
                    message.id, message.channel, message.author, message.content
                ));
            }
            for request in &state.requests {
                story.push_str(&format!(
                    "  {} {} {}\n",
                    request.status, request.method, request.path
                ));
            }
            story
        })
    }
}

impl Drop for LocalDiscord {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        let (violations, limited) = self.world.with(|state| {
            let limited: Vec<String> = state
                .requests
                .iter()
                .filter(|request| request.limited)
                .map(|r| format!("{} {}", r.method, r.path))
                .collect();
            (state.violations.clone(), limited)
        });
        if !std::thread::panicking() {
            assert!(
                violations.is_empty(),
                "requests that Discord would refuse:\n{}",
                violations.join("\n")
            );
            assert!(
                limited.is_empty(),
                "requests beyond an announced rate limit:\n{}",
                limited.join("\n")
            );
        }
    }
}

/// Switches that cause faults in this Discord.
pub struct Faults<'a> {
    world: &'a World,
}

impl Faults<'_> {
    /// The next `times` requests with this method, and with `path` in their path, suffer `fault`.
    pub fn next(&self, method: &'static str, path: &str, fault: Fault, times: usize) {
        self.world.with(|state| {
            state.faults.push(faults::Rule { method, path: path.to_owned(), fault, left: times })
        });
    }

    /// Returns how many faults of requests are still to come.
    pub fn waiting(&self) -> usize {
        self.world.with(|state| state.faults.iter().map(|rule| rule.left).sum())
    }

    /// Removes all faults of requests.
    pub fn clear(&self) {
        self.world.with(|state| state.faults.clear());
    }

    /// Limits a route to `most` requests in `span`. Routes: `POST messages`, `PATCH message`, `POST
    /// typing`.
    pub fn limit(&self, route: &'static str, most: u32, span: Duration) {
        self.world.with(|state| {
            state.limits.insert(route, (most, span));
            state.windows.retain(|(of, _), _| of != route);
        });
    }

    /// Refuses the bot's token, or accepts it again.
    pub fn refuse_token(&self, refuse: bool) {
        self.world.with(|state| state.token_refused = refuse);
    }

    /// Makes every request fail and refuses gateway connections, or ends this outage.
    pub fn away(&self, away: bool) {
        self.world.with(|state| {
            state.away = away;
            state.gateway.refuse = away;
        });
        if away {
            self.drop_gateway(false);
        }
        self.world.notify();
    }

    /// Takes all permissions in a channel away from the bot, or gives them back, and sends an
    /// update of the channel.
    pub fn close_channel(&self, channel: u64, close: bool) {
        self.world.with(|state| {
            if close {
                state.closed.insert(channel);
            } else {
                state.closed.remove(&channel);
            }
            let event = state.channel_json(channel).expect("a channel");
            state.dispatch("CHANNEL_UPDATE", &event);
        });
        self.world.notify();
    }

    /// Deletes a channel, without an event.
    pub fn delete_channel(&self, channel: u64) {
        self.world.with(|state| state.gone.insert(channel));
    }

    /// Forgets all nonces.
    pub fn forget_nonces(&self) {
        self.world.with(|state| state.nonces.clear());
    }

    /// Sets how many requests of any kind are accepted in a second.
    pub fn most_per_second(&self, most: usize) {
        self.world.with(|state| state.most_per_second = most);
    }

    /// Closes all later logins with this code.
    pub fn close_logins_with(&self, code: u16) {
        self.world.with(|state| state.gateway.close_identify = Some(code));
    }

    /// Sends messages in a form that serenity cannot read.
    pub fn strange_messages(&self) {
        self.world.with(|state| state.strange = true);
    }

    /// Sets the permissions of the role `@everyone`.
    pub fn everyone_may(&self, permissions: u64) {
        self.world.with(|state| state.everyone = permissions);
    }

    /// Denies a role, a member or everyone (the guild's id) permissions in a channel.
    pub fn deny(&self, channel: u64, whom: u64, permissions: u64) {
        let kind = if whom == BOT { 1 } else { 0 };
        let overwrite = json!({"id": whom.to_string(), "type": kind, "allow": "0", "deny": permissions.to_string()});
        self.world.with(|state| state.overwrites.insert(channel, json!([overwrite])));
    }

    /// Removes a user from the guild, without an event.
    pub fn remove_member(&self, user: u64) {
        self.world.with(|state| state.left.insert(user));
    }

    /// Sets the flags of the application, for example of its intents.
    pub fn flags(&self, flags: u64) {
        self.world.with(|state| state.flags = flags);
    }

    /// Removes the bot from its only server.
    pub fn uninvited(&self) {
        self.world.with(|state| state.uninvited = true);
    }

    /// Sets how many logins are left today.
    pub fn logins_left(&self, left: u64) {
        self.world.with(|state| state.gateway.logins_left = left);
    }

    /// Sets the recommended number of shards, how many may log in at once, and the time between
    /// logins that share a slot.
    pub fn shards(&self, count: u64, at_once: u64, pace: Duration) {
        self.world.with(|state| {
            (state.gateway.shards, state.gateway.max_concurrency) = (count, at_once);
            state.gateway.pace = pace;
        });
    }

    /// Invalidates the session of one shard.
    pub fn invalidate_shard(&self, shard: u64) {
        self.world.with(|state| {
            state.gateway.sessions.retain(|session| {
                let gone = session.shard.0 == shard;
                if let (true, Some(connection)) = (gone, &session.connection) {
                    let invalid = json!({"op": 9, "s": null, "t": null, "d": false});
                    let _ = connection.send(Control::Send(invalid));
                }
                !gone
            });
        });
        self.world.notify();
    }

    /// Delays all answers. The requests are done at once.
    pub fn latency(&self, by: Duration) {
        self.world.with(|state| state.latency = by);
    }

    /// Sets how far Discord's clock is ahead, in seconds.
    pub fn clock_ahead(&self, seconds: i64) {
        self.world.with(|state| state.clock_ahead = seconds);
    }

    /// Refuses new gateway connections, or accepts them again.
    pub fn refuse_gateway(&self, refuse: bool) {
        self.world.with(|state| state.gateway.refuse = refuse);
    }

    /// Drops all gateway connections without a close frame, or with a TCP reset.
    pub fn drop_gateway(&self, reset: bool) {
        self.control(|| if reset { Control::Reset } else { Control::Drop });
    }

    /// Freezes all gateway connections: they stay open, but nothing is sent, read or acknowledged.
    pub fn freeze_gateway(&self) {
        self.control(|| Control::Freeze);
    }

    /// Sets the heartbeat interval of later connections.
    pub fn heartbeat(&self, interval: Duration) {
        self.world.with(|state| state.gateway.heartbeat = interval);
    }

    /// Asks all connections to reconnect (op 7).
    pub fn ask_to_reconnect(&self) {
        self.control(|| Control::Send(json!({"op": 7, "s": null, "t": null, "d": null})));
    }

    /// Invalidates all sessions (op 9).
    pub fn invalidate(&self, resumable: bool) {
        if !resumable {
            self.forget_sessions();
        }
        self.control(|| Control::Send(json!({"op": 9, "s": null, "t": null, "d": resumable})));
    }

    /// Forgets all sessions, so that none can be resumed.
    pub fn forget_sessions(&self) {
        self.world.with(|state| state.gateway.sessions.clear());
    }

    fn control(&self, control: impl Fn() -> Control) {
        self.world.with(|state| {
            state.gateway.connections.iter().for_each(|connection| drop(connection.send(control())))
        });
        self.world.notify();
    }
}
