//! Logging to stderr: one line per event, without secrets, as text at a terminal and as JSON
//! otherwise.
//!
//! A filter that is only a level, such as `debug`, applies to the events of this program. For
//! libraries, only warnings and errors are then logged. Tested by `tests/gateway/secrets.rs` and
//! `tests/gateway/logs.rs`.
//!
//! [`faults`] reports problems that occur before there is a log, or in commands that have none.

pub mod faults;
mod flood;
mod line;
pub mod problems;

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{ParseError, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::line::{Flat, Human};
use aetheel_model::choice::LogFormat;
use aetheel_model::plain::escaped;
use aetheel_model::redact::Redactor;

/// The prefix of the names of all our crates and modules.
const OURS: &str = "aetheel";

/// The reason why a filter of log lines cannot be used. The text names `LOG_LEVEL` and shows the
/// right form.
#[derive(Debug, thiserror::Error)]
#[error(
    "LOG_LEVEL {filter:?} {problem}; levels are `error`, `warn`, `info`, `debug`, `trace` and `off`, and a filter is `aetheel=debug,info` or the like"
)]
pub struct FilterError {
    filter: String,
    problem: FilterProblem,
}

#[derive(Debug, thiserror::Error)]
enum FilterProblem {
    #[error("has {0:?}, which is not a level")]
    NotALevel(String),
    #[error("would not log any event of the gateway")]
    Silent,
    #[error(transparent)]
    Invalid(#[from] ParseError),
}

/// Starts logging, until the program ends.
///
/// # Errors
/// [`FilterError`] if `filter` is invalid.
pub fn start(format: LogFormat, filter: &str, redactor: Redactor) -> Result<(), FilterError> {
    let filter = read(filter)?;
    let json = is_json(format);
    let coloured = !json && io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(CleanStderr { redactor, coloured });
    log_panics();
    // Fails if a test has already installed a subscriber, which then stays.
    let _ = if json {
        subscriber
            .fmt_fields(JsonFields::new())
            .event_format(Flat::default())
            .finish()
            .with(filter_fn(is_safe_to_log))
            .try_init()
    } else {
        subscriber
            .with_ansi(coloured)
            .event_format(Human::new())
            .finish()
            .with(filter_fn(is_safe_to_log))
            .try_init()
    };
    Ok(())
}

/// Returns whether the log is JSON, by its setting or because stderr is not a terminal.
#[must_use]
pub fn is_json(format: LogFormat) -> bool {
    match format {
        LogFormat::Auto => !io::stderr().is_terminal(),
        LogFormat::Human => false,
        LogFormat::Json => true,
    }
}

/// Returns the log format that `LOG_FORMAT` selects, for programs that read no other setting.
#[must_use]
pub fn format_from_environment() -> LogFormat {
    match std::env::var("LOG_FORMAT").as_deref().map(str::trim) {
        Ok("json") => LogFormat::Json,
        Ok("human") => LogFormat::Human,
        _ => LogFormat::Auto,
    }
}

/// Prints one line of the log, which ends with a newline.
pub type Print = dyn Fn(&str) + Send + Sync;

/// Prints lines instead of stderr.
static LINE_PRINTER: OnceLock<Arc<Print>> = OnceLock::new();

/// Passes all later lines to `print` instead of stderr, for a terminal on which somebody edits a
/// line. Only the first call has an effect. `print` must not log.
pub fn redirect_lines(print: Arc<Print>) {
    // The first one stays.
    let _ = LINE_PRINTER.set(print);
}

/// Checks a filter without using it.
///
/// # Errors
/// [`FilterError`] if the filter is invalid.
pub fn check_filter(filter: &str) -> Result<(), FilterError> {
    read(filter).map(drop)
}

fn read(filter: &str) -> Result<EnvFilter, FilterError> {
    parse(filter).map_err(|problem| FilterError { filter: filter.to_owned(), problem })
}

fn parse(filter: &str) -> Result<EnvFilter, FilterProblem> {
    if let Ok(level) = filter.trim().parse::<LevelFilter>() {
        let filter = format!("{},{OURS}={level}", level.min(LevelFilter::WARN));
        return Ok(EnvFilter::try_new(filter)?);
    }
    let parts: Vec<&str> = filter.split(',').map(str::trim).collect();
    let is_level = |part: &&str| part.parse::<LevelFilter>().is_ok();
    // `EnvFilter` treats any other word as the name of a module, and then logs only that module.
    if let Some(word) =
        parts.iter().find(|part| !is_level(part) && !part.contains(['=', '[', ']', '{', '}']))
    {
        return Err(FilterProblem::NotALevel((*word).to_owned()));
    }
    if !parts.iter().any(|part| is_level(part) || part.starts_with(OURS) || part.starts_with('[')) {
        return Err(FilterProblem::Silent);
    }
    Ok(EnvFilter::try_new(filter)?)
}

/// Installs a panic hook that logs panics as errors, if errors are logged.
fn log_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !tracing::enabled!(Level::ERROR) {
            return before(panic);
        }
        let payload = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(tracing::field::display);
        let thread = std::thread::current();
        let trace = std::backtrace::Backtrace::capture();
        let trace = (trace.status() == std::backtrace::BacktraceStatus::Captured)
            .then(|| tracing::field::display(&trace));
        tracing::error!(
            place,
            thread = thread.name(),
            trace,
            "panic, which is a bug in Aetheel: {payload}"
        );
    }));
}

/// Formats a fault that is reported before or without a log, as JSON if `format` is
/// [`LogFormat::Json`].
#[must_use]
pub fn fault_line(format: LogFormat, text: &str) -> String {
    line_without_log(format, ("ERROR", "error"), text)
}

/// Formats a warning that is reported before or without a log; see [`fault_line`].
#[must_use]
pub fn warning_line(format: LogFormat, text: &str) -> String {
    line_without_log(format, ("WARN", "warning"), text)
}

fn line_without_log(format: LogFormat, (level, prefix): (&str, &str), text: &str) -> String {
    if format != LogFormat::Json {
        return format!("{prefix}: {text}\n");
    }
    let (now, text) = (jiff::Timestamp::now(), serde_json::Value::from(text));
    format!("{{\"timestamp\":\"{now:.6}\",\"level\":\"{level}\",\"message\":{text}}}\n")
}

/// Returns `false` for two kinds of events:
///
/// * The bytes of WebSocket frames, which tungstenite 0.21 logs at trace level. The first frame to
///   Discord contains the token, and the redactor does not recognise bytes printed as numbers.
/// * Events of the console's line editor below warnings. It logs every key and every redraw, and a
///   log line causes a redraw, which would log again.
fn is_safe_to_log(event: &Metadata<'_>) -> bool {
    let target = event.target();
    !(*event.level() == Level::TRACE && target.contains("tungstenite")
        || *event.level() > Level::WARN && target.starts_with("rustyline"))
}

#[derive(Clone)]
struct CleanStderr {
    redactor: Redactor,
    coloured: bool,
}

impl<'a> MakeWriter<'a> for CleanStderr {
    type Writer = CleanLine<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        CleanLine { stderr: self, line: Vec::new(), is_problem: false }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Self::Writer {
        let is_problem = *event.level() <= Level::WARN;
        CleanLine { stderr: self, line: Vec::new(), is_problem }
    }
}

/// Collects one event and writes it when dropped.
struct CleanLine<'a> {
    stderr: &'a CleanStderr,
    line: Vec<u8>,
    /// Whether the event is a warning or an error.
    is_problem: bool,
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
        // The formatter omitted the event.
        if self.line.is_empty() {
            return;
        }
        let line = one_line(&self.stderr.redactor, &self.line, self.stderr.coloured);
        if self.is_problem {
            problems::keep(line.trim_end());
        }
        if let Some(print) = LINE_PRINTER.get() {
            return print(&line);
        }
        // A failure cannot be reported without stderr.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}

/// Makes one line from the bytes of an event: without secrets, and with control characters escaped,
/// so that the text of an agent cannot change the terminal or imitate other lines.
fn one_line(redactor: &Redactor, bytes: &[u8], coloured: bool) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut line = redactor.redact(escaped(text.trim_end_matches('\n'), coloured).into_owned());
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
        assert_eq!(
            one_line(&redactor, b"user said: a\nERROR forged hunter2-canary\n", false),
            "user said: a\\nERROR forged ***\n"
        );
    }

    #[test]
    fn an_invalid_filter_is_quoted_in_its_error() {
        assert!(check_filter("aetheel=loud").unwrap_err().to_string().contains("aetheel=loud"));
        for right in [
            "aetheel=debug,info",
            "warn",
            "off",
            "WARN",
            "aetheel::turn=trace",
            "hyper=debug,info",
            "[turn]=debug",
        ] {
            assert!(check_filter(right).is_ok(), "{right}: {:?}", check_filter(right));
        }
    }

    #[test]
    fn an_unknown_word_never_silences_the_log() {
        for wrong in ["warning", "verbose", "info,verbose", "aethel=debug", "loud="] {
            let fault = check_filter(wrong).expect_err(wrong).to_string();
            assert!(fault.starts_with("LOG_LEVEL") && fault.contains("`warn`"), "{fault}");
        }
    }

    #[test]
    fn a_fault_has_the_format_of_the_log() {
        let line: serde_json::Value =
            serde_json::from_str(&fault_line(LogFormat::Json, "a \"b\"\nhint: c")).unwrap();
        assert_eq!(
            (&line["level"], &line["message"]),
            (&"ERROR".into(), &"a \"b\"\nhint: c".into())
        );
        assert_eq!(fault_line(LogFormat::Auto, "a"), "error: a\n");
    }

    #[test]
    fn a_level_alone_applies_to_events_of_this_program() {
        let directives = |filter| {
            let mut directives: Vec<String> =
                read(filter).unwrap().to_string().split(',').map(str::to_owned).collect();
            directives.sort();
            directives
        };
        assert_eq!(directives("info"), ["aetheel=info", "warn"]);
        assert_eq!(directives("TRACE"), ["aetheel=trace", "warn"]);
        assert_eq!(directives("error"), ["aetheel=error", "error"]);
        assert_eq!(directives("off"), ["aetheel=off", "off"]);
        assert_eq!(directives("library=debug,info"), ["info", "library=debug"]);
    }
}
