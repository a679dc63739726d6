//! The launcher of one link, bound to the holder that ran when the link was opened.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::connection::{HolderConnection, RequestError};
use super::protocol::HolderRequest;
use crate::Sandbox;
use aetheel_turn::{AgentProcess, Launch, LaunchError, Launcher};

/// Launches agents through one connection only. If the connection is lost, all processes of the
/// link are lost, and the link does not use a later holder.
#[derive(Clone, Debug)]
pub(super) struct BoundLauncher {
    pub(super) connection: Arc<HolderConnection>,
    /// The reason why there was no holder, if the connection was already lost.
    pub(super) unavailable: Option<String>,
    pub(super) sandbox: Sandbox,
}

impl BoundLauncher {
    async fn request_process(
        &self,
        program: PathBuf,
        request: impl FnOnce(u64) -> HolderRequest + Send,
    ) -> Result<AgentProcess, LaunchError> {
        if let Some(why) = &self.unavailable {
            return Err(LaunchError::Start { program, source: io::Error::other(why.clone()) });
        }
        self.connection.request_process(request).await.map_err(|error| match error {
            RequestError::Failed(failure) => failure,
            RequestError::HolderLost => LaunchError::HolderLost(program),
        })
    }
}

#[async_trait]
impl Launcher for BoundLauncher {
    async fn launch(&self, launch: Launch) -> Result<AgentProcess, LaunchError> {
        let (program, sandbox) = (launch.program.clone(), self.sandbox.clone());
        let launch = Box::new(launch);
        self.request_process(program, |stream| HolderRequest::Launch { stream, launch, sandbox })
            .await
    }

    fn holds(&self) -> bool {
        true
    }

    fn scratch_prefix(&self) -> String {
        self.connection.hello.scratch.clone()
    }

    async fn adopt(&self, run: &str, proc: u32, lines: u64) -> Result<AgentProcess, LaunchError> {
        let run = run.to_owned();
        let program = PathBuf::from(format!("process {proc} of run {run}"));
        self.request_process(program, |stream| HolderRequest::Adopt { stream, run, proc, lines })
            .await
    }

    fn store_keepsake(&self, run: &str, keepsake: Vec<u8>) {
        self.connection.send(&HolderRequest::Keep { run: run.to_owned(), keepsake });
    }

    fn end(&self, run: &str) {
        self.connection.send(&HolderRequest::End { run: run.to_owned() });
    }
}
