//! `aetheel status`, `logs`, `stop` and `restart`: the running gateway of a configuration folder.
//! Tested by `tests/gateway/operation.rs`.

mod background;
mod logs;
mod status;
mod stop;

pub(super) use self::background::{BackgroundStart, BackgroundStartError};
use super::context::{block_on, with_settings};
use crate::cli::GatewayCommand;
use aetheel_store::workspace::ServiceUnit;

/// Runs a command and returns the exit code.
pub(super) fn run(command: GatewayCommand) -> u8 {
    match command {
        GatewayCommand::Status { common, json } => {
            with_settings(&common, None, |settings| status::run(&settings, json))
        }
        GatewayCommand::Logs { common, follow, since } => {
            with_settings(&common, None, |settings| {
                block_on(logs::run(&settings.config, follow, since))
            })
        }
        GatewayCommand::Stop(common) => {
            with_settings(&common, None, |settings| block_on(stop::stop(&settings.config)))
        }
        // The settings are not read here: the secrets stay in the environment for the new process.
        GatewayCommand::Restart(common) => block_on(stop::restart(&common)),
    }
}

/// Returns the arguments of `systemctl` or `journalctl` that select the manager of a unit.
fn manager(unit: &ServiceUnit) -> &'static [&'static str] {
    if unit.user { &["--user"] } else { &[] }
}
