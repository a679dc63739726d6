//! Logging: human on a terminal, JSON otherwise; always to stderr, always one line an event, never with secrets.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::LogFormat;
use crate::redact::Redactor;

/// Starts logging for the rest of the program's life.
///
/// # Errors
/// When the filter is not one; names it.
pub fn start(format: LogFormat, filter: &str, redactor: Redactor) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("LOG_LEVEL {filter:?} is not a level or filter: {error}"))?;
    let json = match format {
        LogFormat::Auto => !io::stderr().is_terminal(),
        LogFormat::Human => false,
        LogFormat::Json => true,
    };
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(CleanStderr { redactor }).with_target(false);
    // Fails when a test has set one before, which then simply stays.
    let _ = if json {
        subscriber.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    } else {
        subscriber.with_ansi(io::stderr().is_terminal()).try_init()
    };
    Ok(())
}

/// Checks a filter without using it.
///
/// # Errors
/// As for [`start`].
pub fn check_filter(filter: &str) -> Result<(), String> {
    EnvFilter::try_new(filter).map(drop).map_err(|error| format!("LOG_LEVEL {filter:?} is not a level or filter: {error}"))
}

#[derive(Clone)]
struct CleanStderr {
    redactor: Redactor,
}

impl<'a> MakeWriter<'a> for CleanStderr {
    type Writer = CleanLine<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        CleanLine { redactor: &self.redactor, line: Vec::new() }
    }
}

/// Collects one event and writes it when dropped.
struct CleanLine<'a> {
    redactor: &'a Redactor,
    line: Vec<u8>,
}

impl Write for CleanLine<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for CleanLine<'_> {
    fn drop(&mut self) {
        let line = one_line(self.redactor, &self.line);
        // Nothing is left to say when stderr is gone.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}

fn one_line(redactor: &Redactor, bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut line = redactor.clean(text.trim_end_matches('\n').replace('\n', "\\n").replace('\r', "\\r"));
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_without_secrets() {
        let secret = "hunter2-canary".to_owned().into();
        let redactor = Redactor::new([&secret]);
        assert_eq!(one_line(&redactor, b"user said: a\nERROR forged hunter2-canary\n"), "user said: a\\nERROR forged ***\n");
    }

    #[test]
    fn a_bad_filter_is_named() {
        assert!(check_filter("aetheel=loud").unwrap_err().contains("aetheel=loud"));
        assert!(check_filter("aetheel=debug,info").is_ok());
    }
}
