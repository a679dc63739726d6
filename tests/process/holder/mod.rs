//! Tests of the holder: the output and processes that it keeps while no gateway runs, and passes to
//! the next one.

mod clients;
mod previous;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use aetheel_model::agent::{Exit, Pipe, Signal};
use aetheel_model::choice::SandboxMode;
use aetheel_process::holder::{
    HeldLauncher, HoldLimits, HoldOptions, HolderError, HolderStart, hold,
};
use aetheel_process::{Means, Sandbox};
use aetheel_turn::{
    AgentProcess, Launch, LaunchError, Launcher, ProcessCommand, ProcessEvent, Survivor,
};
use rustix::process::{Pid, Signal as KillSignal, kill_process};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{RunOutput, SOON, line, living, pids, read_all, sh, stop};
use crate::support::needs;

/// A holder that runs in this process.
struct Served {
    folder: TempDir,
    stop: CancellationToken,
    task: JoinHandle<Result<(), HolderError>>,
}

impl Served {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut HoldOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = HoldOptions::new(folder.path().join("state"), Sandbox::Off);
        change(&mut options);
        let stop = CancellationToken::new();
        let task = tokio::spawn(hold(options, stop.clone()));
        Self { folder, stop, task }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Connects a gateway.
    async fn gateway(&self) -> HeldLauncher {
        gateway(&self.state()).await
    }

    async fn end(self) {
        self.stop.cancel();
        timeout(SOON, self.task).await.unwrap().unwrap().unwrap();
    }
}

async fn gateway(state: &Path) -> HeldLauncher {
    let connecting = async {
        loop {
            match HeldLauncher::connect(state, Sandbox::Off).await {
                Ok(launcher) => return launcher,
                Err(HolderError::NoAnswer { .. }) => sleep(Duration::from_millis(5)).await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    timeout(SOON, connecting).await.expect("a holder")
}

/// Waits until a condition holds.
async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let waiting = async {
        while !so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(SOON, waiting).await.is_ok(), "not within {SOON:?}: {what}");
}

fn record(process: &AgentProcess, lines: u64) {
    process.commands.send(ProcessCommand::Recorded(lines)).unwrap();
}

fn write(process: &AgentProcess, text: &str) {
    process.commands.send(ProcessCommand::Write(text.as_bytes().to_vec())).unwrap();
}

fn open(script: &str) -> Launch {
    Launch { keep_open: true, ..sh(script) }
}

/// Receives this many lines.
async fn lines(process: &mut AgentProcess, count: usize) -> Vec<String> {
    let mut received = Vec::new();
    let listening = async {
        while received.len() < count {
            match process.events.recv().await {
                Some(ProcessEvent::Lines(lines)) => {
                    received.extend(lines.into_iter().map(|line| line.text));
                }
                other => panic!("{other:?} after {} lines", received.len()),
            }
        }
    };
    assert!(timeout(SOON, listening).await.is_ok(), "only {} of {count} lines", received.len());
    received
}

/// Receives everything, and confirms lines as recorded when they arrive, after `received` lines.
async fn read_recording(process: &mut AgentProcess, mut received: u64) -> RunOutput {
    let mut all = RunOutput::default();
    let listening = async {
        while let Some(event) = process.events.recv().await {
            match event {
                ProcessEvent::Lines(lines) => {
                    received += lines.len() as u64;
                    all.lines.extend(lines);
                    record(process, received);
                }
                ProcessEvent::OutputLimit => all.over = true,
                ProcessEvent::Exited { how, stderr_tail } => {
                    (all.how, all.tail) = (Some(how), stderr_tail);
                    record(process, received + 1);
                }
            }
        }
    };
    assert!(timeout(SOON, listening).await.is_ok(), "no end within {SOON:?}");
    all
}

fn texts(received: &RunOutput) -> Vec<&str> {
    received.lines.iter().map(|line| line.text.as_str()).collect()
}

fn numbers(range: std::ops::RangeInclusive<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

async fn only(gateway: &HeldLauncher) -> Survivor {
    let mut survivors = gateway.survivors().await;
    assert_eq!(survivors.len(), 1, "{survivors:?}");
    survivors.remove(0)
}

#[tokio::test]
async fn output_without_a_gateway_arrives_completely_and_in_order_with_the_exit_code() {
    let holder = Served::new();
    let first = holder.gateway().await;
    let launch = open("echo begun; read x; seq 1 50000; exit 7");
    let run = launch.run.clone();
    let mut process = first.launch(launch).await.unwrap();
    assert!(process.held && process.pid.is_some());
    line(&mut process, "begun").await;
    write(&process, "go\n");
    first.leave().await;
    drop(process);
    until("it ends by itself", || living(&run).is_empty()).await;
    let second = holder.gateway().await;
    let survivor = only(&second).await;
    assert_eq!((survivor.run.as_str(), survivor.attach_count), (run.as_str(), 1));
    assert_eq!((survivor.processes[0].commands, survivor.processes[0].recorded), (1, 0));
    let mut process = second.adopt(&run, 1, 1).await.unwrap();
    let received = read_recording(&mut process, 1).await;
    assert_eq!(texts(&received), numbers(1..=50000));
    assert_eq!(received.how, Some(Exit::Code(7)));
    let nothing = async { while !second.survivors().await.is_empty() {} };
    timeout(SOON, nothing).await.expect("the run has ended");
    second.leave().await;
    assert!(holder.gateway().await.survivors().await.is_empty());
    holder.end().await;
}

#[tokio::test]
async fn recorded_lines_are_never_repeated_and_all_others_arrive_once() {
    let holder = Served::new();
    let first = holder.gateway().await;
    let launch = open("seq 1 10; read x; seq 11 20; read x");
    let run = launch.run.clone();
    let mut process = first.launch(launch).await.unwrap();
    lines(&mut process, 10).await;
    record(&process, 4);
    write(&process, "go\n");
    lines(&mut process, 10).await;
    first.leave().await;
    drop(process);
    let second = holder.gateway().await;
    assert_eq!(only(&second).await.processes[0].recorded, 4);
    let refused = second.adopt(&run, 1, 3).await.unwrap_err();
    assert!(format!("{refused:?}").contains("after 4, up to 20"), "{refused:?}");
    assert!(second.adopt(&run, 1, 21).await.is_err());
    assert!(second.adopt(&run, 2, 4).await.is_err());
    let mut process = second.adopt(&run, 1, 7).await.unwrap();
    assert_eq!(lines(&mut process, 13).await, numbers(8..=20));
    assert!(second.adopt(&run, 1, 7).await.is_err(), "another gateway adopted it");
    second.leave().await;
    drop(process);
    let third = holder.gateway().await;
    let mut process = third.adopt(&run, 1, 20).await.unwrap();
    write(&process, "go\n");
    assert_eq!(read_all(&mut process).await.how, Some(Exit::Code(0)));
    holder.end().await;
}

#[tokio::test]
async fn an_ended_process_is_kept_until_its_end_is_recorded() {
    let holder = Served::new();
    let mut gateway = holder.gateway().await;
    let launch = open("seq 1 3");
    let run = launch.run.clone();
    let mut process = gateway.launch(launch).await.unwrap();
    assert_eq!(read_all(&mut process).await.how, Some(Exit::Code(0)));
    // The turn ends neither in this gateway process nor in the next.
    for _ in 0..2 {
        record(&process, 3);
        gateway.leave().await;
        drop(process);
        gateway = holder.gateway().await;
        assert_eq!(only(&gateway).await.run, run);
        let refused = gateway.adopt(&run, 1, 5).await.unwrap_err();
        assert!(format!("{refused:?}").contains("after 3, up to 4"), "{refused:?}");
        process = gateway.adopt(&run, 1, 4).await.unwrap();
        assert!(process.events.try_recv().is_err(), "no line is repeated");
    }
    record(&process, 4);
    gateway.leave().await;
    drop(process);
    assert!(holder.gateway().await.survivors().await.is_empty());
    holder.end().await;
}

#[tokio::test]
async fn commands_are_numbered_across_restarts_and_each_is_executed_once() {
    let holder = Served::new();
    let first = holder.gateway().await;
    let launch = open("while read x; do echo got $x; done; echo end");
    let run = launch.run.clone();
    let mut process = first.launch(launch).await.unwrap();
    write(&process, "1\n");
    write(&process, "2\n");
    lines(&mut process, 2).await;
    first.leave().await;
    drop(process);
    let second = holder.gateway().await;
    assert_eq!(only(&second).await.processes[0].commands, 2);
    let mut process = second.adopt(&run, 1, 2).await.unwrap();
    write(&process, "3\n");
    process.commands.send(ProcessCommand::CloseStdin).unwrap();
    assert_eq!(texts(&read_recording(&mut process, 2).await), ["got 3", "end"]);
    holder.end().await;
}

#[tokio::test]
async fn the_keepsake_of_a_run_is_stored_and_attempts_are_counted_until_it_progresses() {
    let holder = Served::new();
    let first = holder.gateway().await;
    let launch = open("echo one; read x");
    let run = launch.run.clone();
    first.store_keepsake(&run, b"old".to_vec());
    first.store_keepsake("no process", b"gone with its gateway".to_vec());
    let mut process = first.launch(launch).await.unwrap();
    first.store_keepsake(&run, vec![0, 255, 7]);
    lines(&mut process, 1).await;
    assert!(first.survivors().await.is_empty(), "it belongs to this gateway");
    first.leave().await;
    for life in 1..=3 {
        let next = holder.gateway().await;
        let survivor = only(&next).await;
        assert_eq!((survivor.keepsake.as_slice(), survivor.attach_count), (&[0, 255, 7][..], life));
        assert_eq!(only(&next).await.attach_count, life, "a gateway counts once");
        next.leave().await;
    }
    let next = holder.gateway().await;
    let process = next.adopt(&run, 1, 1).await.unwrap();
    record(&process, 1);
    next.leave().await;
    let last = holder.gateway().await;
    assert_eq!(only(&last).await.attach_count, 1);
    last.end(&run);
    assert!(last.survivors().await.is_empty());
    until("the process ends", || living(&run).is_empty()).await;
    holder.end().await;
}

#[tokio::test]
async fn only_one_gateway_may_connect_and_only_with_the_key() {
    let holder = Served::new();
    let first = holder.gateway().await;
    let refused = HeldLauncher::connect(&holder.state(), Sandbox::Off).await.unwrap_err();
    assert!(refused.to_string().contains("another gateway uses the holder"), "{refused}");
    first.leave().await;
    fs::write(holder.state().join("holder.key"), "guessed").unwrap();
    let refused = HeldLauncher::connect(&holder.state(), Sandbox::Off).await.unwrap_err();
    assert!(refused.to_string().contains("not a gateway of the holder's"), "{refused}");
    let options = HoldOptions::new(holder.state(), Sandbox::Off);
    let second = hold(options, CancellationToken::new()).await;
    assert!(matches!(second, Err(HolderError::AlreadyServed(_))), "{second:?}");
    holder.end().await;
}

#[tokio::test]
async fn a_dropped_process_is_ended_but_one_whose_gateway_died_is_not() {
    let holder = Served::new();
    let first = holder.gateway().await;
    let (dropped, left) = (sh("echo here; sleep 1000"), sh("echo here; sleep 1000"));
    let names = (dropped.run.clone(), left.run.clone());
    let mut one = first.launch(dropped).await.unwrap();
    let mut other = first.launch(left).await.unwrap();
    line(&mut one, "here").await;
    line(&mut other, "here").await;
    drop(one);
    until("the dropped one ends", || living(&names.0).is_empty()).await;
    first.leave().await;
    drop(other);
    sleep(Duration::from_millis(100)).await;
    assert!(!living(&names.1).is_empty());
    let second = holder.gateway().await;
    assert_eq!(only(&second).await.run, names.1);
    let mut process = second.adopt(&names.1, 1, 1).await.unwrap();
    stop(&process, Signal::Terminate, Duration::from_secs(5));
    assert_eq!(read_recording(&mut process, 1).await.how, Some(Exit::Signal(15)));
    holder.end().await;
}

#[tokio::test]
async fn agents_that_no_gateway_claims_are_ended() {
    let holder = Served::with(|options| {
        options.claim_within = Duration::from_millis(300);
        options.leave_when_empty = true;
    });
    let first = holder.gateway().await;
    let launch = sh("echo here; sleep 1000");
    let run = launch.run.clone();
    let mut process = first.launch(launch).await.unwrap();
    line(&mut process, "here").await;
    sleep(Duration::from_millis(400)).await;
    assert!(!living(&run).is_empty(), "a gateway is connected");
    first.leave().await;
    drop(process);
    until("the process ends", || living(&run).is_empty()).await;
    let left = timeout(SOON, holder.task).await.expect("the holder ends without processes");
    left.unwrap().unwrap();
}

#[tokio::test]
async fn when_memory_and_file_are_full_an_agent_waits_and_nothing_is_lost() {
    let limits = HoldLimits { memory: 10_000, spool: 100_000, ..HoldLimits::default() };
    let holder = Served::with(|options| options.limits = limits);
    let first = holder.gateway().await;
    let marker = holder.folder.path().join("done");
    let script = format!("echo here; read x; seq 1 600000; touch {}", marker.display());
    let launch = open(&script);
    let run = launch.run.clone();
    let mut process = first.launch(launch).await.unwrap();
    line(&mut process, "here").await;
    write(&process, "go\n");
    first.leave().await;
    drop(process);
    sleep(Duration::from_millis(500)).await;
    assert!(!marker.exists(), "its pipe is full");
    let second = holder.gateway().await;
    let mut process = second.adopt(&run, 1, 1).await.unwrap();
    let received = read_recording(&mut process, 1).await;
    assert_eq!(received.lines.len(), 600_000);
    let ordered = received.lines.iter().enumerate();
    assert!(ordered.into_iter().all(|(at, line)| line.text == (at + 1).to_string()));
    assert_eq!(received.how, Some(Exit::Code(0)));
    holder.end().await;
}

#[tokio::test]
async fn a_gateway_that_records_nothing_slows_the_agent_down() {
    let holder = Served::new();
    let first = holder.gateway().await;
    let mut process = first.launch(sh("seq 1 3000000")).await.unwrap();
    assert_eq!(lines(&mut process, 1024).await, numbers(1..=1024));
    assert!(timeout(Duration::from_millis(200), process.events.recv()).await.is_err());
    record(&process, 1000);
    assert_eq!(lines(&mut process, 1000).await, numbers(1025..=2024));
    drop(process);
    holder.end().await;
}

#[tokio::test]
async fn a_failed_start_is_reported_as_without_a_holder() {
    let holder = Served::new();
    let gateway = holder.gateway().await;
    let odd = PathBuf::from(OsString::from_vec(b"/nowhere/\xff".to_vec()));
    let missing = Launch { program: odd.clone(), ..sh("") };
    let refused = gateway.launch(missing).await.unwrap_err();
    assert!(matches!(refused, LaunchError::NotFound(path) if path == odd));
    let refused = gateway.launch(Launch { cwd: odd.clone(), ..sh("") }).await.unwrap_err();
    assert!(matches!(refused, LaunchError::NoDirectory(path) if path == odd));
    let script = holder.folder.path().join("script");
    fs::write(&script, "#!/no/interpreter\n").unwrap();
    let refused = gateway.launch(Launch { program: script.clone(), ..sh("") }).await.unwrap_err();
    let LaunchError::Start { source, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = gateway.launch(Launch { program: script, ..sh("") }).await.unwrap_err();
    let LaunchError::Start { source, .. } = &refused else { panic!("{refused:?}") };
    assert!(source.to_string().contains("interpreter"), "{source}");
    let launch = open("read x");
    let twice = gateway.launch(launch.clone()).await.unwrap();
    assert!(gateway.launch(launch).await.unwrap_err().to_string().contains("cannot start"));
    drop(twice);
    gateway.leave().await;
    assert!(gateway.launch(sh("")).await.is_err(), "the gateway has disconnected");
    assert!(holder.gateway().await.survivors().await.is_empty());
    holder.end().await;
}

#[tokio::test]
async fn the_holder_confines_its_agents_and_no_request_can_ask_for_less() {
    let sandbox = Sandbox::probe(SandboxMode::Landlock).expect("this machine has Landlock");
    let holder = Served::with(|options| options.sandbox = sandbox.clone());
    let free = holder.gateway().await;
    let refused = free.launch(sh("echo free")).await.unwrap_err();
    let LaunchError::Start { source, .. } = &refused else { panic!("{refused:?}") };
    assert!(source.to_string().contains("AGENT_SANDBOX=landlock"), "{source}");
    free.leave().await;
    let gateway = HeldLauncher::connect(&holder.state(), sandbox).await.unwrap();
    let key = holder.state().join("holder.key");
    let mut process = gateway
        .launch(sh(&format!("cat {} && echo read || echo refused", key.display())))
        .await
        .unwrap();
    let received = read_recording(&mut process, 0).await;
    assert_eq!(received.text(Pipe::Stdout), ["refused"]);
    holder.end().await;
}

#[tokio::test]
async fn a_socket_may_have_a_long_path_and_be_left_over() {
    let deep = "a-folder-with-a-rather-long-name/".repeat(8);
    let holder = Served::with(|options| {
        options.state = options.state.join(&deep);
        fs::create_dir_all(&options.state).unwrap();
        fs::write(options.state.join("holder.sock"), "").unwrap();
        options.means = Means::Descent;
    });
    let gateway = gateway(&holder.state().join(deep)).await;
    let mut process = gateway.launch(sh("echo $AETHEEL_RUN")).await.unwrap();
    let received = read_recording(&mut process, 0).await;
    let owner = gateway.scratch_prefix();
    let owner = owner.strip_prefix("aetheel-").unwrap();
    assert!(texts(&received)[0].starts_with(owner), "{received:?} of {owner}");
    holder.end().await;
}

/// A separate holder, started as `aetheel run` starts one.
struct Started {
    folder: TempDir,
}

impl Started {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    async fn gateway(&self) -> HeldLauncher {
        self.gateway_with(Sandbox::Off).await
    }

    async fn gateway_with(&self, sandbox: Sandbox) -> HeldLauncher {
        let program = Some(PathBuf::from(env!("CARGO_BIN_EXE_aetheel")));
        let holding = HolderStart { program, claim_within: Duration::from_secs(30) };
        HeldLauncher::start_or_connect(self.folder.path(), sandbox, holding).await.unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("holder.log")).unwrap()
    }

    /// Returns its process ids.
    fn pids(&self) -> Vec<i32> {
        let name = self.folder.path().display().to_string();
        let ours = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.starts_with("aetheel-hold ") && line.contains(&name)
        };
        pids().into_iter().filter(ours).collect()
    }

    fn pid(&self) -> i32 {
        let pids = self.pids();
        assert_eq!(pids.len(), 1, "{pids:?}");
        pids[0]
    }

    fn kill(&self, signal: KillSignal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for pid in self.pids() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), KillSignal::TERM);
        }
    }
}

#[tokio::test]
async fn a_started_holder_is_detached_and_ends_when_it_holds_nothing() {
    let holder = Started::new();
    // A descriptor that child processes inherit.
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
    let gateway = holder.gateway().await;
    drop(writer);
    let ended = std::thread::spawn(move || std::io::Read::read(&mut { reader }, &mut [0]).unwrap());
    until("no process holds the other end", || ended.is_finished()).await;
    let pid = holder.pid();
    let own = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session: i32 = own.rsplit(')').next().unwrap().split(' ').nth(4).unwrap().parse().unwrap();
    assert_eq!(session, pid);
    assert_eq!(gateway.version(), env!("CARGO_PKG_VERSION"));
    let mut process = gateway.launch(sh("echo done")).await.unwrap();
    assert_eq!(texts(&read_recording(&mut process, 0).await), ["done"]);
    gateway.leave().await;
    until("the holder ends", || holder.pids().is_empty()).await;
    assert!(!holder.folder.path().join("holder.sock").exists());
    let log = fs::read_to_string(holder.folder.path().join("holder.log")).unwrap();
    assert!(log.contains("holder: ready"), "{log}");
}

#[tokio::test]
async fn the_processes_of_a_killed_holder_end_and_the_next_launch_starts_another() {
    let holder = Started::new();
    let gateway = holder.gateway().await;
    let launch = sh("echo here; sleep 1000");
    let run = launch.run.clone();
    let mut process = gateway.launch(launch).await.unwrap();
    line(&mut process, "here").await;
    holder.kill(KillSignal::KILL);
    let received = read_all(&mut process).await;
    assert_eq!(received.how, Some(Exit::Unknown));
    assert!(received.tail.contains("holds agents is gone"), "{}", received.tail);
    until("the holder is dead", || holder.pids().is_empty()).await;
    let mut next = gateway.launch(sh("echo again; sleep 1000")).await.unwrap();
    line(&mut next, "again").await;
    assert!(living(&run).is_empty(), "leftovers of a dead holder are ended");
    holder.kill(KillSignal::TERM);
    assert_eq!(read_all(&mut next).await.how, Some(Exit::Unknown), "it ended with the holder");
    until("the holder ends", || holder.pids().is_empty()).await;
}

#[tokio::test]
async fn a_bound_launcher_fails_after_its_holder_is_lost_and_the_next_one_has_other_folders() {
    let holder = Started::new();
    let gateway = holder.gateway().await;
    let before = gateway.bind().await.unwrap();
    assert_eq!(before.scratch_prefix(), gateway.scratch_prefix());
    holder.kill(KillSignal::KILL);
    until("the holder is dead", || holder.pids().is_empty()).await;
    // The connection may not have ended yet.
    let lost = before.launch(sh("sleep 1000")).await;
    assert!(matches!(lost, Err(LaunchError::HolderLost(_))), "{lost:?}");
    let after = gateway.bind().await.unwrap();
    assert_ne!(after.scratch_prefix(), before.scratch_prefix());
    // Data that is kept before a launch reaches the holder that starts the process.
    let launch = sh("echo here; sleep 1000");
    let run = launch.run.clone();
    after.store_keepsake(&run, b"kept".to_vec());
    let mut process = after.launch(launch).await.unwrap();
    line(&mut process, "here").await;
    gateway.leave().await;
    let next = holder.gateway().await;
    assert_eq!(only(&next).await.keepsake, b"kept");
    next.end(&run);
}

#[tokio::test]
async fn a_stopped_holder_sends_the_output_but_no_exit() {
    let holder = Served::new();
    let gateway = holder.gateway().await;
    let launch = sh("echo one; echo two; sleep 1000");
    let run = launch.run.clone();
    let mut process = gateway.launch(launch).await.unwrap();
    lines(&mut process, 2).await;
    holder.end().await;
    let received = read_all(&mut process).await;
    assert_eq!((received.how, living(&run)), (Some(Exit::Unknown), vec![]));
    assert!(received.tail.contains("holds agents is gone"), "{}", received.tail);
}

#[tokio::test]
async fn a_service_manager_is_notified_of_readiness_and_ends_everything_with_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let told = tokio::net::UnixDatagram::bind(folder.path().join("notify")).unwrap();
    let mut holder = Command::new(env!("CARGO_BIN_EXE_aetheel-hold"))
        .env_clear()
        .env("CONFIG_DIR", folder.path())
        .env("NOTIFY_SOCKET", folder.path().join("notify"))
        .env("AGENT_SANDBOX", "off")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut news = [0; 64];
    let length = timeout(SOON, told.recv(&mut news)).await.unwrap().unwrap();
    assert_eq!(&news[..length], b"READY=1");
    let state = folder.path().join("state");
    for name in ["holder.sock", "holder.key", "holder.lock"] {
        let mode = fs::metadata(state.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let gateway = HeldLauncher::connect(&state, Sandbox::Off).await.unwrap();
    let launch = sh("trap '' TERM; echo here; sleep 1000");
    let run = launch.run.clone();
    let mut process = gateway.launch(launch).await.unwrap();
    line(&mut process, "here").await;
    gateway.leave().await;
    sleep(Duration::from_millis(100)).await;
    assert!(holder.try_wait().unwrap().is_none(), "the holder continues");
    kill_process(Pid::from_raw(holder.id() as i32).unwrap(), KillSignal::TERM).unwrap();
    until("the holder ends", || holder.try_wait().unwrap().is_some()).await;
    assert_eq!(holder.wait().unwrap().code(), Some(0));
    assert_eq!(living(&run), Vec::<String>::new());
}

#[tokio::test]
async fn a_holder_continues_when_its_log_is_no_longer_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut holder = Command::new(env!("CARGO_BIN_EXE_aetheel-hold"))
        .args(["--sandbox", "off", "--state"])
        .arg(folder.path())
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let first = gateway(folder.path()).await;
    drop(holder.stderr.take());
    let launch = sh("echo here; sleep 1000");
    let run = launch.run.clone();
    let mut process = first.launch(launch).await.unwrap();
    line(&mut process, "here").await;
    first.leave().await;
    drop(process);
    let second = gateway(folder.path()).await;
    assert_eq!(only(&second).await.run, run);
    second.leave().await;
    kill_process(Pid::from_raw(holder.id() as i32).unwrap(), KillSignal::TERM).unwrap();
    until("the holder ends", || holder.try_wait().unwrap().is_some()).await;
    assert_eq!(holder.wait().unwrap().code(), Some(0));
    assert_eq!(living(&run), Vec::<String>::new());
}

/// Runs in a PID namespace of its own. Its session stays outside, as with a container's `exec`.
fn in_namespace(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args([
        "--map-current-user",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        program,
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[tokio::test]
async fn a_holder_in_another_pid_namespace_detaches_and_refuses_clients_that_it_cannot_see() {
    let status = in_namespace("true").status();
    let found = match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("`unshare --pid` fails: {other:?}")),
    };
    if !needs::met("namespaces", found, "allow user and PID namespaces") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut holder = in_namespace(env!("CARGO_BIN_EXE_aetheel-hold"))
        .args(["--detach", "--state"])
        .arg(folder.path())
        .spawn()
        .unwrap();
    let refused = async {
        loop {
            match HeldLauncher::connect(folder.path(), Sandbox::Off).await {
                Err(HolderError::NoAnswer { .. }) => sleep(Duration::from_millis(5)).await,
                other => return other.unwrap_err().to_string(),
            }
        }
    };
    let refused = timeout(SOON, refused).await.expect("a holder");
    assert!(refused.contains("another PID namespace"), "{refused}");
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn a_missing_folder_is_refused_and_not_created() {
    let folder = tempfile::tempdir().unwrap();
    for missing in [folder.path().join("nosuch"), folder.path().join("nosuch/state")] {
        let refused = Command::new(env!("CARGO_BIN_EXE_aetheel-hold"))
            .arg("--state")
            .arg(&missing)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(78), "{told}");
        assert!(told.contains("hint: name CONFIG_DIR/state"), "{told}");
        assert!(!missing.exists());
    }
}

#[test]
fn the_help_of_the_holder_describes_it() {
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let separate = env!("CARGO_BIN_EXE_aetheel-hold");
    for (program, arguments) in
        [(separate, &["--help"][..]), (env!("CARGO_BIN_EXE_aetheel"), &["hold", "--help"][..])]
    {
        let (code, help) = run(program, arguments);
        assert_eq!(code, Some(0));
        for part in [
            "Keep agents running while the gateway restarts",
            "--state <FOLDER>",
            "--claim-within <SECONDS>",
            "--leave-when-empty",
            "--sandbox <SANDBOX>",
        ] {
            assert!(help.contains(part), "{help}");
        }
        assert!(!help.contains("--detach"), "{help}");
    }
    // The gateway compares this line.
    let version = format!("aetheel-hold {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(separate, &["--version"]), (Some(0), version));
}

#[test]
fn a_wrong_command_line_is_refused_in_the_form_of_the_log() {
    let refused = Command::new(env!("CARGO_BIN_EXE_aetheel-hold"))
        .arg("--nonsense")
        .env_remove("LOG_FORMAT")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(64));
    let line: serde_json::Value = serde_json::from_slice(&refused.stderr).unwrap();
    assert!(line["message"].as_str().unwrap().contains("--nonsense"), "{line}");
}

#[tokio::test]
async fn the_next_holder_of_a_folder_has_the_tool_relay_at_the_same_port() {
    let served = Served::new();
    let port = served.gateway().await.tool_port();
    assert!(port.is_some());
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    served.stop.cancel();
    timeout(SOON, served.task).await.unwrap().unwrap().unwrap();
    fs::rename(served.folder.path().join("state"), &state).unwrap();
    let next = Served::with(|options| options.state.clone_from(&state));
    assert_eq!(gateway(&state).await.tool_port(), port);
    next.end().await;
}
