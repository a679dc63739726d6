//! The speed at which backends parse the output of their agents: as components, and as native code.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use aetheel_model::agent::{Input, TimedInput};
use aetheel_recording::Guest as _;
use aetheel_wasm::ComponentBackend;

use crate::backends::{BACKENDS, Measured, load};
use crate::recordings::{cases, inputs};
use crate::{report, repository, times};

/// Passes over all recordings, alternating between native code and component.
const PASSES: usize = 15;
/// Inputs per call: the maximum that a link passes at once, and one.
const BATCHES: [(usize, &str); 2] = [(1024, "all there is"), (1, "one input")];

/// Measures the named backends, or all if none is named, and prints the figures.
pub async fn measure(named: &[&str]) {
    let some = BACKENDS.iter().any(|measured| named.contains(&measured.name));
    for measured in BACKENDS.iter().filter(|measured| !some || named.contains(&measured.name)) {
        let recorded: Vec<Vec<TimedInput>> = cases(measured.name).iter().map(inputs).collect();
        let size: usize = recorded.iter().flatten().map(said).sum();
        let backend = load(measured.name).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recordings");
        write(&file, &recorded);
        let mut native = Native::start(measured, &file);
        report::part(&format!(
            "parse: {} recordings of `{}`, {:.2} MB, each on a fresh link",
            recorded.len(),
            measured.name,
            size as f64 / 1e6
        ));
        for (batch, name) in BATCHES {
            let (mut natives, mut components) = (Vec::new(), Vec::new());
            // The first pass warms up caches.
            for pass in 0..=times(PASSES) {
                let (native_time, native_actions) = native.pass(batch);
                let (component_time, component_actions) =
                    pass_component(&backend, &recorded, batch).await;
                assert_eq!(native_actions, component_actions, "the same actions");
                if pass > 0 {
                    natives.push(native_time);
                    components.push(component_time);
                }
            }
            let ratios: Vec<f64> = natives
                .iter()
                .zip(&components)
                .map(|(native, component)| component.as_secs_f64() / native.as_secs_f64())
                .collect();
            let ratio = report::percentile(&ratios, 50);
            report::figure(
                &format!("{name} a call: native"),
                &report::rate(size, report::percentile(&natives, 50)),
            );
            report::figure(
                &format!("{name} a call: component"),
                &report::rate(size, report::percentile(&components, 50)),
            );
            let what = "component / native time, median of passes";
            if batch > 1 {
                report::goal(what, &format!("{ratio:.2}"), "≤ 2.0", ratio <= 2.0);
            } else {
                report::figure(what, &format!("{ratio:.2}"));
            }
        }
    }
}

/// Returns the number of bytes of agent output in an input.
fn said(input: &TimedInput) -> usize {
    match &input.input {
        Input::Line(line) => line.text.len() + 1,
        Input::HttpResponse(response) => response.body.len(),
        Input::StreamEvent(event) => event.data.len(),
        _ => 0,
    }
}

/// Writes recordings in the format that the native form reads.
fn write(file: &Path, recorded: &[Vec<TimedInput>]) {
    let line =
        |input: &TimedInput| serde_json::json!({"t": input.at_ms, "in": input.input}).to_string();
    let texts: Vec<String> = recorded
        .iter()
        .map(|inputs| inputs.iter().map(line).collect::<Vec<_>>().join("\n"))
        .collect();
    std::fs::write(file, texts.join("\n\n")).unwrap();
}

/// Returns the time and the number of actions. Each link is opened when the previous one has ended,
/// as turns do, and its opening does not count.
async fn pass_component(
    backend: &ComponentBackend,
    recorded: &[Vec<TimedInput>],
    batch: usize,
) -> (Duration, usize) {
    let (mut time, mut answers) = (Duration::ZERO, Vec::new());
    for inputs in recorded {
        let mut guest = backend.open_guest().await.unwrap();
        let calls: Vec<_> = inputs.chunks(batch).map(<[_]>::to_vec).collect();
        let begun = Instant::now();
        for call in calls {
            answers.push(guest.handle(call).await.unwrap());
        }
        time += begun.elapsed();
    }
    (time, answers.iter().map(Vec::len).sum())
}

/// The same parser as a program. It parses all recordings for every line on its stdin.
struct Native {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Native {
    fn start(measured: &Measured, recordings: &Path) -> Self {
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let program = repository("target/guests")
            .join(profile)
            .join("examples")
            .join(format!("native-{}", measured.name));
        assert!(program.exists(), "{} is missing; `make bench` builds it", program.display());
        let mut child = Command::new(program)
            .arg(recordings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    /// Returns the time and the number of actions.
    fn pass(&mut self, batch: usize) -> (Duration, usize) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{batch}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let (nanos, actions) = answer.trim().split_once(' ').unwrap();
        (Duration::from_nanos(nanos.parse().unwrap()), actions.parse().unwrap())
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // The program ends when its stdin is closed.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
