//! Ids of channels, people, messages, roles and guilds, each with the chat platform that it
//! belongs to.
//!
//! # Stored and shown forms
//!
//! The ids of Discord are written as plain numbers, because they were written so before there were
//! platforms: older nodes of a cluster must be able to read new rows and files. The ids of any
//! other platform are written as `platform:number`. Both forms, and `discord:123`, are accepted
//! everywhere.
//!
//! | place | Discord | another platform |
//! |---|---|---|
//! | text: lanes (`channel:123`), settings, operator's files, addresses of pages | `123` | `platform:123` |
//! | JSON | the number `123` | the string `"platform:123"` |
//! | fields of log lines | the number `123` | `platform:123` |
//! | `bigint` columns of the database | the number's bits | none, see [`ChannelId::column`] |
//!
//! # Another platform
//!
//! Add a variant to [`Platform`], its name, an entry in the list of `Platform::from_name`, and
//! constructors and accessors like `ChannelId::discord`. The compiler then reports the functions
//! that decide what is written, but not that list. An adapter uses the accessor of its own platform
//! where it touches other crates. There is no conversion from `u64`, because a bare number does not
//! name its platform.
//!
//! If the ids of a platform are texts, its adapter assigns a number to each text, and saves the
//! assignment before it uses the number.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A chat platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Platform {
    /// Discord, whose ids are called snowflakes.
    Discord,
}

impl Platform {
    /// Returns the name that is written before its ids.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Discord => "discord",
        }
    }

    /// Returns the platform with a name. The compiler does not report a platform that is missing in
    /// the list.
    fn from_name(name: &str) -> Option<Self> {
        [Self::Discord].into_iter().find(|platform| platform.name() == name)
    }
}

/// The reason why a text is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is neither a number nor a platform and a number.
    #[error("{0:?} is not an id; expected: a number, or `platform:number`")]
    Form(String),
    /// The text names a platform that this version does not know.
    #[error("{0:?} is an id of a chat platform that this version does not know")]
    UnknownPlatform(String),
    /// The number is zero, which identifies nothing.
    #[error("{0:?} is zero, which is not an id")]
    Zero(String),
}

/// The platform and number that all kinds of ids consist of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct RawId {
    platform: Platform,
    number: u64,
}

impl RawId {
    const fn discord(number: u64) -> Self {
        Self { platform: Platform::Discord, number }
    }

    const fn number_on(self, platform: Platform) -> Option<u64> {
        match (self.platform, platform) {
            (Platform::Discord, Platform::Discord) => Some(self.number),
        }
    }
}

impl fmt::Display for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.platform {
            Platform::Discord => write!(f, "{}", self.number),
        }
    }
}

impl FromStr for RawId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (platform, number) = match text.split_once(':') {
            Some((name, number)) if !name.is_empty() => (Platform::from_name(name), number),
            Some(_) => return Err(IdError::Form(text.to_owned())),
            None => (Some(Platform::Discord), text),
        };
        let platform = platform.ok_or_else(|| IdError::UnknownPlatform(text.to_owned()))?;
        let number = number.parse().map_err(|_| IdError::Form(text.to_owned()))?;
        Ok(Self { platform, number })
    }
}

impl Serialize for RawId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.platform {
            Platform::Discord => serializer.serialize_u64(self.number),
        }
    }
}

impl<'de> Deserialize<'de> for RawId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdVisitor;

        impl Visitor<'_> for IdVisitor {
            type Value = RawId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id: a number, or a string such as \"discord:123\"")
            }

            fn visit_u64<E>(self, number: u64) -> Result<RawId, E> {
                Ok(RawId::discord(number))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RawId, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(IdVisitor)
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(RawId);

        impl $name {
            /// Returns the id that has this number on Discord.
            #[must_use]
            pub const fn discord(number: u64) -> Self {
                Self(RawId::discord(number))
            }

            /// Returns its number on Discord, or `None` if it belongs to another platform.
            #[must_use]
            pub const fn as_discord(self) -> Option<u64> {
                self.0.number_on(Platform::Discord)
            }

            /// Returns the platform that it belongs to.
            #[must_use]
            pub const fn platform(self) -> Platform {
                self.0.platform
            }

            /// Parses an id that a person wrote. Unlike `from_str`, it refuses zero.
            ///
            /// # Errors
            /// Returns an [`IdError`] if the text is not an id.
            pub fn parse_nonzero(text: &str) -> Result<Self, IdError> {
                let id: RawId = text.parse()?;
                if id.number == 0 {
                    return Err(IdError::Zero(text.to_owned()));
                }
                Ok(Self(id))
            }

            /// Returns the value of a field of a log line.
            #[must_use]
            pub fn to_field(self) -> impl tracing::Value {
                match self.0.platform {
                    Platform::Discord => self.0.number,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        /// Writes the same text as `Display`.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            /// Parses the text that `Display` writes, and `discord:123`.
            fn from_str(text: &str) -> Result<Self, IdError> {
                text.parse().map(Self)
            }
        }
    )*};
}

ids! {
    /// The id of a channel, of a thread or of the channel of direct messages.
    ChannelId
    /// The id of a user.
    UserId
    /// The id of a message, or of the use of a command.
    MessageId
    /// The id of a role.
    RoleId
    /// The id of a guild, which is a group of channels with members of its own.
    GuildId
    /// An entry of a list that contains users and roles.
    UserOrRoleId
}

impl ChannelId {
    /// Returns the value of a `bigint` column, or `None` if the column cannot contain the id. These
    /// columns contain only ids of Discord.
    #[must_use]
    pub const fn column(self) -> Option<i64> {
        match self.as_discord() {
            Some(number) => Some(number.cast_signed()),
            None => None,
        }
    }

    /// Returns the id of a value that [`ChannelId::column`] returned.
    #[must_use]
    pub const fn from_column(value: i64) -> Self {
        Self::discord(value.cast_unsigned())
    }
}

impl GuildId {
    /// Returns the role that every member of the guild has. Its number is that of the guild.
    #[must_use]
    pub const fn everyone(self) -> RoleId {
        RoleId(self.0)
    }
}

impl From<UserId> for UserOrRoleId {
    fn from(user: UserId) -> Self {
        Self(user.0)
    }
}

impl From<RoleId> for UserOrRoleId {
    fn from(role: RoleId) -> Self {
        Self(role.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        #[test]
        fn an_id_is_read_back_from_every_stored_form(number in any::<u64>()) {
            let id = ChannelId::discord(number);
            prop_assert_eq!(id.to_string(), number.to_string());
            prop_assert_eq!(id.to_string().parse(), Ok(id));
            prop_assert_eq!(format!("discord:{number}").parse(), Ok(id));
            prop_assert_eq!(serde_json::to_value(id).unwrap(), json!(number));
            for written in [json!(number), json!(number.to_string()), json!(format!("discord:{number}"))] {
                prop_assert_eq!(serde_json::from_value::<ChannelId>(written).unwrap(), id);
            }
            prop_assert_eq!(id.column(), Some(number.cast_signed()));
            prop_assert_eq!(ChannelId::from_column(number.cast_signed()), id);
            prop_assert_eq!(id.as_discord(), Some(number));
        }
    }

    #[test]
    fn ids_of_unknown_platforms_and_other_texts_are_refused_with_a_reason() {
        let error = "slack:7".parse::<UserId>().expect_err("unknown");
        assert_eq!(error, IdError::UnknownPlatform("slack:7".to_owned()));
        assert!(error.to_string().contains("chat platform"), "{error}");
        let of_json = serde_json::from_value::<UserId>(json!("slack:7")).expect_err("unknown");
        assert_eq!(of_json.to_string(), error.to_string());
        for bad in ["", ":", ":7", "x", "-1", "7:8x", "discord:", "discord:x", "discord:1:2", "1.5"]
        {
            assert!(bad.parse::<MessageId>().is_err(), "{bad:?} was accepted");
        }
        for bad in [json!(-1), json!(1.5), json!(null), json!({ "platform": "discord" })] {
            assert!(serde_json::from_value::<RoleId>(bad.clone()).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn only_written_ids_must_not_be_zero() {
        assert_eq!("0".parse(), Ok(GuildId::discord(0)));
        for text in ["0", "discord:0"] {
            assert_eq!(GuildId::parse_nonzero(text), Err(IdError::Zero(text.to_owned())));
        }
        assert_eq!(GuildId::parse_nonzero("discord:5"), Ok(GuildId::discord(5)));
    }

    #[test]
    fn users_and_roles_are_found_in_one_list() {
        let list = [UserOrRoleId::discord(1), GuildId::discord(2).everyone().into()];
        assert!(list.contains(&UserId::discord(1).into()));
        assert!(list.contains(&RoleId::discord(2).into()));
        assert!(!list.contains(&UserId::discord(3).into()));
    }
}
