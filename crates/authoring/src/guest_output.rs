//! Captures the output of components during a trial, to show it to their authors.
//!
//! The sandbox writes the output to the log ([`aetheel_wasm`]). Commands of the kit have no other
//! log, so they subscribe to it.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use aetheel::terminal::{self, OutputStyle};
use aetheel_model::plain::counted;

/// Log target of the lines that guests print.
const TARGET: &str = "aetheel::guest";
/// Largest number of distinct lines that are kept. A command runs hundreds of trials, and most
/// print the same lines.
const MAX_LINES: usize = 30;

/// The lines printed so far. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct GuestOutput(Arc<Mutex<OutputLines>>);

#[derive(Debug, Default)]
struct OutputLines {
    /// Distinct lines, in order of first appearance.
    distinct: Vec<String>,
    total: usize,
}

/// Starts to capture the output, until the program ends.
pub(super) fn capture() -> GuestOutput {
    let printed = GuestOutput::default();
    // Without the bridge from the crate `log`, through which the compiler would report each step. Fails
    // if another subscriber is installed, as in tests that share a process.
    let subscriber = tracing_subscriber::registry().with(printed.clone());
    let _ = tracing::subscriber::set_global_default(subscriber);
    printed
}

impl GuestOutput {
    /// Returns the first [`MAX_LINES`] distinct lines, in order of first appearance.
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().distinct.clone()
    }

    /// Prints the lines, if there are any.
    pub(super) fn print(&self) {
        let (page, lines) = (OutputStyle::for_stdout(), self.lines());
        let all = self.0.lock().total;
        if lines.is_empty() {
            return;
        }
        let which = if all == lines.len() {
            String::new()
        } else {
            format!("; {} of {}", counted(lines.len(), "distinct line"), terminal::count(all))
        };
        terminal::line(&format!("it printed{which}:"));
        lines.iter().for_each(|line| terminal::line(&format!("  {}", page.dim(line))));
    }

    pub(super) fn clear(&self) {
        *self.0.lock() = OutputLines::default();
    }

    fn record(&self, line: String) {
        let mut lines = self.0.lock();
        lines.total += 1;
        if lines.distinct.len() < MAX_LINES && !lines.distinct.contains(&line) {
            lines.distinct.push(line);
        }
    }
}

impl<S: Subscriber> Layer<S> for GuestOutput {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == TARGET {
            let mut line = MessageVisitor::default();
            event.record(&mut line);
            self.record(line.0);
        }
    }
}

/// Collects the message of a log event.
#[derive(Default)]
struct MessageVisitor(String);

impl Visit for MessageVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_guests_are_kept_once_each() {
        let printed = GuestOutput::default();
        let subscriber = tracing_subscriber::registry().with(printed.clone());
        tracing::subscriber::with_default(subscriber, || {
            for line in ["one", "two", "one"] {
                tracing::info!(target: TARGET, backend = "x", "{line}");
            }
            tracing::info!("another target");
        });
        assert_eq!(printed.lines(), ["one", "two"]);
        (0..100).for_each(|number| printed.record(number.to_string()));
        assert_eq!(printed.lines().len(), MAX_LINES);
    }
}
