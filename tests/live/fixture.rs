//! The pinned Claude Code with a home of its own and a scripted model service.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::agents::Agent;
use crate::support::model_server::{ModelServer, PATIENCE};

/// The variable with the CLI's key.
pub const PROGRAM_KEY: &str = "ANTHROPIC_API_KEY";

/// Flags of a headless run, which the backend uses too.
pub const STREAM: [&str; 5] =
    ["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"];

/// A Claude Code that can reach only the scripted model service.
pub struct LiveClaude {
    /// The program.
    pub program: PathBuf,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// `HOME`, where sessions are stored.
    pub home: TempDir,
    /// Working directory, to which sessions belong.
    pub cwd: TempDir,
    /// The service that it uses instead of Anthropic's.
    pub model: ModelServer,
}

/// A running CLI. It is killed when this is dropped.
pub struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    lines: Vec<Value>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Ended {
    /// Lines of stdout.
    pub lines: Vec<Value>,
    /// Text on stderr.
    pub stderr: String,
    /// Exit status.
    pub status: ExitStatus,
}

impl LiveClaude {
    /// Sets up a home for the installed CLI.
    ///
    /// # Panics
    ///
    /// If the CLI is not installed.
    pub fn new(model: ModelServer) -> Self {
        let home = tempfile::tempdir().unwrap();
        let cwd = tempfile::tempdir().unwrap();
        Self {
            program: Self::installed(),
            environment: Self::variables(&model, home.path()),
            home,
            cwd,
            model,
        }
    }

    /// Returns the installed program.
    ///
    /// # Panics
    ///
    /// If the CLI is not installed.
    pub fn installed() -> PathBuf {
        Agent::installed("claude").program
    }

    /// Returns an environment in which the CLI can reach only this model service.
    pub fn variables(model: &ModelServer, home: &Path) -> Vec<(String, String)> {
        Agent::installed("claude").settle(&model.url(), home).environment
    }

    /// Runs the CLI as [`LiveClaude::start`] does, and waits until it ends.
    ///
    /// # Panics
    ///
    /// As [`Running::ended`].
    pub async fn run(&self, arguments: &[&str], prompt: &str) -> Ended {
        self.start(arguments, prompt).ended().await
    }

    /// Starts the CLI with [`STREAM`] and these arguments, and begins to write the prompt to its
    /// stdin.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(&self, arguments: &[&str], prompt: &str) -> Running {
        let mut child = Command::new(&self.program)
            .args(STREAM)
            .args(arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.cwd.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().expect("piped");
        let prompt = prompt.to_owned();
        // If a CLI ends without reading its input, its output is checked.
        tokio::spawn(async move { stdin.write_all(prompt.as_bytes()).await });
        let stdout = BufReader::new(child.stdout.take().expect("piped")).lines();
        Running { child, stdout, lines: Vec::new() }
    }
}

impl Running {
    /// Sends a signal to the CLI, not to its process group.
    pub fn signal(&self, signal: Signal) {
        let pid =
            self.child.id().and_then(|id| Pid::from_raw(id as i32)).expect("the agent still runs");
        kill_process(pid, signal).unwrap();
    }

    /// Waits until a matching line was printed.
    ///
    /// # Panics
    ///
    /// If the CLI ends before, or takes longer than [`PATIENCE`].
    pub async fn printed(&mut self, wanted: impl Fn(&Value) -> bool) {
        while !self.lines.last().is_some_and(&wanted) {
            assert!(
                self.read_line().await,
                "ended without printing the expected line: {:#?}",
                self.lines
            );
        }
    }

    /// Waits until the CLI ends, and returns everything that it printed.
    ///
    /// # Panics
    ///
    /// If it is silent for longer than [`PATIENCE`], or a line is not JSON.
    pub async fn ended(mut self) -> Ended {
        while self.read_line().await {}
        let output = tokio::time::timeout(PATIENCE, self.child.wait_with_output())
            .await
            .expect("the agent did not end")
            .unwrap();
        Ended {
            lines: self.lines,
            stderr: String::from_utf8(output.stderr).unwrap(),
            status: output.status,
        }
    }

    async fn read_line(&mut self) -> bool {
        let line = tokio::time::timeout(PATIENCE, self.stdout.next_line())
            .await
            .expect("the agent printed nothing")
            .unwrap();
        self.lines.extend(line.iter().map(|line| {
            serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("no JSON: {line}"))
        }));
        line.is_some()
    }
}

impl Ended {
    /// Returns the terminal event.
    #[track_caller]
    pub fn result(&self) -> &Value {
        self.lines
            .iter()
            .rfind(|line| line["type"] == "result")
            .unwrap_or_else(|| panic!("no result: {self:#?}"))
    }

    /// Returns the final answer of a run that succeeded.
    #[track_caller]
    pub fn answer(&self) -> &str {
        let result = self.result();
        assert_eq!(result["is_error"], false, "{self:#?}");
        result["result"].as_str().unwrap_or_else(|| panic!("no answer: {self:#?}"))
    }

    /// Returns the id of the session.
    #[track_caller]
    pub fn session(&self) -> &str {
        self.result()["session_id"].as_str().expect("every result names its session")
    }

    /// Returns the streamed pieces of text or, with `thinking_delta`, of thinking.
    pub fn deltas(&self, kind: &str) -> Vec<&str> {
        let deltas = self
            .lines
            .iter()
            .map(|line| &line["event"]["delta"])
            .filter(|delta| delta["type"] == kind);
        deltas.filter_map(|delta| delta["text"].as_str().or(delta["thinking"].as_str())).collect()
    }

    /// Returns the number of lines of this `type` and, if given, `subtype`.
    pub fn count(&self, kind: &str, subtype: Option<&str>) -> usize {
        self.lines
            .iter()
            .filter(|line| {
                line["type"] == kind && subtype.is_none_or(|wanted| line["subtype"] == wanted)
            })
            .count()
    }
}
