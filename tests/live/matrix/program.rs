//! The gateway as a program, as an operator starts it, with secrets in all places from which it may
//! read them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::gateway::{Cell, Wishes};
use crate::support::model_server::{ModelRequest, ModelServer, Reply};

/// A part of every secret that an agent must not see, so that a leaked one can be found.
pub const SECRET: &str = "canary-of-";

/// The folders of a gateway that was not started yet.
pub struct Site {
    cell: Cell,
    folder: TempDir,
}

/// The result of a prompt.
pub struct Ran {
    /// All requests that the model received.
    pub requests: Vec<ModelRequest>,
}

impl Site {
    /// Creates the folders, with secrets in them.
    pub fn new(cell: &Cell) -> Self {
        let site = Self { cell: cell.clone(), folder: cell.folders() };
        for folder in ["credentials", "other-project", "config/state", "home/.ssh"] {
            std::fs::create_dir_all(site.path(folder)).unwrap();
        }
        site.write("gateway.env", "AWS_SECRET_ACCESS_KEY=canary-of-the-env-file\n");
        site.write("credentials/DISCORD_BOT_TOKEN", "canary-of-the-credentials");
        site.write("config/state/kept.md", "canary-of-the-state\n");
        site.write("other-project/note.txt", "canary-of-the-neighbour\n");
        site.write("home/.ssh/id", "canary-of-the-home\n");
        site.write("workspace/note.txt", "words of the workspace\n");
        site
    }

    /// Returns a path below the folders.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a path as text.
    pub fn at(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Reads a file. Returns an empty string if it does not exist.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Starts the gateway with all rights for its agent, sends a prompt whose model first uses
    /// these tools, and waits until the gateway ends.
    pub async fn run(&self, work: Reply) -> Ran {
        let model = ModelServer::replying([work, Reply::text("Done.")]).await;
        let home = self.cell.agent.settle(&model.url(), &self.path("home"));
        let variables = self.cell.variables(self.folder.path(), &home, Wishes::default());
        let mut child = Command::new(env!("CARGO_BIN_EXE_aetheel"))
            .args(["console", "--env-file", "gateway.env"])
            .env_clear()
            .envs(variables)
            .env("CREDENTIALS_DIRECTORY", self.path("credentials"))
            .env("WEBHOOK_TOKEN", "canary-of-the-environment")
            // It would take precedence over the variable in the env file.
            .env_remove("AWS_SECRET_ACCESS_KEY")
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(b"Work.\n").await.unwrap();
        drop(stdin);
        let ended = tokio::time::timeout(super::stage::PATIENCE, child.wait_with_output())
            .await
            .expect("the gateway did not end")
            .unwrap();
        let printed = format!(
            "{}{}",
            String::from_utf8_lossy(&ended.stdout),
            String::from_utf8_lossy(&ended.stderr)
        );
        assert!(ended.status.success() && printed.contains("Done."), "{}: {printed}", ended.status);
        Ran { requests: model.requests() }
    }
}

impl Ran {
    /// Returns all results of tools that the model received, each with its id.
    pub fn tool_results(&self) -> String {
        let results = self.requests.last().map(ModelRequest::tool_results).unwrap_or_default();
        results.iter().map(|(id, said)| format!("{id}: {said}\n")).collect()
    }

    /// Fails if a part of a secret reached the model.
    #[track_caller]
    pub fn assert_no_secret(&self) {
        for request in &self.requests {
            let body = request.body.to_string();
            let told = body.find(SECRET).map(|at| body[at..].chars().take(40).collect::<String>());
            assert_eq!(told, None, "it leaked: {}", self.tool_results());
        }
    }
}

/// Returns all paths below a folder, without following links.
pub fn all_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(all_below(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}
