//! `aetheel status`, `logs`, `stop` and `restart`: the running gateway of a configuration folder.
//! Tested by `tests/gateway/operation.rs`.

mod background;
mod logs;
mod status;
mod stop;

use clap::Subcommand;

pub(super) use self::background::{BackgroundStart, BackgroundStartError};
use self::logs::LogsArgs;
use super::context::{block_on, with_settings};
use crate::cli::{Common, JsonArgs};
use aetheel_store::workspace::ServiceUnit;

/// The commands about the running gateway.
#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Show whether a gateway runs, since when, its Discord connection, turns and last problems.
    /// Exit codes: 0 it runs, 1 it does not respond, 3 it does not run
    #[command(after_help = "Examples:
  aetheel status
  aetheel status --json | jq .work.running")]
    Status(JsonArgs),
    /// Show the log of the gateway, from the journal of systemd or from its file
    #[command(after_help = "Examples:
  aetheel logs --since 30m
  aetheel logs -f")]
    Logs(LogsArgs),
    /// End the running gateway and wait until it has ended; agents continue until the next start if
    /// a holder keeps them
    #[command(after_help = "Examples:
  aetheel stop
  aetheel stop --env-file /etc/aetheel/settings.env")]
    Stop(Common),
    /// End the running gateway and start it again while agents continue. Without a service manager,
    /// start it in the background
    #[command(after_help = "Examples:
  aetheel restart
  aetheel restart --env-file /etc/aetheel/settings.env")]
    Restart(Common),
}

impl GatewayCommand {
    pub(super) fn run(self) -> u8 {
        match self {
            Self::Status(args) => {
                with_settings(&args.common, None, |settings| status::run(&settings, args.json))
            }
            Self::Logs(args) => args.run(),
            Self::Stop(common) => {
                with_settings(&common, None, |settings| block_on(stop::stop(&settings.config)))
            }
            // The settings are not read here: the secrets stay in the environment for the new
            // process.
            Self::Restart(common) => block_on(stop::restart(&common)),
        }
    }
}

/// Returns the arguments of `systemctl` or `journalctl` that select the manager of a unit.
fn manager(unit: &ServiceUnit) -> &'static [&'static str] {
    if unit.user { &["--user"] } else { &[] }
}
