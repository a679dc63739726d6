//! The launcher of one link, bound to the holder that ran when the link was opened.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::connection::{Connection, NoProcess};
use super::protocol::Request;
use crate::Sandbox;
use aetheel_turn::{Launch, LaunchError, Launcher, Process};

/// Launches agents through one connection only. If the connection is lost, all processes of the
/// link are lost, and the link does not use a later holder.
#[derive(Clone, Debug)]
pub(super) struct BoundLauncher {
    pub(super) connection: Arc<Connection>,
    /// Why there was no holder, if the connection was already lost.
    pub(super) unavailable: Option<String>,
    pub(super) sandbox: Sandbox,
}

impl BoundLauncher {
    async fn process(
        &self,
        program: PathBuf,
        request: impl FnOnce(u64) -> Request + Send,
    ) -> Result<Process, LaunchError> {
        if let Some(why) = &self.unavailable {
            return Err(LaunchError::Start { program, source: io::Error::other(why.clone()) });
        }
        self.connection.process(request).await.map_err(|error| match error {
            NoProcess::Failed(failure) => failure.into(),
            NoProcess::Gone => LaunchError::HolderLost(program),
        })
    }
}

#[async_trait]
impl Launcher for BoundLauncher {
    async fn launch(&self, launch: Launch) -> Result<Process, LaunchError> {
        let (program, sandbox) = (launch.program.clone(), (&self.sandbox).into());
        let launch = Box::new(launch.into());
        self.process(program, |stream| Request::Launch { stream, launch, sandbox }).await
    }

    fn holds(&self) -> bool {
        true
    }

    fn scratch(&self) -> String {
        self.connection.hello.scratch.clone()
    }

    async fn adopt(&self, run: &str, proc: u32, heard: u64) -> Result<Process, LaunchError> {
        let run = run.to_owned();
        let program = PathBuf::from(format!("process {proc} of run {run}"));
        self.process(program, |stream| Request::Adopt { stream, run, proc, heard }).await
    }

    fn keep(&self, run: &str, keepsake: Vec<u8>) {
        self.connection.say(&Request::Keep { run: run.to_owned(), keepsake });
    }

    fn end(&self, run: &str) {
        self.connection.say(&Request::End { run: run.to_owned() });
    }
}
