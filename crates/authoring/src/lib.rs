//! The workbench: commands to write, test and compare backends, policies and observers, at the
//! command line and in a contributor's CI.
//!
//! The program `aetheel` parses the command line, shows help and completes words in a shell. For a
//! command of this crate it starts `aetheel-kit` with the same arguments. So the gateway contains
//! neither generators of bindings nor the templates of projects.
//!
//! This crate owns the output of the commands and their exit codes (0: success, 1: the trial
//! failed, 64: the trial could not be run). A command needs a configuration only if it names a
//! backend or recording instead of a file, or works with an installation. The trials are in
//! [`aetheel_kit`].

mod bench;
mod bindings;
mod check;
mod compare;
mod componentize;
mod contract;
mod dev;
mod guest_output;
mod inspect;
mod mend;
mod new;
mod new_extension;
mod observer;
mod open;
mod policy;
mod profile;
mod record;
mod replay;
mod report;
mod reproduce;
mod resolve;
mod simulate_crash;
mod templates;
mod test;

use aetheel::cli::{BackendCommand, Cli, CliCommand, ObserverCommand, PolicyCommand, exit};
use aetheel::commands::context::{
    block_on, if_sound_but_caps, protect, with_console_settings, with_settings, with_sound_settings,
};
use aetheel::demo;
use aetheel::terminal::fail;
use aetheel_model::extension::ExtensionKind;

/// Runs a command of `aetheel-kit` and returns the exit code.
#[must_use]
pub fn run(cli: Cli) -> u8 {
    if let Err(code) = protect(&cli) {
        return code;
    }
    match cli.command {
        CliCommand::Backend(command) => run_backend(command),
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
        CliCommand::SimulateCrash { common, recording, points, json } => {
            let wish = simulate_crash::SimulateCrashOptions { recording, points, json };
            with_sound_settings(&common, |settings| block_on(simulate_crash::run(settings, wish)))
        }
        CliCommand::Report(wish) => with_console_settings(&wish.common, None, |settings| {
            block_on(report::run(settings, &wish))
        }),
        CliCommand::Reproduce { common, file, backend, json } => {
            with_settings(&common, None, |settings| {
                block_on(reproduce::run(settings, file, backend, json))
            })
        }
        // The agent of `mend --with demo` is this program.
        CliCommand::DemoAgent { arguments } => {
            demo::run(arguments, std::io::stdin(), std::io::stdout(), std::io::stderr())
        }
        _ => refuse(),
    }
}

fn run_backend(command: BackendCommand) -> u8 {
    match command {
        BackendCommand::Inspect { component, json } => block_on(inspect::run(component, json)),
        BackendCommand::Check { component, recordings, json } => {
            block_on(check::run(component, recordings, json))
        }
        BackendCommand::Test { component, cases, update, json } => {
            block_on(test::run(component, cases, update, json))
        }
        BackendCommand::Record {
            output,
            prompt,
            agent_version,
            safety,
            mode,
            live,
            until,
            command,
        } => block_on(record::run(
            output,
            record::RecordOptions { prompt, agent_version, safety, mode, live, until },
            command,
        )),
        BackendCommand::Replay { common, component, recording, diff, json } => {
            with_settings(&common, None, |settings| {
                block_on(replay::run(settings.config, component, recording, diff, json))
            })
        }
        BackendCommand::Compare { common, recordings, most, json } => {
            with_settings(&common, None, |settings| {
                let options = compare::CompareOptions { recordings, most, json };
                if_sound_but_caps(settings, |settings| block_on(compare::run(settings, options)))
            })
        }
        BackendCommand::Dev {
            common,
            folder,
            recordings,
            turns,
            build,
            component,
            against,
            live,
            once,
        } => with_settings(&common, None, |settings| {
            let options = dev::DevOptions {
                folder,
                recordings,
                turns,
                build,
                component,
                against,
                live,
                once,
            };
            block_on(dev::run(settings.config, options))
        }),
        BackendCommand::Mend {
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
        } => with_sound_settings(&common, |settings| {
            let limits = mend::limits(rounds, minutes, max_cost, mutants);
            let options = mend::MendOptions {
                name,
                source,
                candidate,
                with,
                cases,
                recordings,
                output,
                limits,
            };
            block_on(mend::run(settings, options))
        }),
        BackendCommand::Bench { component, recording, json } => {
            block_on(bench::run(component, recording, json))
        }
        BackendCommand::Profile { component, recording, output, rounds, any_backend, json } => {
            let options = profile::ProfileOptions { output, rounds, any_backend, json };
            block_on(profile::run(component, recording, options))
        }
        BackendCommand::New { name, lang, kind, into } => new::run(name, lang, kind, into),
        BackendCommand::Bindings { lang, out } => bindings::run(lang, out),
        BackendCommand::Componentize { module, output } => componentize::run(module, output),
        _ => refuse(),
    }
}

/// Refuses a command that belongs to the program `aetheel`.
fn refuse() -> u8 {
    fail(
        "`aetheel-kit` has only the commands of backend authors; run `aetheel` with the same arguments",
    );
    exit::USAGE
}
