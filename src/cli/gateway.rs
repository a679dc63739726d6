//! Arguments of the commands about the running gateway.

use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};

use super::Common;

/// The commands about the running gateway.
#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Show whether a gateway runs, since when, its Discord connection, turns and last problems.
    /// Exit codes: 0 it runs, 1 it does not respond, 3 it does not run
    #[command(after_help = "Examples:
  aetheel status
  aetheel status --json | jq .work.running")]
    Status {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Show the log of the gateway, from the journal of systemd or from its file
    #[command(after_help = "Examples:
  aetheel logs --since 30m
  aetheel logs -f")]
    Logs {
        /// Settings shared by all commands.
        #[command(flatten)]
        common: Common,
        /// Print new lines until interrupted
        #[arg(short, long)]
        follow: bool,
        /// Only lines after this time: `30m`, `2h`, or `2026-11-28T03:00:00Z`
        #[arg(long, value_name = "TIME", value_parser = since)]
        since: Option<Timestamp>,
    },
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

#[derive(Debug, thiserror::Error)]
#[error("use a duration such as `30m` or `2h`, or a time such as `2026-11-28T03:00:00Z`")]
struct SinceError;

fn since(text: &str) -> Result<Timestamp, SinceError> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let ago = text.parse::<SignedDuration>().ok().filter(|ago| ago.is_positive());
    ago.and_then(|ago| Timestamp::now().checked_sub(ago).ok()).ok_or(SinceError)
}
