//! `aetheel-migrate`: imports the configuration of `OpenClaw` into an operator's markdown files.
//!
//! [`openclaw`] reads its files into the types of [`imported`]. [`plan`] turns these into additions
//! to the operator's files. Everything is shown before it is written. Secrets are never copied. The
//! files of `OpenClaw` are untrusted, because its agents can write to them. `docs/migrating.md`
//! describes the program, and `tests/openclaw.rs` tests it.

mod error;
mod ids;
mod imported;
mod json;
mod markdown;
mod openclaw;
mod plan;
mod schedule;
mod secrets;
mod source;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aetheel_model::exit;
use aetheel_model::plain::{clean_text, counted, one_line};
use aetheel_model::redact::Redactor;
use aetheel_store::config_folder::{ConfigFolder, FolderReason, user_folder};
use aetheel_store::workspace::LockOwner;
use clap::Parser;

use self::error::MigrateError;
use self::imported::ImportedConfig;
use self::plan::MigrationPlan;
use self::secrets::redact_likely_secrets;
use self::source::SourceFolder;

const MAX_SHOWN_LINES: usize = 400;

/// Import personality, memory, schedules and channels of OpenClaw into Aetheel
#[derive(Debug, Parser)]
#[command(name = "aetheel-migrate", version)]
struct MigrateArgs {
    /// Folder of OpenClaw, instead of ~/.openclaw
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Configuration folder of Aetheel, instead of the one that `aetheel` uses
    #[arg(long, value_name = "FOLDER", env = "CONFIG_DIR")]
    into: Option<PathBuf>,
    /// Write without a question
    #[arg(long, short, conflicts_with = "preview")]
    yes: bool,
    /// Only show the changes
    #[arg(long, visible_alias = "dry-run")]
    preview: bool,
}

/// Properties of this machine that affect the settings of `OpenClaw`.
struct LocalMachine {
    home: Option<PathBuf>,
    /// IANA name of the machine's time zone, if it has one.
    zone: Option<String>,
}

impl LocalMachine {
    /// Resolves a path in a setting, which may begin with `~/`.
    fn path(&self, text: &str) -> PathBuf {
        match (text.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(text),
        }
    }
}

fn main() -> ExitCode {
    let code = match MigrateArgs::try_parse() {
        Ok(arguments) => run(&arguments),
        Err(error) => {
            let _ = error.print();
            if error.use_stderr() { exit::USAGE } else { exit::OK }
        }
    };
    code.into()
}

/// Shows the import, asks for confirmation, and writes. Returns the exit code.
fn run(arguments: &MigrateArgs) -> u8 {
    let variable = |name: &str| std::env::var(name).ok();
    let named = arguments.into.clone().filter(|folder| !folder.as_os_str().is_empty());
    let chosen = ConfigFolder::find(named, variable);
    let mut folder = chosen.path;
    if chosen.reason == FolderReason::Nothing || !folder.is_dir() {
        if !arguments.preview {
            report(
                "there is no folder to write into yet; run `aetheel init` first, or see what would be written with `--preview`",
            );
            return exit::CONFIG;
        }
        if chosen.reason == FolderReason::Nothing {
            // The folder that `aetheel init` will create.
            folder = user_folder(variable).unwrap_or(folder);
        }
    }
    migrate(&folder, arguments).unwrap_or_else(|error| {
        report(&clean_text(&error.to_string()));
        exit::CONFIG
    })
}

fn migrate(folder: &Path, arguments: &MigrateArgs) -> Result<u8, MigrateError> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let here = LocalMachine { home, zone: schedule::local_zone() };
    let from = match (&arguments.from, &here.home) {
        (Some(from), _) => from.clone(),
        (None, Some(home)) => home.join(".openclaw"),
        (None, None) => return Err(MigrateError::NoHome),
    };
    let source = SourceFolder::open(&from)?;
    let found = openclaw::read(&source, &here)?;
    let plan = MigrationPlan::new(&found, folder)?;
    show(&found, &plan, &source.path, folder);
    if plan.changes().next().is_none() {
        line("Nothing to write.");
        return Ok(exit::OK);
    }
    if arguments.preview {
        return Ok(exit::OK);
    }
    if !arguments.yes {
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            line("Nothing was written: use --yes to write without asking.");
            return Ok(exit::OK);
        }
        line("Write this? [y/N]");
        let mut answer = String::new();
        let is_read = io::stdin().read_line(&mut answer).is_ok();
        if !(is_read && matches!(answer.trim(), "y" | "Y" | "yes")) {
            line("Nothing was written.");
            return Ok(exit::FAILED);
        }
    }
    if let Some(serving) = LockOwner::current(folder) {
        report(&format!(
            "a gateway (process {}) serves {}; stop it first, because it writes to the same files",
            serving.pid,
            folder.display()
        ));
        return Ok(exit::LOCKED);
    }
    plan.write()?;
    line("Written. Check the result: aetheel check");
    Ok(exit::OK)
}

/// Prints a line. A closed stdout is ignored.
fn line(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// Prints the reason why nothing was written to stderr.
fn report(reason: &str) {
    let _ = writeln!(io::stderr(), "error: {reason}\nnothing was written");
}

/// Prints the planned additions, and the items that are not imported, with reasons.
fn show(found: &ImportedConfig, plan: &MigrationPlan, from: &Path, into: &Path) {
    let hider = found.secrets.redactor();
    let version = found.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let head = format!("OpenClaw{version} in {}, into {}", from.display(), into.display());
    line(&redacted_line(&hider, &head));
    for (name, file) in plan.changes() {
        let how = match (file.is_new(), file.replaces_example) {
            (true, _) => "new",
            (false, true) => "in place of the unchanged example",
            (false, false) => "added to the existing text",
        };
        line(&format!("\n{name} ({how}):"));
        let added = file.added();
        // Already without secrets.
        added
            .iter()
            .take(MAX_SHOWN_LINES)
            .for_each(|text| line(&format!("  + {}", clean_text(text))));
        if added.len() > MAX_SHOWN_LINES {
            let more = counted(added.len() - MAX_SHOWN_LINES, "more line");
            line(&format!("  … and {more}"));
        }
    }
    let secrets: Vec<String> = found
        .secrets
        .places
        .iter()
        .map(|place| format!("found at {place}; set the bot's token with `aetheel init`, other keys in settings.env"))
        .collect();
    for (title, lines) in [
        ("Already there:", &plan.existing),
        ("Not written, because your files differ or do not allow it:", &plan.conflicts),
        ("Hidden in what is written, because it looks like a secret:", &plan.hidden),
        ("Secrets, which are not imported:", &secrets),
        ("Not imported:", &found.skipped),
    ] {
        if !lines.is_empty() {
            line(&format!("\n{title}"));
            lines.iter().for_each(|text| line(&format!("  {}", redacted_line(&hider, text))));
        }
    }
    line("");
}

/// Returns an untrusted text on one line, without secrets.
fn redacted_line(hider: &Redactor, text: &str) -> String {
    redact_likely_secrets(&hider.redact(one_line(text))).0
}
