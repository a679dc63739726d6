//! `aetheel backend bench`: measures how fast a component reads a recording and how much memory it
//! uses.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::open::{self, OpenedComponent};
use aetheel::cli::{BenchArgs, exit};
use aetheel::commands::kit::KitError;
use aetheel::terminal::{self, OutputStyle};
use aetheel_model::agent::{HostCommand, Input};
use aetheel_model::limits::ResourceLimits;
use aetheel_model::plain::with_causes;
use aetheel_recording::case::Case;
use aetheel_recording::replay::{Batches, replay};
use aetheel_recording::{Backend as _, Guest};
use aetheel_wasm::Engine;

/// Minimum duration of a measurement, and the minimum number of runs.
const MEASURE_LIMIT: Duration = Duration::from_secs(2);
const MIN_RUNS: usize = 5;
/// Number of guests that are opened to measure the start time and the memory of an idle guest.
const START_SAMPLES: usize = 200;
const IDLE_GUESTS: usize = 100;
/// Inputs per call of the batched measurement; the gateway passes at most 1024.
const LINES_PER_CALL: usize = 64;

pub(crate) async fn run(args: BenchArgs) -> u8 {
    let BenchArgs { component, recording, json } = args;
    match measure(&component, recording).await {
        Ok(figures) => {
            if json {
                terminal::json(&figures.to_json(&component));
            } else {
                figures.print(&component);
            }
            exit::OK
        }
        Err(unable) => unable.report(),
    }
}

struct BenchResult {
    title: String,
    size: u64,
    cold: Duration,
    cached: Duration,
    start: Duration,
    /// Lines of the agent's output in the recording, and their bytes.
    lines: usize,
    bytes: usize,
    /// Throughput with one input per call, and with [`LINES_PER_CALL`] inputs per call.
    single: Throughput,
    many: Throughput,
    /// The durations of calls with one input, sorted.
    calls: Vec<Duration>,
    /// Memory of one guest that waits in a turn, in bytes: its linear memory, and the growth of the
    /// process.
    memory: usize,
    resident: Option<usize>,
}

/// How often a recording was read, and how long all reads took.
struct Throughput {
    times: usize,
    seconds: f64,
}

async fn measure(component: &Path, recording: PathBuf) -> Result<BenchResult, KitError> {
    let case = open::case(recording).await?;
    let texts = case.tape.entries.iter().filter_map(|entry| match entry.input()? {
        Input::Line(line) => Some(line.text.len() + 1),
        Input::StreamEvent(event) => Some(event.data.len() + 1),
        _ => None,
    });
    let (lines, bytes) = texts.fold((0, 0), |(lines, bytes), length| (lines + 1, bytes + length));
    let (cold, cached) = measure_loads(component).await?;
    let engine = open::engine()?;
    let opened = open::component(&engine, component).await?;
    let start = measure_start(&opened).await?;
    let single = measure_throughput(&opened, &case, Batches::Single).await?;
    let many = measure_throughput(&opened, &case, Batches::Of(LINES_PER_CALL)).await?;
    let calls = measure_calls(&opened, &case, single.times).await?;
    let (memory, resident) = measure_idle_memory(component, &case).await?;
    Ok(BenchResult {
        title: open::title(&opened),
        size: opened.inspection.size,
        cold,
        cached,
        start,
        lines,
        bytes,
        single,
        many,
        calls,
        memory,
        resident,
    })
}

/// Measures the time to load a component from its file: compiled from scratch, and with cached
/// machine code.
async fn measure_loads(component: &Path) -> Result<(Duration, Duration), KitError> {
    let folder = tempfile::tempdir()
        .map_err(|error| KitError::usage(format!("a folder for compiled code: {error}")))?;
    let mut times = [Duration::ZERO; 2];
    for time in &mut times {
        let engine =
            Engine::new(&ResourceLimits::default(), Some(folder.path()), aetheel_settings::NAMES)
                .map_err(|error| KitError::usage(with_causes(&error)))?;
        let began = Instant::now();
        open::component(&engine, component).await?;
        *time = began.elapsed();
    }
    Ok((times[0], times[1]))
}

async fn measure_start(opened: &OpenedComponent) -> Result<Duration, KitError> {
    let began = Instant::now();
    for _ in 0..START_SAMPLES {
        drop(guest(opened).await?);
    }
    Ok(began.elapsed() / START_SAMPLES as u32)
}

async fn guest(opened: &OpenedComponent) -> Result<Box<dyn Guest>, KitError> {
    opened
        .backend
        .open()
        .await
        .map_err(|failure| KitError::failed(format!("no guest can be opened: {failure}")))
}

/// Reads a recording repeatedly, each time with a new guest.
async fn measure_throughput(
    opened: &OpenedComponent,
    case: &Case,
    batches: Batches,
) -> Result<Throughput, KitError> {
    let began = Instant::now();
    let mut times = 0;
    while times < MIN_RUNS || began.elapsed() < MEASURE_LIMIT {
        replay_once(opened, case, batches).await?;
        times += 1;
    }
    Ok(Throughput { times, seconds: began.elapsed().as_secs_f64() })
}

async fn replay_once(
    opened: &OpenedComponent,
    case: &Case,
    batches: Batches,
) -> Result<(), KitError> {
    let replayed = replay(&opened.backend, &case.tape.entries, batches).await;
    let replayed = replayed
        .map_err(|failure| KitError::failed(format!("no guest can be opened: {failure}")))?;
    match replayed.failure {
        None => Ok(()),
        Some((at, failure)) => Err(KitError::failed(format!("{}: {failure}", case.position(at)))),
    }
}

/// Returns the durations of calls with one input, sorted. The inputs contain the keys of the
/// recording, so a guest that creates other keys does less work.
async fn measure_calls(
    opened: &OpenedComponent,
    case: &Case,
    times: usize,
) -> Result<Vec<Duration>, KitError> {
    let mut calls = Vec::new();
    for _ in 0..times {
        let mut guest = guest(opened).await?;
        for (_, input) in case.tape.inputs_of_first_guest() {
            let began = Instant::now();
            let answered = guest.handle(vec![input]).await;
            calls.push(began.elapsed());
            answered.map_err(|failure| KitError::failed(failure.to_string()))?;
        }
        if calls.len() > 1_000_000 {
            break;
        }
    }
    calls.sort_unstable();
    Ok(calls)
}

/// Measures the memory of a guest that has started a turn and waits, in bytes.
async fn measure_idle_memory(
    component: &Path,
    case: &Case,
) -> Result<(usize, Option<usize>), KitError> {
    let start = case
        .tape
        .inputs_of_first_guest()
        .map(|(_, input)| input)
        .find(|input| matches!(input.input, Input::Command(HostCommand::StartTurn(_))));
    // Opened again, because `resource_usage` must not include the earlier measurements.
    let opened = open::component(&open::engine()?, component).await?;
    let mut guests = Vec::with_capacity(IDLE_GUESTS);
    let before = resident_bytes();
    for _ in 0..IDLE_GUESTS {
        let mut guest = guest(&opened).await?;
        if let Some(start) = &start {
            guest
                .handle(vec![start.clone()])
                .await
                .map_err(|failure| KitError::failed(failure.to_string()))?;
        }
        guests.push(guest);
    }
    let grown = before
        .zip(resident_bytes())
        .map(|(before, after)| after.saturating_sub(before) / IDLE_GUESTS);
    Ok((opened.backend.resource_usage().memory, grown))
}

/// Returns the resident memory of this process in bytes, if the system reports it.
fn resident_bytes() -> Option<usize> {
    // proc(5): `VmRSS:   1234 kB`.
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<usize>().ok()? << 10)
}

impl BenchResult {
    fn megabytes(&self, reading: &Throughput) -> f64 {
        (self.bytes * reading.times) as f64 / reading.seconds / 1e6
    }

    fn rate(&self, reading: &Throughput) -> f64 {
        (self.lines * reading.times) as f64 / reading.seconds
    }

    /// Returns the median, the 99th percentile and the maximum duration of a call.
    fn call_times(&self) -> [Duration; 3] {
        let of = |share: f64| self.calls.get((self.calls.len() as f64 * share) as usize);
        [of(0.5), of(0.99), self.calls.last()].map(|time| time.copied().unwrap_or_default())
    }

    fn to_json(&self, component: &Path) -> serde_json::Value {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let [p50, p99, longest] = self.call_times();
        let reading = |reading: &Throughput| json!({ "mb-per-s": self.megabytes(reading), "lines-per-s": self.rate(reading), "times": reading.times });
        json!({
            "component": component.display().to_string(),
            "size": self.size,
            "load-ms": { "compiled": ms(self.cold), "cached": ms(self.cached) },
            "instantiate-us": self.start.as_secs_f64() * 1e6,
            "recording": { "lines": self.lines, "bytes": self.bytes },
            "one-line-a-call": reading(&self.single),
            "many-lines-a-call": reading(&self.many),
            "lines-a-call": LINES_PER_CALL,
            "call-us": { "p50": ms(p50) * 1e3, "p99": ms(p99) * 1e3, "longest": ms(longest) * 1e3 },
            "idle-guest": { "memory": self.memory, "resident": self.resident },
        })
    }

    fn print(&self, component: &Path) {
        let page = OutputStyle::for_stdout();
        terminal::line(&format!(
            "{}  {}",
            page.bold(&self.title),
            page.dim(&component.display().to_string())
        ));
        let row = |what: &str, text: String| {
            terminal::line(&format!("  {} {text}", page.dim(&format!("{what:<15}"))))
        };
        row("size", terminal::bytes(self.size as usize));
        row(
            "load",
            format!(
                "{} compiled anew, {} from the cache",
                terminal::time(self.cold),
                terminal::time(self.cached)
            ),
        );
        row("instantiate", terminal::time(self.start));
        row(
            "recording",
            format!("{} lines, {}", terminal::count(self.lines), terminal::bytes(self.bytes)),
        );
        for (what, reading) in [("1 line a call", &self.single), ("64 lines a call", &self.many)] {
            let rate = terminal::count(self.rate(reading) as usize);
            row(
                what,
                format!(
                    "{:.1} MB/s, {rate} lines/s (read {} times)",
                    self.megabytes(reading),
                    terminal::count(reading.times)
                ),
            );
        }
        let [p50, p99, longest] = self.call_times().map(terminal::time);
        row("a call", format!("{p50} p50, {p99} p99, {longest} longest"));
        let resident = self
            .resident
            .map(|bytes| format!(", {} resident", terminal::bytes(bytes)))
            .unwrap_or_default();
        row("an idle guest", format!("{} of memory{resident}", terminal::bytes(self.memory)));
    }
}
