//! The holder's program: command line, log and signals around [`aetheel_process::holder`].
//!
//! The holder keeps agents running while the gateway restarts. [`main`] is the binary
//! `aetheel-hold`, and [`run`] is the command `aetheel hold`, which does the same. Must not depend
//! on crates of components, Discord, databases or web servers: the holder is a small program that
//! keeps its memory for as long as agents run. `tests/architecture.rs` checks the dependencies.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use aetheel_model::choice::{LogFormat, SandboxMode};
use aetheel_model::exit;
use aetheel_model::redact::Redactor;
use aetheel_process::holder::{self, HoldOptions, HolderError};
use aetheel_process::{NotifySocket, Sandbox, SandboxError};
use aetheel_runtime::log::faults::{self, fail};
use aetheel_settings::config_dir;
use aetheel_store::config_folder::ConfigFolder;

/// Keep agents running while the gateway restarts: `aetheel run` starts agents through this
/// process, and finds them again after a restart. It starts a holder itself if none runs
#[derive(Debug, Parser)]
#[command(name = holder::PROGRAM, version)]
struct HoldCommandLine {
    #[command(flatten)]
    arguments: HoldArgs,
}

/// Arguments of `aetheel-hold` and `aetheel hold`.
#[derive(Debug, Args)]
pub struct HoldArgs {
    /// State folder of the gateway, instead of CONFIG_DIR/state
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
    /// End all agents if no gateway connects within this time
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub claim_within: u64,
    /// Sandbox of all agents: `landlock`, `bwrap`, `off`, or `auto` as in AGENT_SANDBOX, whose value
    /// is the default
    #[arg(long, value_name = "SANDBOX")]
    pub sandbox: Option<String>,
    /// Exit when there is neither a gateway nor an agent, like a holder that `aetheel run` started
    #[arg(long)]
    pub leave_when_empty: bool,
    /// Detach from the session, file descriptors and cgroup of the parent process.
    #[arg(long, hide = true)]
    pub detach: bool,
}

/// Runs the binary `aetheel-hold`: reads the command line, serves, and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    aetheel_process::ignore_file_size_signal();
    faults::log_faults();
    faults::set_format(aetheel_runtime::log::format_from_environment());
    if let Err(error) = aetheel_process::seclude() {
        fail(&format!("cannot protect this process from its agents: {error}"));
        return ExitCode::from(exit::SOFTWARE);
    }
    match HoldCommandLine::try_parse() {
        Ok(line) => ExitCode::from(run(line.arguments)),
        Err(error) => {
            let is_wrong = error.use_stderr();
            if is_wrong && faults::format() == LogFormat::Json {
                let text = error.render().to_string();
                let line = aetheel_runtime::log::fault_line(LogFormat::Json, text.trim_end());
                let _ = std::io::stderr().write_all(line.as_bytes());
            } else {
                // The exit code remains if the terminal is gone.
                let _ = error.print();
            }
            ExitCode::from(if is_wrong { exit::USAGE } else { exit::OK })
        }
    }
}

/// Serves until SIGTERM or SIGINT, and returns the exit code. Must be called before any other
/// thread exists.
#[must_use]
pub fn run(arguments: HoldArgs) -> u8 {
    let format = aetheel_runtime::log::format_from_environment();
    faults::set_format(format);
    if arguments.detach
        && let Err(error) = holder::detach()
    {
        fail(&format!("cannot start a new session: {error}"));
        return exit::SOFTWARE;
    }
    if let Err(fault) = aetheel_runtime::log::start(format, &log_level(), Redactor::new(&[])) {
        fail(&fault.to_string());
        return exit::CONFIG;
    }
    if arguments.detach {
        holder::leave_cgroup();
    }
    // One thread is enough, because the holder only passes data on.
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(serve(arguments));
            runtime.shutdown_timeout(Duration::from_secs(1));
            code
        }
        Err(error) => {
            fail(&format!("cannot start the async runtime: {error}"));
            exit::SOFTWARE
        }
    }
}

async fn serve(arguments: HoldArgs) -> u8 {
    let stop = CancellationToken::new();
    if let Err(error) = stop_at_signals(&stop) {
        tracing::error!(%error, "cannot listen for signals");
        return exit::SOFTWARE;
    }
    let sandbox = match sandbox(arguments.sandbox) {
        Ok(sandbox) => sandbox,
        Err(fault) => {
            fail(&fault.to_string());
            return exit::CONFIG;
        }
    };
    let state = arguments.state.unwrap_or_else(default_state_folder);
    let mut options = HoldOptions::new(state, sandbox);
    options.claim_within = Duration::from_secs(arguments.claim_within);
    options.leave_when_empty = arguments.leave_when_empty;
    options.sole_spawner = true;
    options.ready = || NotifySocket::from_environment().ready();
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

fn default_state_folder() -> PathBuf {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let named = variable("CONFIG_DIR").map(|_| config_dir(variable));
    ConfigFolder::find(named, variable).path.join("state")
}

/// The reason why agents cannot be confined as they should.
#[derive(Debug, thiserror::Error)]
enum SandboxFault {
    #[error("--sandbox (or AGENT_SANDBOX) is {0:?}; use `auto`, `landlock`, `bwrap` or `off`")]
    UnknownWord(String),
    #[error(transparent)]
    NotAvailable(#[from] SandboxError),
}

/// Determines the sandbox of agents, and logs it. Blocks while bubblewrap is tried.
///
/// # Errors
/// [`SandboxFault`]
fn sandbox(word: Option<String>) -> Result<Sandbox, SandboxFault> {
    let set = || std::env::var("AGENT_SANDBOX").ok().filter(|word| !word.is_empty());
    let word = word.or_else(set).unwrap_or_else(|| "auto".to_owned());
    let mode = SandboxMode::parse(&word).ok_or(SandboxFault::UnknownWord(word))?;
    let sandbox = Sandbox::probe(mode)?;
    tracing::info!(sandbox = sandbox.setting(), "holder: the sandbox of all agents");
    Ok(sandbox)
}

fn log_level() -> String {
    std::env::var("LOG_LEVEL")
        .ok()
        .filter(|level| !level.is_empty())
        .unwrap_or_else(|| "info".to_owned())
}
