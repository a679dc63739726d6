//! The state of the local Discord.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::faults::Rule;
use super::multipart::File;

pub const TOKEN: &str = "MTAwMDAwMDAwMDAwMDAwMDAx.GlOcAl.loopback-token-for-the-local-discord0";
pub const BOT: u64 = 100_000_000_000_000_001;
pub const APPLICATION: u64 = 100_000_000_000_000_002;
pub const OWNER: u64 = 100_000_000_000_000_003;
pub const ANN: u64 = 100_000_000_000_000_004;
pub const GUILD: u64 = 100_000_000_000_000_005;
pub const CHANNEL: u64 = 100_000_000_000_000_006;
pub const OTHER: u64 = 100_000_000_000_000_007;
/// A thread of `CHANNEL`.
pub const THREAD: u64 = 100_000_000_000_000_008;
/// Ann's direct messages with the bot.
pub const DIRECT: u64 = 100_000_000_000_000_009;
pub const OTHER_BOT: u64 = 100_000_000_000_000_010;
/// A member of the guild.
pub const BOB: u64 = 100_000_000_000_000_012;
/// A user with a right-to-left name that ends with a fox emoji.
pub const NOOR: u64 = 100_000_000_000_000_014;
/// The first of a thousand more channels of the guild.
pub const CROWD: u64 = 100_000_000_000_001_000;
const CROWD_END: u64 = CROWD + 999;
/// A role that Ann has.
pub const ROLE: u64 = 100_000_000_000_000_011;
/// The role that Discord made for the bot.
pub const BOT_ROLE: u64 = 100_000_000_000_000_013;

/// Returns one of the thousand more channels.
pub const fn room(number: u64) -> u64 {
    assert!(number < 1_000, "there are a thousand channels");
    CROWD + number
}

/// A message with its history.
#[derive(Clone, Debug)]
pub struct Message {
    pub id: u64,
    pub channel: u64,
    pub author: u64,
    pub content: String,
    pub reply_to: Option<u64>,
    /// The message that this one forwards.
    pub forwards: Option<u64>,
    pub webhook: bool,
    /// Files that the bot sent with it.
    pub files: Vec<File>,
    /// Files that a user sent with it.
    pub attachments: Vec<Value>,
    pub ephemeral: bool,
    pub deleted: bool,
    /// Buttons and menus below the text, as JSON.
    pub components: Value,
    pub created: Instant,
    /// Every later content and its time.
    pub edits: Vec<(Instant, String)>,
}

/// A request that arrived.
#[derive(Clone, Debug)]
pub struct Request {
    pub at: Instant,
    pub method: String,
    pub path: String,
    pub body: String,
    pub status: u16,
    /// Whether a rate limit refused it that an earlier answer had announced to the same program.
    /// Faults that a test caused do not count.
    pub limited: bool,
}

/// A use of a slash command, button, menu or modal window.
#[derive(Clone, Debug)]
pub struct Interaction {
    pub id: u64,
    pub token: String,
    pub channel: u64,
    pub used: Instant,
    /// The time and the callback type of the acknowledgement.
    pub acknowledged: Option<(Instant, u64)>,
    /// The message that contains the answer.
    pub original: Option<u64>,
    /// 2: command, 3: button or menu, 4: an option that is being typed, 5: modal window.
    pub kind: u8,
    /// The message with the button or menu.
    pub message: Option<u64>,
    /// The modal window that it opened.
    pub window: Option<Value>,
    /// The suggestions that were shown while the option was typed.
    pub suggested: Option<Value>,
}

pub(super) struct Session {
    pub(super) id: String,
    /// The number of its shard, and the number of shards that the bot announced.
    pub(super) shard: (u64, u64),
    pub(super) sequence: u64,
    pub(super) events: Vec<Value>,
    pub(super) connection: Option<mpsc::UnboundedSender<Control>>,
}

pub(super) enum Control {
    Send(Value),
    /// Close with this code.
    Close(u16),
    /// Drop the connection without a close frame.
    Drop,
    /// Reset the connection.
    Reset,
    /// Keep the connection open and do nothing.
    Freeze,
}

pub(super) struct Window {
    pub(super) left: u32,
    pub(super) ends: Instant,
    /// Whether an answer has announced it since a program last logged in. A program that replaces a
    /// killed one cannot know the limits that were announced to that one.
    pub(super) announced: bool,
}

pub(super) struct Gateway {
    pub(super) url: String,
    /// URLs for programs that use another host, by host.
    pub(super) others: HashMap<String, String>,
    pub(super) heartbeat: Duration,
    pub(super) sessions: Vec<Session>,
    pub(super) connections: Vec<mpsc::UnboundedSender<Control>>,
    pub(super) refuse: bool,
    pub(super) refused: usize,
    pub(super) close_identify: Option<u16>,
    pub(super) logins_left: u64,
    /// The recommended number of shards, how many may log in at once, and the time between logins
    /// that share a slot.
    pub(super) shards: u64,
    pub(super) max_concurrency: u64,
    pub(super) pace: Duration,
    /// The shard, the number of shards and the time of every login.
    pub(super) logins: Vec<(u64, u64, Instant)>,
    pub(super) identified: usize,
    pub(super) resumed: usize,
    pub(super) closed_with: Vec<Option<u16>>,
}

impl Gateway {
    pub(super) fn url_for(&self, host: &str) -> String {
        self.others.get(host).unwrap_or(&self.url).clone()
    }
}

pub(super) struct State {
    last_id: u64,
    pub(super) messages: BTreeMap<u64, Message>,
    pub(super) nonces: HashMap<(u64, String), u64>,
    pub(super) typing: Vec<(u64, Instant)>,
    /// Messages that the bot reacted to.
    pub(super) marked: Vec<u64>,
    /// The bot's reactions, with the message.
    pub(super) reactions: Vec<(u64, String)>,
    /// Threads that were opened: parent channel, name, creator.
    pub(super) threads: BTreeMap<u64, (u64, String, u64)>,
    /// Attachments by path: status, `Content-Length` and bytes.
    pub(super) kept: HashMap<String, (u16, Option<u64>, Vec<u8>)>,
    /// Whether the application may read messages that do not mention it.
    pub(super) reads: bool,
    pub(super) commands: Value,
    pub(super) requests: Vec<Request>,
    pub(super) interactions: Vec<Interaction>,
    pub(super) violations: Vec<String>,
    pub(super) faults: Vec<Rule>,
    pub(super) windows: HashMap<(String, String), Window>,
    pub(super) limits: HashMap<&'static str, (u32, Duration)>,
    pub(super) token_refused: bool,
    /// Whether every request is answered with a server error.
    pub(super) away: bool,
    /// Channels in which the bot has no permissions.
    pub(super) closed: HashSet<u64>,
    /// Deleted channels.
    pub(super) gone: HashSet<u64>,
    /// Users who left the guild.
    pub(super) left: HashSet<u64>,
    /// The counted requests of the last second, and how many are accepted in a second.
    pub(super) second: VecDeque<Instant>,
    pub(super) most_per_second: usize,
    /// How many requests exceeded the limit per second.
    pub(super) crowded: usize,
    /// Whether a field of MESSAGE_CREATE has a type that serenity cannot read.
    pub(super) strange: bool,
    pub(super) gateway: Gateway,
    /// The permissions of the role `@everyone`.
    pub(super) everyone: u64,
    /// Permission overwrites by channel, as JSON.
    pub(super) overwrites: HashMap<u64, Value>,
    /// Flags of the application.
    pub(super) flags: u64,
    /// Whether the bot is in no server.
    pub(super) uninvited: bool,
    /// Seconds by which its clock is ahead.
    pub(super) clock_ahead: i64,
    /// The delay of all answers. The requests are done at once.
    pub(super) latency: Duration,
}

impl State {
    pub(super) fn new(gateway: String) -> Self {
        Self {
            last_id: 0,
            messages: BTreeMap::new(),
            nonces: HashMap::new(),
            typing: Vec::new(),
            marked: Vec::new(),
            reactions: Vec::new(),
            threads: BTreeMap::new(),
            kept: HashMap::new(),
            reads: false,
            commands: json!([]),
            requests: Vec::new(),
            interactions: Vec::new(),
            violations: Vec::new(),
            faults: Vec::new(),
            windows: HashMap::new(),
            limits: HashMap::from([
                ("POST messages", (5, Duration::from_secs(5))),
                ("PATCH message", (5, Duration::from_secs(5))),
            ]),
            token_refused: false,
            away: false,
            closed: HashSet::new(),
            gone: HashSet::new(),
            left: HashSet::new(),
            second: VecDeque::new(),
            // Discord accepts 50. Which requests share a second here depends on how busy the
            // machine is.
            most_per_second: usize::MAX,
            crowded: 0,
            strange: false,
            // All permissions except administrator.
            everyone: 0x7fff_fff7 | 1 << 35 | 1 << 38,
            overwrites: HashMap::new(),
            flags: 0,
            uninvited: false,
            clock_ahead: 0,
            latency: Duration::ZERO,
            gateway: Gateway {
                url: gateway,
                others: HashMap::new(),
                heartbeat: Duration::from_secs(5),
                sessions: Vec::new(),
                connections: Vec::new(),
                refuse: false,
                refused: 0,
                close_identify: None,
                logins_left: 1_000,
                shards: 1,
                max_concurrency: 1,
                pace: Duration::ZERO,
                logins: Vec::new(),
                identified: 0,
                resumed: 0,
                closed_with: Vec::new(),
            },
        }
    }

    /// Returns a new id. Like Discord's, it consists of a time and a counter.
    pub(super) fn id(&mut self) -> u64 {
        let ms =
            SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64;
        self.last_id = (self.last_id + 1).max((ms - 1_420_070_400_000) << 22);
        self.last_id
    }

    pub(super) fn post(
        &mut self,
        channel: u64,
        author: u64,
        content: &str,
        reply_to: Option<u64>,
    ) -> Message {
        let message = Message {
            id: self.id(),
            channel,
            author,
            content: content.to_owned(),
            reply_to,
            forwards: None,
            webhook: false,
            files: Vec::new(),
            attachments: Vec::new(),
            ephemeral: false,
            deleted: false,
            components: json!([]),
            created: Instant::now(),
            edits: Vec::new(),
        };
        self.messages.insert(message.id, message.clone());
        message
    }

    pub(super) fn post_earlier(
        &mut self,
        channel: u64,
        author: u64,
        content: &str,
        ago: Duration,
    ) -> u64 {
        let mut message = self.post(channel, author, content, None);
        self.messages.remove(&message.id);
        message.id -= (ago.as_millis() as u64) << 22;
        let id = message.id;
        self.messages.insert(id, message);
        id
    }

    /// Sends an event to every session of the responsible shard, connected or not.
    pub(super) fn dispatch(&mut self, name: &str, data: &Value) {
        let guild: u64 = data["guild_id"].as_str().map_or(0, |id| id.parse().expect("an id"));
        for session in &mut self.gateway.sessions {
            if session.shard.0 != shard_of(guild, session.shard.1) {
                continue;
            }
            session.sequence += 1;
            let event = json!({"op": 0, "s": session.sequence, "t": name, "d": data});
            session.events.push(event.clone());
            if let Some(connection) = &session.connection {
                let _ = connection.send(Control::Send(event));
            }
        }
    }

    /// Returns the JSON of a message. Events of the gateway also have guild and member.
    pub(super) fn message_json(&self, message: &Message, gateway: bool) -> Value {
        let mentions: Vec<Value> = [BOT, OWNER, ANN, OTHER_BOT]
            .into_iter()
            .filter(|id| {
                message.content.contains(&format!("<@{id}>"))
                    || message.content.contains(&format!("<@!{id}>"))
            })
            .map(user_json)
            .collect();
        let roles: Vec<String> = [ROLE, BOT_ROLE]
            .iter()
            .filter(|id| message.content.contains(&format!("<@&{id}>")))
            .map(ToString::to_string)
            .collect();
        // Without the privileged intent, the bot can read only messages that mention it.
        let readable = self.reads
            || message.author == BOT
            || message.channel == DIRECT
            || mentions.iter().any(|user| user["id"].as_str() == Some(BOT.to_string().as_str()));
        let mut value = json!({
            "id": message.id.to_string(), "channel_id": message.channel.to_string(), "author": user_json(message.author),
            "content": if readable { message.content.as_str() } else { "" },
            "timestamp": "2026-08-06T12:00:00.000000+00:00",
            "edited_timestamp": if message.edits.is_empty() { Value::Null } else { json!("2026-08-06T12:00:01.000000+00:00") },
            "tts": false, "mention_everyone": message.content.contains("@everyone"), "mentions": mentions, "mention_roles": roles,
            "attachments": message.attachments, "embeds": [], "pinned": false, "type": if message.reply_to.is_some() { 19 } else { 0 }, "components": message.components,
            "flags": if message.ephemeral { 64 } else { 0 },
        });
        if message.webhook {
            value["webhook_id"] = json!("5");
        }
        if let Some(original) = message.forwards.and_then(|id| self.messages.get(&id)) {
            let whole = self.message_json(original, false);
            let mut shown = json!({});
            for field in [
                "content",
                "timestamp",
                "edited_timestamp",
                "mentions",
                "mention_roles",
                "attachments",
                "embeds",
                "type",
                "flags",
                "components",
            ] {
                shown[field] = whole[field].clone();
            }
            value["message_snapshots"] = json!([{"message": shown}]);
        }
        if let Some(original) = message.reply_to.and_then(|id| self.messages.get(&id)) {
            let mut plain = original.clone();
            plain.reply_to = None;
            value["referenced_message"] = self.message_json(&plain, false);
        }
        if gateway && message.channel != DIRECT {
            value["guild_id"] = json!(GUILD.to_string());
            let mut member = member_json(message.author);
            member.as_object_mut().expect("an object").remove("user");
            value["member"] = member;
        }
        if gateway && self.strange {
            value["pinned"] = Value::Null;
        }
        value
    }
}

/// Returns the number of the shard that gets the events of a guild. Direct messages have guild 0.
pub(super) fn shard_of(guild: u64, shards: u64) -> u64 {
    (guild >> 22) % shards
}

pub(super) fn user_json(id: u64) -> Value {
    let (name, bot) = match id {
        BOT => ("aetheel", true),
        OWNER => ("olga", false),
        ANN => ("ann", false),
        BOB => ("bob", false),
        NOOR => ("noor", false),
        OTHER_BOT => ("parrot", true),
        _ => ("somebody", false),
    };
    let shown = (id == NOOR).then_some("\u{646}\u{648}\u{631} \u{1f98a}");
    json!({"id": id.to_string(), "username": name, "discriminator": "0", "global_name": shown, "avatar": null, "bot": bot, "public_flags": 0})
}

pub(super) fn member_json(user: u64) -> Value {
    json!({
        "user": user_json(user), "nick": null, "avatar": null, "roles": if user == ANN { json!([ROLE.to_string()]) } else { json!([]) },
        "joined_at": "2026-01-01T00:00:00.000000+00:00", "premium_since": null, "deaf": false, "mute": false, "flags": 0,
        "pending": false, "permissions": "2147483647", "communication_disabled_until": null,
    })
}

impl State {
    /// Returns the JSON of a channel, or `None` if it does not exist.
    pub(super) fn channel_json(&self, id: u64) -> Option<Value> {
        if self.gone.contains(&id) {
            return None;
        }
        let Some((channel, name, owner)) = self.threads.get(&id) else { return channel_json(id) };
        let mut thread = channel_json(THREAD)?;
        thread["id"] = json!(id.to_string());
        thread["name"] = json!(name);
        thread["parent_id"] = json!(channel.to_string());
        thread["owner_id"] = json!(owner.to_string());
        Some(thread)
    }

    /// Returns the guild as Discord sends it after a login: also with the channels in which somebody
    /// has written, and the id of the last message of each channel.
    pub(super) fn guild_at_login(&self) -> Value {
        // Ids of messages grow, so the last one of each channel stays.
        let last: BTreeMap<u64, u64> =
            self.messages.values().map(|message| (message.channel, message.id)).collect();
        let rooms = last.keys().copied().filter(|id| (CROWD..=CROWD_END).contains(id));
        let channels = [CHANNEL, OTHER].into_iter().chain(rooms).filter_map(|id| {
            let mut channel = self.channel_json(id)?;
            channel["last_message_id"] = json!(last.get(&id).map(u64::to_string));
            Some(channel)
        });
        let mut guild = guild_json();
        guild["channels"] = channels.collect();
        guild
    }
}

/// Returns the JSON of one of the initial channels, or `None` if it does not exist.
pub(super) fn channel_json(id: u64) -> Option<Value> {
    let guild = GUILD.to_string();
    Some(match id {
        CHANNEL | OTHER | CROWD..=CROWD_END => {
            let name = match id {
                CHANNEL => "general".to_owned(),
                OTHER => "other".to_owned(),
                _ => format!("room-{}", id - CROWD),
            };
            json!({"id": id.to_string(), "type": 0, "guild_id": guild, "name": name, "position": 0,
                "permission_overwrites": [], "parent_id": "77", "nsfw": false, "flags": 0})
        }
        THREAD => {
            json!({"id": id.to_string(), "type": 11, "guild_id": guild, "name": "a thread", "parent_id": CHANNEL.to_string(),
            "owner_id": ANN.to_string(), "message_count": 1, "member_count": 1, "flags": 0, "rate_limit_per_user": 0,
            "thread_metadata": {"archived": false, "auto_archive_duration": 1440, "archive_timestamp": "2026-01-01T00:00:00.000000+00:00", "locked": false}})
        }
        DIRECT => {
            json!({"id": id.to_string(), "type": 1, "recipients": [user_json(ANN)], "flags": 0})
        }
        _ => return None,
    })
}

pub(super) fn guild_json() -> Value {
    json!({
        "id": GUILD.to_string(), "name": "Loopback", "icon": null, "splash": null, "discovery_splash": null, "owner_id": OWNER.to_string(),
        "afk_channel_id": null, "afk_timeout": 300, "verification_level": 0, "default_message_notifications": 0,
        "explicit_content_filter": 0, "roles": [{"id": GUILD.to_string(), "name": "@everyone", "color": 0,
            "colors": {"primary_color": 0, "secondary_color": null, "tertiary_color": null}, "hoist": false, "managed": false,
            "mentionable": false, "permissions": "0", "position": 0, "flags": 0},
            {"id": ROLE.to_string(), "name": "crew", "color": 0,
            "colors": {"primary_color": 0, "secondary_color": null, "tertiary_color": null}, "hoist": false, "managed": false,
            "mentionable": true, "permissions": "0", "position": 1, "flags": 0},
            {"id": BOT_ROLE.to_string(), "name": "aetheel", "color": 0,
            "colors": {"primary_color": 0, "secondary_color": null, "tertiary_color": null}, "hoist": false, "managed": true,
            "mentionable": true, "permissions": "0", "position": 2, "flags": 0, "tags": {"bot_id": BOT.to_string()}}],
        "emojis": [], "features": [], "mfa_level": 0, "application_id": null, "system_channel_id": null, "system_channel_flags": 0,
        "rules_channel_id": null, "vanity_url_code": null, "description": null, "banner": null, "premium_tier": 0,
        "preferred_locale": "en-US", "public_updates_channel_id": null, "nsfw_level": 0, "stickers": [],
        "premium_progress_bar_enabled": false, "joined_at": "2026-01-01T00:00:00.000000+00:00", "large": false, "unavailable": false,
        "member_count": 3, "voice_states": [], "members": [member_json(BOT)], "channels": [channel_json(CHANNEL), channel_json(OTHER)],
        "threads": [], "presences": [], "stage_instances": [], "guild_scheduled_events": [], "safety_alerts_channel_id": null,
    })
}
