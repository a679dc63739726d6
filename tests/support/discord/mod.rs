//! A Discord on loopback: the HTTP interface and the gateway, with rate limits and faults, plain or
//! over TLS.
//!
//! Every request is checked against Discord's own description and a few rules it does not hold
//! (nobody is pinged, every message has a nonce, none is too long); what does not fit fails the
//! test when the [`LocalDiscord`] is dropped. All of it is reachable by address, so the real
//! program can be pointed at it: `DISCORD_API_BASE` is [`LocalDiscord::url`], `DISCORD_BOT_TOKEN`
//! is [`TOKEN`].
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

/// A limit for everything a test waits for; generous, because the machine may be busy.
pub const LIMIT: Duration = Duration::from_secs(30);

struct World {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

impl World {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().expect("no panic under this lock"))
    }

    fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

/// A Discord of one guild with two channels and a thread, a person ([`ANN`]), the application's
/// owner and another bot.
pub struct LocalDiscord {
    world: Arc<World>,
    url: String,
    authority: Option<Authority>,
    tasks: Vec<JoinHandle<()>>,
}

impl LocalDiscord {
    /// Starts one on free ports.
    pub async fn start() -> Self {
        Self::open(None).await
    }

    /// Starts one that speaks HTTPS and WSS, under an authority of its own.
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

    /// Two links to it, for a program of its own: what `DISCORD_API_BASE` is there, and the links
    /// of requests and of the gateway.
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

    /// The certificate of its authority, a PEM file; none where it speaks no TLS.
    pub fn authority(&self) -> Option<&Path> {
        self.authority.as_ref().map(Authority::file)
    }

    /// The value for `DISCORD_API_BASE`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Somebody writes; returns the message's id.
    pub fn say(&self, channel: u64, user: u64, text: &str) -> u64 {
        self.write(channel, user, text, None, false)
    }

    /// Somebody writes to the bot.
    pub fn mention(&self, channel: u64, user: u64, text: &str) -> u64 {
        self.say(channel, user, &format!("<@{BOT}> {text}"))
    }

    /// Somebody wrote to the bot so long ago, and nobody was told.
    pub fn mention_earlier(&self, channel: u64, user: u64, text: &str, ago: Duration) -> u64 {
        self.world.with(|state| state.post_earlier(channel, user, &format!("<@{BOT}> {text}"), ago))
    }

    /// Somebody replies to a message.
    pub fn reply(&self, to: u64, user: u64, text: &str) -> u64 {
        let channel = self.world.with(|state| state.messages[&to].channel);
        self.write(channel, user, text, Some(to), false)
    }

    /// Somebody forwards a message.
    pub fn forward(&self, message: u64, channel: u64, user: u64) -> u64 {
        let id = self.world.with(|state| {
            let id = state.post(channel, user, "", None).id;
            state.messages.get_mut(&id).expect("just posted").forwards = Some(message);
            let forward = state.messages[&id].clone();
            let event = state.message_json(&forward, true);
            state.dispatch("MESSAGE_CREATE", &event);
            id
        });
        self.world.tell();
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
        self.world.tell();
        id
    }

    /// Sends an event that says whatever it says.
    pub fn send_event(&self, name: &str, data: &Value) {
        self.world.with(|state| state.dispatch(name, data));
        self.world.tell();
    }

    /// Sends a message's event once more, as Discord sometimes does.
    pub fn repeat(&self, message: u64) {
        self.world.with(|state| {
            let message = state.messages[&message].clone();
            let event = state.message_json(&message, true);
            state.dispatch("MESSAGE_CREATE", &event);
        });
    }

    /// Shows the preview of a link in a message: an update that is no edit.
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

    /// Somebody uses a slash command; returns the interaction's id.
    pub fn slash(&self, channel: u64, user: u64, name: &str, prompt: Option<&str>) -> u64 {
        let id = self.world.with(|state| {
            let event = rest::slash_json(state, channel, user, name, prompt);
            state.dispatch("INTERACTION_CREATE", &event);
            event["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")
        });
        self.world.tell();
        id
    }

    /// Somebody types the option of a slash command; returns what is suggested: values with what is
    /// shown of them.
    pub async fn suggestions(
        &self,
        channel: u64,
        user: u64,
        name: &str,
        typed: &str,
    ) -> Vec<(String, String)> {
        let registered = self.commands();
        let command =
            registered.as_array().expect("commands").iter().find(|command| command["name"] == name);
        let option =
            command.unwrap_or_else(|| panic!("no command /{name}\n{}", self.story()))["options"][0]
                .clone();
        assert_eq!(option["autocomplete"], true, "nothing is suggested for /{name}");
        let id: u64 = self.world.with(|state| {
            let event = rest::typing_json(state, channel, user, name, &option, typed);
            state.dispatch("INTERACTION_CREATE", &event);
            event["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")
        });
        self.world.tell();
        let suggested = self.wait_for("suggestions", |local| local.interaction(id).suggested).await;
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        suggested
            .as_array()
            .expect("a list")
            .iter()
            .map(|choice| (text(&choice["value"]), text(&choice["name"])))
            .collect()
    }

    /// The answer to a slash command, once it says something.
    pub async fn answer_to(&self, interaction: u64) -> Message {
        let said = |local: &Self| {
            let original = local.interaction(interaction).original?;
            let message = local.world.with(|state| state.messages.get(&original).cloned())?;
            (!message.content.is_empty()).then_some(message)
        };
        self.wait_for("an answer to a command", said).await
    }

    /// Deletes a message as its author or a moderator would.
    pub fn delete(&self, message: u64) {
        self.world.with(|state| {
            let found = state.messages.get_mut(&message).expect("a message");
            found.deleted = true;
            let event = json!({"id": message.to_string(), "channel_id": found.channel.to_string(), "guild_id": GUILD.to_string()});
            state.dispatch("MESSAGE_DELETE", &event);
        });
        self.world.tell();
    }

    /// The application may read messages that do not name it; before the bot starts.
    pub fn let_read(&self) {
        self.world.with(|state| state.reads = true);
    }

    /// Somebody changes a message.
    pub fn edit(&self, message: u64, text: &str) {
        self.changed(message, text, true);
    }

    /// Discord adds the preview of a link to a message, which changes nothing.
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

    /// Keeps a file; returns its address. It is handed out with this status and announced length.
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

    /// Somebody writes to the bot and sends files: name, type, announced size, address.
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
        self.world.tell();
        id
    }

    /// The bot's reactions to a message.
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

    /// Threads that were opened: id, channel, name.
    pub fn threads(&self) -> Vec<(u64, u64, String)> {
        self.world.with(|state| {
            state
                .threads
                .iter()
                .map(|(id, (channel, name, _))| (*id, *channel, name.clone()))
                .collect()
        })
    }

    /// The bot's messages in a channel, oldest first, without deleted ones.
    pub fn messages(&self, channel: u64) -> Vec<Message> {
        self.world.with(|state| {
            let of_bot = |message: &&Message| {
                message.channel == channel && message.author == BOT && !message.deleted
            };
            state.messages.values().filter(of_bot).cloned().collect()
        })
    }

    /// The bot's messages that reply to something, by what they reply to, without deleted ones.
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

    /// Waits until something happens here, and at most a twentieth of a second.
    pub async fn wait_a_moment(&self) {
        let mut changed = self.world.changed.subscribe();
        let _ = tokio::time::timeout(Duration::from_millis(50), changed.changed()).await;
    }

    /// Returns the texts of those messages.
    pub fn texts(&self, channel: u64) -> Vec<String> {
        self.messages(channel).into_iter().map(|message| message.content).collect()
    }

    /// Messages with a reaction of the bot.
    pub fn marked(&self) -> Vec<u64> {
        self.world.with(|state| state.marked.clone())
    }

    /// How many typing calls a channel had.
    pub fn typing(&self, channel: u64) -> Vec<std::time::Instant> {
        self.world.with(|state| {
            state.typing.iter().filter(|(at, _)| *at == channel).map(|(_, when)| *when).collect()
        })
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.world.with(|state| state.requests.clone())
    }

    /// How many requests were too many within a second.
    pub fn crowded(&self) -> usize {
        self.world.with(|state| state.crowded)
    }

    /// A slash command's fate.
    pub fn interaction(&self, id: u64) -> Interaction {
        self.world.with(|state| {
            state.interactions.iter().find(|known| known.id == id).cloned().expect("an interaction")
        })
    }

    /// Returns the commands the bot registered, as JSON.
    pub fn commands(&self) -> Value {
        self.world.with(|state| state.commands.clone())
    }

    /// How often the bot logged in, and how often it resumed.
    pub fn logins(&self) -> (usize, usize) {
        self.world.with(|state| (state.gateway.identified, state.gateway.resumed))
    }

    /// Every login: its shard, and of how many.
    pub fn shards(&self) -> Vec<(u64, u64)> {
        self.world.with(|state| {
            state.gateway.logins.iter().map(|(shard, count, _)| (*shard, *count)).collect()
        })
    }

    /// Close codes of connections that the bot closed; none where it just vanished.
    pub fn closed_with(&self) -> Vec<Option<u16>> {
        self.world.with(|state| state.gateway.closed_with.clone())
    }

    /// Counts the gateway connections that are open.
    pub fn connections(&self) -> usize {
        self.world.with(|state| state.gateway.connections.len())
    }

    /// Gateway connections that were refused.
    pub fn refused(&self) -> usize {
        self.world.with(|state| state.gateway.refused)
    }

    /// Returns the switches for what is to go wrong.
    pub fn faults(&self) -> Faults<'_> {
        Faults { world: &self.world }
    }

    /// Waits until `found` finds something, and fails with what there was after [`LIMIT`].
    pub async fn wait_for<T>(&self, what: &str, found: impl FnMut(&Self) -> Option<T>) -> T {
        self.wait_within(LIMIT, what, found).await
    }

    /// Waits for something that takes its time.
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
                // Some conditions lie outside of this Discord: look again now and then.
                let _ = tokio::time::timeout(Duration::from_millis(50), changed.changed()).await;
            }
        };
        match tokio::time::timeout(limit, wait).await {
            Ok(value) => value,
            Err(_) => panic!("waited in vain for {what}\n{}", self.story()),
        }
    }

    /// Waits for a message of the bot's that says the right thing.
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
                "requests that Discord would not take:\n{}",
                violations.join("\n")
            );
            assert!(
                limited.is_empty(),
                "requests beyond a rate limit that was told:\n{}",
                limited.join("\n")
            );
        }
    }
}

/// Switches for what is to go wrong in this Discord.
pub struct Faults<'a> {
    world: &'a World,
}

impl Faults<'_> {
    /// The next `times` requests with this method and this in their path suffer `fault`.
    pub fn next(&self, method: &'static str, path: &str, fault: Fault, times: usize) {
        self.world.with(|state| {
            state.faults.push(faults::Rule { method, path: path.to_owned(), fault, left: times })
        });
    }

    /// How many requests are still to suffer.
    pub fn waiting(&self) -> usize {
        self.world.with(|state| state.faults.iter().map(|rule| rule.left).sum())
    }

    /// No more faults of requests.
    pub fn clear(&self) {
        self.world.with(|state| state.faults.clear());
    }

    /// So many requests of a route in so much time: `POST messages`, `PATCH message`, `POST
    /// typing`.
    pub fn limit(&self, route: &'static str, most: u32, span: Duration) {
        self.world.with(|state| {
            state.limits.insert(route, (most, span));
            state.windows.retain(|(of, _), _| of != route);
        });
    }

    /// The bot's token is refused, or taken again.
    pub fn refuse_token(&self, refuse: bool) {
        self.world.with(|state| state.token_refused = refuse);
    }

    /// Every request fails, and no gateway connection is left or taken; or Discord is back.
    pub fn away(&self, away: bool) {
        self.world.with(|state| {
            state.away = away;
            state.gateway.refuse = away;
        });
        if away {
            self.drop_gateway(false);
        }
        self.world.tell();
    }

    /// The bot may do nothing in a channel any more, or everything again, of which it is told.
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
        self.world.tell();
    }

    /// A channel is deleted.
    pub fn delete_channel(&self, channel: u64) {
        self.world.with(|state| state.gone.insert(channel));
    }

    /// Discord does not know nonces any more.
    pub fn forget_nonces(&self) {
        self.world.with(|state| state.nonces.clear());
    }

    /// How many requests are taken in a second, whatever they are about.
    pub fn most_per_second(&self, most: usize) {
        self.world.with(|state| state.most_per_second = most);
    }

    /// The next logins are closed with this code.
    pub fn close_logins_with(&self, code: u16) {
        self.world.with(|state| state.gateway.close_identify = Some(code));
    }

    /// Events come in a form that serenity does not know.
    pub fn strange_messages(&self) {
        self.world.with(|state| state.strange = true);
    }

    /// Sets the permissions of the role of everyone.
    pub fn everyone_may(&self, permissions: u64) {
        self.world.with(|state| state.everyone = permissions);
    }

    /// Denies a role, a member or everyone (the guild's id) something in a channel.
    pub fn deny(&self, channel: u64, whom: u64, permissions: u64) {
        let kind = if whom == BOT { 1 } else { 0 };
        let overwrite = json!({"id": whom.to_string(), "type": kind, "allow": "0", "deny": permissions.to_string()});
        self.world.with(|state| state.overwrites.insert(channel, json!([overwrite])));
    }

    /// Somebody is no member of the guild any more.
    pub fn remove_member(&self, user: u64) {
        self.world.with(|state| state.left.insert(user));
    }

    /// Flags of the application, for example those of its intents.
    pub fn flags(&self, flags: u64) {
        self.world.with(|state| state.flags = flags);
    }

    /// The bot is in no server.
    pub fn uninvited(&self) {
        self.world.with(|state| state.uninvited = true);
    }

    /// Sets how many logins are left today.
    pub fn logins_left(&self, left: u64) {
        self.world.with(|state| state.gateway.logins_left = left);
    }

    /// Discord recommends so many shards, of which so many may log in at the same time, and others
    /// so long after each other.
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
                    let told = json!({"op": 9, "s": null, "t": null, "d": false});
                    let _ = connection.send(Control::Send(told));
                }
                !gone
            });
        });
        self.world.tell();
    }

    /// Every request is done at once and answered so much later.
    pub fn latency(&self, by: Duration) {
        self.world.with(|state| state.latency = by);
    }

    /// Discord's clock is ahead of ours by so many seconds.
    pub fn clock_ahead(&self, seconds: i64) {
        self.world.with(|state| state.clock_ahead = seconds);
    }

    /// New gateway connections are refused, or taken again.
    pub fn refuse_gateway(&self, refuse: bool) {
        self.world.with(|state| state.gateway.refuse = refuse);
    }

    /// All gateway connections vanish, without a word or with a reset.
    pub fn drop_gateway(&self, reset: bool) {
        self.control(|| if reset { Control::Reset } else { Control::Drop });
    }

    /// All gateway connections fall silent and stay open: nothing is said, read or acknowledged any
    /// more.
    pub fn freeze_gateway(&self) {
        self.control(|| Control::Freeze);
    }

    /// How often connections from now on are to send a heartbeat.
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

    /// Sessions cannot be resumed any more.
    pub fn forget_sessions(&self) {
        self.world.with(|state| state.gateway.sessions.clear());
    }

    fn control(&self, control: impl Fn() -> Control) {
        self.world.with(|state| {
            state.gateway.connections.iter().for_each(|connection| drop(connection.send(control())))
        });
        self.world.tell();
    }
}
