//! The commands of the program: one module per command, and the exit codes.

mod backend;
mod check;
mod cluster;
mod costs;
mod doctor;
mod health;
mod hold;
mod init;
mod listing;
mod migrate;
mod pages;
mod recover;
mod rehearse;
mod upgrade;

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use self::listing::Listing;
use crate::app::{self, recovery};
use crate::cli::{BackendCommand, Cli, ClusterCommand, Command, Common, exit};
use crate::config::LogFormat;
use crate::console::{self, Console, Leave};
use crate::startup::settings::{self, Settings};
use crate::startup::{LoadedBackends, Prepared, Purpose, Refused, survey};
use crate::terminal::{self, Verbosity, fail, say};
use crate::{demo, process, progress, telemetry};

/// Runs a command and returns the exit code.
pub fn run(cli: Cli) -> u8 {
    process::ignore_file_size_signal();
    if matches!(cli.command, Command::Run(_) | Command::Hold(_)) {
        terminal::faults_join_the_log();
    }
    // Not for the demo agent: the gateway must be able to read its `/proc` files, like those of any
    // other agent.
    if !matches!(cli.command, Command::DemoAgent { .. })
        && let Err(error) = process::seclude()
    {
        fail(&format!("cannot keep this process out of reach of its agents: {error}"));
        return exit::SOFTWARE;
    }
    match cli.command {
        Command::DemoAgent { arguments } => {
            demo::run(arguments, std::io::stdin(), std::io::stdout(), std::io::stderr())
        }
        Command::Pages { share } => pages::run(&share),
        Command::Completions { shell } => pages::completions(shell),
        Command::Hold(wish) => hold::run(wish),
        Command::Check { common, json } => {
            with_settings(&common, None, |settings| block_on(check::run(settings, json)))
        }
        Command::Doctor { common, json, offline } => with_settings(&common, None, |settings| {
            block_on(doctor::examine(settings, doctor::Wish { json, offline }))
        }),
        Command::Health { common, json } => {
            with_settings(&common, None, |settings| health::run(&settings, json))
        }
        Command::Nodes { common, json } => {
            with_sound_settings(&common, |settings| block_on(cluster::nodes::run(settings, json)))
        }
        Command::Drain { common, node, undo, no_wait } => {
            let wish = cluster::drain::Wish { node, undo, no_wait };
            with_sound_settings(&common, |settings| block_on(cluster::drain::run(settings, wish)))
        }
        Command::Cluster(ClusterCommand::Import(common)) => {
            with_sound_settings(&common, |settings| block_on(cluster::transfer::import(settings)))
        }
        Command::Cluster(ClusterCommand::Export(common)) => {
            with_sound_settings(&common, |settings| block_on(cluster::transfer::export(settings)))
        }
        Command::Init(wish) => init::run(wish),
        Command::Migrate(wish) => {
            with_settings(&wish.common, None, |settings| migrate::run(&settings, &wish))
        }
        Command::Console { common, backend } => {
            with_settings(&common, backend, |settings| block_on(talk(settings)))
        }
        Command::Backend(BackendCommand::List { common, json, all }) => {
            with_sound_settings(&common, |settings| block_on(list(settings, json, all)))
        }
        Command::Backend(BackendCommand::Ping { common, name }) => {
            with_settings(&common, name, |settings| block_on(ping(settings)))
        }
        Command::Backend(BackendCommand::Install { common, component, pin, yes, all_nodes }) => {
            with_sound_settings(&common, |settings| {
                block_on(backend::install::run(
                    settings,
                    component,
                    backend::install::Wish { pin, yes, all_nodes },
                ))
            })
        }
        Command::Backend(BackendCommand::Approve { common, name, yes }) => {
            with_sound_settings(&common, |settings| {
                block_on(backend::approve::run(settings, name, yes))
            })
        }
        Command::Backend(BackendCommand::Rollback { common, name }) => {
            with_sound_settings(&common, |settings| {
                block_on(backend::rollback::run(settings, name))
            })
        }
        Command::Backend(BackendCommand::Replay { common, component, recording, diff, json }) => {
            with_settings(&common, None, |settings| {
                block_on(backend::replay::run(settings.config, component, recording, diff, json))
            })
        }
        Command::Backend(command) => backend::run(command),
        Command::Recover { common, dry_run, json } => {
            with_sound_settings(&common, |settings| block_on(recover::run(settings, dry_run, json)))
        }
        Command::Costs { common, days, csv, json } => {
            let form = match (csv, json) {
                (true, _) => costs::Form::Csv,
                (_, true) => costs::Form::Json,
                _ => costs::Form::Tables,
            };
            with_sound_settings(&common, |settings| block_on(costs::run(settings, days, form)))
        }
        Command::Rehearse { common, recordings, json } => {
            let wish = rehearse::Wish { recordings, json };
            with_settings(&common, None, |settings| block_on(rehearse::run(settings, wish)))
        }
        // The settings are not read here: the secrets stay in the environment for the rehearsal.
        Command::Upgrade { common, binary, ignore_recordings } => {
            block_on(upgrade::run(&common, binary, ignore_recordings))
        }
        Command::Run(common) => {
            with_settings(&common, None, |settings| block_on(app::serve(settings)))
        }
    }
}

/// Reads the settings, removes secrets from the environment, and runs a command. The command
/// reports faults of the settings itself, together with its other findings.
fn with_settings(common: &Common, backend: Option<String>, run: impl FnOnce(Settings) -> u8) -> u8 {
    let mut settings = settings::read(common, backend);
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
fn with_sound_settings(common: &Common, run: impl FnOnce(Settings) -> u8) -> u8 {
    with_settings(common, None, |settings| {
        if settings.faults.is_empty() {
            return run(settings);
        }
        Refused::new(exit::CONFIG, settings.faults).print()
    })
}

/// Runs a future on a new runtime. Blocking tasks that still run afterwards delay the exit by at
/// most one second.
fn block_on(future: impl Future<Output = u8>) -> u8 {
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

/// Runs `aetheel backend list` and returns the exit code.
async fn list(settings: Settings, json: bool, all: bool) -> u8 {
    let Settings { config, variables, redactor, .. } = settings;
    if let Err(fault) =
        telemetry::start(LogFormat::Human, terminal::command_log_level(), redactor.clone())
    {
        fail(&fault);
        return exit::CONFIG;
    }
    let looked = async {
        let loaded = LoadedBackends::load(&config, &variables).await?;
        Ok::<_, Vec<String>>(Listing::of(loaded).await)
    };
    let listing = match progress::shown(survey::loading(&config), looked).await {
        Ok(listing) => listing,
        Err(faults) => {
            return Refused::new(exit::UNAVAILABLE, faults).print();
        }
    };
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let text = match serde_json::to_string_pretty(&listing) {
        Ok(text) if json => text + "\n",
        _ => listing.table(colour, all),
    };
    // Write errors are ignored: stdout may be closed.
    let _ = std::io::stdout().write_all(redactor.clean(text).as_bytes());
    exit::OK
}

/// Runs `aetheel backend ping`, which asks a backend's agent whether it can work. Returns the exit
/// code.
async fn ping(settings: Settings) -> u8 {
    if let Err(fault) =
        telemetry::start(LogFormat::Human, terminal::command_log_level(), settings.redactor.clone())
    {
        fail(&fault);
        return exit::CONFIG;
    }
    let prepared = match Prepared::prepare(settings, Purpose::Talk).await {
        Ok(prepared) => prepared,
        Err(refused) => {
            return refused.print();
        }
    };
    let (name, redactor) = (prepared.config.agent_backend.clone(), prepared.redactor.clone());
    // The console prints nothing here, because there are no prompts.
    let (dispatcher, guard) =
        prepared.dispatcher(std::sync::Arc::new(Console::new(false, console::stdout())), None);
    let said = dispatcher.ping(&name).await;
    dispatcher.shutdown(Duration::ZERO).await;
    guard.close().await;
    match said {
        Ok(said) => {
            // Write errors are ignored: stdout may be closed. The exit code reports the result.
            let _ = writeln!(std::io::stdout(), "{}", redactor.clean(said));
            exit::OK
        }
        Err(fault) => {
            say(&format!("error: {}", redactor.clean(fault)));
            exit::UNAVAILABLE
        }
    }
}

/// Runs `aetheel console`, a conversation at the terminal. Returns the exit code.
async fn talk(settings: Settings) -> u8 {
    let began = Instant::now();
    // Failures of a turn are shown with its answer, so the log needs to show little. LOG_LEVEL
    // overrides this.
    let chosen = terminal::verbosity() != Verbosity::Usual;
    let filter = if chosen || settings.variables.contains_key("LOG_LEVEL") {
        settings.config.log_level.as_str()
    } else {
        "warn,aetheel::dispatch=error"
    };
    if let Err(fault) =
        telemetry::start(settings.config.log_format, filter, settings.redactor.clone())
    {
        fail(&fault);
        return exit::CONFIG;
    }
    let prepared = match Prepared::prepare(settings, Purpose::Talk).await {
        Ok(prepared) => prepared,
        Err(refused) => {
            return refused.print();
        }
    };
    // The console ignores the instructions for the first start; only the gateway sends them to the
    // agent.
    if let Err(refused) = prepared.boot().await {
        return refused.print();
    }
    let console = std::sync::Arc::new(Console::here(
        prepared.config.config_dir.join("state/console.history"),
    ));
    if let Some(print) = console.beside() {
        telemetry::print_beside(print);
    }
    let live = console.is_live();
    let (grace, agents) = (prepared.config.shutdown_grace, prepared.agents());
    let (dispatcher, guard) = prepared.dispatcher(console.clone(), None);
    let recovery = tokio::spawn(recovery::watch(dispatcher.clone(), agents));
    tracing::info!(
        ready_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "console ready"
    );
    let left = console::run(&dispatcher, &console).await;
    console.leave();
    recovery.abort();
    let (grace, code) = match left {
        // At a terminal the person saw the failures; a script gets an exit code.
        Ok(Leave::Done { failed }) if failed == 0 || live => (Duration::ZERO, exit::OK),
        Ok(Leave::Done { .. }) => (Duration::ZERO, exit::FAILED),
        Ok(Leave::Terminated) => (grace, exit::OK),
        Err(error) => {
            tracing::error!(%error, "cannot listen for signals");
            (Duration::ZERO, exit::SOFTWARE)
        }
    };
    dispatcher.shutdown(grace).await;
    guard.close().await;
    code
}
