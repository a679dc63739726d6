//! Faults that are reported before or without a log, in the log's format where the program writes a
//! log to stderr.

use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use aetheel_model::choice::LogFormat;

/// The value of `LOG_FORMAT`, after the settings were read.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();
/// Whether the command writes a log to stderr.
static LOGS: AtomicBool = AtomicBool::new(false);

/// States that this command writes a log to stderr. Faults before the start of the log then have
/// its format, so that a program can parse all of stderr.
pub fn log_faults() {
    LOGS.store(true, Ordering::Relaxed);
}

/// Sets the format in which faults are printed. Only the first call has an effect.
pub fn set_format(format: LogFormat) {
    let _ = FORMAT.set(format);
}

/// Returns the format in which faults are printed. `Auto` means text for people.
pub fn format() -> LogFormat {
    match FORMAT.get().copied().unwrap_or(LogFormat::Auto) {
        LogFormat::Auto if LOGS.load(Ordering::Relaxed) && super::is_json(LogFormat::Auto) => {
            LogFormat::Json
        }
        format => format,
    }
}

/// Prints a fault to stderr, for use without a log.
pub fn fail(fault: &str) {
    let _ = std::io::stderr().write_all(super::fault_line(format(), fault).as_bytes());
}

/// Prints a warning to stderr, for use without a log.
pub fn warn(text: &str) {
    let _ = std::io::stderr().write_all(super::warning_line(format(), text).as_bytes());
}
