//! Output of commands: lines on stdout and stderr, JSON, faults before the log starts, colours, and
//! numbers for people. Colours are used only at a terminal and without `NO_COLOR`.

use std::io::{IsTerminal as _, Write as _};
use std::sync::OnceLock;
use std::time::Duration;

use serde::Serialize;

use aetheel_kit::summary::Style;
pub use aetheel_runtime::log::faults::{fail, format, log_faults, set_format, warn};

/// Colours the parts of printed results.
#[derive(Clone, Copy)]
pub struct OutputStyle {
    colour: bool,
}

impl OutputStyle {
    /// Uses colours if stdout is a terminal and `NO_COLOR` is not set.
    #[must_use]
    pub fn for_stdout() -> Self {
        Self { colour: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    /// Uses no colours.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { colour: false }
    }

    /// Uses colours.
    #[cfg(test)]
    pub(crate) fn coloured() -> Self {
        Self { colour: true }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Marks the most important part of a line: bold.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Marks the least important part of a line: dim.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Marks a success: green.
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Marks a fault: red.
    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Applies the style of a line of a report.
    pub fn style(self, style: Style, text: &str) -> String {
        match style {
            Style::Plain => text.to_owned(),
            Style::Quiet => self.dim(text),
            Style::Good => self.good(text),
            Style::Bad => self.bad(text),
        }
    }

    /// Colours a line of a unified diff.
    pub fn diff(self, line: &str) -> String {
        match line.bytes().next() {
            Some(b'-') => self.bad(line),
            Some(b'+') => self.good(line),
            Some(b'@') => self.dim(line),
            _ => line.to_owned(),
        }
    }
}

/// How much a command prints and logs: from the number of its `-v`, or its `-q`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// `-q`
    Quiet,
    /// Neither `-q` nor `-v`.
    #[default]
    Usual,
    /// `-v`
    More,
    /// `-vv`
    All,
}

impl Verbosity {
    /// Returns the log level that replaces `LOG_LEVEL`, or `None` to keep it.
    #[must_use]
    pub fn log_level(self) -> Option<&'static str> {
        match self {
            Self::Quiet => Some("warn"),
            Self::Usual => None,
            Self::More => Some("debug"),
            Self::All => Some("trace"),
        }
    }
}

static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

/// Sets the verbosity of this command. Only the first call has an effect.
pub fn set_verbosity(verbosity: Verbosity) {
    let _ = VERBOSITY.set(verbosity);
}

/// Returns the verbosity of this command.
pub fn verbosity() -> Verbosity {
    VERBOSITY.get().copied().unwrap_or_default()
}

/// Returns the log level of a command that usually logs only errors.
pub fn command_log_level() -> &'static str {
    match verbosity() {
        Verbosity::Quiet | Verbosity::Usual => "error",
        Verbosity::More => "info",
        Verbosity::All => "debug",
    }
}

/// Prints a line to stderr. Ignores errors, because the exit code still shows the result.
pub fn print_stderr(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints a line to stdout. Ignores errors, because the exit code still shows the result.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints text to stdout as it is. Ignores errors, because the exit code still shows the result.
pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Prints JSON to stdout, on several lines.
pub fn json(value: &impl Serialize) {
    line(&serde_json::to_string_pretty(value).unwrap_or_default());
}

/// Prints JSON to stdout, on one line.
pub fn json_line(value: &impl Serialize) {
    line(&serde_json::to_string(value).unwrap_or_default());
}

/// Aligns the cells of rows, and returns the rows as lines. The first column is aligned left, the
/// others as `others` says.
pub fn aligned<const COLUMNS: usize>(
    rows: &[[String; COLUMNS]],
    others: ColumnAlignment,
) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..COLUMNS).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match others {
            ColumnAlignment::Right if column > 0 => format!("{cell:>width$}"),
            _ => format!("{cell:width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// How the cells of a column are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnAlignment {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Formats a number with commas between thousands: 1234567 as `1,234,567`.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = digits[..first].to_owned();
    for (at, digit) in digits.char_indices().skip(first) {
        if (at - first).is_multiple_of(3) && at > 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a duration with a suitable unit.
pub fn time(time: Duration) -> String {
    match time.as_nanos() {
        0..1_000_000 => format!("{:.1} µs", time.as_secs_f64() * 1e6),
        1_000_000..1_000_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.2} s", time.as_secs_f64()),
    }
}

/// Formats a size in bytes with a suitable unit.
pub fn bytes(bytes: usize) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{:.0} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            [0, 7, 999, 1_000, 12_345, 1_234_567].map(count),
            ["0", "7", "999", "1,000", "12,345", "1,234,567"]
        );
        assert_eq!(time(Duration::from_micros(12)), "12.0 µs");
        assert_eq!(time(Duration::from_millis(1_500)), "1.50 s");
        assert_eq!([500, 411_019, 128 << 20].map(bytes), ["500 B", "401 KiB", "128.0 MiB"]);
    }
}
