//! Guilds, channels and members as far as their permissions go.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{User, id, maybe_id};
use crate::discord::permissions::Overwrite;

/// A channel or thread.
#[derive(Deserialize)]
pub(in crate::discord) struct Channel {
    #[serde(default)]
    pub(in crate::discord) name: Option<String>,
    #[serde(rename = "type", default)]
    pub(in crate::discord) kind: u8,
    #[serde(default, deserialize_with = "maybe_id")]
    pub(in crate::discord) guild_id: Option<u64>,
    #[serde(default, deserialize_with = "maybe_id")]
    pub(in crate::discord) parent_id: Option<u64>,
    #[serde(default)]
    permission_overwrites: Vec<WireOverwrite>,
    /// Who is in direct messages, beside the bot.
    #[serde(default)]
    pub(in crate::discord) recipients: Vec<User>,
}

#[derive(Clone, Copy, Deserialize)]
struct WireOverwrite {
    #[serde(deserialize_with = "id")]
    id: u64,
    #[serde(deserialize_with = "bits")]
    allow: u64,
    #[serde(deserialize_with = "bits")]
    deny: u64,
}

#[derive(Deserialize)]
struct Role {
    #[serde(deserialize_with = "id")]
    id: u64,
    #[serde(deserialize_with = "bits")]
    permissions: u64,
}

/// A guild with its roles.
#[derive(Deserialize)]
pub(in crate::discord) struct WireGuild {
    #[serde(deserialize_with = "id")]
    pub(in crate::discord) owner_id: u64,
    roles: Vec<Role>,
}

/// Somebody as a member of a guild.
#[derive(Deserialize)]
pub(in crate::discord) struct Member {
    roles: Vec<String>,
    #[serde(default)]
    communication_disabled_until: Option<String>,
}

impl Channel {
    pub(in crate::discord) fn overwrites(&self) -> Vec<Overwrite> {
        let read = |overwrite: &WireOverwrite| {
            let WireOverwrite { id, allow, deny } = *overwrite;
            Overwrite { id, allow, deny }
        };
        self.permission_overwrites.iter().map(read).collect()
    }
}

impl WireGuild {
    /// All roles with their permissions.
    pub(in crate::discord) fn role_permissions(&self) -> Vec<(u64, u64)> {
        self.roles.iter().map(|role| (role.id, role.permissions)).collect()
    }
}

impl Member {
    pub(in crate::discord) fn role_ids(&self) -> Vec<u64> {
        self.roles.iter().filter_map(|role| role.parse().ok()).collect()
    }

    pub(in crate::discord) fn is_timed_out(&self) -> bool {
        let until = self.communication_disabled_until.as_deref();
        until
            .and_then(|until| until.parse::<jiff::Timestamp>().ok())
            .is_some_and(|until| until > jiff::Timestamp::now())
    }
}

/// Permissions are numbers in strings.
fn bits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => text.parse().map_err(D::Error::custom),
        Value::Number(number) => {
            number.as_u64().ok_or_else(|| D::Error::custom("not a set of permissions"))
        }
        _ => Err(D::Error::custom("not a set of permissions")),
    }
}
