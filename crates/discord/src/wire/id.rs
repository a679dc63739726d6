//! Ids, which Discord writes as text.

use std::fmt::Display;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Parses an id. Refuses 0, which Discord never assigns and on which serenity panics.
pub(super) fn parse(text: &str) -> Option<u64> {
    text.parse().ok().filter(|id| *id != 0)
}

fn parse_or_fail<E: Error>(text: &str) -> Result<u64, E> {
    parse(text).ok_or_else(|| E::custom(format!("{text:?} is not an id")))
}

pub(crate) fn serialize<S: Serializer>(
    id: &impl Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    parse_or_fail(&String::deserialize(deserializer)?)
}

/// An id that may be missing or null. An invalid id is an error, because a message of a server must
/// not count as a direct message.
pub(crate) mod maybe {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<'a, S: Serializer>(
        id: impl IntoIterator<Item = &'a u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        id.into_iter().next().map(u64::to_string).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| super::parse_or_fail(&text)).transpose()
    }

    /// Does the same, but ignores an invalid id.
    pub(crate) fn or_none<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(text.and_then(|text| super::parse(&text)))
    }
}

/// A list of ids. Leaves out invalid ones.
pub(crate) mod list {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<'a, S: Serializer>(
        ids: impl IntoIterator<Item = &'a u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(ids.into_iter().map(u64::to_string))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u64>, D::Error> {
        let ids = Vec::<String>::deserialize(deserializer)?;
        Ok(ids.iter().filter_map(|id| super::parse(id)).collect())
    }
}
