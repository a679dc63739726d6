//! Tests of the custody of real processes: whatever a run does, nothing of it is left after its
//! last event.
//!
//! Every case runs with a cgroup, if the machine has them, and by tracking descendants.

mod confined;
mod endings;
mod holder;
mod launching;
mod many;
mod neighbours;
mod output;
mod replaced_directory;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aetheel_model::agent::descriptor::Framing;
use aetheel_model::agent::{Exit, Pipe, Signal};
use aetheel_process::{Custody, Means};
use aetheel_turn::{
    AgentProcess, Launch, Launcher, OutputLine, ProcessCommand, ProcessEvent, Reach,
};
use tokio::time::timeout;

/// Time limit for anything that should happen soon.
const SOON: Duration = Duration::from_secs(20);

/// Returns both kinds of custody.
fn custodies() -> [Custody; 2] {
    [Means::Best, Means::Descent].map(|means| Custody::new(means).unwrap())
}

/// Returns a run of a shell script, with a unique name.
fn sh(script: &str) -> Launch {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let run = format!("test.{}.{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    Launch {
        run,
        proc: 1,
        program: PathBuf::from("/bin/sh"),
        arguments: ["-c", script].map(OsString::from).into(),
        environment: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
        cwd: PathBuf::from("/"),
        stdin: Vec::new(),
        keep_open: false,
        framing: Framing::Lines,
        line_limit: 1 << 20,
        output_limit: 1 << 30,
        reach: Reach::default(),
    }
}

/// The output of a run.
#[derive(Debug, Default)]
struct RunOutput {
    lines: Vec<OutputLine>,
    over: bool,
    how: Option<Exit>,
    tail: String,
}

impl RunOutput {
    fn text(&self, pipe: Pipe) -> Vec<&str> {
        self.lines.iter().filter(|line| line.pipe == pipe).map(|line| line.text.as_str()).collect()
    }
}

/// Reads all output, and checks that nothing follows the end.
async fn read_all(process: &mut AgentProcess) -> RunOutput {
    let mut output = RunOutput::default();
    let listening = async {
        while let Some(event) = process.events.recv().await {
            assert_eq!(output.how, None, "an event after the last one: {event:?}");
            match event {
                ProcessEvent::Lines(lines) => {
                    assert!(!lines.is_empty(), "an empty batch");
                    output.lines.extend(lines);
                }
                ProcessEvent::OutputLimit => output.over = true,
                ProcessEvent::Exited { how, stderr_tail } => {
                    (output.how, output.tail) = (Some(how), stderr_tail)
                }
            }
        }
    };
    assert!(timeout(SOON, listening).await.is_ok(), "no end within {SOON:?}");
    output
}

/// Launches, reads all output, and checks that nothing is left at that moment.
async fn run(custody: &Custody, launch: Launch) -> RunOutput {
    let name = launch.run.clone();
    let mut process = custody.launch(launch).await.unwrap();
    let output = read_all(&mut process).await;
    assert_eq!(living(&name), Vec::<String>::new(), "left over ({custody:?})");
    output
}

/// Waits for a line of output.
async fn line(process: &mut AgentProcess, wanted: &str) {
    let waiting = async {
        loop {
            match process.events.recv().await {
                Some(ProcessEvent::Lines(lines))
                    if lines.iter().any(|line| line.text == wanted) =>
                {
                    return;
                }
                Some(ProcessEvent::Lines(_)) => {}
                other => panic!("{other:?} instead of {wanted:?}"),
            }
        }
    };
    assert!(timeout(SOON, waiting).await.is_ok(), "no line {wanted:?}");
}

fn stop(process: &AgentProcess, signal: Signal, grace: Duration) {
    process.commands.send(ProcessCommand::Stop { signal, grace }).unwrap();
}

/// Returns the living processes with a run's mark.
fn living(run: &str) -> Vec<String> {
    let end = format!("-{run}");
    let marked = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|b| *b == 0).any(|variable| {
            variable.starts_with(b"AETHEEL_RUN=") && variable.ends_with(end.as_bytes())
        })
    };
    let line = |pid: i32| {
        format!(
            "{pid} {}",
            fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .unwrap_or_default()
                .replace('\0', " ")
        )
    };
    pids().into_iter().filter(marked).filter(|pid| is_living(*pid)).map(line).collect()
}

fn pids() -> Vec<i32> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Returns a process's state code and parent.
fn state(pid: i32) -> Option<(String, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

fn is_living(pid: i32) -> bool {
    state(pid).is_some_and(|(state, _)| state != "Z" && state != "X")
}

/// Waits for a condition.
#[expect(clippy::disallowed_methods, reason = "a poll for a condition, in a test of blocking code")]
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < SOON, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for a condition in async tests, whose runtime has other tasks meanwhile.
async fn wait_for_async(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < SOON, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Runs one `#[ignore]`d test of this binary in a process of its own. Returns whether it passed,
/// and its output.
fn alone(test: &str, environment: &BTreeMap<&str, &str>) -> (bool, String) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .envs(environment)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

/// Returns the pid that a script wrote to a file.
async fn pid_in(file: &Path) -> i32 {
    let read = || {
        fs::read_to_string(file).ok().and_then(|text| text.strip_suffix('\n')?.parse::<i32>().ok())
    };
    wait_for_async("the script's pid file", || read().is_some()).await;
    read().unwrap()
}
