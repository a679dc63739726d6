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
    /// Nothing is wrong, but the operator may be able to improve it.
    Note,
    /// It works, but perhaps not as the operator expects.
    Warning,
    /// A start ignores the subject of the finding.
    LeftOut,
    /// A start is refused, but a later one may succeed: a disk is full, or another process uses an
    /// address.
    Passing,
    /// A start is refused, because something is missing.
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
            Self::Note => "note",
            Self::Warning => "warning",
            Self::LeftOut | Self::Passing | Self::Unavailable | Self::Invalid => "fault",
        })
    }
}

/// Returns whether an error may be gone at the next try, without a change of the configuration.
#[must_use]
pub fn is_passing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    /// Too many open files, in this process or on this machine.
    const TOO_MANY_FILES: [i32; 2] = [24, 23];
    let kinds = [
        ErrorKind::StorageFull,
        ErrorKind::QuotaExceeded,
        ErrorKind::AddrInUse,
        ErrorKind::AddrNotAvailable,
        ErrorKind::ResourceBusy,
        ErrorKind::StaleNetworkFileHandle,
        ErrorKind::TimedOut,
        ErrorKind::Interrupted,
        ErrorKind::OutOfMemory,
    ];
    kinds.contains(&error.kind())
        || error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code))
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

    /// Creates a finding about a file or an address that cannot be used because of `error`.
    pub fn of_io(
        subject: impl Into<String>,
        message: impl Into<String>,
        error: &std::io::Error,
    ) -> Self {
        let level = match is_passing(error) {
            true => FindingLevel::Passing,
            false => FindingLevel::Invalid,
        };
        Self::new(level, subject, message)
    }

    /// Creates a finding about something that is missing.
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

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn a_full_disk_and_a_taken_address_are_gone_at_a_later_start_and_a_permission_is_not() {
        let level = |error: Error| Finding::of_io("x", "y", &error).level;
        for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::AddrInUse] {
            assert_eq!(level(kind.into()), FindingLevel::Passing, "{kind}");
        }
        assert_eq!(level(Error::from_raw_os_error(24)), FindingLevel::Passing);
        for kind in [ErrorKind::PermissionDenied, ErrorKind::NotFound, ErrorKind::Other] {
            assert_eq!(level(kind.into()), FindingLevel::Invalid, "{kind}");
        }
    }
}
