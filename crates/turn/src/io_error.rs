//! The serialized form of [`io::Error`], for `#[serde(with = "io_error")]`.

use std::io::{self, ErrorKind};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The kinds that are preserved, each under its own name.
const KINDS: [ErrorKind; 3] =
    [ErrorKind::NotFound, ErrorKind::PermissionDenied, ErrorKind::InvalidInput];

#[derive(Serialize, Deserialize)]
struct Form {
    /// The error number, if it is an error of the operating system.
    number: Option<i32>,
    kind: String,
    words: String,
}

pub(crate) fn serialize<S: Serializer>(error: &io::Error, to: S) -> Result<S::Ok, S::Error> {
    let kind = KINDS.into_iter().find(|kind| *kind == error.kind()).unwrap_or(ErrorKind::Other);
    let (number, words) = (error.raw_os_error(), error.to_string());
    Form { number, kind: format!("{kind:?}"), words }.serialize(to)
}

pub(crate) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<io::Error, D::Error> {
    let form = Form::deserialize(from)?;
    if let Some(number) = form.number {
        return Ok(io::Error::from_raw_os_error(number));
    }
    let kind = KINDS.into_iter().find(|kind| format!("{kind:?}") == form.kind);
    Ok(io::Error::new(kind.unwrap_or(ErrorKind::Other), form.words))
}
