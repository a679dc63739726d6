//! `backends.md`: which components an operator trusts, by their SHA-256, one section a backend.
//!
//! Followed like every file of operators; written only to add a pin, and then nothing else in it changes.
//! `docs/backends.md` has the format.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::FileError;
use super::followed::Followed;
use super::replace::replace;
use super::sections::sections;

/// What a file begins with that is made for its first pin.
const HEADING: &str = "# Backends\n\nComponents that may serve with `BACKEND_TRUST=pinned`, by their SHA-256.\n";

/// All pins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// The backends that each digest is pinned for.
    backends: BTreeMap<String, BTreeSet<String>>,
    /// What was left out, one line each.
    pub warnings: Vec<String>,
}

impl Pins {
    /// Reads a file's text. What cannot be meant is left out and named.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut pins = Self::default();
        let (sections, strange) = sections(text);
        pins.warnings.extend(strange.into_iter().map(|(line, fault)| format!("backends.md line {line}: {fault}")));
        for section in &sections {
            for entry in &section.entries {
                if entry.key != "sha256" {
                    pins.warnings.push(format!("backends.md line {}: `{}` means nothing here; it is ignored", entry.line, entry.key));
                    continue;
                }
                for item in entry.list() {
                    let digest = item.to_ascii_lowercase();
                    if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                        pins.backends.entry(digest).or_default().insert(section.title.to_lowercase());
                    } else {
                        let fault = "is no SHA-256 (64 hexadecimal digits); it is ignored";
                        pins.warnings.push(format!("backends.md line {}: {item:?} {fault}", entry.line));
                    }
                }
            }
        }
        pins
    }

    /// The backends a digest (lower-case hex) is pinned for; none: it is not pinned.
    #[must_use]
    pub fn of(&self, digest: &str) -> Option<&BTreeSet<String>> {
        self.backends.get(digest)
    }
}

/// The file. Clones share what was read.
#[derive(Clone, Debug)]
pub struct PinFile {
    path: PathBuf,
    followed: Arc<Mutex<Followed<Pins>>>,
}

impl PinFile {
    /// The one of a configuration folder; not read yet.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let path = folder.join("backends.md");
        Self { followed: Arc::new(Mutex::new(Followed::new(path.clone(), Pins::parse))), path }
    }

    /// Reads it again if it changed, and logs then what is left out; returns the pins, and whether it did.
    pub async fn refresh(&self) -> (Arc<Pins>, bool) {
        let followed = self.followed.clone();
        super::blocking(move || {
            let mut followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = followed.refresh();
            let pins = followed.value();
            for warning in pins.warnings.iter().filter(|_| changed) {
                tracing::warn!("{warning}");
            }
            (pins, changed)
        })
        .await
    }

    /// Adds a pin, unless it is there; everything else stays as it stands. Returns whether it was added.
    ///
    /// # Errors
    /// [`FileError`] when the file cannot be read or replaced; it is then as it was.
    pub async fn add(&self, backend: &str, digest: &str) -> Result<bool, FileError> {
        let (path, backend, digest) = (self.path.clone(), backend.to_owned(), digest.to_owned());
        super::blocking(move || {
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => HEADING.to_owned(),
                Err(error) => return Err(FileError::new("read", &path, error)),
            };
            let Some(text) = with_pin(&text, &backend, &digest) else { return Ok(false) };
            replace(&path, text.as_bytes()).map_err(|error| FileError::new("write", &path, error))?;
            Ok(true)
        })
        .await
    }
}

/// The text with one pin more; none: it is there.
fn with_pin(text: &str, backend: &str, digest: &str) -> Option<String> {
    if Pins::parse(text).of(digest).is_some_and(|backends| backends.contains(backend)) {
        return None;
    }
    let pin = format!("- sha256: {digest}\n");
    let (sections, _) = sections(text);
    let Some(section) = sections.iter().rfind(|section| section.title.to_lowercase() == backend) else {
        let gap = if text.is_empty() || text.ends_with("\n\n") {
            ""
        } else if text.ends_with('\n') {
            "\n"
        } else {
            "\n\n"
        };
        return Some(format!("{text}{gap}## {backend}\n\n{pin}"));
    };
    // Below the last pin of the section, or right below its title.
    let after = section.entries.iter().rfind(|entry| entry.key == "sha256").map_or(section.line, |entry| entry.line);
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if let Some(line) = lines.get_mut(after - 1).filter(|line| !line.ends_with('\n')) {
        line.push('\n');
    }
    lines.insert(after.min(lines.len()), pin);
    Some(lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_pins_any_number_and_what_is_no_digest_is_named() {
        let (a, b) = ("a".repeat(64), "B".repeat(64));
        let text =
            format!("# x\n\n## `Gemini`\nmade by me\n- sha256: `{a}`, {b}\n- SHA256: short\n- colour: blue\n\n## codex\n- sha256: {a}\n");
        let pins = Pins::parse(&text);
        assert_eq!(pins.of(&a).map(|backends| backends.iter().map(String::as_str).collect()), Some(vec!["codex", "gemini"]));
        assert!(pins.of(&b.to_lowercase()).is_some_and(|backends| backends.contains("gemini")));
        assert_eq!(pins.of(&"c".repeat(64)), None);
        assert_eq!(pins.warnings.len(), 2, "{:?}", pins.warnings);
        assert!(pins.warnings[0].contains("line 6") && pins.warnings[0].contains("\"short\""), "{:?}", pins.warnings);
        assert!(pins.warnings[1].contains("line 7") && pins.warnings[1].contains("`colour`"), "{:?}", pins.warnings);
    }

    #[test]
    fn a_pin_is_added_below_its_like_and_nothing_else_changes() {
        let (a, b) = ("a".repeat(64), "b".repeat(64));
        let text = format!("mine\n## gemini\nfrom the release\n\n- sha256: {a}\n\nmore words\n## codex");
        let wanted = format!("mine\n## gemini\nfrom the release\n\n- sha256: {a}\n- sha256: {b}\n\nmore words\n## codex");
        assert_eq!(with_pin(&text, "gemini", &b).as_deref(), Some(wanted.as_str()));
        assert_eq!(with_pin(&text, "gemini", &a), None, "it is there");
        assert_eq!(with_pin(&text, "codex", &a), Some(format!("{text}\n- sha256: {a}\n")), "it is pinned for another backend only");
        assert_eq!(with_pin("x", "droid", &a), Some(format!("x\n\n## droid\n\n- sha256: {a}\n")));
        let fenced = format!("## gemini\n```\n- sha256: {a}\n```\n");
        assert_eq!(with_pin(&fenced, "gemini", &a), Some(format!("## gemini\n- sha256: {a}\n```\n- sha256: {a}\n```\n")));
    }

    #[tokio::test]
    async fn a_pin_counts_from_the_next_look_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, digest) = (PinFile::new(folder.path()), "d".repeat(64));
        assert!(file.refresh().await.0.of(&digest).is_none());
        assert!(file.add("demo", &digest).await.expect("added"));
        assert!(!file.add("demo", &digest).await.expect("there"));
        let (pins, changed) = file.refresh().await;
        assert!(changed && pins.of(&digest).is_some() && pins.warnings.is_empty(), "{pins:?}");
    }
}
