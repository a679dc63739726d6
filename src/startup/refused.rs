//! Why the program does not start.

use std::fmt;

use serde::Serialize;

use crate::config::LogFormat;
use crate::terminal;

/// Why nothing was started.
pub struct Refused {
    /// The exit code.
    pub code: u8,
    /// Each says what is wrong and what to do.
    pub faults: Vec<String>,
    /// Further findings.
    pub warnings: Vec<String>,
}

impl Refused {
    /// Refuses for these reasons.
    #[must_use]
    pub fn new(code: u8, faults: Vec<String>) -> Self {
        Self { code, faults, warnings: Vec::new() }
    }

    /// Refuses for one reason.
    pub fn because(code: u8, fault: impl Into<String>) -> Self {
        Self::new(code, vec![fault.into()])
    }

    /// Prints the warnings and every reason, then how many reasons there are. Returns the exit
    /// code.
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
            _ => terminal::say(&sum),
        }
        self.code
    }
}

/// A file that does not serve: why, and what to do.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The file and why.
    pub says: String,
    /// What to do.
    pub hint: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.says, self.hint)
    }
}

impl Serialize for LeftOut {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
