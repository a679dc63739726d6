//! `aetheel hold`: keeps agents running while the gateway restarts.

use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::app::service_manager::ServiceManager;
use crate::cli::{HoldArgs, exit};
use crate::config::LogFormat;
use crate::process::holder::{self, HoldOptions, HolderError};
use crate::redact::Redactor;
use crate::startup::settings::ConfigFolder;
use crate::telemetry;
use crate::terminal::{self, fail};

/// Serves until SIGTERM or SIGINT, and returns the exit code.
pub(super) fn run(wish: HoldArgs) -> u8 {
    terminal::set_format(log_format());
    if wish.detach
        && let Err(error) = holder::detach()
    {
        fail(&format!("cannot start a new session: {error}"));
        return exit::SOFTWARE;
    }
    if let Err(fault) = telemetry::start(log_format(), &log_level(), Redactor::new(&[])) {
        fail(&fault);
        return exit::CONFIG;
    }
    if wish.detach {
        holder::leave_cgroup();
    }
    // One thread is enough, because the holder only passes data on.
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(serve(wish));
            runtime.shutdown_timeout(Duration::from_secs(1));
            code
        }
        Err(error) => {
            fail(&format!("cannot start the async runtime: {error}"));
            exit::SOFTWARE
        }
    }
}

async fn serve(wish: HoldArgs) -> u8 {
    let stop = CancellationToken::new();
    if let Err(error) = stop_at_signals(&stop) {
        tracing::error!(%error, "cannot listen for signals");
        return exit::SOFTWARE;
    }
    let mut options = HoldOptions::new(wish.state.unwrap_or_else(default_state_folder));
    options.claim_within = Duration::from_secs(wish.claim_within);
    options.leave_when_empty = wish.leave_when_empty;
    options.sole_spawner = true;
    options.ready = || ServiceManager::from_environment().ready_without_watchdog();
    match holder::hold(options, stop).await {
        Ok(()) => exit::OK,
        Err(error) => {
            let code = match error {
                HolderError::AlreadyServed(_) => exit::LOCKED,
                _ => exit::CONFIG,
            };
            // The log may not go to stderr.
            fail(&error.to_string());
            code
        }
    }
}

fn stop_at_signals(stop: &CancellationToken) -> std::io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let (mut signals, stop) = (signal(kind)?, stop.clone());
        tokio::spawn(async move {
            signals.recv().await;
            stop.cancel();
        });
    }
    // SIGHUP is ignored, because it concerns the terminal of the parent process.
    tokio::spawn(ignore(signal(SignalKind::hangup())?));
    Ok(())
}

async fn ignore(mut signals: tokio::signal::unix::Signal) {
    while signals.recv().await.is_some() {}
}

/// Returns the state folder that the gateway would use.
fn default_state_folder() -> PathBuf {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let named = variable("CONFIG_DIR").map(|_| crate::config::config_dir(variable));
    ConfigFolder::find(named, variable).path.join("state")
}

fn log_level() -> String {
    std::env::var("LOG_LEVEL")
        .ok()
        .filter(|level| !level.is_empty())
        .unwrap_or_else(|| "info".to_owned())
}

fn log_format() -> LogFormat {
    match std::env::var("LOG_FORMAT").as_deref() {
        Ok("json") => LogFormat::Json,
        Ok("human") => LogFormat::Human,
        _ => LogFormat::Auto,
    }
}
