//! Discord's objects with only the fields that are used, so that other fields may change.

pub(super) mod guilds;
pub(super) mod id;
mod interactions;
mod messages;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize};

pub(super) use interactions::{Interaction, InteractionData};
pub(super) use messages::{Message, MessageDeletion, MessageEdit, MessageFile, ReferencedMessage};

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct User {
    #[serde(with = "id")]
    pub(super) id: u64,
    pub(super) username: String,
    #[serde(default)]
    pub(super) global_name: Option<String>,
    #[serde(default)]
    pub(super) bot: bool,
}

impl User {
    pub(super) fn display_name(&self) -> &str {
        self.global_name.as_deref().unwrap_or(&self.username)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Member {
    #[serde(default, with = "id::list")]
    pub(super) roles: Vec<u64>,
    #[serde(default)]
    pub(super) nick: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Role {
    #[serde(with = "id")]
    pub(super) id: u64,
    #[serde(default)]
    pub(super) tags: RoleTags,
}

/// The tags of a role, which name the bot that the role belongs to.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RoleTags {
    #[serde(default, with = "id::maybe")]
    pub(super) bot_id: Option<u64>,
}

/// Parses an id as Discord writes it.
pub(super) fn id_in(value: &serde_json::Value) -> Option<u64> {
    id::parse(value.as_str()?)
}

/// A channel or thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Channel {
    #[serde(rename = "type")]
    pub(super) kind: u8,
    #[serde(default, with = "id::maybe")]
    pub(super) guild_id: Option<u64>,
    #[serde(default, with = "id::maybe")]
    pub(super) parent_id: Option<u64>,
    /// The user who opened the thread.
    #[serde(default, with = "id::maybe")]
    pub(super) owner_id: Option<u64>,
}

impl Channel {
    /// Returns the channel that a thread belongs to. The parent of other channels is a category,
    /// which is not used.
    pub(super) fn thread_parent(&self) -> Option<u64> {
        self.parent_id.filter(|_| self.is_thread())
    }

    pub(super) fn is_thread(&self) -> bool {
        matches!(self.kind, 10..=12)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Application {
    #[serde(with = "id")]
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

/// Parses a value. serenity writes null where Discord left it out.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
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
