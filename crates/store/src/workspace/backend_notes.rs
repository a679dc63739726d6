//! `backends.md`: the operator's decisions about backends, one section for each. A section lists
//! the trusted components by their SHA-256, the accepted capabilities beyond those of the shipped
//! backend of that name, the values of the backend's own options, and the accounts of its agent.
//!
//! Read again whenever it changes. The gateway only adds entries that the operator agreed to and
//! changes nothing else. `docs/backends.md` has the format.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::accounts::{Account, AccountError};
use super::blocking::blocking;
use super::operator_file::OperatorFile;
use super::{DOCUMENT_LIMIT, FileError};
use crate::disk::{replace, text_of};
use aetheel_model::agent::capability::{self, Capabilities, CapabilityError};
use aetheel_model::markdown::layout::SectionLayout;
use aetheel_model::markdown::sections::sections;
use aetheel_model::markdown::{KeyValue, trim_backticks};
use aetheel_runtime::ordinary::read_ordinary;

const HEADING: &str = "# Backends\n\nDecisions about backends: which components are trusted (`sha256`), their options (`option`), the\n\
     accounts of their agents (`account`, `rotate`), and their capabilities (everything else).\n";

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendNotes {
    /// For each pinned digest, the backends that it may serve.
    pins: BTreeMap<String, BTreeSet<String>>,
    accepted: BTreeMap<String, Capabilities>,
    options: BTreeMap<String, Vec<ChosenOption>>,
    /// The accounts of each backend's agent, in the order of the file.
    accounts: BTreeMap<String, Vec<Account>>,
    /// The backends whose conversations change to another account at a usage limit.
    rotating: BTreeSet<String>,
    /// A line for each part that was ignored.
    pub warnings: Vec<String>,
}

/// An option of a backend, as the operator wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenOption {
    /// Its name in the descriptor's schema.
    pub name: String,
    /// Its value: JSON or plain text.
    pub value: String,
    /// Its line in the file, from 1.
    pub line: usize,
}

#[derive(Debug, thiserror::Error)]
enum NoteError {
    #[error("`{key}` {source}")]
    InvalidCapability { key: String, source: CapabilityError },
    #[error("`option` is not `NAME = VALUE`")]
    InvalidOption,
    #[error(transparent)]
    InvalidAccount(#[from] AccountError),
    #[error("there is an earlier account `{0}`")]
    SecondAccount(String),
    #[error("`rotate` {0:?} is neither `yes` nor `no`")]
    InvalidRotation(String),
    #[error("`{0}` is unknown here")]
    UnknownKey(String),
    /// Contains the invalid items, quoted.
    #[error("{} is not a SHA-256 (64 hexadecimal digits)", .0.join(", "))]
    InvalidDigests(Vec<String>),
}

const LAYOUT: SectionLayout<'static> = SectionLayout {
    is_known: &|key| {
        ["sha256", "option", "account", "rotate"].contains(&key)
            || capability::parse(key, "").is_some()
    },
    may_repeat: &|key| key != "rotate",
    aliases: &[],
    has_prompt: false,
};

impl BackendNotes {
    /// Parses the text of a file. Invalid parts are ignored with a warning.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut notes = Self::default();
        let (sections, strange) = sections(text);
        notes.warnings.extend(
            strange.into_iter().map(|(line, fault)| format!("backends.md line {line}: {fault}")),
        );
        let layout = LAYOUT.faults(text).into_iter();
        notes
            .warnings
            .extend(layout.map(|(line, fault)| format!("backends.md line {line}: {fault}")));
        for section in &sections {
            let backend = section.title.to_lowercase();
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if !backend.chars().all(is_plain) {
                let (line, title) = (section.line, &section.title);
                let fault = format!("{title:?} is not the name of a backend");
                notes.warnings.push(format!("backends.md line {line}: {fault}"));
            }
            for entry in &section.entries {
                if let Err(fault) = notes.read(&backend, entry) {
                    notes
                        .warnings
                        .push(format!("backends.md line {}: {fault}; it is ignored", entry.line));
                }
            }
        }
        notes
    }

    fn read(&mut self, backend: &str, entry: &KeyValue) -> Result<(), NoteError> {
        if let Some(read) = capability::parse(&entry.key, entry.text()) {
            let read = read.map_err(|source| NoteError::InvalidCapability {
                key: entry.key.clone(),
                source,
            })?;
            self.accepted.entry(backend.to_owned()).or_default().extend(read);
            return Ok(());
        }
        if entry.key == "option" {
            let (name, value) = entry.text().split_once('=').ok_or(NoteError::InvalidOption)?;
            let (name, value) = (trim_backticks(name).to_owned(), trim_backticks(value).to_owned());
            self.options.entry(backend.to_owned()).or_default().push(ChosenOption {
                name,
                value,
                line: entry.line,
            });
            return Ok(());
        }
        if entry.key == "account" {
            let account = Account::parse(backend, entry)?;
            let accounts = self.accounts.entry(backend.to_owned()).or_default();
            if accounts.iter().any(|earlier| earlier.name == account.name) {
                return Err(NoteError::SecondAccount(account.name));
            }
            accounts.push(account);
            return Ok(());
        }
        if entry.key == "rotate" {
            match entry.text() {
                "yes" => drop(self.rotating.insert(backend.to_owned())),
                "no" => drop(self.rotating.remove(backend)),
                other => return Err(NoteError::InvalidRotation(other.to_owned())),
            }
            return Ok(());
        }
        if entry.key != "sha256" {
            return Err(NoteError::UnknownKey(entry.key.clone()));
        }
        let mut strange = Vec::new();
        for item in entry.list() {
            let digest = item.to_ascii_lowercase();
            if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                self.pins.entry(digest).or_default().insert(backend.to_owned());
            } else {
                strange.push(format!("{item:?}"));
            }
        }
        if strange.is_empty() { Ok(()) } else { Err(NoteError::InvalidDigests(strange)) }
    }

    /// Returns the backends for which a digest (lower-case hex) is pinned, or `None` if it is not
    /// pinned.
    #[must_use]
    pub fn of(&self, digest: &str) -> Option<&BTreeSet<String>> {
        self.pins.get(digest)
    }

    /// Returns the chosen options by backend.
    #[must_use]
    pub fn options(&self) -> &BTreeMap<String, Vec<ChosenOption>> {
        &self.options
    }

    /// Returns all accounts of all agents.
    pub fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.accounts.values().flatten()
    }

    /// Returns the backends of an agent's accounts in the order of the file, the backend itself
    /// first, if conversations change between them at a usage limit. Otherwise, the list is empty.
    #[must_use]
    pub fn rotation(&self, backend: &str) -> Vec<String> {
        let accounts = self.accounts.get(backend).filter(|_| self.rotating.contains(backend));
        accounts.map_or_else(Vec::new, |accounts| {
            let others = accounts.iter().map(Account::backend);
            std::iter::once(backend.to_owned()).chain(others).collect()
        })
    }

    /// Returns the accepted capabilities of a backend, or `None` if none were ever accepted.
    #[must_use]
    pub fn accepted(&self, backend: &str) -> Option<&Capabilities> {
        self.accepted.get(backend)
    }
}

/// The file `backends.md`.
pub type BackendFile = OperatorFile<BackendNotes>;

impl OperatorFile<BackendNotes> {
    /// Names the file in a configuration folder. Does not read it yet.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self::at(folder.join("backends.md"), BackendNotes::parse)
    }

    /// Adds a pin if it is missing; the rest of the file stays unchanged. Returns whether it was
    /// added.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read or replaced; it is then unchanged.
    pub async fn pin(&self, backend: &str, digest: &str) -> Result<bool, FileError> {
        let (backend, digest) = (backend.to_owned(), digest.to_owned());
        self.change(move |text| {
            let pinned = BackendNotes::parse(text)
                .of(&digest)
                .is_some_and(|backends| backends.contains(&backend));
            (!pinned).then(|| with_entries(text, &backend, &[format!("sha256: {digest}")]))
        })
        .await
    }

    /// Adds the capabilities that the operator accepted, as far as they are missing; the rest of
    /// the file stays unchanged. Returns whether anything was added.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read or replaced, or would be too long; it is then
    /// unchanged.
    pub async fn accept(&self, backend: &str, more: &Capabilities) -> Result<bool, FileError> {
        let (backend, more) = (backend.to_owned(), more.clone());
        self.change(move |text| {
            let notes = BackendNotes::parse(text);
            let nothing = Capabilities::new();
            let missing =
                capability::not_covered(notes.accepted(&backend).unwrap_or(&nothing), &more);
            (!missing.is_empty())
                .then(|| with_entries(text, &backend, &capability::lines(&missing)))
        })
        .await
    }

    /// Replaces the file's text by the result of `change`, unless that is `None`.
    async fn change(
        &self,
        change: impl FnOnce(&str) -> Option<String> + Send + 'static,
    ) -> Result<bool, FileError> {
        let path = self.lock().path().to_owned();
        blocking(move || {
            let text = match read_ordinary(&path, DOCUMENT_LIMIT).and_then(text_of) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => HEADING.to_owned(),
                Err(error) => return Err(FileError::new("read", &path, error)),
            };
            let Some(text) = change(&text) else { return Ok(false) };
            if text.len() as u64 > DOCUMENT_LIMIT {
                return Err(FileError::new(
                    "write",
                    &path,
                    std::io::Error::other(format!(
                        "it would be longer than {DOCUMENT_LIMIT} bytes"
                    )),
                ));
            }
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)
                    .map_err(|error| FileError::new("create the folder", folder, error))?;
            }
            replace(&path, text.as_bytes())
                .map_err(|error| FileError::new("write", &path, error))?;
            Ok(true)
        })
        .await
    }
}

/// Returns the text with entries added to the section of a backend. The entries must be either all
/// pins or all of other kinds.
fn with_entries(text: &str, backend: &str, entries: &[String]) -> String {
    let added: String = entries.iter().map(|entry| format!("- {entry}\n")).collect();
    let (sections, _) = sections(text);
    let Some(section) = sections.iter().rfind(|section| section.title.to_lowercase() == backend)
    else {
        let gap = if text.is_empty() || text.ends_with("\n\n") {
            ""
        } else if text.ends_with('\n') {
            "\n"
        } else {
            "\n\n"
        };
        return format!("{text}{gap}## {backend}\n\n{added}");
    };
    // Insert after the last entry of the same kind in the section, or directly after its title. An
    // entry must not follow text that is between entries.
    let is_pin = |key: &str| key == "sha256";
    let pins = entries.iter().all(|entry| entry.starts_with("sha256:"));
    let after = section
        .entries
        .iter()
        .rfind(|entry| is_pin(&entry.key) == pins)
        .or_else(|| section.entries.last().filter(|_| section.prose_line.is_some()))
        .map_or(section.line, |entry| entry.line);
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if let Some(line) = lines.get_mut(after - 1).filter(|line| !line.ends_with('\n')) {
        line.push('\n');
    }
    lines.insert(after.min(lines.len()), added);
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_pins_any_number_of_digests_and_invalid_ones_are_reported() {
        let (a, b) = ("a".repeat(64), "B".repeat(64));
        let text = format!(
            "# x\n\n## `Gemini`\nmade by me\n- sha256: `{a}`, {b}\n- SHA256: short\n- colour: blue\n\n## codex\n- sha256: {a}\n"
        );
        let pins = BackendNotes::parse(&text);
        assert_eq!(
            pins.of(&a).map(|backends| backends.iter().map(String::as_str).collect()),
            Some(vec!["codex", "gemini"])
        );
        assert!(pins.of(&b.to_lowercase()).is_some_and(|backends| backends.contains("gemini")));
        assert_eq!(pins.of(&"c".repeat(64)), None);
        assert_eq!(pins.warnings.len(), 2, "{:?}", pins.warnings);
        assert!(
            pins.warnings[0].contains("line 6") && pins.warnings[0].contains("\"short\""),
            "{:?}",
            pins.warnings
        );
        assert!(
            pins.warnings[1].contains("line 7") && pins.warnings[1].contains("`colour`"),
            "{:?}",
            pins.warnings
        );
    }

    #[test]
    fn accounts_name_other_variables_and_invalid_ones_are_reported() {
        let text = "## mini\n\n- account: work, `MINI_TOKEN`=`WORK_MINI_TOKEN`, MINI_HOME=WORK_HOME\n- account: spare, MINI_KEY = SPARE_KEY\n- rotate: yes\n\n\
            ## other\n- account: work, A_KEY=PLAIN\n- account: Work, A=B\n- account: work\n- account: A=B\n- account: x, A_KEY\n- account: x, 1A=B\n- account: one, A=B\n- account: one, A=C\n- rotate: sometimes\n";
        let notes = BackendNotes::parse(text);
        let backends: Vec<String> = notes.accounts().map(Account::backend).collect();
        assert_eq!(backends, ["mini-work", "mini-spare", "other-one"]);
        let first = notes.accounts().next().expect("an account");
        assert_eq!(first.variables["MINI_TOKEN"], "WORK_MINI_TOKEN");
        assert_eq!(first.variables["MINI_HOME"], "WORK_HOME");
        assert_eq!(notes.rotation("mini"), ["mini", "mini-work", "mini-spare"]);
        assert!(notes.rotation("other").is_empty() && notes.rotation("mini-work").is_empty());
        assert_eq!(notes.warnings.len(), 8, "{:#?}", notes.warnings);
        let not_secret =
            "backends.md line 8: the value of `PLAIN` would not be removed from answers and logs";
        assert!(notes.warnings[0].starts_with(not_secret), "{}", notes.warnings[0]);
        assert!(notes.warnings[7].contains("neither `yes` nor `no`"), "{}", notes.warnings[7]);
    }

    fn with_pin(text: &str, backend: &str, digest: &str) -> String {
        with_entries(text, backend, &[format!("sha256: {digest}")])
    }

    #[test]
    fn a_pin_is_added_below_other_pins_and_nothing_else_changes() {
        let (a, b) = ("a".repeat(64), "b".repeat(64));
        let text =
            &format!("mine\n## gemini\nfrom the release\n\n- sha256: {a}\n\nmore words\n## codex");
        let wanted = format!(
            "mine\n## gemini\nfrom the release\n\n- sha256: {a}\n- sha256: {b}\n\nmore words\n## codex"
        );
        assert_eq!(with_pin(text, "gemini", &b), wanted);
        assert_eq!(
            with_pin(text, "codex", &a),
            format!("{text}\n- sha256: {a}\n"),
            "it is pinned for another backend only"
        );
        assert_eq!(with_pin("x", "droid", &a), format!("x\n\n## droid\n\n- sha256: {a}\n"));
        let described = "## gemini\nmade by me\n- flag: gemini --x\n";
        let pinned = with_pin(described, "gemini", &a);
        assert_eq!(pinned, format!("{described}- sha256: {a}\n"));
        assert_eq!(BackendNotes::parse(&pinned).warnings, [""; 0]);
        let fenced = format!("## gemini\n```\n- sha256: {a}\n```\n");
        assert_eq!(
            with_pin(&fenced, "gemini", &a),
            format!("## gemini\n- sha256: {a}\n```\n- sha256: {a}\n```\n")
        );
    }

    #[tokio::test]
    async fn a_pin_takes_effect_at_the_next_refresh() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, digest) = (BackendFile::new(folder.path()), "d".repeat(64));
        assert!(file.refresh().await.0.of(&digest).is_none());
        assert!(file.pin("demo", &digest).await.expect("added"));
        assert!(!file.pin("demo", &digest).await.expect("there"));
        let (pins, changed) = file.refresh().await;
        assert!(changed && pins.of(&digest).is_some() && pins.warnings.is_empty(), "{pins:?}");
    }

    #[tokio::test]
    async fn accepted_capabilities_are_added_once_in_readable_lines() {
        use aetheel_model::agent::Descriptor;
        use aetheel_model::agent::capability::Capability;

        let folder = tempfile::tempdir().expect("a folder");
        let file = BackendFile::new(folder.path());
        let of = |flags: &str| {
            let json = format!(
                r#"{{"name":"mini","version":"1","programs":[{{"name":"mini","flags":[{flags}]}}],"environment":{{"pass":["M"]}}}}"#
            );
            Capability::of(&Descriptor::parse(&json).expect("valid"))
        };
        let first = of(r#"{"name":"--go"}"#);
        assert_eq!(file.refresh().await.0.accepted("mini"), None);
        assert!(file.accept("mini", &first).await.expect("added"));
        assert!(!file.accept("mini", &first).await.expect("there"));
        assert_eq!(file.refresh().await.0.accepted("mini"), Some(&first));
        let text = std::fs::read_to_string(folder.path().join("backends.md")).expect("written");
        assert!(
            text.contains("\n## mini\n\n- program: mini\n- flag: mini --go\n- passes: M\n"),
            "{text}"
        );
        assert!(file.pin("mini", &"a".repeat(64)).await.expect("added"));
        let second = of(r#"{"name":"--go"},{"name":"--stop","value":"one","values":["now"]}"#);
        assert!(file.accept("mini", &second).await.expect("added"));
        let (notes, _) = file.refresh().await;
        assert!(
            notes.warnings.is_empty()
                && capability::not_covered(notes.accepted("mini").expect("some"), &second)
                    .is_empty(),
            "{notes:?}"
        );
        let text = std::fs::read_to_string(folder.path().join("backends.md")).expect("written");
        assert!(
            text.ends_with("\n- flag: mini --stop = now\n")
                && text.matches("- program").count() == 1,
            "{text}"
        );
        let strange = BackendNotes::parse("## mini\n- program: a b\n- flag: mini --x y\n");
        assert_eq!(
            (strange.accepted("mini"), strange.warnings.len()),
            (None, 2),
            "{:?}",
            strange.warnings
        );
    }
}
