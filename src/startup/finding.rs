//! Findings of checks of the settings and the environment of the program.
//!
//! The start, `aetheel check`, `aetheel doctor` and `aetheel init` show the same findings, each in
//! its own format.

use std::fmt;

use serde::{Serialize, Serializer};

/// Effect of a finding on a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingLevel {
    /// Nothing is wrong.
    Ok,
    /// It works, but perhaps not as the operator expects.
    Warning,
    /// A start ignores the subject of the finding.
    LeftOut,
    /// A start is refused, because something is missing or used by another process.
    Unavailable,
    /// A start is refused, because the configuration is wrong.
    Invalid,
}

impl FindingLevel {
    /// Returns whether the subject does not work, so that a start ignores it or is refused.
    #[must_use]
    pub fn is_fault(self) -> bool {
        self >= Self::LeftOut
    }
}

impl Serialize for FindingLevel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::LeftOut | Self::Unavailable | Self::Invalid => "fault",
        })
    }
}

/// A finding, as `aetheel doctor --json` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// Effect on a start.
    pub level: FindingLevel,
    /// The subject of the check.
    pub about: String,
    /// The result of the check, as a sentence.
    pub says: String,
    /// The operator's next step, or `None` if nothing needs to be done.
    pub hint: Option<String>,
}

impl Finding {
    /// Creates a finding about a subject without a problem.
    pub fn ok(about: impl Into<String>, says: impl Into<String>) -> Self {
        Self { level: FindingLevel::Ok, about: about.into(), says: says.into(), hint: None }
    }

    /// Creates a finding about a problem.
    pub fn new(
        level: FindingLevel,
        about: impl Into<String>,
        says: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let (about, says, hint) = (about.into(), says.into(), hint.into());
        Self { level, about, says, hint: Some(hint) }
    }

    /// Creates a finding from a message whose hint follows `hint: ` or the last `; `. `otherwise`
    /// is the hint for a message without one.
    pub fn from_message(level: FindingLevel, about: &str, message: &str, otherwise: &str) -> Self {
        let (says, hint) = message
            .split_once("\nhint: ")
            .or_else(|| message.split_once("; hint: "))
            .or_else(|| message.rsplit_once("; "))
            .unwrap_or((message, otherwise));
        Self::new(level, about, says, hint)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_clause_of_a_message_is_its_hint() {
        let of = |message: &str| {
            let finding =
                Finding::from_message(FindingLevel::Invalid, "x", message, "see the manual");
            (finding.says, finding.hint.unwrap_or_default())
        };
        let parts = |says: &str, hint: &str| (says.to_owned(), hint.to_owned());
        assert_eq!(of("X is wrong\nhint: mend it; soon"), parts("X is wrong", "mend it; soon"));
        assert_eq!(
            of("X: taken; in use; choose another"),
            parts("X: taken; in use", "choose another")
        );
        assert_eq!(of("X is wrong"), parts("X is wrong", "see the manual"));
    }
}
