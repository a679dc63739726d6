//! The processes of a program under test: its holder, and the agents of both.
#![allow(dead_code, reason = "several test modules use parts of it")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use aetheel_process::holder::PROGRAM;
use rustix::process::{Pid, Signal, kill_process};

/// How long a holder may take to end its agents and itself before it is killed.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Interval at which `/proc` is polled.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the holders whose state folder is `folder` or below it.
pub fn holders(folder: &Path) -> Vec<Pid> {
    let serves = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let state = words.iter().skip_while(|word| *word != "--state").nth(1);
        let is_holder = Path::new(&*words[0]).ends_with(PROGRAM)
            || words.get(1).is_some_and(|word| word == "hold");
        is_holder && state.is_some_and(|state| Path::new(&**state).starts_with(folder))
    };
    all().filter(serves).filter_map(Pid::from_raw).collect()
}

/// Returns the agents in the custody of these processes, by the mark in their environment.
pub fn agents_of(custodians: &[Pid]) -> Vec<Pid> {
    let ours = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mark = environment
            .split(|byte| *byte == 0)
            .find_map(|variable| variable.strip_prefix(b"AETHEEL_RUN="));
        // The mark consists of the namespace and the custodian's process id.
        mark.is_some_and(|mark| {
            let custodian = String::from_utf8_lossy(mark).split('-').nth(1).map(str::to_owned);
            custodians.iter().any(|pid| custodian == Some(pid.as_raw_nonzero().to_string()))
        })
    };
    all().filter(ours).filter_map(Pid::from_raw).collect()
}

/// Ends the holders below `folder` with their agents, and waits until they have exited. Afterwards
/// nothing writes into the folder any more.
#[expect(clippy::disallowed_methods, reason = "called from `drop`, where nothing can be awaited")]
pub fn end_holders(folder: &Path) {
    let mut left = holders(folder);
    for pid in &left {
        let _ = kill_process(*pid, Signal::TERM);
    }
    let until = Instant::now() + END_LIMIT;
    while !left.is_empty() {
        if Instant::now() >= until {
            for pid in agents_of(&left).into_iter().chain(left) {
                let _ = kill_process(pid, Signal::KILL);
            }
            return;
        }
        std::thread::sleep(LOOK_INTERVAL);
        left = holders(folder);
    }
}

fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
