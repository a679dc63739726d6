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
pub mod context;
mod costs;
mod doctor;
mod extension_row;
mod gateway;
mod health;
mod init;
pub mod kit;
mod listing;
mod listing_rows;
mod pages;
mod ping;
mod recover;
mod serving;
mod upgrade;

use std::io::{IsTerminal as _, Write as _};

use self::backend::rollout::RolloutAction;
pub use self::completing::complete;
use self::context::{
    block_on, if_sound_but_caps, run_with, start_log, with_console_settings, with_repaired_files,
    with_settings, with_sound_settings,
};
use self::listing::BackendListing;
use crate::app;
use crate::cli::{BackendCommand, Cli, CliCommand, ClusterCommand, ClusterTask, Common, exit};
use crate::startup::settings::{self, OperatorSettings, WithoutSettings};
use crate::startup::{LoadedBackends, StartRefusal, survey};
use crate::terminal::{self, fail};
use crate::{demo, kit_program, progress};
use aetheel_model::finding::Finding;
use aetheel_store::workspace::BackendLock;

/// Runs a command and returns the exit code.
pub fn run(cli: Cli) -> u8 {
    if matches!(cli.command, CliCommand::Run(_) | CliCommand::Hold(_)) {
        terminal::log_faults();
    }
    if let Err(code) = context::protect(&cli) {
        return code;
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
        // With the same environment: these commands read the settings themselves.
        CliCommand::Backend(BackendCommand::Author(_))
        | CliCommand::Policy(_)
        | CliCommand::Observer(_)
        | CliCommand::SimulateCrash(_)
        | CliCommand::Report(_)
        | CliCommand::Reproduce(_) => {
            fail(&kit_program::start().to_string());
            exit::UNAVAILABLE
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

fn on_rollout(common: &Common, name: String, action: RolloutAction) -> u8 {
    with_sound_settings(common, |settings| block_on(backend::rollout::run(settings, name, action)))
}

fn on_cluster(common: &Common, task: ClusterTask) -> u8 {
    with_sound_settings(common, |settings| block_on(cluster::run(settings, task)))
}

/// Runs `aetheel backend list` and returns the exit code.
async fn list_backends(settings: OperatorSettings, json: bool, all: bool) -> u8 {
    let OperatorSettings { config, variables, redactor, .. } = settings;
    if let Err(code) = start_log(&redactor) {
        return code;
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
