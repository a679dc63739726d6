//! Guilds, channels and members, with the fields that determine permissions.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{User, id};

/// A channel or thread.
#[derive(Deserialize)]
pub(crate) struct ChannelDetails {
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(rename = "type", default)]
    pub(crate) kind: u8,
    #[serde(default, with = "id::maybe")]
    pub(crate) guild_id: Option<u64>,
    #[serde(default, with = "id::maybe")]
    pub(crate) parent_id: Option<u64>,
    #[serde(default)]
    permission_overwrites: Vec<WireOverwrite>,
    /// The people in a direct message, without the bot.
    #[serde(default)]
    pub(crate) recipients: Vec<User>,
}

/// The permissions that a channel allows and denies to a role or a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overwrite {
    /// The id of the role or member. The id of the guild stands for everyone.
    pub(crate) id: u64,
    pub(crate) allow: u64,
    pub(crate) deny: u64,
}

#[derive(Clone, Copy, Deserialize)]
struct WireOverwrite {
    #[serde(with = "id")]
    id: u64,
    #[serde(deserialize_with = "bits")]
    allow: u64,
    #[serde(deserialize_with = "bits")]
    deny: u64,
}

#[derive(Deserialize)]
struct RolePermissions {
    #[serde(with = "id")]
    id: u64,
    #[serde(deserialize_with = "bits")]
    permissions: u64,
}

#[derive(Deserialize)]
pub(crate) struct GuildDetails {
    #[serde(with = "id")]
    pub(crate) owner_id: u64,
    roles: Vec<RolePermissions>,
}

#[derive(Deserialize)]
pub(crate) struct MemberDetails {
    roles: Vec<String>,
    #[serde(default)]
    communication_disabled_until: Option<String>,
}

impl ChannelDetails {
    pub(crate) fn overwrites(&self) -> Vec<Overwrite> {
        let read = |overwrite: &WireOverwrite| {
            let WireOverwrite { id, allow, deny } = *overwrite;
            Overwrite { id, allow, deny }
        };
        self.permission_overwrites.iter().map(read).collect()
    }
}

impl GuildDetails {
    pub(crate) fn role_permissions(&self) -> Vec<(u64, u64)> {
        self.roles.iter().map(|role| (role.id, role.permissions)).collect()
    }
}

impl MemberDetails {
    pub(crate) fn role_ids(&self) -> Vec<u64> {
        self.roles.iter().filter_map(|role| role.parse().ok()).collect()
    }

    pub(crate) fn is_timed_out(&self) -> bool {
        let until = self.communication_disabled_until.as_deref();
        until
            .and_then(|until| until.parse::<jiff::Timestamp>().ok())
            .is_some_and(|until| until > jiff::Timestamp::now())
    }
}

/// Parses permissions, which are numbers in strings.
fn bits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => text.parse().map_err(D::Error::custom),
        Value::Number(number) => {
            number.as_u64().ok_or_else(|| D::Error::custom("not a set of permissions"))
        }
        _ => Err(D::Error::custom("not a set of permissions")),
    }
}
