//! The pinned Claude Code with a home of its own and a scripted model service behind it.

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

/// What a headless run needs: the flags the backend uses too.
pub const STREAM: [&str; 5] =
    ["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"];

/// A Claude Code that can reach nothing but the scripted model service.
pub struct LiveClaude {
    /// The program.
    pub program: PathBuf,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// `HOME`; sessions are kept there.
    pub home: TempDir,
    /// Working directory; sessions belong to it.
    pub cwd: TempDir,
    /// What it takes for Anthropic's service.
    pub model: ModelServer,
}

/// A run that has begun; dropping it kills the CLI.
pub struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    lines: Vec<Value>,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// What it printed, line by line.
    pub lines: Vec<Value>,
    /// What it complained about.
    pub stderr: String,
    /// Exit status.
    pub status: ExitStatus,
}

impl LiveClaude {
    /// Sets up a home for the installed CLI.
    ///
    /// # Panics
    /// The CLI is not installed.
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
    /// The CLI is not installed.
    pub fn installed() -> PathBuf {
        Agent::installed("claude").program
    }

    /// Returns an environment in which the CLI can reach nothing but this model service.
    pub fn variables(model: &ModelServer, home: &Path) -> Vec<(String, String)> {
        Agent::installed("claude").settle(&model.url(), home).environment
    }

    /// Runs the CLI as [`LiveClaude::start`] does and waits for its end.
    ///
    /// # Panics
    /// As [`Running::ended`].
    pub async fn run(&self, arguments: &[&str], prompt: &str) -> Ended {
        self.start(arguments, prompt).ended().await
    }

    /// Starts the CLI with [`STREAM`] and these arguments and begins to write the prompt to its
    /// stdin.
    ///
    /// # Panics
    /// It cannot be started.
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
        // A CLI that ends without reading is judged by what it prints.
        tokio::spawn(async move { stdin.write_all(prompt.as_bytes()).await });
        let stdout = BufReader::new(child.stdout.take().expect("piped")).lines();
        Running { child, stdout, lines: Vec::new() }
    }
}

impl Running {
    /// Sends a signal to the CLI, not to its group.
    pub fn signal(&self, signal: Signal) {
        let pid =
            self.child.id().and_then(|id| Pid::from_raw(id as i32)).expect("the agent still runs");
        kill_process(pid, signal).unwrap();
    }

    /// Waits until a line like this was printed.
    ///
    /// # Panics
    /// The CLI ends before, or takes longer than [`PATIENCE`].
    pub async fn printed(&mut self, wanted: impl Fn(&Value) -> bool) {
        while !self.lines.last().is_some_and(&wanted) {
            assert!(
                self.read_line().await,
                "ended without printing what was waited for: {:#?}",
                self.lines
            );
        }
    }

    /// Waits for the end and returns everything that was printed.
    ///
    /// # Panics
    /// It is silent for longer than [`PATIENCE`], or something printed is no JSON.
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

    /// Returns how many lines are of this kind, by `type` and, where given, `subtype`.
    pub fn count(&self, kind: &str, subtype: Option<&str>) -> usize {
        self.lines
            .iter()
            .filter(|line| {
                line["type"] == kind && subtype.is_none_or(|wanted| line["subtype"] == wanted)
            })
            .count()
    }
}
