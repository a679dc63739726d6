//! The metrics of guests by generation, which disappear some time after a generation ended.
//!
//! The recorder of the `metrics` facade keeps every series until the program ends. A backend that
//! is developed is loaded hundreds of times, so these metrics have a registry of their own.
//! Counting changes one atomic, without looking up a series.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::table::{
    FIGURES, GUEST_CALLS, GUEST_FAILURES, GUEST_MEMORY, GUEST_RUN_SECONDS, GUESTS_OPEN,
};

/// How long the metrics of a generation are kept after its last guest, so that the last failures
/// of a version that was replaced are still seen.
const RETENTION: Duration = Duration::from_secs(600);

const KINDS: [&str; 3] = ["refused", "trapped", "cut-off"];

static REGISTRY: Mutex<SeriesTable> = Mutex::new(SeriesTable { series: Vec::new() });

/// The metrics of all guests of one generation of a backend.
#[derive(Debug)]
pub struct GuestFigures {
    backend: String,
    generation: String,
    calls: AtomicU64,
    run_nanoseconds: AtomicU64,
    memory: AtomicU64,
    open: AtomicU64,
    failures: [AtomicU64; KINDS.len()],
}

impl GuestFigures {
    /// Returns the metrics of a generation. They are shown until ten minutes after the last clone
    /// was dropped.
    #[must_use]
    pub fn of(backend: &str, generation: &str) -> Arc<Self> {
        let mut registry = REGISTRY.lock();
        registry.sweep(Instant::now());
        registry.of(backend, generation)
    }

    fn new(backend: &str, generation: &str) -> Self {
        Self {
            backend: backend.to_owned(),
            generation: generation.to_owned(),
            calls: AtomicU64::new(0),
            run_nanoseconds: AtomicU64::new(0),
            memory: AtomicU64::new(0),
            open: AtomicU64::new(0),
            failures: [const { AtomicU64::new(0) }; KINDS.len()],
        }
    }

    /// Counts a call.
    pub fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds time in which a guest ran.
    pub fn add_run_time(&self, ran: Duration) {
        let nanoseconds = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
        self.run_nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Records the size of one guest's memories, in bytes.
    pub fn record_memory(&self, bytes: usize) {
        let bytes = bytes as u64;
        // The maximum rarely changes, and reading it is cheaper than writing.
        if self.memory.load(Ordering::Relaxed) < bytes {
            self.memory.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// Counts a failure. `kind` is `refused`, `trapped` or `cut-off`; other kinds are not counted.
    pub fn count_failure(&self, kind: &str) {
        if let Some(at) = KINDS.iter().position(|known| *known == kind) {
            self.failures[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a guest as open until the returned value is dropped.
    #[must_use]
    pub fn open_guest(self: &Arc<Self>) -> OpenGuest {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenGuest(Arc::clone(self))
    }
}

/// An open guest, which is counted until this is dropped.
#[derive(Debug)]
pub struct OpenGuest(Arc<GuestFigures>);

impl Drop for OpenGuest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the metrics of guests in Prometheus' text format.
#[must_use]
pub fn render() -> String {
    let mut registry = REGISTRY.lock();
    registry.sweep(Instant::now());
    let mut page = String::new();
    // Writing to a `String` never fails.
    let _ = registry.write(&mut page);
    page
}

/// The metrics of all generations that are in use or ended lately.
#[derive(Debug)]
struct SeriesTable {
    series: Vec<Series>,
}

#[derive(Debug)]
struct Series {
    figures: Arc<GuestFigures>,
    /// When it was first seen that nothing else uses the metrics.
    unused_since: Option<Instant>,
}

impl SeriesTable {
    fn of(&mut self, backend: &str, generation: &str) -> Arc<GuestFigures> {
        let known = self.series.iter_mut().find(|series| {
            series.figures.backend == backend && series.figures.generation == generation
        });
        if let Some(known) = known {
            known.unused_since = None;
            return Arc::clone(&known.figures);
        }
        let figures = Arc::new(GuestFigures::new(backend, generation));
        self.series.push(Series { figures: Arc::clone(&figures), unused_since: None });
        figures
    }

    /// Removes the metrics that nothing has used for [`RETENTION`].
    fn sweep(&mut self, now: Instant) {
        self.series.retain_mut(|series| {
            if Arc::strong_count(&series.figures) > 1 {
                series.unused_since = None;
                return true;
            }
            let since = *series.unused_since.get_or_insert(now);
            now.saturating_duration_since(since) < RETENTION
        });
    }

    fn write(&self, page: &mut String) -> fmt::Result {
        let all = || self.series.iter().map(|series| &*series.figures);
        let value = |atomic: &AtomicU64| atomic.load(Ordering::Relaxed);
        for name in [GUEST_CALLS, GUEST_RUN_SECONDS, GUEST_FAILURES, GUEST_MEMORY, GUESTS_OPEN] {
            let figure = FIGURES.iter().find(|figure| figure.name == name);
            let mut samples = String::new();
            for figures in all() {
                let labels = format!(
                    "backend=\"{}\",generation=\"{}\"",
                    escaped(&figures.backend),
                    escaped(&figures.generation)
                );
                match name {
                    GUEST_CALLS => {
                        writeln!(samples, "{name}{{{labels}}} {}", value(&figures.calls))?
                    }
                    GUEST_RUN_SECONDS => {
                        let ran = Duration::from_nanos(value(&figures.run_nanoseconds));
                        writeln!(samples, "{name}{{{labels}}} {}", ran.as_secs_f64())?;
                    }
                    GUEST_MEMORY => {
                        writeln!(samples, "{name}{{{labels}}} {}", value(&figures.memory))?
                    }
                    GUESTS_OPEN => {
                        writeln!(samples, "{name}{{{labels}}} {}", value(&figures.open))?
                    }
                    _ => {
                        for (kind, count) in KINDS.iter().zip(&figures.failures) {
                            let count = value(count);
                            if count > 0 {
                                writeln!(samples, "{name}{{{labels},kind=\"{kind}\"}} {count}")?;
                            }
                        }
                    }
                }
            }
            if let (Some(figure), false) = (figure, samples.is_empty()) {
                writeln!(page, "# HELP {name} {}", figure.meaning)?;
                writeln!(page, "# TYPE {name} {}", figure.kind.word())?;
                writeln!(page, "{samples}")?;
            }
        }
        Ok(())
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(registry: &SeriesTable) -> String {
        let mut page = String::new();
        registry.write(&mut page).expect("a string");
        page
    }

    #[test]
    fn every_generation_has_its_own_series() {
        let mut registry = SeriesTable { series: Vec::new() };
        let (first, second) = (registry.of("gemini", "1@abc"), registry.of("gem\"ini", "2@def"));
        first.count_call();
        first.count_call();
        first.add_run_time(Duration::from_millis(1_500));
        first.record_memory(4_096);
        first.record_memory(1_024);
        first.count_failure("trapped");
        first.count_failure("paused");
        let open = first.open_guest();
        drop(second.open_guest());
        assert!(Arc::ptr_eq(&first, &registry.of("gemini", "1@abc")), "one series a generation");
        let text = page(&registry);
        for line in [
            "# TYPE aetheel_guest_calls_total counter",
            r#"aetheel_guest_calls_total{backend="gemini",generation="1@abc"} 2"#,
            r#"aetheel_guest_calls_total{backend="gem\"ini",generation="2@def"} 0"#,
            r#"aetheel_guest_run_seconds_total{backend="gemini",generation="1@abc"} 1.5"#,
            r#"aetheel_guest_failures_total{backend="gemini",generation="1@abc",kind="trapped"} 1"#,
            "# TYPE aetheel_guest_memory_peak_bytes gauge",
            r#"aetheel_guest_memory_peak_bytes{backend="gemini",generation="1@abc"} 4096"#,
            r#"aetheel_guests_open{backend="gemini",generation="1@abc"} 1"#,
            r#"aetheel_guests_open{backend="gem\"ini",generation="2@def"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(text.matches("# TYPE ").count(), 5, "{text}");
        assert!(!text.contains("paused") && !text.contains("kind=\"cut-off"), "{text}");
        drop(open);
        assert!(page(&registry).contains(r#"open{backend="gemini",generation="1@abc"} 0"#));
    }

    #[test]
    fn the_series_of_a_replaced_generation_disappear_after_its_last_guest() {
        let mut registry = SeriesTable { series: Vec::new() };
        let start = Instant::now();
        let serving = registry.of("gemini", "1@abc");
        serving.count_failure("trapped");
        let guest = serving.open_guest();
        drop(serving);
        registry.sweep(start + 2 * RETENTION);
        assert_eq!(registry.series.len(), 1, "a guest still runs");
        drop(guest);
        let ended = start + 3 * RETENTION;
        registry.sweep(ended);
        registry.sweep(ended + RETENTION - Duration::from_secs(1));
        assert!(page(&registry).contains("trapped"), "the last failures can still be seen");
        registry.sweep(ended + RETENTION);
        assert_eq!(page(&registry), "");
    }

    #[test]
    fn a_generation_that_is_used_again_is_kept() {
        let mut registry = SeriesTable { series: Vec::new() };
        let start = Instant::now();
        registry.of("gemini", "1@abc").count_call();
        registry.sweep(start);
        let again = registry.of("gemini", "1@abc");
        registry.sweep(start + RETENTION);
        assert_eq!(again.calls.load(Ordering::Relaxed), 1);
        assert_eq!(registry.series.len(), 1);
    }
}
