//! Reasons why the program does not start.

use crate::config::LogFormat;
use crate::finding::Finding;
use crate::terminal;

/// A refusal to start.
pub struct StartRefusal {
    /// The exit code.
    pub code: u8,
    /// The problems that prevent the start.
    pub faults: Vec<Finding>,
    /// Problems that do not prevent a start.
    pub warnings: Vec<Finding>,
}

impl StartRefusal {
    /// Creates a refusal with several reasons.
    #[must_use]
    pub fn new(code: u8, faults: Vec<Finding>) -> Self {
        Self { code, faults, warnings: Vec::new() }
    }

    /// Creates a refusal with one reason.
    pub fn because(code: u8, fault: impl Into<String>) -> Self {
        Self::new(code, vec![Finding::invalid("settings", fault)])
    }

    /// Prints the warnings, every reason, and the number of reasons. Returns the exit code.
    pub fn print(&self) -> u8 {
        self.warnings.iter().for_each(|text| terminal::warn(&text.to_string()));
        for fault in &self.faults {
            terminal::fail(&fault.to_string());
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
