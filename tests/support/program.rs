//! The real program as a child process, with its own folders and with an environment that the test
//! chooses. By default it runs as for users: its agents are held and confined.
//!
//! Dropping a [`Program`] kills its process and the agents in its custody. Its holder continues,
//! for the next program of the same [`Installation`]. Dropping the installation also ends the
//! holder.
#![allow(dead_code, reason = "several test modules use parts of it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use aetheel_model::permission::RECOMMENDED_PERMISSION;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;

use super::processes::{agents_of, end_holders, holders};

/// A generous limit for everything that a test waits for, because the machine may be busy.
pub const LIMIT: Duration = Duration::from_secs(30);

/// The folders of an installation: configuration, backends, workspace, recordings and the agents'
/// home.
pub struct Installation {
    folder: TempDir,
    variables: BTreeMap<String, String>,
}

impl Installation {
    /// Makes an installation with the demo backend, which answers without pauses.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["config", "backends", "workspace", "home"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let at = |name: &str| folder.path().join(name).display().to_string();
        let set = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", at("home")),
            ("CONFIG_DIR", at("config")),
            ("BACKENDS_DIR", at("backends")),
            ("WORKSPACE_DIR", at("workspace")),
            ("RECORDINGS_DIR", at("recordings")),
            // Compiled once for all tests.
            ("CACHE_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled-backends").to_owned()),
            ("AGENT_BACKEND", "demo".to_owned()),
            // `init` does not write this. About 80 assertions in 32 files compare whole
            // messages, and the default footer contains the duration of the turn. The tests of
            // footers set it.
            ("FOOTER", "none".to_owned()),
            // The settings that `aetheel init` writes.
            ("PERMISSION_MODE", RECOMMENDED_PERMISSION.mode.to_owned()),
            ("ALLOWED_TOOLS", RECOMMENDED_PERMISSION.tools.to_owned()),
            ("DEMO_AGENT_DELAY_MS", "0".to_owned()),
            // Tests write faster than people do.
            ("USER_PROMPTS_PER_MINUTE", "0".to_owned()),
        ];
        let installation =
            Self { folder, variables: set.map(|(name, value)| (name.to_owned(), value)).into() };
        fs::write(installation.backend("demo"), built("demo")).expect("written");
        installation
    }

    /// Makes an installation of existing folders, with this environment.
    pub fn of(folder: TempDir, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { folder, variables: variables.into_iter().collect() }
    }

    /// Sets a variable for all programs that are started later. An empty value unsets it.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self.variables.retain(|_, value| !value.is_empty());
        self
    }

    /// Lets programs build backends: with the toolchain and the crates of this test, and the program
    /// under test as an agent.
    #[must_use]
    pub fn with_toolchain(self) -> Self {
        let home = std::env::var("HOME").expect("a home");
        let of = |name: &str, folder: &str| {
            std::env::var(name).unwrap_or_else(|_| format!("{home}/{folder}"))
        };
        let cargo = of("CARGO_HOME", ".cargo");
        let path = format!("{cargo}/bin:{}", std::env::var("PATH").expect("a path"));
        self.with("CARGO_HOME", &cargo)
            .with("RUSTUP_HOME", &of("RUSTUP_HOME", ".rustup"))
            .with("PATH", &path)
            .with("AGENT_READ", &aetheel().parent().expect("a folder").display().to_string())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the holders that run for this installation.
    pub fn holders(&self) -> Vec<Pid> {
        holders(self.folder.path())
    }

    /// Returns the path of a backend's component.
    pub fn backend(&self, name: &str) -> PathBuf {
        self.path("backends").join(format!("{name}.wasm"))
    }

    /// Returns the text of a file in the configuration folder, or an empty text if it does not
    /// exist.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path("config").join(name)).unwrap_or_default()
    }

    /// Returns all recordings by turn.
    pub fn recordings(&self) -> BTreeMap<String, String> {
        let days = fs::read_dir(self.path("recordings"))
            .into_iter()
            .flatten()
            .map(|day| day.unwrap().path());
        let files =
            days.flat_map(|day| fs::read_dir(day).unwrap()).map(|file| file.unwrap().path());
        files
            .map(|file| {
                (
                    file.file_stem().unwrap().to_string_lossy().into_owned(),
                    fs::read_to_string(file).unwrap(),
                )
            })
            .collect()
    }

    /// Returns the content of every file in the installation, to check that something appears
    /// nowhere.
    pub fn everything(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let (mut folders, mut found) = (vec![self.folder.path().to_owned()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    folders.push(entry);
                } else {
                    found.push((entry.clone(), fs::read(&entry).unwrap_or_default()));
                }
            }
        }
        found
    }

    /// Starts the program with these arguments in this installation.
    pub fn start(&self, arguments: &[&str]) -> Program {
        self.spawn(Command::new(aetheel()).args(arguments), false)
    }

    /// Starts a shell command in which `"$0"` is the program.
    pub fn start_in_shell(&self, line: &str) -> Program {
        self.spawn(Command::new("/bin/sh").args(["-c", line]).arg(aetheel()), false)
    }

    /// Starts the program at its own terminal, which `script` from util-linux provides. Its output
    /// is on stdout.
    pub fn start_at_terminal(&self, arguments: &[&str]) -> Program {
        // A dumb terminal, so that the output contains no control sequences.
        self.start_at("dumb", &format!("exec {} {}", aetheel().display(), arguments.join(" ")))
    }

    /// Starts a shell command at a terminal of this type. `$AETHEEL` is the program.
    pub fn start_at(&self, kind: &str, command: &str) -> Program {
        let mut script = Command::new("script");
        script.args([
            "--quiet",
            "--flush",
            "--return",
            "--echo",
            "never",
            "--command",
            command,
            "/dev/null",
        ]);
        // The shell that `script` starts.
        script
            .env("SHELL", "/bin/sh")
            .env("TERM", kind)
            .env("NO_COLOR", "1")
            .env("AETHEEL", aetheel());
        self.spawn(&mut script, true)
    }

    fn spawn(&self, command: &mut Command, at_terminal: bool) -> Program {
        let kept: Vec<_> = command
            .as_std()
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        command
            .env_clear()
            .envs(&self.variables)
            .envs(kept)
            .current_dir(self.folder.path())
            .kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("cannot start {:?}: {error}", command.as_std().get_program())
        });
        Program {
            pid: Pid::from_raw(child.id().expect("it runs").cast_signed()).expect("a process id"),
            folder: self.folder.path().to_owned(),
            at_terminal,
            stdin: child.stdin.take(),
            stdout: Printed::of(child.stdout.take().expect("piped")),
            stderr: Printed::of(child.stderr.take().expect("piped")),
            child,
        }
    }

    /// Runs the program to its end with this input.
    pub async fn run(&self, arguments: &[&str], input: &str) -> Ended {
        let mut program = self.start(arguments);
        program.type_in(input).await;
        program.end_input();
        program.ended().await
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        end_holders(self.folder.path());
    }
}

/// Returns the path of the program under test.
pub fn aetheel() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_aetheel"))
}

/// Returns the path of `aetheel-kit`, which [`aetheel`] starts. Panics if it is missing or older than
/// its sources: `cargo test --test integration` alone does not build it.
pub fn aetheel_kit() -> &'static Path {
    static KIT: LazyLock<PathBuf> = LazyLock::new(|| {
        let kit = aetheel().with_file_name("aetheel-kit");
        // `cargo` lists its sources there.
        let listed = fs::read_to_string(kit.with_extension("d")).unwrap_or_default();
        let changed = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
        let newer =
            listed.split_whitespace().map(Path::new).find(|path| changed(path) > changed(&kit));
        assert!(
            kit.is_file() && newer.is_none(),
            "{} is missing or older than {newer:?}; add `--test program` to `cargo test`",
            kit.display()
        );
        kit
    });
    &KIT
}

/// Copies a program that a test starts later.
///
/// Another process writes the copy. If this process did, a child that another test starts at the
/// same time could inherit the open file, and starting the copy would fail with "Text file busy".
pub fn copy_program(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "cp {} {}", from.display(), to.display());
}

/// Returns a component that `make guests` built. Panics if it does not exist.
pub fn built(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("backends/{name}.wasm"));
    fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run `make guests` first", path.display()))
}

/// Returns the same component with other bytes, by adding a custom section.
pub fn rebuilt(mut component: Vec<u8>, mark: &str) -> Vec<u8> {
    let name = u8::try_from(mark.len()).expect("a short mark");
    component.extend([0, name + 1, name]);
    component.extend(mark.as_bytes());
    component
}

/// The result of a program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code, or 128 plus the number of the signal that ended it.
    pub code: i32,
    /// Whether the system wrote a core file or passed one to a program.
    pub core: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Returns stderr for people: lines of a JSON log as `LEVEL: MESSAGE`, others unchanged.
    pub fn faults(&self) -> String {
        let line = |line: &str| match serde_json::from_str::<serde_json::Value>(line) {
            Ok(line) => {
                let level = line["level"].as_str().unwrap_or_default().to_lowercase();
                format!("{level}: {}\n", line["message"].as_str().unwrap_or_default())
            }
            Err(_) => format!("{line}\n"),
        };
        self.stderr.lines().map(line).collect()
    }
}

/// A running program.
pub struct Program {
    pub pid: Pid,
    /// The installation's folder.
    folder: PathBuf,
    at_terminal: bool,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Printed,
    stderr: Printed,
}

impl Program {
    /// Writes to the program's stdin.
    pub async fn type_in(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is still open");
        // A program that has refused to start no longer reads.
        let _ = stdin.write_all(text.as_bytes()).await;
        let _ = stdin.flush().await;
    }

    pub fn end_input(&mut self) {
        self.stdin = None;
    }

    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until `found` returns a value for the text on stdout.
    pub async fn prints<T>(&self, what: &str, found: impl Fn(&str) -> Option<T>) -> T {
        match self.stdout.wait(|text| found(text)).await {
            Some(value) => value,
            None => panic!(
                "timed out waiting for {what}\nstdout: {}\nstderr: {}",
                self.stdout(),
                self.stderr()
            ),
        }
    }

    /// Waits until stderr contains this text.
    pub async fn tells(&self, part: &str) {
        if self.stderr.wait(|text| text.contains(part).then_some(())).await.is_none() {
            panic!(
                "timed out waiting for {part:?}\nstdout: {}\nstderr: {}",
                self.stdout(),
                self.stderr()
            );
        }
    }

    /// Waits for a log line whose message begins with this text, and returns its fields.
    pub async fn logs(&self, message: &str) -> Value {
        self.logs_where(message, |line| {
            line["message"].as_str().is_some_and(|text| text.starts_with(message))
        })
        .await
    }

    /// Waits for a log line that is wanted, and returns its fields.
    pub async fn logs_where(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        match self.stderr.wait(|text| log(text).find(|line| wanted(line))).await {
            Some(line) => line,
            None => panic!("timed out waiting for {what:?} in the log\n{}", self.stderr()),
        }
    }

    /// Returns the log lines so far.
    pub fn log(&self) -> Vec<Value> {
        log(&self.stderr()).collect()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("it runs");
    }

    /// Returns whether the program has ended.
    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("it can be asked").is_some()
    }

    /// Waits until the program has ended.
    pub async fn ended(&mut self) -> Ended {
        self.ended_within(LIMIT * 2).await
    }

    /// Waits until the program has ended, for a program that takes long.
    pub async fn ended_within(&mut self, limit: Duration) -> Ended {
        use std::os::unix::process::ExitStatusExt;
        let waited = tokio::time::timeout(limit, self.child.wait()).await;
        let status = waited.unwrap_or_else(|_| {
            panic!("the program did not end\nstdout: {}\nstderr: {}", self.stdout(), self.stderr())
        });
        let status = status.expect("it can be waited for");
        for printed in [&self.stdout, &self.stderr] {
            printed.end().await;
        }
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        let core = status.core_dumped();
        Ended { code, core, stdout: self.stdout(), stderr: self.stderr() }
    }

    /// Returns the processes of the program's runs, in its own custody and in its holder's.
    pub fn agents(&self) -> Vec<Pid> {
        let mut custodians = holders(&self.folder);
        custodians.push(self.gateway());
        agents_of(&custodians)
    }

    /// Waits until the program has this number of threads with a name.
    pub async fn has_threads(&self, name: &str, count: usize) {
        let tasks = format!("/proc/{}/task", self.gateway().as_raw_nonzero());
        let until = Instant::now() + LIMIT;
        loop {
            let threads = fs::read_dir(&tasks).expect("it runs").flatten();
            let names = threads.flat_map(|task| fs::read_to_string(task.path().join("comm")));
            let found = names.filter(|found: &String| found.trim_end() == name).count();
            if found == count {
                return;
            }
            assert!(Instant::now() < until, "{found} threads are named `{name}`, not {count}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the program's process. At a terminal, it is a child of `script`.
    pub fn gateway(&self) -> Pid {
        if !self.at_terminal {
            return self.pid;
        }
        let pid = self.pid.as_raw_nonzero();
        let children =
            fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children
            .split_whitespace()
            .find_map(|child| Pid::from_raw(child.parse().ok()?))
            .unwrap_or(self.pid)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let own = [self.gateway()];
        // The gateway first, because it could start something new when its agents end.
        let agents = agents_of(&own);
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = kill_process(own[0], Signal::KILL);
        }
        let _ = self.child.start_kill();
        for agent in agents.into_iter().chain(agents_of(&own)) {
            let _ = kill_process(agent, Signal::KILL);
        }
    }
}

/// Returns the lines of a log, which are JSON objects.
fn log(text: &str) -> impl Iterator<Item = Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// The output of a program on one of its pipes.
struct Printed {
    text: Arc<Mutex<Vec<u8>>>,
    /// The number of bytes so far. Closed when the pipe ends.
    changed: watch::Receiver<usize>,
}

impl Printed {
    fn of(mut pipe: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let (change, changed) = watch::channel(0);
        let written = Arc::clone(&text);
        tokio::spawn(async move {
            let mut piece = vec![0; 1 << 16];
            while let Ok(length @ 1..) = pipe.read(&mut piece).await {
                written.lock().unwrap().extend_from_slice(&piece[..length]);
                change.send_modify(|all| *all += length);
            }
        });
        Self { text, changed }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }

    /// Waits until `found` returns a value. Returns `None` if the time is over or the output has
    /// ended.
    async fn wait<T>(&self, found: impl Fn(&str) -> Option<T>) -> Option<T> {
        let mut changed = self.changed.clone();
        let wait = async {
            loop {
                changed.mark_unchanged();
                if let Some(value) = found(&self.text()) {
                    return Some(value);
                }
                if changed.changed().await.is_err() {
                    return found(&self.text());
                }
            }
        };
        tokio::time::timeout(LIMIT, wait).await.unwrap_or(None)
    }

    /// Waits for the end of the output. The wait is short, because another process may keep the
    /// pipe open.
    async fn end(&self) {
        let mut changed = self.changed.clone();
        let _ = tokio::time::timeout(Duration::from_secs(5), async {
            while changed.changed().await.is_ok() {}
        })
        .await;
    }
}
