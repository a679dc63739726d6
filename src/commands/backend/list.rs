//! `aetheel backend list`: lists the backends, their features, and the reasons why one cannot work
//! here.

use clap::Args;

use crate::cli::{Common, exit};
use crate::commands::context::{block_on_command, start_log, with_sound_settings};
use crate::commands::listing::BackendListing;
use crate::progress;
use crate::startup::settings::OperatorSettings;
use crate::startup::{LoadedBackends, StartRefusal, survey};
use crate::terminal::{self, OutputStyle};
use aetheel_model::finding::Finding;
use aetheel_store::workspace::BackendLock;

/// Arguments of `aetheel backend list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// Print everything as JSON, for programs
    #[arg(long)]
    json: bool,
    /// Include agents that are not installed, each with the reason
    #[arg(long)]
    all: bool,
}

impl ListArgs {
    pub(super) fn run(self) -> u8 {
        with_sound_settings(&self.common, |settings| block_on_command(list(settings, &self)))
    }
}

async fn list(settings: OperatorSettings, args: &ListArgs) -> Result<u8, u8> {
    let OperatorSettings { config, variables, redactor, .. } = settings;
    start_log(&redactor)?;
    let looked = async {
        let loaded = LoadedBackends::load(&config, &variables).await?;
        let lock = BackendLock::read(&config.config_dir);
        Ok::<_, Vec<Finding>>(BackendListing::load(loaded).await.with_lock(lock))
    };
    let listing = progress::with_spinner(survey::loading_message(&config), looked)
        .await
        .map_err(|faults| StartRefusal::new(exit::UNAVAILABLE, faults).print())?;
    let text = match serde_json::to_string_pretty(&listing) {
        Ok(text) if args.json => text + "\n",
        _ => listing.table(OutputStyle::for_stdout(), args.all),
    };
    terminal::print(&redactor.redact(text));
    Ok(exit::OK)
}
