//! The ids of sessions, which agents choose.

use std::fmt;

/// An agent's id of a session. Its form, `[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}`, cannot be mistaken
/// for a flag or a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// Checks an id.
    ///
    /// # Errors
    /// [`InvalidSessionId`] if the text is not a valid id.
    pub fn new(id: &str) -> Result<Self, InvalidSessionId> {
        let fits = (1..=128).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
            && !id.starts_with(['.', ':', '-']);
        if fits {
            Ok(Self(id.to_owned()))
        } else {
            Err(InvalidSessionId(id.chars().take(140).collect()))
        }
    }

    /// Returns the id in the agent's own form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text does not have the form of a session id. Contains its beginning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "session id {0:?} must be 1 to 128 letters, digits and `_.:-`, and not begin with a dot, colon or dash"
)]
pub struct InvalidSessionId(String);
