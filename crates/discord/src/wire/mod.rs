//! Discord's objects with only the fields that are used, so that other fields may change.

pub(super) mod guilds;
mod messages;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer};

pub(super) use messages::{Message, MessageEdit, MessageFile, ReferencedMessage};

/// The time at which Discord's ids begin, in milliseconds since 1970.
const EPOCH_MS: u64 = 1_420_070_400_000;

/// Missed messages that are older are not answered.
pub(super) const MISSED_SPAN: Duration = Duration::from_secs(600);

/// Returns the smallest id that Discord could assign `ago` before now.
pub(super) fn first_id_since(ago: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = u64::try_from(now.saturating_sub(ago).as_millis()).unwrap_or(u64::MAX);
    ms.saturating_sub(EPOCH_MS) << 22
}

/// Returns the smallest id that Discord could assign at a time, in seconds since 1970.
pub(super) fn first_id_at(seconds: i64) -> u64 {
    let ms = u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000);
    ms.saturating_sub(EPOCH_MS) << 22
}

/// Returns how long ago Discord assigned an id.
pub(super) fn age_of(id: u64) -> Duration {
    let given = UNIX_EPOCH + Duration::from_millis((id >> 22) + EPOCH_MS);
    SystemTime::now().duration_since(given).unwrap_or_default()
}

/// Returns the age of an id by Discord's clock, as far as it is known. `ahead` is how many seconds
/// this clock is ahead of Discord's.
pub(super) fn age_by_discord(id: u64, ahead: Option<i64>) -> Duration {
    let given = UNIX_EPOCH + Duration::from_millis((id >> 22) + EPOCH_MS);
    // The clock is corrected first, because a new id is in the future of a slow clock.
    let by = Duration::from_secs(ahead.unwrap_or(0).unsigned_abs());
    let now = SystemTime::now();
    let now = if ahead.unwrap_or(0) < 0 { now + by } else { now - by };
    now.duration_since(given).unwrap_or_default()
}

/// A Discord account, of a person or a bot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct User {
    #[serde(deserialize_with = "id")]
    pub(super) id: u64,
    pub(super) username: String,
    #[serde(default)]
    pub(super) global_name: Option<String>,
    #[serde(default)]
    pub(super) bot: bool,
}

impl User {
    /// Returns the name that people see.
    pub(super) fn display_name(&self) -> &str {
        self.global_name.as_deref().unwrap_or(&self.username)
    }
}

/// A user as a member of a guild.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Member {
    #[serde(default, deserialize_with = "ids")]
    pub(super) roles: Vec<u64>,
    #[serde(default)]
    pub(super) nick: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Role {
    #[serde(deserialize_with = "id")]
    pub(super) id: u64,
    #[serde(default)]
    pub(super) tags: RoleTags,
}

/// The tags of a role, which name the bot that the role belongs to.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RoleTags {
    #[serde(default, deserialize_with = "maybe_id")]
    pub(super) bot_id: Option<u64>,
}

/// Returns the user of an interaction, as a user and as a member. In a direct message, the member
/// is empty.
pub(super) fn interacting_user(interaction: &serde_json::Value) -> Option<(User, Member)> {
    let member = &interaction["member"];
    match User::deserialize(&member["user"]) {
        Ok(user) => Some((user, Member::deserialize(member).ok()?)),
        Err(_) => Some((User::deserialize(&interaction["user"]).ok()?, Member::default())),
    }
}

/// Parses an id as Discord writes it.
pub(super) fn id_in(value: &serde_json::Value) -> Option<u64> {
    parse_id(value.as_str()?)
}

/// Parses an id. Refuses 0, which Discord never assigns and on which serenity panics.
fn parse_id(text: &str) -> Option<u64> {
    text.parse().ok().filter(|id| *id != 0)
}

/// The options of the bot's commands that contain a text of the user.
const PROMPT_OPTIONS: [&str; 2] = ["prompt", "message"];

/// A slash command that a person used. Has no `Debug`, so that the token is never logged.
#[derive(Clone)]
pub(super) struct SlashInteraction {
    pub(super) interaction: u64,
    pub(super) token: String,
    pub(super) channel: u64,
    /// The channel that the thread belongs to, if the command was used in a thread.
    pub(super) parent: Option<u64>,
    pub(super) guild: Option<u64>,
    pub(super) user: User,
    pub(super) roles: Vec<u64>,
    pub(super) nick: Option<String>,
    pub(super) name: String,
    /// The text of the user, from the option `prompt` or `message`.
    pub(super) prompt: String,
    /// The options with a text, by name.
    pub(super) options: Vec<(String, String)>,
    /// The files of the options that take one.
    pub(super) files: Vec<MessageFile>,
}

impl SlashInteraction {
    /// Parses an interaction. Returns `None` if it is not a slash command.
    pub(super) fn read(value: &serde_json::Value) -> Option<Self> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(deserialize_with = "id")]
            id: u64,
            #[serde(rename = "type")]
            kind: u8,
            token: String,
            #[serde(default, deserialize_with = "maybe_id")]
            guild_id: Option<u64>,
            #[serde(deserialize_with = "id")]
            channel_id: u64,
            #[serde(default)]
            channel: Option<Channel>,
            data: Data,
        }
        #[derive(Deserialize)]
        struct Data {
            name: String,
            #[serde(default)]
            options: Vec<Chosen>,
            #[serde(default)]
            resolved: Resolved,
        }
        #[derive(Default, Deserialize)]
        struct Resolved {
            #[serde(default)]
            attachments: BTreeMap<String, MessageFile>,
        }
        #[derive(Deserialize)]
        struct Chosen {
            name: String,
            #[serde(default)]
            value: serde_json::Value,
        }
        let wire = Wire::deserialize(value).ok().filter(|wire| wire.kind == 2)?;
        let (user, member) = interacting_user(value)?;
        let texts =
            wire.data.options.iter().filter_map(|option| {
                Some((option.name.clone(), option.value.as_str()?.to_owned()))
            });
        let given = texts.collect();
        let prompt = wire
            .data
            .options
            .iter()
            .find(|option| PROMPT_OPTIONS.contains(&option.name.as_str()))
            .and_then(|option| option.value.as_str());
        Some(Self {
            interaction: wire.id,
            token: wire.token,
            channel: wire.channel_id,
            parent: wire.channel.as_ref().and_then(Channel::thread_parent),
            guild: wire.guild_id,
            user,
            roles: member.roles,
            nick: member.nick,
            name: wire.data.name,
            prompt: prompt.unwrap_or_default().to_owned(),
            options: given,
            files: wire.data.resolved.attachments.into_values().collect(),
        })
    }
}

/// A channel or thread.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Channel {
    #[serde(rename = "type")]
    pub(super) kind: u8,
    #[serde(default, deserialize_with = "maybe_id")]
    pub(super) guild_id: Option<u64>,
    #[serde(default, deserialize_with = "maybe_id")]
    pub(super) parent_id: Option<u64>,
    /// The user who opened the thread.
    #[serde(default, deserialize_with = "maybe_id")]
    pub(super) owner_id: Option<u64>,
}

impl Channel {
    /// Returns the channel that a thread belongs to. The parent of other channels is a category,
    /// which is not used.
    pub(super) fn thread_parent(&self) -> Option<u64> {
        self.parent_id.filter(|_| matches!(self.kind, 10..=12))
    }
}

/// The application behind the bot.
#[derive(Debug, Deserialize)]
pub(super) struct Application {
    #[serde(deserialize_with = "id")]
    pub(super) id: u64,
    #[serde(default)]
    pub(super) owner: Option<User>,
    #[serde(default)]
    pub(super) team: Option<Team>,
    #[serde(default)]
    pub(super) flags: u64,
}

impl Application {
    /// Returns whether the bot may read messages that do not mention it: `GATEWAY_MESSAGE_CONTENT`
    /// or `…_LIMITED` (Discord's documentation of applications, 2026-08).
    pub(super) fn reads_all(&self) -> bool {
        self.flags & (1 << 18 | 1 << 19) != 0
    }
}

/// The team that owns an application.
#[derive(Debug, Deserialize)]
pub(super) struct Team {
    #[serde(default)]
    pub(super) members: Vec<TeamMember>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TeamMember {
    pub(super) user: User,
}

/// The address of the gateway, and the limits of logins.
#[derive(Debug, Deserialize)]
pub(super) struct GatewayBot {
    pub(super) url: String,
    /// How many shards Discord recommends.
    #[serde(default = "one")]
    pub(super) shards: u32,
    pub(super) session_start_limit: StartLimit,
}

/// The limits of logins.
#[derive(Debug, Deserialize)]
pub(super) struct StartLimit {
    pub(super) remaining: u64,
    /// Milliseconds until the limit is reset.
    pub(super) reset_after: u64,
    /// How many shards may log in at the same time.
    #[serde(default = "one")]
    pub(super) max_concurrency: u32,
}

fn one() -> u32 {
    1
}

pub(super) fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_id(&text).ok_or_else(|| not_an_id(&text))
}

/// Parses an id that may be missing or null. An invalid id is an error, because a message of a
/// server must not count as a direct message.
pub(super) fn maybe_id<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_id(&text).ok_or_else(|| not_an_id(&text))).transpose()
}

fn not_an_id<E: serde::de::Error>(text: &str) -> E {
    E::custom(format!("{text:?} is not an id"))
}

fn ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    Ok(Vec::<String>::deserialize(deserializer)?.iter().filter_map(|text| parse_id(text)).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_needs_only_the_fields_we_use() {
        let message = Message::deserialize(json!({
            "id": "5", "channel_id": "6", "author": {"id": "7", "username": "ann", "flags": null}, "content": "hi", "pinned": null,
        }))
        .expect("enough");
        assert_eq!((message.id, message.guild_id, message.author.display_name()), (5, None, "ann"));
    }

    #[test]
    fn a_slash_command_in_a_thread_names_the_parent_and_one_in_a_category_does_not() {
        let slash = |kind: u8| {
            SlashInteraction::read(&json!({
                "id": "1", "type": 2, "token": "t", "channel_id": "3", "channel": {"id": "3", "type": kind, "parent_id": "9"}, "guild_id": "4",
                "member": {"user": {"id": "7", "username": "ann"}, "roles": ["8"], "nick": "Annie"},
                "data": {"name": "ask", "options": [{"name": "prompt", "type": 3, "value": "hello"}]},
            }))
            .expect("a slash command")
        };
        assert_eq!((slash(11).parent, slash(0).parent), (Some(9), None));
        assert_eq!((slash(0).prompt.as_str(), slash(0).roles), ("hello", vec![8]));
    }

    #[test]
    fn an_age_is_measured_by_discords_clock() {
        let id = first_id_since(Duration::from_secs(60));
        let about = |ahead, seconds: u64| {
            let age = age_by_discord(id, ahead).as_secs();
            assert!((seconds..seconds + 2).contains(&age), "{age} s");
        };
        about(None, 60);
        about(Some(50), 10);
        about(Some(-40), 100);
        about(Some(90), 0);
        // For a clock that is 30 s behind, a new id is from the future.
        let now = first_id_since(Duration::ZERO) + (30_000 << 22);
        assert!(age_by_discord(now, Some(-30)) < Duration::from_secs(2));
    }
}
