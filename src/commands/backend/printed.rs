//! The output of components while they are tried: shown to their authors, who otherwise see nothing
//! of it.
//!
//! The sandbox writes it to the log ([`crate::backend`]); commands of the kit have no other log, so
//! they listen there.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::terminal::{self, Paper};

/// Where the sandbox writes what guests print.
const TARGET: &str = "aetheel::guest";
/// Different lines that are kept: a trial is one of hundreds, and most print the same.
const MOST: usize = 30;

/// The lines printed so far. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Printed(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    /// In the order of their first time.
    different: Vec<String>,
    all: usize,
}

/// Begins to listen, for as long as the program lives.
pub(super) fn listen() -> Printed {
    let printed = Printed::default();
    // Fails where somebody listens already: tests in one process.
    let _ = tracing_subscriber::registry().with(printed.clone()).try_init();
    printed
}

impl Printed {
    /// The different lines, in the order of their first time; at most the first thirty.
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().different.clone()
    }

    /// Shows it, if there is anything.
    pub(super) fn print(&self) {
        let (page, lines) = (Paper::of_stdout(), self.lines());
        let all = self.0.lock().all;
        if lines.is_empty() {
            return;
        }
        let which = if all == lines.len() {
            String::new()
        } else {
            format!(", {} different ones of {}", lines.len(), terminal::count(all))
        };
        terminal::line(&format!("it printed{which}:"));
        lines.iter().for_each(|line| terminal::line(&format!("  {}", page.dim(line))));
    }

    fn take(&self, line: String) {
        let mut lines = self.0.lock();
        lines.all += 1;
        if lines.different.len() < MOST && !lines.different.contains(&line) {
            lines.different.push(line);
        }
    }
}

impl<S: Subscriber> Layer<S> for Printed {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == TARGET {
            let mut line = Line::default();
            event.record(&mut line);
            self.take(line.0);
        }
    }
}

/// The message of an event of the log.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
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
    fn what_guests_print_is_kept_once_and_nothing_else() {
        let printed = Printed::default();
        let subscriber = tracing_subscriber::registry().with(printed.clone());
        tracing::subscriber::with_default(subscriber, || {
            for line in ["one", "two", "one"] {
                tracing::info!(target: TARGET, backend = "x", "{line}");
            }
            tracing::info!("another's");
        });
        assert_eq!(printed.lines(), ["one", "two"]);
        (0..100).for_each(|number| printed.take(number.to_string()));
        assert_eq!(printed.lines().len(), MOST);
    }
}
