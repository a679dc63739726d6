//! `aetheel migrate`: what a neighbour knows, as our markdown.
//!
//! A room for each neighbour reads its files into our words ([`found`]); [`plan`] makes additions to
//! the operator's files of them; nothing is written that was not shown before. Secrets are never
//! copied. The neighbour's files are taken for hostile: its agents can write them. Pinned by
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

/// Lines of a file that are shown.
const SHOWN: usize = 400;

/// What the neighbour's settings take from this machine.
struct Here {
    home: Option<PathBuf>,
    /// IANA name; none: it has none.
    zone: Option<String>,
}

impl Here {
    /// A path as people write it in settings.
    fn path(&self, text: &str) -> PathBuf {
        match (text.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(text),
        }
    }
}

/// Where things go.
struct Target<'a> {
    folder: &'a Path,
    /// Folders that contain the directories of channels.
    roots: &'a [PathBuf],
    home: Option<&'a str>,
}

/// Shows, asks and writes; returns the exit code.
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
        line("Nothing is to be written.");
        return Ok(exit::OK);
    }
    if wish.preview {
        return Ok(exit::OK);
    }
    if !wish.yes {
        let Some(mut asking) = Asking::at_terminal() else {
            line("Nothing was written: --yes writes it.");
            return Ok(exit::OK);
        };
        if !asking.agrees("Write this?", false).unwrap_or(false) {
            say("nothing was written");
            return Ok(exit::FAILED);
        }
    }
    if let Some(serving) = Serving::of(folder) {
        fail(&format!(
            "a gateway (process {}) serves {}; stop it first, so that neither writes over the other",
            serving.pid,
            folder.display()
        ));
        say("nothing was written");
        return Ok(exit::LOCKED);
    }
    plan.write()?;
    line("Written. Look whether all is well: aetheel check");
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

/// Prints what would be written, and what is not, with why.
fn show(found: &Found, plan: &Plan, from: &Path, into: &Path) {
    let hider = found.secrets.redactor();
    let version = found.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let head = format!("{}{version} in {}, into {}", found.called, from.display(), into.display());
    line(&hidden(&hider, &head));
    for (name, file) in plan.changes() {
        let how = match (file.is_new(), file.gives_way) {
            (true, _) => "new",
            (false, true) => "in place of the example, which nobody changed",
            (false, false) => "added to what is there",
        };
        line(&format!("\n{name} ({how}):"));
        let added = file.added();
        // Already without secrets; the plan's texts have no control characters either.
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
        ("Not written, because your files say otherwise or do not allow it:", &plan.conflicts),
        ("Hidden in what is written, because it looks like a secret:", &plan.hidden),
        ("Secrets, which are not taken over:", &secrets),
        ("Not taken over:", &found.left_out),
    ] {
        if !lines.is_empty() {
            line(&format!("\n{title}"));
            lines.iter().for_each(|text| line(&format!("  {}", hidden(&hider, text))));
        }
    }
    line("");
}

/// A text of others on one line, without secrets.
fn hidden(hider: &Redactor, text: &str) -> String {
    without_shapes(&hider.clean(one_line(text))).0
}
