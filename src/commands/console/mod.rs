//! `aetheel console`: a conversation at the terminal.

#[cfg_attr(not(feature = "console"), path = "session_absent.rs")]
mod session;

use clap::Args;

use super::context::{block_on_command, run_with};
use crate::cli::Common;
use crate::startup::settings::{self, WithoutSettings};

/// Arguments of `aetheel console`.
#[derive(Args, Debug)]
pub struct ConsoleArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// Backend to talk to, instead of AGENT_BACKEND
    #[arg(long, value_name = "BACKEND")]
    backend: Option<String>,
}

impl ConsoleArgs {
    pub(super) fn run(self) -> u8 {
        let settings = settings::read(&self.common, self.backend, WithoutSettings::Console, true);
        run_with(settings, &self.common, |settings| block_on_command(session::run(settings)))
    }
}
