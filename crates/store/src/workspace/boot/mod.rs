//! `boot.md`: the files that must exist, the content of new ones, and the instructions for the
//! agent at the first start.
//!
//! Owns the check of the files at the start, and `state/boot.md`, which exists once the first start
//! is over. An existing file is never changed. `docs/hooks.md` has the format.

mod layout;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use super::{DOCUMENT_LIMIT, FileError, memory};
use crate::disk::{replace, sync_folder};
use aetheel_model::markdown::outline::{OutlineSection, descendants, outline};
use aetheel_runtime::ordinary::read_ordinary;

/// Files that a start requires unless `boot.md` lists others.
const REQUIRED: [&str; 2] = ["soul.md", "identity.md"];
/// Files that it also creates, with only a heading, if there is no `boot.md`.
const OPTIONAL: [&str; 4] = ["agents.md", "user.md", "memory.md", "tools.md"];

/// The titles of lists of files, and those of the instructions for the first start, in lower case.
const LIST_TITLES: [&str; 4] = ["required", "required files", "optional", "optional files"];
const INSTRUCTION_TITLES: [&str; 3] = ["instructions", "first run", "first start"];

const MARK: &str = "# Boot

The instructions of `boot.md` for the first start were passed to the agent at the time below. Remove this file to have them
passed again at the next start.

";

/// The content of `boot.md`: files, content of new ones, and instructions for the first start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Boot {
    required: Vec<String>,
    optional: Vec<String>,
    contents: BTreeMap<String, String>,
    instructions: Option<String>,
    warnings: Vec<String>,
}

/// The result of checking the files at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootReport {
    /// Files that existed.
    pub loaded: Vec<String>,
    /// Files that were created.
    pub created: Vec<String>,
    /// Optional files that do not exist.
    pub missing: Vec<String>,
    /// Whether there is no `boot.md`, so that built-in defaults were used.
    pub by_default: bool,
    /// The instructions for the agent, if this is the first start.
    pub instructions: Option<String>,
    /// A line for each part of `boot.md` that could not be read.
    pub warnings: Vec<String>,
}

impl Boot {
    /// Parses the text of a file. Invalid parts are ignored with a warning.
    fn parse(text: &str) -> Self {
        let mut boot = Self::default();
        let parts = outline(text);
        let (mut required, mut instructed) = (false, false);
        for (index, part) in parts.iter().enumerate() {
            match part.plain_title().to_lowercase().as_str() {
                "required" | "required files" => {
                    required = true;
                    boot.list(part, |boot| &mut boot.required);
                }
                "optional" | "optional files" => boot.list(part, |boot| &mut boot.optional),
                title if INSTRUCTION_TITLES.contains(&title) && !instructed => {
                    instructed = true;
                    let text = descendants(&parts, index)
                        .iter()
                        .fold(part.text.clone(), |text, part| text + &part.source());
                    boot.instructions =
                        Some(text.trim().to_owned()).filter(|text| !text.is_empty());
                }
                _ => {}
            }
        }
        if !required {
            boot.required = REQUIRED.map(str::to_owned).to_vec();
        }
        for part in parts.iter().filter(|part| part.plain_title().to_lowercase().ends_with(".md")) {
            boot.content(part);
        }
        boot.warnings.extend(layout::layout_faults(text, &parts));
        boot
    }

    /// Returns the files that are used without a `boot.md`.
    fn built_in() -> Self {
        Self {
            required: REQUIRED.iter().chain(&OPTIONAL).map(|name| (*name).to_owned()).collect(),
            ..Self::default()
        }
    }

    fn list(&mut self, part: &OutlineSection, list: fn(&mut Self) -> &mut Vec<String>) {
        for item in part.items() {
            // The rest of the item is a remark for people.
            let name = item.key.split_whitespace().next().unwrap_or_default().to_owned();
            match fault(&name) {
                Some(fault) => self.warnings.push(format!("boot.md line {}: {fault}", item.line)),
                None if self.names(&name) => {}
                None => list(self).push(name),
            }
        }
    }

    fn content(&mut self, part: &OutlineSection) {
        let name = part.plain_title();
        let strange = match (fault(&name), part.code()) {
            (Some(fault), _) => fault,
            (None, None) => {
                format!("`{name}` has no content in fenced code; the built-in content is used")
            }
            (None, Some(content)) => {
                self.contents.insert(name.clone(), content);
                if self.names(&name) {
                    return;
                }
                self.required.push(name.clone());
                format!(
                    "`{name}` is listed neither as required nor as optional; it is treated as required"
                )
            }
        };
        self.warnings.push(format!("boot.md line {}: {strange}", part.line));
    }

    fn names(&self, name: &str) -> bool {
        self.required.iter().chain(&self.optional).any(|listed| listed == name)
    }

    fn content_of(&self, name: &str) -> String {
        self.contents.get(name).cloned().unwrap_or_else(|| match name {
            "soul.md" => include_str!("../../../../../config/soul.md").to_owned(),
            "identity.md" => include_str!("../../../../../config/identity.md").to_owned(),
            "memory.md" => memory::HEADER.to_owned(),
            _ => {
                let stem = name.trim_end_matches(".md").replace(['-', '_'], " ");
                let mut letters = stem.chars();
                let first = letters
                    .next()
                    .map(|first| first.to_uppercase().to_string())
                    .unwrap_or_default();
                format!("# {first}{}\n", letters.as_str())
            }
        })
    }
}

/// Returns why a name cannot be that of a file in the folder. Links and folders are only checked
/// when the file is created.
fn fault(name: &str) -> Option<String> {
    let plain = name.len() <= 64
        && name.len() > ".md".len()
        && name.ends_with(".md")
        && !name.starts_with(['.', '-'])
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    (!plain).then(|| {
        format!("{name:?} is not the name of a markdown file in this folder; it is left out")
    })
}

/// Makes sure that the files of `boot.md` exist. With `only_look` it creates none.
///
/// # Errors
/// [`FileError`] names the file that cannot be read or created, or is not a regular file.
pub(super) fn boot(folder: &Path, only_look: bool) -> Result<BootReport, FileError> {
    let path = folder.join("boot.md");
    let (boot, by_default) = match read_ordinary(&path, DOCUMENT_LIMIT) {
        Ok(text) => (Boot::parse(&String::from_utf8_lossy(&text)), false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (Boot::built_in(), true),
        Err(source) => return Err(FileError::new("read", &path, source)),
    };
    let mut booted =
        BootReport { by_default, warnings: boot.warnings.clone(), ..BootReport::default() };
    for (name, required) in boot
        .required
        .iter()
        .map(|name| (name, true))
        .chain(boot.optional.iter().map(|name| (name, false)))
    {
        let path = folder.join(name);
        let list = match fs::metadata(&path) {
            Ok(found) if found.is_file() => &mut booted.loaded,
            Ok(_) => {
                return Err(FileError::new(
                    "use",
                    &path,
                    io::Error::other("it is not a regular file"),
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && required => {
                if !only_look {
                    create(&path, &boot.content_of(name))
                        .map_err(|source| FileError::new("create", &path, source))?;
                }
                &mut booted.created
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => &mut booted.missing,
            Err(source) => return Err(FileError::new("look at", &path, source)),
        };
        list.push(name.clone());
    }
    booted.instructions = boot.instructions.filter(|_| !mark(folder).exists());
    Ok(booted)
}

/// Records that the instructions of the first start were passed to the agent.
pub(super) fn mark_instructed(folder: &Path, now: &str) -> Result<(), FileError> {
    let path = mark(folder);
    replace(&path, format!("{MARK}- handed over: {now}\n").as_bytes())
        .map(drop)
        .map_err(|source| FileError::new("write", &path, source))
}

fn mark(folder: &Path) -> std::path::PathBuf {
    folder.join("state").join("boot.md")
}

/// Creates a file. The name must not exist, not even as a link.
fn create(path: &Path, content: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    path.parent().inspect(|folder| sync_folder(folder));
    Ok(())
}

#[cfg(test)]
mod tests;
