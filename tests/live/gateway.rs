//! The whole gateway, `aetheel console --backend claude`, with folders of its own and a scripted
//! model service.
//!
//! Every conversation here is also checked for conditions that must always hold: no process of a
//! run outlives it, every recording can be read and has an ending, and no printed or written text
//! contains a secret.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use aetheel_recording::{EntryKind, Header, ParsedRecording, RecordingEntry};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::fixture::{LiveClaude, PROGRAM_KEY};
use crate::support::model_server::{ModelServer, PATIENCE};

/// Secrets that the gateway has and agents must not see.
pub const CANARIES: [(&str, &str); 3] = [
    ("DISCORD_BOT_TOKEN", "MTIzNDU2Nzg5MDEyMzQ1Njc4.canary.of-the-bot-token"),
    ("AWS_SECRET_ACCESS_KEY", "canary-of-another-secret"),
    ("UNRELATED", "canary-of-a-plain-variable"),
];

/// A gateway that can be started several times with the same folders.
pub struct LiveGateway {
    /// The service that its agents use instead of Anthropic's.
    pub model: ModelServer,
    root: TempDir,
    environment: BTreeMap<String, String>,
}

/// A running gateway. It is killed when this is dropped.
pub struct Console<'a> {
    gateway: &'a LiveGateway,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Printed,
    stderr: Printed,
}

/// Everything that a gateway printed until it ended.
#[derive(Debug)]
pub struct ConsoleOutput {
    pub stdout: String,
    pub stderr: String,
    pub status: ExitStatus,
}

/// One turn's recording.
#[derive(Debug)]
pub struct Recorded {
    pub header: Header,
    pub entries: Vec<RecordingEntry>,
}

impl LiveGateway {
    /// Sets up folders for a gateway with all its defaults.
    ///
    /// # Panics
    ///
    /// If the CLI or the backend is missing.
    pub fn new(model: ModelServer) -> Self {
        let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("backends/claude.wasm");
        assert!(
            component.is_file(),
            "no backend at {}\nhint: run `make test-live`, or `make guests` first",
            component.display()
        );
        let root = tempfile::tempdir().unwrap();
        for folder in ["config", "workspace", "backends", "home"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        std::fs::copy(component, root.path().join("backends/claude.wasm")).unwrap();
        let mut environment: BTreeMap<String, String> =
            LiveClaude::variables(&model, &root.path().join("home")).into_iter().collect();
        let program = LiveClaude::installed().display().to_string();
        let folder = |name: &str| root.path().join(name).display().to_string();
        let own = [
            ("BACKEND_CLI_PATH", program),
            ("BACKENDS_DIR", folder("backends")),
            // The matrix tests long-lived agents.
            ("BACKEND_RUN", "one-shot".to_owned()),
            ("CACHE_DIR", super::agents::cache()),
            ("CONFIG_DIR", folder("config")),
            ("LOG_LEVEL", "info".to_owned()),
            ("RECORDINGS_DIR", folder("recordings")),
            ("WORKSPACE_DIR", folder("workspace")),
        ];
        environment.extend(own.map(|(name, value)| (name.to_owned(), value)));
        environment.extend(CANARIES.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Self { model, root, environment }
    }

    /// Sets a variable of the gateway's environment.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Removes a variable from the gateway's environment.
    pub fn without(mut self, name: &str) -> Self {
        self.environment.remove(name);
        self
    }

    /// Returns a path below the gateway's folders, for example of `config/memory.md`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Writes a file below the gateway's folders.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Reads a file below the gateway's folders.
    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Starts the console, enters these lines, closes its input, and waits until it ends.
    pub async fn talk(&self, lines: &[&str]) -> ConsoleOutput {
        let mut talk = self.start();
        for line in lines {
            talk.say(line).await;
        }
        talk.ended().await
    }

    /// Starts the console.
    pub fn start(&self) -> Console<'_> {
        self.run(&["console", "--backend", "claude"])
    }

    /// Starts the program with these arguments.
    pub fn run(&self, arguments: &[&str]) -> Console<'_> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_aetheel"))
            .args(arguments)
            .env_clear()
            .envs(&self.environment)
            .current_dir(self.root.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = Printed::by(child.stdout.take().expect("piped"));
        let stderr = Printed::by(child.stderr.take().expect("piped"));
        Console { gateway: self, child, stdin, stdout, stderr }
    }

    /// Returns the recordings of all turns, oldest first.
    ///
    /// # Panics
    ///
    /// If one of them cannot be read, has no ending, or contains a secret.
    #[track_caller]
    pub fn recordings(&self) -> Vec<Recorded> {
        let mut all = Vec::new();
        for day in std::fs::read_dir(self.path("recordings")).into_iter().flatten() {
            for file in std::fs::read_dir(day.unwrap().path()).unwrap() {
                let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
                self.assert_clean("a recording", &text);
                let read = ParsedRecording::read(&text).unwrap();
                all.push(Recorded { header: read.header, entries: read.entries });
            }
        }
        all.sort_by(|one, other| one.header.started.cmp(&other.header.started));
        for recorded in &all {
            assert!(
                recorded.entries.iter().any(|entry| matches!(entry.kind, EntryKind::Ending { .. })),
                "no ending: {recorded:#?}"
            );
        }
        all
    }

    /// Returns the correlation id of the last turn, as failures show it.
    #[track_caller]
    pub fn last_id(&self) -> String {
        self.recordings().pop().expect("a turn was recorded").header.link
    }

    #[track_caller]
    fn assert_clean(&self, what: &str, text: &str) {
        let key = self.environment.get(PROGRAM_KEY).map(String::as_str);
        for secret in key.into_iter().chain(CANARIES.map(|(_, value)| value)) {
            assert!(!text.contains(secret), "{what} contains {secret}: {text}");
        }
    }
}

impl Console<'_> {
    /// Enters a line.
    pub async fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Waits until stdout contains this text.
    pub async fn printed(&mut self, text: &str) {
        self.stdout.holds(text).await;
    }

    /// Waits until the log contains this text.
    pub async fn logged(&mut self, text: &str) {
        self.stderr.holds(text).await;
    }

    /// Sends a signal to the gateway, not to its agents.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Closes the input and waits until the gateway ends.
    ///
    /// # Panics
    ///
    /// If it takes longer than [`PATIENCE`], leaves processes behind, or printed a secret.
    pub async fn ended(mut self) -> ConsoleOutput {
        let pid = self.pid();
        drop(self.stdin.take());
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let status = status
            .unwrap_or_else(|_| {
                panic!("the gateway did not end: {} {}", self.stdout.so_far(), self.stderr.so_far())
            })
            .unwrap();
        let left = marked(pid);
        assert!(left.is_empty(), "processes of runs are left: {left:?}");
        let said = ConsoleOutput {
            stdout: self.stdout.all().await,
            stderr: self.stderr.all().await,
            status,
        };
        self.gateway.assert_clean("stdout", &said.stdout);
        self.gateway.assert_clean("stderr", &said.stderr);
        self.gateway.recordings();
        said
    }

    /// Returns the processes of this gateway's runs, each with its pid and command line.
    pub fn agents(&self) -> Vec<String> {
        marked(self.pid())
    }

    fn pid(&self) -> Pid {
        self.child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?))
            .expect("the gateway runs")
    }
}

impl ConsoleOutput {
    /// Returns the exit code.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Fails unless the run succeeded and printed this.
    #[track_caller]
    pub fn answers(&self, stdout: &str) {
        assert_eq!(
            (self.stdout.as_str(), self.code()),
            (stdout, Some(0)),
            "stderr: {}",
            self.stderr
        );
    }

    /// Fails unless the prompt failed and this was printed: lines that begin with `✗` or two blanks
    /// on stderr, and the others on stdout.
    #[track_caller]
    pub fn fails(&self, printed: &str) {
        let is_failure = |line: &&str| line.starts_with(['✗', ' ']);
        let (failures, answers): (Vec<&str>, Vec<&str>) =
            printed.split_inclusive('\n').partition(is_failure);
        assert_eq!(
            (self.stdout.as_str(), self.code()),
            (answers.concat().as_str(), Some(1)),
            "stderr: {}",
            self.stderr
        );
        for failure in failures {
            assert!(self.stderr.contains(failure), "{failure} is missing: {}", self.stderr);
        }
    }
}

impl Recorded {
    /// Returns the agent's arguments.
    #[track_caller]
    pub fn arguments(&self) -> &[String] {
        let launched = self.entries.iter().find_map(|entry| match &entry.kind {
            EntryKind::Launch { command, .. } => Some(&command[1..]),
            _ => None,
        });
        launched.unwrap_or_else(|| panic!("nothing was launched: {self:#?}"))
    }

    /// Returns the names of the agent's variables, sorted.
    pub fn environment(&self) -> Vec<&str> {
        let launches = self.entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::Launch { environment, .. } => Some(environment),
            _ => None,
        });
        let mut names: Vec<&str> = launches.flatten().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// Returns the value of one of the agent's flags.
    #[track_caller]
    pub fn flag(&self, flag: &str) -> Option<&str> {
        let arguments = self.arguments();
        let at = arguments.iter().position(|argument| argument == flag)?;
        Some(&arguments[at + 1])
    }
}

/// Everything that was read from a pipe so far.
struct Printed {
    text: watch::Receiver<String>,
    reader: JoinHandle<()>,
}

impl Printed {
    fn by(mut pipe: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let (sender, text) = watch::channel(String::new());
        let reader = tokio::spawn(async move {
            let mut bytes = Vec::new();
            while pipe.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
                sender.send_replace(String::from_utf8_lossy(&bytes).into_owned());
            }
        });
        Self { text, reader }
    }

    async fn holds(&mut self, wanted: &str) {
        let waiting = self.text.wait_for(|text| text.contains(wanted));
        let seen = tokio::time::timeout(PATIENCE, waiting).await.is_ok_and(|seen| seen.is_ok());
        assert!(seen, "{wanted:?} was not printed: {}", self.so_far());
    }

    fn so_far(&self) -> String {
        self.text.borrow().clone()
    }

    async fn all(&mut self) -> String {
        tokio::time::timeout(PATIENCE, &mut self.reader)
            .await
            .expect("the pipe is still open")
            .unwrap();
        self.so_far()
    }
}

/// Returns the processes with the mark of this gateway's runs: `AETHEEL_RUN=<pid
/// namespace>-<gateway pid>-…`.
pub fn marked(gateway: Pid) -> Vec<String> {
    let of_gateway = |variable: &[u8]| {
        let mark = variable.strip_prefix(b"AETHEEL_RUN=").map(String::from_utf8_lossy);
        mark.is_some_and(|mark| {
            mark.split('-').nth(1) == Some(&gateway.as_raw_nonzero().to_string())
        })
    };
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()) {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(of_gateway) {
            let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
            found.push(format!(
                "{} {}",
                process.display(),
                String::from_utf8_lossy(&command).replace('\0', " ")
            ));
        }
    }
    found
}
