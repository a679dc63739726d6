//! `aetheel stop` and `aetheel restart`.

use std::ffi::OsString;
use std::time::Duration;

use rustix::process::Signal;

use super::{BackgroundStart, manager};
use crate::cli::{Common, exit};
use crate::commands::serving::{HandoverError, ServingGateway, wait};
use crate::startup::StartRefusal;
use crate::startup::settings::{self, WithoutSettings};
use crate::terminal::{line, print_stderr, set_format};
use aetheel_model::plain::{counted, with_causes};
use aetheel_process::{OperatorCommand, OperatorCommandError};
use aetheel_settings::Config;
use aetheel_store::workspace::{LockOwner, ServiceUnit};

/// Time limit for `systemctl`, which waits for turns that end.
const SYSTEMCTL_TIMEOUT: Duration = Duration::from_secs(3_600);
/// Time limit for a gateway that a service manager starts.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);

/// Ends the gateway, and returns the exit code.
pub(super) async fn stop(config: &Config) -> u8 {
    let folder = &config.config_dir;
    let gateway = match ServingGateway::find(folder) {
        Ok(Some(gateway)) => gateway,
        Ok(None) => {
            line(&format!("no gateway serves `{}`", folder.display()));
            return exit::OK;
        }
        Err(error) => return failed(&error),
    };
    let pid = gateway.pid();
    let stopped = match &gateway.unit {
        Some(unit) => systemctl("stop", unit).await,
        None => gateway.end(folder, Signal::TERM, shutdown(config)).await.map_err(Into::into),
    };
    if let Err(error) = stopped {
        return failed(&error);
    }
    let agents = match gateway.holder_keeps_agents {
        true => {
            let minutes = counted(config.agent_hold.as_secs().div_ceil(60), "minute");
            format!("; its agents continue for {minutes}, for the next `aetheel run`")
        }
        false => String::new(),
    };
    line(&format!("stopped: process {pid} has ended{agents}"));
    exit::OK
}

/// Ends the gateway and starts it again. Returns the exit code.
pub(super) async fn restart(common: &Common) -> u8 {
    let settings = settings::read(
        &Common { env_file: common.env_file.clone(), secrets_fd: None, ..Common::default() },
        None,
        WithoutSettings::Defaults,
        false,
    );
    set_format(settings.config.log_format);
    let config = &settings.config;
    let folder = &config.config_dir;
    let gateway = match ServingGateway::find(folder) {
        Ok(Some(gateway)) => gateway,
        Ok(None) => {
            let why =
                format!("no gateway serves `{}`; start one with `aetheel run`", folder.display());
            return failed_because(&why);
        }
        Err(error) => return failed(&error),
    };
    let pid = gateway.pid();
    if let Some(unit) = gateway.unit.clone() {
        if let Err(error) = systemctl("restart", &unit).await {
            return failed(&error);
        }
        let next = wait(RESTART_TIMEOUT, folder, |serving| {
            serving.as_ref().is_some_and(|next| next.pid != pid)
        });
        return match next.await.flatten() {
            Some(next) => restarted(&next),
            None => failed_because(&format!(
                "{} was restarted, but no gateway serves `{}` yet; `aetheel logs` shows why",
                unit.name,
                folder.display()
            )),
        };
    }
    // The new process gets the settings of this one, so they are checked before the gateway ends.
    if !settings.faults.is_empty() {
        return StartRefusal::new(exit::CONFIG, settings.faults).print();
    }
    if config.discord_bot_token.is_none() {
        return failed_because(
            "DISCORD_BOT_TOKEN is not set here; run this with the settings of the gateway, for example `aetheel restart --env-file FILE`",
        );
    }
    let own = std::env::current_exe().unwrap_or_default();
    let Some(successor) = BackgroundStart::new(common, config, &gateway.program(&own)) else {
        return failed_because(
            "secrets of `--secrets-fd` cannot be read again for the new process; use `--env-file`, or `aetheel stop` and then `aetheel run`",
        );
    };
    // With this signal, a container whose main process is the gateway is started again.
    if let Err(error) = gateway.end(folder, Signal::USR2, shutdown(config)).await {
        return failed(&error);
    }
    match successor.start().await {
        Ok(next) => restarted(&next),
        Err(error) => failed(&error),
    }
}

fn restarted(next: &LockOwner) -> u8 {
    line(&format!("restarted: the gateway is process {}", next.pid));
    exit::OK
}

/// Returns the time that turns have until the gateway ends.
fn shutdown(config: &Config) -> Duration {
    config.shutdown_grace + config.agents.stop_grace * 2
}

/// The reason why the gateway was not stopped.
#[derive(Debug, thiserror::Error)]
enum StopError {
    #[error("`systemctl {verb} {unit}` ended with exit code {code}")]
    Systemctl { verb: &'static str, unit: String, code: i32 },
    #[error("cannot run systemctl")]
    NoSystemctl(#[source] OperatorCommandError),
    #[error(transparent)]
    Signal(#[from] HandoverError),
}

/// Runs `systemctl`, which waits until the job is done.
async fn systemctl(verb: &'static str, unit: &ServiceUnit) -> Result<(), StopError> {
    let mut arguments: Vec<OsString> = manager(unit).iter().map(Into::into).collect();
    arguments.extend([verb.into(), unit.name.clone().into()]);
    let command = OperatorCommand {
        program: "systemctl".into(),
        arguments,
        inherits_stdin: true,
        limit: SYSTEMCTL_TIMEOUT,
    };
    match command.run().await {
        Ok(0) => Ok(()),
        Ok(code) => Err(StopError::Systemctl { verb, unit: unit.name.clone(), code }),
        Err(error) => Err(StopError::NoSystemctl(error)),
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> u8 {
    failed_because(&with_causes(error))
}

fn failed_because(why: &str) -> u8 {
    print_stderr(&format!("error: {why}"));
    exit::FAILED
}
