//! Logging: human on a terminal, JSON otherwise; always to stderr, always one line an event, never
//! with secrets.
//!
//! A level alone, such as `debug`, is about our own events; of the libraries' only warnings are
//! logged unless the filter names them. Pinned by `tests/gateway/secrets.rs` and
//! `tests/gateway/logs.rs`.

mod flood;
mod line;

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::line::{Flat, Human};
use crate::config::LogFormat;
use crate::plain::escaped;
use crate::redact::Redactor;

/// The beginning of our own modules' names.
const OURS: &str = env!("CARGO_PKG_NAME");

/// Starts logging for the rest of the program's life.
///
/// # Errors
/// When the filter is not one; names it.
pub fn start(format: LogFormat, filter: &str, redactor: Redactor) -> Result<(), String> {
    let filter = read(filter)?;
    let json = is_json(format);
    let coloured = !json && io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(CleanStderr { redactor, coloured });
    tell_panics();
    // Fails when a test has set one before, which then simply stays.
    let _ = if json {
        subscriber
            .fmt_fields(JsonFields::new())
            .event_format(Flat::default())
            .finish()
            .with(filter_fn(may_be_told))
            .try_init()
    } else {
        subscriber
            .with_ansi(coloured)
            .event_format(Human::new())
            .finish()
            .with(filter_fn(may_be_told))
            .try_init()
    };
    Ok(())
}

/// Whether the log is JSON: by its setting, or because stderr is no terminal.
#[must_use]
pub fn is_json(format: LogFormat) -> bool {
    match format {
        LogFormat::Auto => !io::stderr().is_terminal(),
        LogFormat::Human => false,
        LogFormat::Json => true,
    }
}

/// Prints one line of the log, given without its end.
pub type Print = dyn Fn(&str) + Send + Sync;

/// Where lines go instead of stderr.
static BESIDE: OnceLock<Arc<Print>> = OnceLock::new();

/// Hands every line from now on to somebody who prints it where stderr would have: a terminal on
/// which something is being written. Counts once in the program's life; must not log.
pub fn print_beside(print: Arc<Print>) {
    // The first one stays.
    let _ = BESIDE.set(print);
}

/// Checks a filter without using it.
///
/// # Errors
/// As for [`start`].
pub fn check_filter(filter: &str) -> Result<(), String> {
    read(filter).map(drop)
}

fn read(filter: &str) -> Result<EnvFilter, String> {
    let levels = "`error`, `warn`, `info`, `debug`, `trace` and `off`";
    let fault = |what: &str| {
        format!(
            "LOG_LEVEL {filter:?} {what}; levels are {levels}, and a filter is `aetheel=debug,info` or the like"
        )
    };
    if let Ok(level) = filter.trim().parse::<LevelFilter>() {
        let filter = format!("{},{OURS}={level}", level.min(LevelFilter::WARN));
        return EnvFilter::try_new(filter).map_err(|error| fault(&error.to_string()));
    }
    let parts: Vec<&str> = filter.split(',').map(str::trim).collect();
    let is_level = |part: &&str| part.parse::<LevelFilter>().is_ok();
    // The library takes any other word for the name of a module, and logs nothing but what that
    // says.
    if let Some(word) =
        parts.iter().find(|part| !is_level(part) && !part.contains(['=', '[', ']', '{', '}']))
    {
        return Err(fault(&format!("has {word:?}, which is no level")));
    }
    if !parts.iter().any(|part| is_level(part) || part.starts_with(OURS) || part.starts_with('[')) {
        return Err(fault("would log nothing of the gateway's own"));
    }
    EnvFilter::try_new(filter).map_err(|error| fault(&error.to_string()))
}

/// Has a panic be a line of the log like any other error, as long as errors are logged.
fn tell_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !tracing::enabled!(Level::ERROR) {
            return before(panic);
        }
        let said = panic.payload_as_str().unwrap_or("no words");
        let place = panic.location().map(tracing::field::display);
        let thread = std::thread::current();
        let trace = std::backtrace::Backtrace::capture();
        let trace = (trace.status() == std::backtrace::BacktraceStatus::Captured)
            .then(|| tracing::field::display(&trace));
        tracing::error!(
            place,
            thread = thread.name(),
            trace,
            "panic, which is a bug of ours: {said}"
        );
    }));
}

/// Returns the line of a fault that is reported before or without a log, as JSON where that is the
/// form of the log.
#[must_use]
pub fn fault_line(format: LogFormat, text: &str) -> String {
    line_without_log(format, ("ERROR", "error"), text)
}

/// Returns the line of a warning that is reported before or without a log; see [`fault_line`].
#[must_use]
pub fn warning_line(format: LogFormat, text: &str) -> String {
    line_without_log(format, ("WARN", "warning"), text)
}

fn line_without_log(format: LogFormat, (level, word): (&str, &str), text: &str) -> String {
    if format != LogFormat::Json {
        return format!("{word}: {text}\n");
    }
    let (now, text) = (jiff::Timestamp::now(), serde_json::Value::from(text));
    format!("{{\"timestamp\":\"{now:.6}\",\"level\":\"{level}\",\"message\":{text}}}\n")
}

/// False for events that dump the bytes of WebSocket frames: the first one to Discord holds the
/// token, and bytes written as numbers escape the redactor. tungstenite 0.21 logs them at trace.
/// And for those of the console's editor, which tells every key below a warning, and whenever it
/// draws its line: a line of the log would bring the next.
fn may_be_told(event: &Metadata<'_>) -> bool {
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
        CleanLine { stderr: self, line: Vec::new() }
    }
}

/// Collects one event and writes it when dropped.
struct CleanLine<'a> {
    stderr: &'a CleanStderr,
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
        // Nothing was written: the line was left out.
        if self.line.is_empty() {
            return;
        }
        let line = one_line(&self.stderr.redactor, &self.line, self.stderr.coloured);
        if let Some(print) = BESIDE.get() {
            return print(&line);
        }
        // Nothing is left to say when stderr is gone.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}

/// One line, in which nothing that an agent said moves a cursor, hides, or reorders what is read.
fn one_line(redactor: &Redactor, bytes: &[u8], coloured: bool) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut line = redactor.clean(escaped(text.trim_end_matches('\n'), coloured).into_owned());
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
    fn a_bad_filter_is_named() {
        assert!(check_filter("aetheel=loud").unwrap_err().contains("aetheel=loud"));
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
    fn a_word_that_is_no_level_never_silences_the_log() {
        for wrong in ["warning", "verbose", "info,verbose", "aethel=debug", "loud="] {
            let fault = check_filter(wrong).expect_err(wrong);
            assert!(fault.starts_with("LOG_LEVEL") && fault.contains("`warn`"), "{fault}");
        }
    }

    #[test]
    fn a_fault_is_json_where_the_log_is() {
        let line: serde_json::Value =
            serde_json::from_str(&fault_line(LogFormat::Json, "a \"b\"\nhint: c")).unwrap();
        assert_eq!(
            (&line["level"], &line["message"]),
            (&"ERROR".into(), &"a \"b\"\nhint: c".into())
        );
        assert_eq!(fault_line(LogFormat::Auto, "a"), "error: a\n");
    }

    #[test]
    fn a_level_alone_is_about_our_own_events() {
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
