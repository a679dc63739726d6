//! Tests of the boundary between an agent and everything else that runs as the gateway's user:
//! other agents, services behind sockets, and set-uid programs.
//!
//! Attacks that the table in SECURITY.md does not promise to prevent are tried too, so that a line
//! that says "no" there fails a test when it is no longer true.

use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;

use aetheel_model::agent::Signal;
use aetheel_process::{Custody, Means, Sandbox};
use aetheel_turn::{AgentProcess, Launch, Launcher as _};

use super::confined::{Machine, as_ordinary_user, confining, is_root, succeeding};
use super::{SOON, line, read_all, stop};

/// A set-uid copy of Python for the test of set-uid programs, made by root.
const SET_UID_PROGRAM: &str = "AETHEEL_TEST_SET_UID_PROGRAM";

/// Connects to the socket with this name. `@` begins an abstract one.
const CONNECT: &str = "import socket, sys; name = sys.argv[1]; \
    socket.socket(socket.AF_UNIX).connect(name.replace(\"@\", \"\\0\", 1))";
/// Traces the process with this number without stopping it (PTRACE_SEIZE).
const TRACE: &str = "import ctypes, sys; libc = ctypes.CDLL(None); \
    sys.exit(libc.ptrace(0x4206, int(sys.argv[1]), None, None) != 0)";

fn python(script: &str, argument: &str) -> String {
    format!("/usr/bin/python3 -c '{script}' {argument}")
}

fn with_variable(launch: Launch, name: &str, value: &str) -> Launch {
    let mut environment = launch.environment.clone();
    environment.push((name.to_owned(), value.to_owned()));
    Launch { environment, ..launch }
}

/// Starts an agent that has a secret in its environment and runs until it is stopped.
async fn another_agent(custody: &Custody, machine: &Machine) -> AgentProcess {
    let launch = with_variable(machine.launch("echo ready; exec sleep 1000"), "ITS_KEY", "SECRET");
    let mut process = custody.launch(launch).await.unwrap();
    line(&mut process, "ready").await;
    process
}

async fn end(mut process: AgentProcess) {
    stop(&process, Signal::Kill, SOON);
    read_all(&mut process).await;
}

/// Returns the ways in which one agent could access the process `$OTHER`, each a shell command.
fn ways_to_another() -> Vec<String> {
    let files = ["environ", "mem", "maps", "auxv"];
    let mut ways: Vec<String> =
        files.map(|file| format!("head -c 1 /proc/$OTHER/{file} | grep -q .")).into();
    ways.push("head -c 1 /proc/$OTHER/task/$OTHER/environ | grep -q .".to_owned());
    // Its descriptors can be listed, but their targets cannot be read.
    ways.push("readlink /proc/$OTHER/fd/1".to_owned());
    ways.push("cat /proc/$OTHER/root/etc/passwd".to_owned());
    ways.push(python(TRACE, "$OTHER"));
    ways.push("kill -0 $OTHER".to_owned());
    ways.push("kill -CONT $OTHER".to_owned());
    ways
}

#[tokio::test]
async fn an_agent_neither_reads_nor_traces_nor_signals_another_agent() {
    let ways = ways_to_another();
    let ways: Vec<&str> = ways.iter().map(String::as_str).collect();
    let free = Custody::new(Means::Best).unwrap();
    for custody in confining().into_iter().chain([free]) {
        let machine = Machine::new();
        let other = another_agent(&custody, &machine).await;
        let pid = other.pid.expect("this launcher knows it").to_string();
        let launch = |script: &str| with_variable(machine.launch(script), "OTHER", &pid);
        let done = succeeding(&custody, launch, &ways).await;
        let signals = [ways.len() - 2, ways.len() - 1];
        match custody.sandbox() {
            Sandbox::Off => assert!(done.contains(&0) && done.ends_with(&signals), "{done:?}"),
            // From Linux 6.12 on, Landlock restricts signals.
            Sandbox::Landlock { abi: ..6, .. } => assert_eq!(done, signals, "{custody:?}"),
            _ => assert_eq!(done, [] as [usize; 0], "{custody:?}"),
        }
        end(other).await;
    }
}

#[tokio::test]
async fn an_agent_does_not_trace_the_gateway() {
    for custody in confining() {
        let machine = Machine::new();
        let way = python(TRACE, "$GATEWAY");
        let done = succeeding(&custody, |script| machine.launch(script), &[&way]).await;
        assert_eq!(done, [] as [usize; 0], "{custody:?}");
    }
}

#[tokio::test]
async fn an_agent_sees_other_processes_only_as_documented() {
    let ways = ["ls -d /proc/$GATEWAY", "grep -q integration /proc/$GATEWAY/cmdline"];
    for custody in confining() {
        let machine = Machine::new();
        let done = succeeding(&custody, |script| machine.launch(script), &ways).await;
        let hides = matches!(custody.sandbox(), Sandbox::Bubblewrap(_));
        assert_eq!(done, if hides { vec![] } else { vec![0, 1] }, "{custody:?}");
    }
}

#[tokio::test]
async fn an_agent_reaches_sockets_only_as_documented() {
    for custody in confining() {
        let machine = Machine::new();
        let path = machine.at("service");
        let _service = UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let name = path.display().to_string().replace('/', ".");
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _abstract_service = UnixListener::bind_addr(&address).unwrap();
        let ways =
            [python(CONNECT, &path.display().to_string()), python(CONNECT, &format!("@{name}"))];
        let ways = ways.each_ref().map(String::as_str);
        let done = succeeding(&custody, |script| machine.launch(script), &ways).await;
        let (with_path, with_name) = match custody.sandbox() {
            Sandbox::Landlock { abi, .. } => (*abi < 9, *abi < 6),
            Sandbox::Bubblewrap(_) => (false, true),
            Sandbox::Off => unreachable!("it confines"),
        };
        assert_eq!((done.contains(&0), done.contains(&1)), (with_path, with_name), "{custody:?}");
        let free = Custody::new(Means::Best).unwrap();
        let done = succeeding(&free, |script| machine.launch(script), &ways).await;
        assert_eq!(done, [0, 1], "both can be reached without a sandbox");
    }
}

#[tokio::test]
async fn an_agent_neither_mounts_nor_administers() {
    // If one of these succeeds, it affects only the agent itself.
    let ways = [
        "mount -t tmpfs none $TMPDIR",
        "mount --bind /usr $TMPDIR",
        "mount -o remount,rw /",
        "unshare --mount mount -t tmpfs none $TMPDIR",
        "umount -l /proc",
        "hostname $(hostname)",
        "date -s @$(date +%s)",
        "cat /proc/sys/kernel/domainname > /proc/sys/kernel/domainname",
        "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern",
        ": > /proc/sysrq-trigger",
        "ip link set lo up",
        "dmesg --clear",
    ];
    for custody in confining() {
        let machine = Machine::new();
        let done = succeeding(&custody, |script| machine.launch(script), &ways).await;
        assert_eq!(done, [] as [usize; 0], "{custody:?}");
    }
}

#[tokio::test]
async fn an_agent_gains_nothing_from_set_uid_programs() {
    let program = std::env::var_os(SET_UID_PROGRAM).map(PathBuf::from);
    let gains = "$PROGRAM -c 'import os, sys; sys.exit(os.geteuid() != 0)'";
    for custody in confining() {
        let machine = Machine::new();
        let launch = |script: &str| {
            let mut launch = machine.launch(script);
            let Some(program) = &program else { return launch };
            launch.reach.read.push(program.parent().unwrap().to_owned());
            with_variable(launch, "PROGRAM", &program.display().to_string())
        };
        let mut ways = vec!["grep -q 'NoNewPrivs:.1' /proc/self/status"];
        ways.extend(program.is_some().then_some(gains));
        assert_eq!(succeeding(&custody, launch, &ways).await, [0], "{custody:?}");
        if program.is_some() {
            let free = Custody::new(Means::Best).unwrap();
            assert_eq!(
                succeeding(&free, launch, &[gains]).await,
                [0],
                "the program gives root's rights"
            );
        }
    }
}

#[test]
fn the_same_holds_for_an_ordinary_user() {
    if !is_root() {
        return; // The tests above were run by one.
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("python-of-root");
    fs::copy(fs::canonicalize("/usr/bin/python3").unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let variables = [(SET_UID_PROGRAM, program.as_os_str())];
    as_ordinary_user("process::neighbours::", "the_same_holds", 6, &variables);
}
