//! Reasons why the program does not start, or ignores a file.

use std::fmt;

use serde::Serialize;

use crate::config::LogFormat;
use crate::terminal;

/// A refusal to start.
pub struct StartRefusal {
    /// The exit code.
    pub code: u8,
    /// The problems that prevent the start, each with a hint.
    pub faults: Vec<String>,
    /// Problems that do not prevent a start.
    pub warnings: Vec<String>,
}

impl StartRefusal {
    /// Creates a refusal with several reasons.
    #[must_use]
    pub fn new(code: u8, faults: Vec<String>) -> Self {
        Self { code, faults, warnings: Vec::new() }
    }

    /// Creates a refusal with one reason.
    pub fn because(code: u8, fault: impl Into<String>) -> Self {
        Self::new(code, vec![fault.into()])
    }

    /// Prints the warnings, every reason, and the number of reasons. Returns the exit code.
    pub fn print(&self) -> u8 {
        self.warnings.iter().for_each(|text| terminal::warn(text));
        for fault in &self.faults {
            terminal::fail(fault);
        }
        let count = self.faults.len();
        let sum =
            format!("nothing was started: {count} {}", if count == 1 { "fault" } else { "faults" });
        match terminal::format() {
            LogFormat::Json => terminal::fail(&sum),
            _ => terminal::print_stderr(&sum),
        }
        self.code
    }
}

/// A component file that is not used.
#[derive(Clone, Debug)]
pub struct UnusableFile {
    /// The path of the file and the reason.
    pub says: String,
    /// The operator's next step.
    pub hint: String,
}

impl fmt::Display for UnusableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.says, self.hint)
    }
}

impl Serialize for UnusableFile {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
