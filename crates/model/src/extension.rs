//! The description of a policy or an observer: a component that extends the gateway beside its
//! backends.

use serde::Deserialize;

use crate::agent::descriptor::is_name;
use crate::plain::short_line;

/// Maximum length of a version and of a description, in characters.
const TEXT_LIMIT: usize = 200;

/// The kinds of such components.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExtensionKind {
    /// Decides about requests of agents before people are asked.
    Policy,
    /// Reads the events of turns.
    Observer,
}

impl ExtensionKind {
    /// Returns the word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Observer => "observer",
        }
    }

    /// Returns the word with its article.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Policy => "a policy",
            Self::Observer => "an observer",
        }
    }

    /// Returns the name of its folder in the backends folder.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Self::Policy => "policies",
            Self::Observer => "observers",
        }
    }
}

/// The description of a component by itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ExtensionDescriptor {
    /// Its name, which identifies it in logs, recordings and metrics.
    pub name: String,
    /// Its version.
    pub version: String,
    /// One line for the operator.
    #[serde(default)]
    pub description: String,
}

/// The reason why a description is not valid.
#[derive(Debug, thiserror::Error)]
pub enum ExtensionDescriptorError {
    /// The text is not the expected JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// The name has characters that are not allowed.
    #[error("`name` {0:?} must be 1 to 32 lower-case letters, digits or `-`")]
    Name(String),
}

impl ExtensionDescriptor {
    /// Parses the JSON text of a description. Its texts are made safe to show, and short.
    ///
    /// # Errors
    /// [`ExtensionDescriptorError`].
    pub fn parse(text: &str) -> Result<Self, ExtensionDescriptorError> {
        let mut read: Self = serde_json::from_str(text)?;
        if !is_name(&read.name) {
            return Err(ExtensionDescriptorError::Name(read.name.chars().take(80).collect()));
        }
        read.version = short_line(&read.version, TEXT_LIMIT);
        read.description = short_line(&read.description, TEXT_LIMIT);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_a_plain_name_and_short_texts() {
        let text = r#"{"name":"guard","version":"1\u001b[2J","description":"a\nb","more":1}"#;
        let read = ExtensionDescriptor::parse(text).expect("valid");
        assert_eq!((read.version.as_str(), read.description.as_str()), ("1", "a b"));
        for name in ["", "Guard", "../guard", "-guard", "a b"] {
            let text = format!(r#"{{"name":"{name}","version":"1"}}"#);
            assert!(ExtensionDescriptor::parse(&text).is_err(), "{name}");
        }
        assert!(ExtensionDescriptor::parse("{}").is_err());
    }
}
