//! Shows the progress of long work: a spinner on a terminal, otherwise a line every five seconds.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, interval_at, timeout};

use crate::terminal::print_stderr;

/// Time before the spinner appears.
const SPINNER_DELAY: Duration = Duration::from_millis(300);
const SPINNER_INTERVAL: Duration = Duration::from_millis(100);
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Waits for work, and shows its progress on stderr. For commands without a log.
pub async fn with_spinner<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    if !is_drawable() {
        let report = |took: Duration| print_stderr(&format!("{what} ... ({} s)", took.as_secs()));
        return reported(work, LINE_INTERVAL, report).await;
    }
    if let Ok(done) = timeout(SPINNER_DELAY, &mut work).await {
        return done;
    }
    let spinner = ProgressBar::new_spinner().with_message(what.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ... ({elapsed})") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(SPINNER_INTERVAL);
    let done = work.await;
    spinner.finish_and_clear();
    done
}

/// Waits for work, and logs its progress every five seconds.
pub async fn with_log<T>(what: &str, work: impl Future<Output = T>) -> T {
    let report = |took: Duration| tracing::info!(seconds = took.as_secs(), "still {what}");
    reported(work, LINE_INTERVAL, report).await
}

async fn reported<T>(
    work: impl Future<Output = T>,
    interval: Duration,
    report: impl Fn(Duration),
) -> T {
    let began = Instant::now();
    let mut ticks = interval_at(began + interval, interval);
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = ticks.tick() => report(began.elapsed()),
        }
    }
}

/// Returns whether stderr is a terminal that can redraw a line.
fn is_drawable() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn work_is_reported_repeatedly_until_it_ends() {
        let (reports, twice) = (Cell::new(0), Notify::new());
        let report = |_| {
            reports.set(reports.get() + 1);
            if reports.get() == 2 {
                twice.notify_one();
            }
        };
        let work = async {
            twice.notified().await;
            "done"
        };
        assert_eq!(reported(work, Duration::from_millis(1), report).await, "done");
        assert_eq!(reports.get(), 2);
        let quick = reported(async { 1 }, Duration::from_millis(1), |_| panic!("it has ended"));
        assert_eq!(quick.await, 1);
    }
}
