//! `aetheel migrate`: imports the configuration of another app into the operator's markdown files.
//!
//! One module per app reads its files into common types ([`imported`]). [`plan`] turns them into
//! additions to the operator's files. Everything is shown before it is written. Secrets are never
//! copied. The app's files are untrusted, because its agents can write to them. Tested by
//! `tests/gateway/migrate.rs`.

mod cc_connect;
mod error;
mod formats;
mod hermes;
mod ids;
mod imported;
mod kimaki;
mod markdown;
mod openclaw;
mod plan;
mod schedule;
mod secrets;
mod source;

use std::path::{Path, PathBuf};

use self::error::MigrateError;
use self::imported::ImportedConfig;
use self::plan::MigrationPlan;
use self::secrets::redact_likely_secrets;
use self::source::SourceFolder;
use crate::cli::{MigrateArgs, SourceApp, exit};
use crate::console::TerminalPrompt;
use crate::plain::{clean_text, counted, one_line};
use crate::redact::Redactor;
use crate::startup::settings::{FolderReason, OperatorSettings, user_folder};
use crate::terminal::{fail, line, print_stderr};
use crate::workspace::LockOwner;

/// Largest number of lines of a file that are shown.
const MAX_SHOWN_LINES: usize = 400;

/// Properties of this machine that affect the app's settings.
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

/// The destination of the import.
struct Target<'a> {
    folder: &'a Path,
    /// Folders that contain the directories of channels.
    roots: &'a [PathBuf],
    home: Option<&'a str>,
}

/// Shows the import, asks for confirmation, and writes. Returns the exit code.
pub(super) fn run(settings: &OperatorSettings, wish: &MigrateArgs) -> u8 {
    let mut folder = &settings.config.config_dir;
    // The folder that `aetheel init` will create.
    let later = user_folder(|name| settings.variables.get(name).cloned());
    if settings.folder.reason == FolderReason::Nothing || !folder.is_dir() {
        if !wish.preview {
            fail(
                "there is no folder to write into yet; run `aetheel init` first, or see what would be written with `--preview`",
            );
            return exit::CONFIG;
        }
        if settings.folder.reason == FolderReason::Nothing {
            folder = later.as_ref().unwrap_or(folder);
        }
    }
    match migrate(settings, folder, wish) {
        Ok(code) => code,
        Err(error) => {
            fail(&settings.redactor.redact(clean_text(&error.to_string()).into_owned()));
            print_stderr("nothing was written");
            exit::CONFIG
        }
    }
}

fn migrate(
    settings: &OperatorSettings,
    folder: &Path,
    wish: &MigrateArgs,
) -> Result<u8, MigrateError> {
    let home = settings.variables.get("HOME").map(String::as_str);
    let here = LocalMachine { home: home.map(PathBuf::from), zone: schedule::local_zone() };
    let from = match (&wish.from, &here.home) {
        (Some(from), _) => from.clone(),
        (None, Some(home)) => home.join(default_folder(wish.source)),
        (None, None) => return Err(MigrateError::NoHome),
    };
    let source = SourceFolder::open(&from)?;
    let found = match wish.source {
        SourceApp::Openclaw => openclaw::read(&source, &here),
        SourceApp::CcConnect => cc_connect::read(&source, &here),
        SourceApp::Kimaki => kimaki::read(&source),
        SourceApp::Hermes => hermes::read(&source, &here),
    }?;
    let plan = MigrationPlan::new(
        &found,
        &Target { folder, roots: &settings.config.project_roots, home },
    )?;
    show(&found, &plan, &source.path, folder);
    if plan.changes().next().is_none() {
        line("Nothing to write.");
        return Ok(exit::OK);
    }
    if wish.preview {
        return Ok(exit::OK);
    }
    if !wish.yes {
        let Some(mut asking) = TerminalPrompt::at_terminal() else {
            line("Nothing was written: use --yes to write without asking.");
            return Ok(exit::OK);
        };
        if !asking.confirm("Write this?", false).unwrap_or(false) {
            print_stderr("nothing was written");
            return Ok(exit::FAILED);
        }
    }
    if let Some(serving) = LockOwner::current(folder) {
        fail(&format!(
            "a gateway (process {}) serves {}; stop it first, because it writes to the same files",
            serving.pid,
            folder.display()
        ));
        print_stderr("nothing was written");
        return Ok(exit::LOCKED);
    }
    plan.write()?;
    line("Written. Check the result: aetheel check");
    Ok(exit::OK)
}

fn default_folder(neighbour: SourceApp) -> &'static str {
    match neighbour {
        SourceApp::Openclaw => ".openclaw",
        SourceApp::CcConnect => ".cc-connect",
        SourceApp::Kimaki => ".kimaki",
        SourceApp::Hermes => ".hermes",
    }
}

/// Prints the planned additions, and the items that are not imported, with reasons.
fn show(found: &ImportedConfig, plan: &MigrationPlan, from: &Path, into: &Path) {
    let hider = found.secrets.redactor();
    let version = found.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let head =
        format!("{}{version} in {}, into {}", found.app_name, from.display(), into.display());
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
