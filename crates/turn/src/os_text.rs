//! The serialized form of paths and arguments, which may not be valid UTF-8: bytes, and in JSON a
//! string if possible. For `#[serde(with = "os_text")]`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum Readable {
    Text(String),
    Bytes(Vec<u8>),
}

/// Writes a text.
///
/// # Errors
/// The serializer fails.
pub fn serialize<S: Serializer>(text: impl AsRef<OsStr>, to: S) -> Result<S::Ok, S::Error> {
    match text.as_ref().to_str() {
        Some(text) if to.is_human_readable() => to.serialize_str(text),
        _ => to.serialize_bytes(text.as_ref().as_bytes()),
    }
}

/// Reads a text.
///
/// # Errors
/// The deserializer fails.
pub fn deserialize<'a, T: From<OsString>, D: Deserializer<'a>>(from: D) -> Result<T, D::Error> {
    let bytes = if from.is_human_readable() {
        match Readable::deserialize(from)? {
            Readable::Text(text) => text.into_bytes(),
            Readable::Bytes(bytes) => bytes,
        }
    } else {
        Vec::deserialize(from)?
    };
    Ok(OsString::from_vec(bytes).into())
}

#[derive(Serialize, Deserialize)]
#[serde(bound(serialize = "T: AsRef<OsStr>", deserialize = "T: From<OsString>"))]
struct Element<T>(#[serde(with = "self")] T);

/// A list of texts.
pub mod list {
    use super::{Deserialize as _, Deserializer, Element, OsStr, OsString, Serializer};

    /// Writes a list.
    ///
    /// # Errors
    /// The serializer fails.
    pub fn serialize<S: Serializer>(list: &[impl AsRef<OsStr>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(list.iter().map(Element))
    }

    /// Reads a list.
    ///
    /// # Errors
    /// The deserializer fails.
    pub fn deserialize<'a, T, D>(from: D) -> Result<Vec<T>, D::Error>
    where
        T: From<OsString>,
        D: Deserializer<'a>,
    {
        let list = Vec::<Element<T>>::deserialize(from)?;
        Ok(list.into_iter().map(|Element(text)| text).collect())
    }
}

/// A path that may be missing.
pub mod option {
    use std::path::PathBuf;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Element;

    /// Writes a path.
    ///
    /// # Errors
    /// The serializer fails.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        path.as_ref().map(Element).serialize(to)
    }

    /// Reads a path.
    ///
    /// # Errors
    /// The deserializer fails.
    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<Element<PathBuf>>::deserialize(from)?.map(|Element(path)| path))
    }
}
