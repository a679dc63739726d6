//! The commands of the program: one module per command, and the exit codes.

mod audit;
mod backend;
mod check;
#[cfg_attr(not(feature = "cluster"), path = "cluster_absent.rs")]
mod cluster;
mod completing;
mod config;
#[cfg_attr(not(feature = "console"), path = "console_absent.rs")]
mod console;
mod costs;
mod doctor;
mod extension_row;
mod gateway;
mod health;
mod init;
mod listing;
mod listing_rows;
mod new_extension;
mod observer;
mod pages;
mod ping;
mod policy;
mod recover;
mod serving;
mod upgrade;

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use self::backend::compare;
use self::backend::rollout::RolloutAction;
pub use self::completing::complete;
use self::listing::BackendListing;
use crate::app;
use crate::cli::{
    BackendCommand, Cli, CliCommand, ClusterCommand, Common, ObserverCommand, PolicyCommand, exit,
};
use crate::startup::settings::{self, OperatorSettings, WithoutSettings};
use crate::startup::{LoadedBackends, StartRefusal, survey};
use crate::terminal::{self, fail};
use crate::{demo, progress};
use aetheel_model::choice::LogFormat;
use aetheel_model::extension::ExtensionKind;
use aetheel_model::finding::Finding;
use aetheel_runtime::log;
use aetheel_store::workspace::BackendLock;

/// Runs a command and returns the exit code.
pub fn run(cli: Cli) -> u8 {
    aetheel_process::ignore_file_size_signal();
    if matches!(cli.command, CliCommand::Run(_) | CliCommand::Hold(_)) {
        terminal::log_faults();
    }
    // Not for the demo agent: the gateway must be able to read its `/proc` files, like those of any
    // other agent.
    if !matches!(cli.command, CliCommand::DemoAgent { .. })
        && let Err(error) = aetheel_process::seclude()
    {
        fail(&format!("cannot protect this process from its agents: {error}"));
        return exit::SOFTWARE;
    }
    match cli.command {
        CliCommand::DemoAgent { arguments } => {
            demo::run(arguments, std::io::stdin(), std::io::stdout(), std::io::stderr())
        }
        CliCommand::Pages { share } => pages::run(&share),
        CliCommand::Completions { shell } => pages::completions(shell),
        CliCommand::Hold(arguments) => aetheel_hold::run(arguments),
        CliCommand::Check { common, json } => {
            with_settings(&common, None, |settings| block_on(check::run(settings, json)))
        }
        CliCommand::Config { common, channel } => {
            with_settings(&common, None, |settings| config::run(&settings, channel.as_deref()))
        }
        CliCommand::Doctor { common, json, offline } => with_settings(&common, None, |settings| {
            block_on(doctor::examine(settings, doctor::DoctorOptions { json, offline }))
        }),
        CliCommand::Health { common, json } => {
            with_settings(&common, None, |settings| health::run(&settings, json))
        }
        CliCommand::Nodes { common, json } => on_cluster(&common, ClusterTask::Nodes { json }),
        CliCommand::Drain { common, node, undo, no_wait } => {
            on_cluster(&common, ClusterTask::Drain { node, undo, no_wait })
        }
        CliCommand::Cluster(ClusterCommand::Import(common)) => {
            on_cluster(&common, ClusterTask::Import)
        }
        CliCommand::Cluster(ClusterCommand::Export(common)) => {
            on_cluster(&common, ClusterTask::Export)
        }
        CliCommand::Init(wish) => init::run(wish),
        CliCommand::Console { common, backend } => {
            let settings = settings::read(&common, backend, WithoutSettings::Console, true);
            run_with(settings, &common, |settings| block_on(console::run(settings)))
        }
        CliCommand::Backend(BackendCommand::List { common, json, all }) => {
            with_sound_settings(&common, |settings| block_on(list_backends(settings, json, all)))
        }
        CliCommand::Backend(BackendCommand::Ping { common, name }) => {
            with_console_settings(&common, name, |settings| block_on(ping::run(settings)))
        }
        CliCommand::Backend(BackendCommand::Install {
            common,
            component,
            locked: _,
            from,
            follow_tag,
            pin,
            yes,
        }) => with_sound_settings(&common, |settings| {
            let wish = backend::install::InstallOptions { pin, yes, follow_tag };
            block_on(backend::install::run(settings, component, from, wish))
        }),
        CliCommand::Backend(BackendCommand::Approve { common, name, yes }) => {
            with_sound_settings(&common, |settings| {
                block_on(backend::approve::run(settings, name, yes))
            })
        }
        CliCommand::Backend(BackendCommand::Rollback { common, name }) => {
            with_sound_settings(&common, |settings| {
                block_on(backend::rollback::run(settings, name))
            })
        }
        CliCommand::Backend(BackendCommand::Rollout { common, name }) => {
            on_rollout(&common, name, RolloutAction::Show)
        }
        CliCommand::Backend(BackendCommand::History { common, name }) => {
            with_settings(&common, None, |settings| {
                backend::rollout::history(&settings.config, name.as_deref())
            })
        }
        CliCommand::Backend(BackendCommand::Promote { common, name }) => {
            on_rollout(&common, name, RolloutAction::Promote)
        }
        CliCommand::Backend(BackendCommand::Withdraw { common, name }) => {
            on_rollout(&common, name, RolloutAction::Withdraw)
        }
        CliCommand::Backend(BackendCommand::Replay {
            common,
            component,
            recording,
            diff,
            json,
        }) => with_settings(&common, None, |settings| {
            block_on(backend::replay::run(settings.config, component, recording, diff, json))
        }),
        CliCommand::Backend(BackendCommand::Compare { common, recordings, most, json }) => {
            with_settings(&common, None, |settings| {
                let options = compare::CompareOptions { recordings, most, json };
                if_sound_but_caps(settings, |settings| block_on(compare::run(settings, options)))
            })
        }
        CliCommand::Backend(BackendCommand::Dev {
            common,
            folder,
            recordings,
            turns,
            build,
            component,
            against,
            live,
            once,
        }) => with_settings(&common, None, |settings| {
            let options = backend::dev::DevOptions {
                folder,
                recordings,
                turns,
                build,
                component,
                against,
                live,
                once,
            };
            block_on(backend::dev::run(settings.config, options))
        }),
        CliCommand::Backend(BackendCommand::Mend {
            common,
            name,
            source,
            with,
            candidate,
            recordings,
            cases,
            rounds,
            minutes,
            max_cost,
            mutants,
            output,
        }) => with_sound_settings(&common, |settings| {
            let limits = backend::mend::limits(rounds, minutes, max_cost, mutants);
            let options = backend::mend::MendOptions {
                name,
                source,
                candidate,
                with,
                cases,
                recordings,
                output,
                limits,
            };
            block_on(backend::mend::run(settings, options))
        }),
        CliCommand::Backend(command) => backend::run(command),
        CliCommand::Policy(PolicyCommand::New { name, into }) => {
            new_extension::run(ExtensionKind::Policy, &name, into)
        }
        CliCommand::Policy(PolicyCommand::Check { component, json }) => {
            block_on(policy::check::run(component, json))
        }
        CliCommand::Policy(PolicyCommand::Replay {
            common,
            component,
            recordings,
            since,
            json,
        }) => {
            let options = policy::replay::ReplayOptions { component, recordings, since, json };
            with_settings(&common, None, |settings| {
                block_on(policy::replay::run(settings, options))
            })
        }
        CliCommand::Observer(ObserverCommand::New { name, into }) => {
            new_extension::run(ExtensionKind::Observer, &name, into)
        }
        CliCommand::Observer(ObserverCommand::Check { component, json }) => {
            block_on(observer::check(component, json))
        }
        CliCommand::Recover { common, dry_run, json } => {
            with_sound_settings(&common, |settings| block_on(recover::run(settings, dry_run, json)))
        }
        CliCommand::Costs { common, days, csv, json, what_if } => {
            let form = match (csv, json, what_if) {
                (_, _, Some(cap)) => costs::CostsFormat::WhatIf(Box::new(cap)),
                (true, ..) => costs::CostsFormat::Csv,
                (_, true, _) => costs::CostsFormat::Json,
                _ => costs::CostsFormat::Tables,
            };
            with_console_settings(&common, None, |settings| {
                if_sound_but_caps(settings, |settings| block_on(costs::run(settings, days, form)))
            })
        }
        CliCommand::Audit(command) => {
            audit::run(command, |common, run| with_sound_settings(common, run))
        }
        CliCommand::SimulateCrash { common, recording, points, json } => {
            let wish = backend::simulate_crash::SimulateCrashOptions { recording, points, json };
            with_sound_settings(&common, |settings| {
                block_on(backend::simulate_crash::run(settings, wish))
            })
        }
        CliCommand::Report(wish) => with_console_settings(&wish.common, None, |settings| {
            block_on(backend::report::run(settings, &wish))
        }),
        CliCommand::Reproduce { common, file, backend, json } => {
            with_settings(&common, None, |settings| {
                block_on(backend::reproduce::run(settings, file, backend, json))
            })
        }
        // The settings are not read here: the secrets stay in the environment for the new program.
        CliCommand::Upgrade { common, binary, ignore_recordings } => {
            block_on(upgrade::run(&common, binary, ignore_recordings))
        }
        CliCommand::Gateway(command) => gateway::run(command),
        CliCommand::Run(common) => {
            with_repaired_files(&common, |settings| block_on(app::serve(settings)))
        }
    }
}

/// Reads the settings, removes secrets from the environment, and runs a command. The command
/// reports faults of the settings itself, together with its other findings.
fn with_settings(
    common: &Common,
    backend: Option<String>,
    run: impl FnOnce(OperatorSettings) -> u8,
) -> u8 {
    run_with(settings::read(common, backend, WithoutSettings::Defaults, false), common, run)
}

/// Like [`with_settings`], but repairs the modes of the gateway's files first. For commands that
/// start a gateway.
fn with_repaired_files(common: &Common, run: impl FnOnce(OperatorSettings) -> u8) -> u8 {
    run_with(settings::read(common, None, WithoutSettings::Defaults, true), common, run)
}

/// Like [`with_settings`], for commands that a person uses without a configuration folder. They
/// share the state of the console.
fn with_console_settings(
    common: &Common,
    backend: Option<String>,
    run: impl FnOnce(OperatorSettings) -> u8,
) -> u8 {
    run_with(settings::read(common, backend, WithoutSettings::Console, false), common, run)
}

fn run_with(
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
fn with_sound_settings(common: &Common, run: impl FnOnce(OperatorSettings) -> u8) -> u8 {
    with_settings(common, None, |settings| if_sound(settings, run))
}

fn if_sound(settings: OperatorSettings, run: impl FnOnce(OperatorSettings) -> u8) -> u8 {
    if settings.faults.is_empty() {
        return run(settings);
    }
    StartRefusal::new(exit::CONFIG, settings.faults).print()
}

/// Like [`if_sound`], but only warns about faults of caps, for commands that read finished turns.
fn if_sound_but_caps(
    mut settings: OperatorSettings,
    run: impl FnOnce(OperatorSettings) -> u8,
) -> u8 {
    let is_about_caps = |fault: &mut Finding| fault.subject == survey::BUDGETS;
    for fault in settings.faults.extract_if(.., is_about_caps) {
        terminal::warn(&fault.to_string());
    }
    if_sound(settings, run)
}

fn on_rollout(common: &Common, name: String, action: RolloutAction) -> u8 {
    with_sound_settings(common, |settings| block_on(backend::rollout::run(settings, name, action)))
}

/// A task of the commands about a cluster.
enum ClusterTask {
    Nodes {
        json: bool,
    },
    Drain {
        node: String,
        /// Whether the node is to accept channels again.
        undo: bool,
        /// Whether to return without waiting for the node to hand over its channels.
        no_wait: bool,
    },
    Import,
    Export,
}

fn on_cluster(common: &Common, task: ClusterTask) -> u8 {
    with_sound_settings(common, |settings| block_on(cluster::run(settings, task)))
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
async fn list_backends(settings: OperatorSettings, json: bool, all: bool) -> u8 {
    let OperatorSettings { config, variables, redactor, .. } = settings;
    if let Err(fault) =
        log::start(LogFormat::Human, terminal::command_log_level(), redactor.clone())
    {
        fail(&fault.to_string());
        return exit::CONFIG;
    }
    let looked = async {
        let loaded = LoadedBackends::load(&config, &variables).await?;
        let lock = BackendLock::read(&config.config_dir);
        Ok::<_, Vec<Finding>>(BackendListing::load(loaded).await.with_lock(lock))
    };
    let listing = match progress::with_spinner(survey::loading_message(&config), looked).await {
        Ok(listing) => listing,
        Err(faults) => {
            return StartRefusal::new(exit::UNAVAILABLE, faults).print();
        }
    };
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let text = match serde_json::to_string_pretty(&listing) {
        Ok(text) if json => text + "\n",
        _ => listing.table(colour, all),
    };
    // Write errors are ignored: stdout may be closed.
    let _ = std::io::stdout().write_all(redactor.redact(text).as_bytes());
    exit::OK
}
