//! Tests of agents whose working directory is replaced by a link while they start: nothing outside
//! of it is granted, under Landlock and under bubblewrap.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aetheel::agent::{Exit, Pipe};
use aetheel::process::Custody;
use aetheel::turn::{LaunchError, Launcher as _};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::confined::{Machine, confining};
use super::{read_all, run};

/// Agents that are started while the directory is exchanged.
const STARTS: usize = 200;
/// Time for which agents are started instead, in seconds (`make attack-directories`).
const SECONDS: &str = "AETHEEL_ATTACK_SECONDS";

/// Reads what an attacker wants, and leaves a file.
const SCRIPT: &str = "cat id queue.md maps 2>/dev/null; echo x > planted; echo end";

/// Where the link leads that replaces the directory.
const TARGETS: [&str; 3] = ["home/.ssh", "config/state", "/proc/self"];

/// Exchanges two paths as fast as possible until `stop` is set.
fn exchange(one: &Path, other: &Path, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).expect("exchanged");
    }
}

/// Sets the flag when it is dropped, so that a failed test does not wait for the other thread.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Starts an agent in the exchanged directory. Returns whether it ran.
async fn try_start(custody: &Custody, machine: &Machine) -> bool {
    let mut process = match custody.launch(machine.launch(SCRIPT)).await {
        Ok(process) => process,
        Err(LaunchError::Start { source, .. }) => {
            assert!(source.to_string().contains("symbolic link"), "{source}");
            return false;
        }
        Err(error) => panic!("{error}"),
    };
    let output = read_all(&mut process).await;
    let said = output.text(Pipe::Stdout);
    if output.how == Some(Exit::Code(0)) {
        assert_eq!(said, ["end"], "it has read files outside");
        return true;
    }
    // bubblewrap has mounted the target of the link, or found no directory.
    assert_eq!(said, Vec::<&str>::new(), "{}", output.tail);
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "a scoped thread exchanges the paths meanwhile")]
async fn a_directory_that_is_exchanged_with_a_link_grants_nothing_outside() {
    let limit = std::env::var(SECONDS).ok().map(|text| text.parse().expect("a number of seconds"));
    for custody in confining() {
        for target in TARGETS {
            let machine = Machine::new();
            let (project, link) =
                (machine.at("workspace/project"), machine.at("workspace/swapped"));
            symlink(machine.at(target), &link).unwrap();
            let stop = AtomicBool::new(false);
            let (mut started, mut refused) = (0, 0);
            std::thread::scope(|scope| {
                let _stop = StopOnDrop(&stop);
                scope.spawn(|| exchange(&project, &link, &stop));
                let begun = Instant::now();
                let is_enough = |starts: usize| match limit {
                    Some(seconds) => begun.elapsed() >= Duration::from_secs(seconds),
                    None => starts >= STARTS / TARGETS.len(),
                };
                tokio::task::block_in_place(|| {
                    tokio::runtime::Handle::current().block_on(async {
                        while !is_enough(started + refused) {
                            match try_start(&custody, &machine).await {
                                true => started += 1,
                                false => refused += 1,
                            }
                        }
                    });
                });
            });
            println!("{target}: {started} started, {refused} refused ({custody:?})");
            for folder in ["home/.ssh", "config/state", "workspace"] {
                assert!(!machine.at(folder).join("planted").exists(), "{target}: {folder}");
            }
        }
    }
}

#[tokio::test]
async fn a_directory_that_was_replaced_by_a_link_is_refused_with_its_path() {
    for custody in confining() {
        for target in TARGETS {
            let machine = Machine::new();
            let project = machine.at("workspace/project");
            fs::rename(&project, machine.at("workspace/moved")).unwrap();
            symlink(machine.at(target), &project).unwrap();
            let refused = custody.launch(machine.launch(SCRIPT)).await.unwrap_err();
            let LaunchError::Start { source, .. } = &refused else { panic!("{refused:?}") };
            let text = source.to_string();
            assert!(text.contains(project.to_str().unwrap()) && text.contains("remove the link"));
            fs::remove_file(&project).unwrap();
            fs::rename(machine.at("workspace/moved"), &project).unwrap();
            let output = run(&custody, machine.launch(SCRIPT)).await;
            assert_eq!(output.text(Pipe::Stdout), ["end"], "{}", output.tail);
        }
    }
}
