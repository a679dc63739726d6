//! `aetheel upgrade`: replaces the program of the gateway while its agents continue.
//!
//! The new program first checks this installation and compares its recordings. If that fails,
//! nothing is changed. Otherwise its file replaces the old one, and the running gateway is asked to
//! hand over (SIGUSR2): it exits and leaves its work running for the next gateway. Tested by
//! `tests/gateway/upgrade.rs`.

mod new_program;
mod swap;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use self::new_program::{NewProgram, ProgramCheckError};
use self::swap::{Swapped, swap, swap_beside};
use crate::cli::{Common, exit};
use crate::commands::context::block_on;
use crate::commands::gateway::{BackgroundStart, BackgroundStartError};
use crate::commands::serving::{HandoverError, HandoverResult, ServingGateway};
use crate::kit_program;
use crate::startup::StartRefusal;
use crate::startup::settings::{self, WithoutSettings};
use crate::terminal::{line, print_stderr, set_format};
use aetheel_model::plain::{counted, with_causes};
use aetheel_process::OperatorCommand;
use aetheel_process::holder::PROGRAM;
use aetheel_settings::Config;
use aetheel_store::workspace::LockOwner;

/// Time limit for a program to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
enum UpgradeError {
    #[error("`{}` is not a file that can be executed; name the new program with `--binary PATH`", .0.display())]
    NotExecutable(PathBuf),
    #[error("`{}` does not report that it is aetheel: {why}; name the new program with `--binary PATH`", program.display())]
    NotOurs { program: PathBuf, why: String },
    #[error(transparent)]
    NotFit(#[from] ProgramCheckError),
    #[error("cannot find the file of this program: {0}; name the new program with `--binary PATH`")]
    NoProgram(std::io::Error),
    #[error("cannot replace `{}`: {why}; run this as its owner, or put the new program there yourself and run `aetheel upgrade` without `--binary`", installed.display())]
    NotReplaced { installed: PathBuf, why: std::io::Error },
    #[error(transparent)]
    NotHandedOver(#[from] HandoverError),
    #[error(transparent)]
    NotStarted(#[from] BackgroundStartError),
}

/// Arguments of `aetheel upgrade`.
#[derive(Args, Debug)]
pub struct UpgradeArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// The new program; by default this one
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Do not compare recordings, which fails if the new version reads other answers from them
    #[arg(long)]
    ignore_recordings: bool,
}

impl UpgradeArgs {
    pub(super) fn run(self) -> u8 {
        // The settings are not read with the secrets, which stay in the environment for the new
        // program.
        block_on(check_and_upgrade(&self))
    }
}

async fn check_and_upgrade(args: &UpgradeArgs) -> u8 {
    let common = &args.common;
    // The secrets descriptor is left for the new program, because it can be read only once.
    let known = Common { env_file: common.env_file.clone(), secrets_fd: None, ..Common::default() };
    let settings = settings::read(&known, None, WithoutSettings::Defaults, false);
    set_format(settings.config.log_format);
    if !settings.faults.is_empty() {
        return StartRefusal::new(exit::CONFIG, settings.faults).print();
    }
    match upgrade(args, &settings.config).await {
        Ok(()) => exit::OK,
        Err(error) => {
            print_stderr(&format!("error: {}", with_causes(&error)));
            match error {
                UpgradeError::NotStarted(_) => {}
                UpgradeError::NotHandedOver(HandoverError::DoesNotLeave { .. }) => {
                    print_stderr("the previous program file is restored");
                }
                _ => print_stderr("nothing was changed"),
            }
            exit::FAILED
        }
    }
}

async fn upgrade(args: &UpgradeArgs, config: &Config) -> Result<(), UpgradeError> {
    let common = &args.common;
    let folder = &config.config_dir;
    let own = std::env::current_exe().map_err(UpgradeError::NoProgram)?;
    let new = match &args.binary {
        Some(path) => executable(path)?,
        None => own.clone(),
    };
    let version = version(&new).await?;
    line(&format!("checking with version {version}: {}", new.display()));
    let new_program = NewProgram { program: &new, common };
    new_program.check(LockOwner::current(folder).is_some()).await?;
    if !args.ignore_recordings {
        new_program.compare().await?;
    }
    let running = ServingGateway::find(folder)?;
    let installed = match &running {
        Some(gateway) => gateway.program(&own),
        None => LockOwner::last(folder)
            .and_then(|last| last.program)
            .filter(|program| program.is_file())
            .unwrap_or(own),
    };
    let swapped = swap_programs(&new, &installed)?;
    for Swapped { installed, before } in &swapped {
        let previous = before
            .as_ref()
            .map(|before| format!("; the previous version is `{}`", before.display()));
        line(&format!(
            "`{}` is version {version} now{}",
            installed.display(),
            previous.unwrap_or_default()
        ));
    }
    let start = start_command(common, &installed);
    let Some(gateway) = running else {
        line(&format!("no gateway runs here: start it with `{start}`"));
        return Ok(());
    };
    let (shutdown, held) = (
        config.shutdown_grace + config.agents.stop_grace * 2,
        gateway.holder_keeps_agents.then_some(config.agent_hold),
    );
    if held.is_none() {
        line(&format!(
            "no holder keeps the agents here (AGENT_HOLDER): the gateway ends its turns first, which may take {} s",
            shutdown.as_secs()
        ));
    }
    let successor = BackgroundStart::new(common, config, &installed);
    match gateway.hand_over(folder, shutdown).await {
        Ok(HandoverResult::Successor(next)) => {
            line(&handover_message(&next));
            Ok(())
        }
        Ok(HandoverResult::NoSuccessor) => {
            line(&format!("the gateway has ended, and {}", agents_message(held)));
            let next = match successor {
                Some(successor) => successor.start().await?,
                None => {
                    line(&format!("start the new one now: `{start}`"));
                    return Ok(());
                }
            };
            line(&handover_message(&next));
            Ok(())
        }
        Err(error) => {
            put_back(swapped);
            Err(error.into())
        }
    }
}

/// Puts the new program, and the programs of the holder and of authors from the same folder, in the
/// place of the installed ones. Returns the files that changed.
///
/// # Errors
/// A file cannot be replaced. The installed programs are in their places.
fn swap_programs(new: &Path, installed: &Path) -> Result<Vec<Swapped>, UpgradeError> {
    let not_replaced = |installed: PathBuf| move |why| UpgradeError::NotReplaced { installed, why };
    let program = swap(new, installed).map_err(not_replaced(installed.to_owned()))?;
    let mut swapped = Vec::from_iter(program);
    for name in [PROGRAM, kit_program::PROGRAM] {
        match swap_beside(new, installed, name) {
            Ok(beside) => swapped.extend(beside),
            Err(why) => {
                put_back(swapped);
                return Err(not_replaced(installed.with_file_name(name))(why));
            }
        }
    }
    Ok(swapped)
}

fn put_back(swapped: Vec<Swapped>) {
    for swapped in swapped {
        let Err(error) = swapped.undo() else { continue };
        let installed = swapped.installed.display();
        let step = match &swapped.before {
            Some(before) => format!("rename `{}` to `{installed}`", before.display()),
            None => format!("remove `{installed}`"),
        };
        print_stderr(&format!("error: the previous program cannot be restored: {error}; {step}"));
    }
}

fn handover_message(next: &LockOwner) -> String {
    let version = next.version.as_deref().map(|version| format!(", version {version}"));
    format!("handed over: the gateway is process {}{}", next.pid, version.unwrap_or_default())
}

fn agents_message(held: Option<Duration>) -> String {
    held.map_or_else(
        || "no agent is running".to_owned(),
        |held| {
            format!("its agents continue for {}", counted(held.as_secs().div_ceil(60), "minute"))
        },
    )
}

/// Returns the command that starts the gateway with the settings of this command.
fn start_command(common: &Common, program: &Path) -> String {
    let mut command = format!("{} run", program.display());
    if let Some(file) = &common.env_file {
        command.push_str(&format!(" --env-file {}", file.display()));
    }
    if let Some(number) = common.secrets_fd {
        command.push_str(&format!(" --secrets-fd {number}"));
    }
    command
}

fn executable(path: &Path) -> Result<PathBuf, UpgradeError> {
    let found = std::fs::canonicalize(path).and_then(|found| Ok((found.metadata()?, found)));
    match found {
        Ok((meta, found)) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => Ok(found),
        _ => Err(UpgradeError::NotExecutable(path.to_owned())),
    }
}

async fn version(program: &Path) -> Result<String, UpgradeError> {
    let errand = OperatorCommand {
        program: program.to_owned(),
        arguments: vec!["--version".into()],
        inherits_stdin: false,
        limit: VERSION_TIMEOUT,
    };
    let refused = |why: String| UpgradeError::NotOurs { program: program.to_owned(), why };
    let (code, said) = errand.output().await.map_err(|error| refused(error.to_string()))?;
    match said.strip_prefix("aetheel ") {
        Some(version) if code == 0 => Ok(version.to_owned()),
        _ => Err(refused(format!("`--version` ends with {code}"))),
    }
}
