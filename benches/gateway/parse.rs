//! How fast the Claude backend reads what the agent prints: as a component, and the same code native.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use aetheel::agent::{Input, Line, Pipe, TimedInput};
use aetheel::backend::{ComponentBackend, Engine, Registry, RegistryOptions};
use aetheel::config::Limits;
use aetheel::turn::Guest as _;
use std::sync::Arc;

use crate::{component, corpus, links, report, repository};

/// Passes over the corpus, native and component in turn.
const PASSES: usize = 15;

/// Measures and prints.
pub async fn measure() {
    let lines = corpus::lines();
    let size = corpus::size(&lines);
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("corpus");
    std::fs::write(&text, lines.join("\n")).unwrap();
    let mut native = Native::start(&text);
    let backend = load("claude").await;
    report::part(&format!("parse: {:.1} MB that Claude Code printed, {} lines", size as f64 / 1e6, lines.len()));
    for (portion, name, is_goal) in [(64 << 10, "reads of 64 KiB, as a pipe brings them", true), (1, "one line a call", false)] {
        let (mut natives, mut components) = (Vec::new(), Vec::new());
        // The first pass warms caches up.
        for pass in 0..=PASSES {
            let (native_time, native_actions) = native.pass(portion);
            let (component_time, component_actions) = pass_component(&backend, &lines, portion).await;
            assert_eq!(native_actions, component_actions, "the same actions");
            if pass > 0 {
                natives.push(native_time);
                components.push(component_time);
            }
        }
        let ratios: Vec<f64> =
            natives.iter().zip(&components).map(|(native, component)| component.as_secs_f64() / native.as_secs_f64()).collect();
        let (best_native, best_component) = (natives.iter().min().unwrap(), components.iter().min().unwrap());
        let ratio = report::percentile(&ratios, 50);
        report::figure(&format!("{name}: native"), &report::rate(size, *best_native));
        report::figure(&format!("{name}: component"), &report::rate(size, *best_component));
        let best = best_component.as_secs_f64() / best_native.as_secs_f64();
        let value = format!("{ratio:.2} (best {best:.2})");
        if is_goal {
            report::goal("component / native time, median of passes", &value, "≤ 1.5", ratio <= 1.5);
        } else {
            report::figure("component / native time, median of passes", &value);
        }
    }
}

async fn pass_component(backend: &ComponentBackend, lines: &[String], portion: usize) -> (Duration, usize) {
    let mut guest = backend.open_guest().await.unwrap();
    guest.handle(vec![links::first_prompt()]).await.unwrap();
    let calls: Vec<Vec<TimedInput>> = corpus::portions(lines, portion)
        .into_iter()
        .map(|lines| {
            let line = |text| Input::Line(Line { proc: 1, pipe: Pipe::Stdout, text, truncated: false });
            lines.into_iter().map(|text| TimedInput { at_ms: 1.0, input: line(text) }).collect()
        })
        .collect();
    let mut answers = Vec::with_capacity(calls.len());
    let begun = Instant::now();
    for call in calls {
        answers.push(guest.handle(call).await.unwrap());
    }
    (begun.elapsed(), answers.iter().map(Vec::len).sum())
}

/// Loads one built backend as the gateway does.
pub async fn load(name: &str) -> Arc<ComponentBackend> {
    let folder = tempfile::tempdir().unwrap();
    let file = component(name);
    std::fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
    let engine = Engine::new(&Limits::default(), None).unwrap();
    let (registry, reports) = Registry::start(engine, RegistryOptions::new(folder.path())).await;
    registry.component(name).unwrap_or_else(|| panic!("not loaded: {reports:?}"))
}

/// The same parser as a program: measures a pass over the corpus for every line on its stdin.
struct Native {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Native {
    fn start(corpus: &std::path::Path) -> Self {
        let program = repository("target/guests/release/examples/native-parse");
        assert!(program.exists(), "{} is missing; `make bench` builds it", program.display());
        let mut child = Command::new(program).arg(corpus).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    /// Returns the time and the number of actions.
    fn pass(&mut self, portion: usize) -> (Duration, usize) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{portion}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let (nanos, actions) = answer.trim().split_once(' ').unwrap();
        (Duration::from_nanos(nanos.parse().unwrap()), actions.parse().unwrap())
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // It ends with its stdin.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
