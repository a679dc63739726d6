//! Tests of agents whose working directory, or another granted path, is replaced by a link while
//! they start: nothing outside of it is granted, under Landlock and under bubblewrap.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aetheel_model::agent::{Exit, Pipe, Signal};
use aetheel_process::Custody;
use aetheel_turn::{Launch, LaunchError, Launcher as _};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::confined::{Machine, as_ordinary_user, confining, is_root, succeeding};
use super::{line, read_all, run, stop};

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

/// Returns the launch of an agent to which the folder `workspace/shared` is granted too. Other
/// agents work in `workspace`.
fn with_shared_folder(machine: &Machine) -> Launch {
    let script = format!("cd $M/workspace/shared && {{ {SCRIPT}; }}; echo end");
    let mut launch = machine.launch(&script);
    launch.reach.write.push(machine.at("workspace/shared"));
    launch.reach.agent_folders.push(machine.at("workspace"));
    launch
}

/// Starts an agent. Returns whether it ran.
async fn try_start(custody: &Custody, launch: Launch) -> bool {
    let mut process = match custody.launch(launch).await {
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
        assert!(said.iter().all(|line| *line == "end"), "it has read files outside: {said:?}");
        return true;
    }
    // bubblewrap has mounted the target of the link, or found no directory.
    assert_eq!(said, Vec::<&str>::new(), "{}", output.tail);
    false
}

/// Starts agents while `exchanged` is exchanged with links to `targets`, as fast as possible.
#[expect(clippy::disallowed_methods, reason = "a scoped thread exchanges the paths meanwhile")]
fn attack(exchanged: &str, targets: &[&str], launch: impl Fn(&Machine) -> Launch) {
    let limit = std::env::var(SECONDS).ok().map(|text| text.parse().expect("a number of seconds"));
    for custody in confining() {
        for target in targets {
            let machine = Machine::new();
            let (path, link) = (machine.at(exchanged), machine.at("workspace/swapped"));
            fs::create_dir_all(&path).unwrap();
            symlink(machine.at(target), &link).unwrap();
            let stop = AtomicBool::new(false);
            let (mut started, mut refused) = (0, 0);
            std::thread::scope(|scope| {
                let _stop = StopOnDrop(&stop);
                scope.spawn(|| exchange(&path, &link, &stop));
                let begun = Instant::now();
                let is_enough = |starts: usize| match limit {
                    Some(seconds) => begun.elapsed() >= Duration::from_secs(seconds),
                    None => starts >= STARTS / TARGETS.len(),
                };
                tokio::task::block_in_place(|| {
                    tokio::runtime::Handle::current().block_on(async {
                        while !is_enough(started + refused) {
                            match try_start(&custody, launch(&machine)).await {
                                true => started += 1,
                                false => refused += 1,
                            }
                        }
                    });
                });
            });
            println!("{exchanged}, {target}: {started} started, {refused} refused ({custody:?})");
            for folder in ["home/.ssh", "config/state", "workspace"] {
                assert!(!machine.at(folder).join("planted").exists(), "{target}: {folder}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_exchanged_with_a_link_grants_nothing_outside() {
    attack("workspace/project", &TARGETS, |machine| machine.launch(SCRIPT));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_granted_folder_that_is_exchanged_with_a_link_grants_nothing_outside() {
    attack("workspace/shared", &TARGETS[..1], with_shared_folder);
}

#[tokio::test]
async fn a_granted_path_through_a_link_of_an_agent_is_refused_with_its_path() {
    for custody in confining() {
        let machine = Machine::new();
        let shared = machine.at("workspace/shared");
        symlink(machine.at("home/.ssh"), &shared).unwrap();
        for is_written in [true, false] {
            let mut launch = with_shared_folder(&machine);
            if !is_written {
                launch.reach.read = launch.reach.write.split_off(3);
            }
            let refused = custody.launch(launch).await.unwrap_err();
            let LaunchError::Start { source, .. } = &refused else { panic!("{refused:?}") };
            let text = source.to_string();
            assert!(text.contains(shared.to_str().unwrap()) && text.contains("name the path"));
        }
        // The operator's links are followed.
        symlink(machine.at("home/.ssh"), machine.at("home/keys")).unwrap();
        let mut launch = machine.launch("cat $M/home/.ssh/id");
        launch.reach.read.push(machine.at("home").join("keys"));
        let output = run(&custody, launch).await;
        assert_eq!(output.text(Pipe::Stdout), ["SECRET"], "{}", output.tail);
    }
}

#[tokio::test]
async fn a_mount_of_an_agent_is_invisible_to_the_gateway_and_to_the_next_agent() {
    let mount = "unshare --user --map-root-user --mount sh -c '\
        mount --bind $M/home/.agent $M/workspace/project; \
        [ -e $M/workspace/project/state ] && echo mounted; echo ready; sleep 1000'";
    let tries = ["grep -q mine mine", "[ -e state ]", "cat $M/home/.ssh/id"];
    for custody in confining() {
        let machine = Machine::new();
        fs::write(machine.at("home/.agent/state"), "").unwrap();
        let script = format!("{mount} || {{ echo ready; sleep 1000; }}");
        let mut agent = custody.launch(machine.launch(&script)).await.unwrap();
        line(&mut agent, "ready").await;
        assert_eq!(fs::read_to_string(machine.at("workspace/project/mine")).unwrap(), "mine\n");
        let launch = |script: &str| machine.launch(script);
        assert_eq!(succeeding(&custody, launch, &tries).await, [0], "{custody:?}");
        stop(&agent, Signal::Kill, Duration::ZERO);
        read_all(&mut agent).await;
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

#[test]
fn the_same_holds_for_an_ordinary_user() {
    // If not root, the other tests already ran as an ordinary user.
    if is_root() {
        as_ordinary_user("process::replaced_directory::", "the_same_holds", 5, &[]);
    }
}
