//! Reasons why the program does not start.

use std::io;
use std::net::SocketAddr;

use crate::cli::exit;
use crate::terminal;
use aetheel_model::choice::LogFormat;
use aetheel_model::finding::{Finding, is_passing};
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::FileError;

/// The operator's next step if an address cannot be bound.
pub const TAKEN_ADDRESS: &str = "choose another address, or end the program that listens there";

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

    /// Creates a refusal because a file of `CONFIG_DIR` cannot be used.
    pub fn of_file(error: &FileError) -> Self {
        Self::of_io(&with_causes(error), error.cause())
    }

    /// Creates a refusal because CONFIG_DIR cannot be used for this reason and cause.
    pub fn of_io(why: &str, cause: &io::Error) -> Self {
        let code = if is_passing(cause) { exit::TEMPORARY } else { exit::CONFIG };
        Self::new(code, vec![Finding::of_io("CONFIG_DIR", format!("CONFIG_DIR: {why}"), cause)])
    }

    /// Creates a refusal because an address cannot be bound.
    pub fn of_address(name: &str, address: SocketAddr, error: &io::Error) -> Self {
        let finding = Finding::of_io(
            "addresses",
            format!("{name}: cannot listen at {address}: {error}"),
            error,
        );
        let code = if is_passing(error) { exit::TEMPORARY } else { exit::CONFIG };
        Self::new(code, vec![finding.with_hint(TAKEN_ADDRESS)])
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
