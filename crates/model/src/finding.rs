//! Findings of checks. Each has a level, a message and a hint for the operator.
//!
//! A finding is created where the problem is found. Its `Display` is the text for the terminal, the
//! log and Discord. Its serialized form is that of `--json`.

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

/// A result of a check, for the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// Effect on a start.
    pub level: FindingLevel,
    /// The subject of the check.
    #[serde(rename = "about")]
    pub subject: String,
    /// The result of the check, as a sentence.
    #[serde(rename = "says")]
    pub message: String,
    /// The operator's next step.
    pub hint: Option<String>,
}

impl Finding {
    /// Creates a finding without a hint.
    pub fn new(
        level: FindingLevel,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { level, subject: subject.into(), message: message.into(), hint: None }
    }

    /// Creates a finding about a subject without a problem.
    pub fn ok(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(FindingLevel::Ok, subject, message)
    }

    /// Creates a finding about something that works, but perhaps not as expected.
    pub fn warning(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(FindingLevel::Warning, subject, message)
    }

    /// Creates a finding about something that a start ignores.
    pub fn left_out(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(FindingLevel::LeftOut, subject, message)
    }

    /// Creates a finding about something that is missing or used by another process.
    pub fn unavailable(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(FindingLevel::Unavailable, subject, message)
    }

    /// Creates a finding about a wrong configuration.
    pub fn invalid(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(FindingLevel::Invalid, subject, message)
    }

    /// Sets the operator's next step.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the hint if it is missing.
    #[must_use]
    pub fn or_hint(mut self, hint: &str) -> Self {
        self.hint.get_or_insert_with(|| hint.to_owned());
        self
    }

    /// Returns the message and the hint without line breaks.
    #[must_use]
    pub fn one_line(&self) -> String {
        self.to_string().replace('\n', "; ")
    }

    /// Serializes findings as an array of lines.
    ///
    /// # Errors
    /// The errors of the serializer.
    pub fn serialize_lines<S: Serializer>(
        findings: &[Self],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(findings.iter().map(Self::one_line))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}
