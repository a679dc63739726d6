//! The real program in a folder of its own.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::component;

/// A folder in memory, if the system has one.
const MEMORY: &str = "/dev/shm";

/// Folders for configuration, workspace, backends, cache and recordings, and a temporary folder for
/// agents, which is in memory as `/tmp` is on current systems.
pub struct Home {
    folder: TempDir,
    temporary: TempDir,
}

impl Home {
    /// Creates a home with the demo and the Claude backend.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("backends")).unwrap();
        for name in ["claude", "demo"] {
            std::fs::copy(
                component(name),
                folder.path().join("backends").join(name).with_extension("wasm"),
            )
            .unwrap();
        }
        let temporary = if Path::new(MEMORY).is_dir() {
            tempfile::tempdir_in(MEMORY)
        } else {
            tempfile::tempdir()
        };
        Self { folder, temporary: temporary.unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the temporary folder of agents.
    pub fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// Starts the program with little more than this environment. It runs until its stdin is closed
    /// or it is killed.
    pub fn start(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_aetheel"))
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("TMPDIR", self.temporary.path())
            .envs([
                ("LOG_FORMAT", "json"),
                ("LOG_LEVEL", "info"),
                ("AGENT_BACKEND", "demo"),
                ("DEMO_AGENT_DELAY_MS", "0"),
            ])
            .envs(environment.iter().copied())
            .env("CACHE_DIR", self.path().join("cache"))
            .current_dir(self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Running { child, log: Some(log) }
    }
}

/// The running program. It is killed when this is dropped.
pub struct Running {
    child: Child,
    log: Option<BufReader<std::process::ChildStderr>>,
}

impl Running {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the rest of the log, so that another thread can read it.
    pub fn log(&mut self) -> impl std::io::Read + Send + 'static {
        self.log.take().unwrap()
    }

    /// Reads the log up to a line with this message and returns the line.
    pub fn until(&mut self, message: &str) -> Value {
        let mut log = String::new();
        loop {
            let begin = log.len();
            assert!(
                self.log.as_mut().unwrap().read_line(&mut log).unwrap() > 0,
                "ended before `{message}`:\n{log}"
            );
            let line: Value = serde_json::from_str(&log[begin..]).unwrap_or_default();
            if line["fields"]["message"].as_str().or(line["message"].as_str()) == Some(message) {
                return line;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
