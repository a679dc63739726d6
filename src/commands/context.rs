//! Prepares a command: protects its process, reads the settings, loads the components.

use std::time::Duration;

use super::{Cli, CliCommand};
use crate::cli::{Common, exit};
use crate::startup::settings::{self, OperatorSettings, WithoutSettings};
use crate::startup::{LoadedBackends, StartRefusal, survey};
use crate::terminal::{self, fail};
use aetheel_model::choice::LogFormat;
use aetheel_model::finding::Finding;
use aetheel_model::redact::Redactor;
use aetheel_runtime::log;
use aetheel_settings::Config;

/// Protects this process from agents.
///
/// # Errors
/// Returns the exit code. The reason is already printed.
pub fn protect(cli: &Cli) -> Result<(), u8> {
    aetheel_process::ignore_file_size_signal();
    // Not for the demo agent: the gateway must be able to read its `/proc` files, like those of any
    // other agent.
    if !matches!(cli.command, CliCommand::DemoAgent { .. })
        && let Err(error) = aetheel_process::seclude()
    {
        fail(&format!("cannot protect this process from its agents: {error}"));
        return Err(exit::SOFTWARE);
    }
    Ok(())
}

/// Reads the settings, removes secrets from the environment, and runs a command. The command
/// reports faults of the settings itself, together with its other findings.
pub fn with_settings(
    common: &Common,
    backend: Option<String>,
    run: impl FnOnce(OperatorSettings) -> u8,
) -> u8 {
    run_with(settings::read(common, backend, WithoutSettings::Defaults, false), common, run)
}

/// Like [`with_settings`], but repairs the modes of the gateway's files first. For commands that
/// start a gateway.
pub(super) fn with_repaired_files(common: &Common, run: impl FnOnce(OperatorSettings) -> u8) -> u8 {
    run_with(settings::read(common, None, WithoutSettings::Defaults, true), common, run)
}

/// Like [`with_settings`], for commands that a person uses without a configuration folder. They
/// share the state of the console.
pub fn with_console_settings(
    common: &Common,
    backend: Option<String>,
    run: impl FnOnce(OperatorSettings) -> u8,
) -> u8 {
    run_with(settings::read(common, backend, WithoutSettings::Console, false), common, run)
}

pub(super) fn run_with(
    mut settings: OperatorSettings,
    common: &Common,
    run: impl FnOnce(OperatorSettings) -> u8,
) -> u8 {
    settings::forget_secrets(&settings);
    terminal::set_format(settings.config.log_format);
    terminal::set_verbosity(common.verbosity());
    if let Some(level) = common.verbosity().log_level() {
        level.clone_into(&mut settings.config.log_level);
    }
    run(settings)
}

/// Like [`with_settings`], but refuses settings with faults, for commands that do not report faults
/// themselves.
pub fn with_sound_settings(common: &Common, run: impl FnOnce(OperatorSettings) -> u8) -> u8 {
    with_settings(common, None, |settings| if_sound(settings, run))
}

fn if_sound(settings: OperatorSettings, run: impl FnOnce(OperatorSettings) -> u8) -> u8 {
    if settings.faults.is_empty() {
        return run(settings);
    }
    StartRefusal::new(exit::CONFIG, settings.faults).print()
}

/// Like [`if_sound`], but only warns about faults of caps, for commands that read finished turns.
pub fn if_sound_but_caps(
    mut settings: OperatorSettings,
    run: impl FnOnce(OperatorSettings) -> u8,
) -> u8 {
    let is_about_caps = |fault: &mut Finding| fault.subject == survey::BUDGETS;
    for fault in settings.faults.extract_if(.., is_about_caps) {
        terminal::warn(&fault.to_string());
    }
    if_sound(settings, run)
}

/// Starts the log of a command that usually logs only errors.
///
/// # Errors
/// Returns the exit code. The reason is already printed.
pub fn start_log(redactor: &Redactor) -> Result<(), u8> {
    start_log_with(LogFormat::Human, terminal::command_log_level(), redactor)
}

/// Starts the log of a command with this format and filter.
///
/// # Errors
/// Returns the exit code. The reason is already printed.
pub(super) fn start_log_with(
    format: LogFormat,
    filter: &str,
    redactor: &Redactor,
) -> Result<(), u8> {
    log::start(format, filter, redactor.clone()).map_err(|fault| {
        fail(&fault.to_string());
        exit::CONFIG
    })
}

/// Loads the components with `log` as the log filter.
///
/// # Errors
/// Returns the exit code. The reasons are already printed.
pub async fn load_backends(
    settings: OperatorSettings,
    log: &str,
) -> Result<(Config, Redactor, LoadedBackends), u8> {
    let OperatorSettings { config, variables, redactor, .. } = settings;
    start_log_with(LogFormat::Human, log, &redactor)?;
    let loaded = LoadedBackends::load(&config, &variables)
        .await
        .map_err(|faults| StartRefusal::new(exit::CONFIG, faults).print())?;
    Ok((config, redactor, loaded))
}

/// Like [`block_on`], for a command that ends early with the exit code of an error that is printed.
pub(super) fn block_on_command(command: impl Future<Output = Result<u8, u8>>) -> u8 {
    block_on(async { command.await.unwrap_or_else(|code| code) })
}

/// Runs a future on a new runtime. Blocking tasks that still run afterwards delay the exit by at
/// most one second.
pub fn block_on(future: impl Future<Output = u8>) -> u8 {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(future);
            runtime.shutdown_timeout(Duration::from_secs(1));
            code
        }
        Err(error) => {
            fail(&format!("cannot start the async runtime: {error}"));
            exit::SOFTWARE
        }
    }
}
