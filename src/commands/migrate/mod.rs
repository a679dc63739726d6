//! `aetheel migrate`: imports the configuration of another app into the operator's markdown files.
//!
//! One module per app reads its files into common types ([`found`]). [`plan`] turns them into
//! additions to the operator's files. Everything is shown before it is written. Secrets are never
//! copied. The app's files are untrusted, because its agents can write to them. Pinned by
//! `tests/gateway/migrate.rs`.

mod cc_connect;
mod formats;
mod found;
mod hermes;
mod ids;
mod kimaki;
mod markdown;
mod openclaw;
mod plan;
mod schedule;
mod secrets;
mod source;

use std::path::{Path, PathBuf};

use self::found::Found;
use self::plan::Plan;
use self::secrets::without_shapes;
use self::source::Source;
use crate::cli::{Migrate, Neighbour, exit};
use crate::console::Asking;
use crate::plain::{clean_text, one_line};
use crate::redact::Redactor;
use crate::startup::settings::{By, Settings};
use crate::terminal::{fail, line, say};
use crate::workspace::Serving;

/// Largest number of lines of a file that are shown.
const SHOWN: usize = 400;

/// Properties of this machine that affect the app's settings.
struct Here {
    home: Option<PathBuf>,
    /// IANA name of the machine's time zone, if it has one.
    zone: Option<String>,
}

impl Here {
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
pub(super) fn run(settings: &Settings, wish: &Migrate) -> u8 {
    let folder = &settings.config.config_dir;
    if settings.folder.by == By::Nothing || !folder.is_dir() {
        fail("there is no folder to write into yet; run `aetheel init` first");
        return exit::CONFIG;
    }
    match migrate(settings, folder, wish) {
        Ok(code) => code,
        Err(fault) => {
            fail(&settings.redactor.clean(clean_text(&fault).into_owned()));
            say("nothing was written");
            exit::CONFIG
        }
    }
}

fn migrate(settings: &Settings, folder: &Path, wish: &Migrate) -> Result<u8, String> {
    let home = settings.variables.get("HOME").map(String::as_str);
    let here = Here { home: home.map(PathBuf::from), zone: schedule::local_zone() };
    let from = match (&wish.from, &here.home) {
        (Some(from), _) => from.clone(),
        (None, Some(home)) => home.join(default_folder(wish.neighbour)),
        (None, None) => {
            return Err("there is no home folder (HOME); name the folder with --from".to_owned());
        }
    };
    let source = Source::open(&from)?;
    let found = match wish.neighbour {
        Neighbour::Openclaw => openclaw::read(&source, &here),
        Neighbour::CcConnect => cc_connect::read(&source, &here),
        Neighbour::Kimaki => kimaki::read(&source),
        Neighbour::Hermes => hermes::read(&source, &here),
    }?;
    let plan = Plan::new(&found, &Target { folder, roots: &settings.config.project_roots, home })?;
    show(&found, &plan, &source.path, folder);
    if plan.changes().next().is_none() {
        line("Nothing to write.");
        return Ok(exit::OK);
    }
    if wish.preview {
        return Ok(exit::OK);
    }
    if !wish.yes {
        let Some(mut asking) = Asking::at_terminal() else {
            line("Nothing was written: use --yes to write without asking.");
            return Ok(exit::OK);
        };
        if !asking.agrees("Write this?", false).unwrap_or(false) {
            say("nothing was written");
            return Ok(exit::FAILED);
        }
    }
    if let Some(serving) = Serving::of(folder) {
        fail(&format!(
            "a gateway (process {}) serves {}; stop it first, because it writes to the same files",
            serving.pid,
            folder.display()
        ));
        say("nothing was written");
        return Ok(exit::LOCKED);
    }
    plan.write()?;
    line("Written. Check the result: aetheel check");
    Ok(exit::OK)
}

fn default_folder(neighbour: Neighbour) -> &'static str {
    match neighbour {
        Neighbour::Openclaw => ".openclaw",
        Neighbour::CcConnect => ".cc-connect",
        Neighbour::Kimaki => ".kimaki",
        Neighbour::Hermes => ".hermes",
    }
}

/// Prints the planned additions, and the items that are not imported, with reasons.
fn show(found: &Found, plan: &Plan, from: &Path, into: &Path) {
    let hider = found.secrets.redactor();
    let version = found.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let head = format!("{}{version} in {}, into {}", found.called, from.display(), into.display());
    line(&hidden(&hider, &head));
    for (name, file) in plan.changes() {
        let how = match (file.is_new(), file.gives_way) {
            (true, _) => "new",
            (false, true) => "in place of the unchanged example",
            (false, false) => "added to the existing text",
        };
        line(&format!("\n{name} ({how}):"));
        let added = file.added();
        // Already without secrets.
        added.iter().take(SHOWN).for_each(|text| line(&format!("  + {}", clean_text(text))));
        if added.len() > SHOWN {
            line(&format!("  … and {} more lines", added.len() - SHOWN));
        }
    }
    let secrets: Vec<String> = found
        .secrets
        .places
        .iter()
        .map(|place| format!("found at {place}; set the bot's token with `aetheel init`, other keys in settings.env"))
        .collect();
    for (title, lines) in [
        ("Already there:", &plan.there),
        ("Not written, because your files differ or do not allow it:", &plan.conflicts),
        ("Hidden in what is written, because it looks like a secret:", &plan.hidden),
        ("Secrets, which are not imported:", &secrets),
        ("Not imported:", &found.left_out),
    ] {
        if !lines.is_empty() {
            line(&format!("\n{title}"));
            lines.iter().for_each(|text| line(&format!("  {}", hidden(&hider, text))));
        }
    }
    line("");
}

/// Returns an untrusted text on one line, without secrets.
fn hidden(hider: &Redactor, text: &str) -> String {
    without_shapes(&hider.clean(one_line(text))).0
}
