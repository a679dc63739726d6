//! `state/drift.md`: output of agents that their backends do not know (drift), so that a restart
//! does not report anything twice and other programs can read the counts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::ledger::{EntryError, LedgerEntry, LedgerFile, Token, code};
use super::{FileError, Workspace, blocking};

/// Maximum number of kinds that are kept for each backend. The kind that has not occurred for
/// longest is removed first.
const MAX_KINDS: usize = 200;

const HEADING: &str = "# Drift

Output of agents that their backends do not know: backend, version of the agent, component, kind, count, first and last time, and the
latest recording that contains it. See docs/drift.md. If you remove a line, you are notified again when it occurs again.

";

/// Identifies a kind of unknown output.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriftKey {
    /// The name of the backend that did not know it.
    pub backend: String,
    /// The version the agent's probe reported, or `unknown`.
    pub agent_version: String,
    /// The kind, in the backend's words, without values.
    pub what: String,
    /// The first twelve digits of the SHA-256 that names the backend's generation.
    pub component: String,
}

/// A kind of unknown output, and how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The kind.
    pub key: DriftKey,
    /// How often it occurred.
    pub times: u64,
    /// When it occurred first.
    pub first: Timestamp,
    /// When it occurred last.
    pub last: Timestamp,
    /// The recording of the last occurrence.
    pub recording: String,
}

/// Removes the kinds of a backend beyond the maximum, those that have not occurred for longest
/// first.
pub fn bound_drift(all: &mut BTreeMap<DriftKey, Drift>, backend: &str) {
    let of = |key: &&DriftKey| key.backend == backend;
    while all.keys().filter(of).count() > MAX_KINDS {
        let oldest = all
            .values()
            .filter(|drift| drift.key.backend == backend)
            .min_by_key(|drift| drift.last);
        let Some(oldest) = oldest.map(|drift| drift.key.clone()) else { return };
        all.remove(&oldest);
    }
}

/// The notes about drift. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct DriftNotes(Arc<Mutex<LedgerFile<Drift>>>);

impl Workspace {
    /// Returns the notes about output of agents that their backends do not know.
    #[must_use]
    pub fn drift_notes(&self) -> &DriftNotes {
        &self.drift
    }
}

impl DriftNotes {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self(Arc::new(Mutex::new(LedgerFile::open(path, HEADING)?))))
    }

    /// Reads the notes in a configuration folder without changing anything. Blocks.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read.
    pub fn read_folder(folder: &Path) -> Result<Vec<Drift>, FileError> {
        Ok(Self::open(&folder.join("state").join("drift.md"))?.all())
    }

    /// Returns the notes as the file was last read or written. Does no I/O.
    #[must_use]
    pub fn all(&self) -> Vec<Drift> {
        self.0.lock().entries.values().cloned().collect()
    }

    /// Saves these notes, replacing those with the same keys. Returns all notes that are kept then.
    ///
    /// # Errors
    /// [`FileError`]; the file is unchanged.
    pub async fn save(&self, changed: Vec<Drift>) -> Result<Vec<Drift>, FileError> {
        let notes = self.clone();
        blocking(move || {
            let mut ledger = notes.0.lock();
            ledger.refresh()?;
            let backends: Vec<String> =
                changed.iter().map(|drift| drift.key.backend.clone()).collect();
            ledger.entries.extend(changed.into_iter().map(|drift| (drift.key.clone(), drift)));
            for backend in backends {
                bound_drift(&mut ledger.entries, &backend);
            }
            ledger.save()?;
            Ok(ledger.entries.values().cloned().collect())
        })
        .await
    }
}

impl LedgerEntry for Drift {
    type Key = DriftKey;

    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
        let codes = tokens.iter().filter_map(|token| {
            if let Token::Code(text) = token { Some(text.as_str()) } else { None }
        });
        let [backend, agent_version, component, what, first, last, recording] =
            codes.collect::<Vec<_>>()[..]
        else {
            return Some(Err(EntryError::Parts(
                "it does not have a backend, a version, a component, a kind, two times and a recording",
            )));
        };
        let times = tokens
            .iter()
            .find_map(|token| if let Token::Word(word) = token { word.parse().ok() } else { None });
        Some(match (times, first.parse(), last.parse()) {
            (Some(times), Ok(first), Ok(last)) => {
                let [backend, agent_version, what, component, recording] =
                    [backend, agent_version, what, component, recording].map(str::to_owned);
                Ok(Self {
                    key: DriftKey { backend, agent_version, what, component },
                    times,
                    first,
                    last,
                    recording,
                })
            }
            (None, ..) => Err(EntryError::Parts("it has no count")),
            _ => Err(EntryError::InvalidPeriod { first: first.to_owned(), last: last.to_owned() }),
        })
    }

    fn key(&self) -> DriftKey {
        self.key.clone()
    }

    fn write(&self) -> String {
        let Self {
            key: DriftKey { backend, agent_version, what, component },
            times,
            first,
            last,
            recording,
        } = self;
        let [backend, agent_version, what, component, recording] =
            [backend, agent_version, what, component, recording].map(|text| code(text));
        let [first, last] = [first, last].map(|at| code(&at.to_string()));
        format!(
            "{backend} agent {agent_version} component {component}: {what} {times} times, {first} to {last}, recording {recording}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(what: &str, second: i64) -> Drift {
        let key = DriftKey {
            backend: "gemini".to_owned(),
            agent_version: "0.9.1 (x)".to_owned(),
            what: what.to_owned(),
            component: "0123456789ab".to_owned(),
        };
        let at = Timestamp::from_second(second).expect("a time");
        Drift { key, times: 3, first: at, last: at, recording: "1f0c9a2e".to_owned() }
    }

    #[tokio::test]
    async fn notes_survive_a_restart_and_can_be_edited() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("state")).expect("made");
        let path = folder.path().join("state/drift.md");
        assert_eq!(DriftNotes::read_folder(folder.path()).expect("read"), []);
        assert!(!path.exists(), "reading changes nothing");
        let notes = DriftNotes::open(&path).expect("opened");
        let both = vec![drift("event type \"a`b\" 7", 1), drift("line", 2)];
        assert_eq!(notes.save(both.clone()).await.expect("saved"), both);
        assert_eq!(DriftNotes::read_folder(folder.path()).expect("read"), both);
        let text = std::fs::read_to_string(&path).expect("read");
        let line = "- `gemini` agent `0.9.1 (x)` component `0123456789ab`: `line` 3 times, `1970-01-01T00:00:02Z` to `1970-01-01T00:00:02Z`, recording `1f0c9a2e`.\n";
        assert!(text.contains(line), "{text}");
        std::fs::write(&path, text.replace(line, "") + "- `gemini` whatever\n\nA remark.\n")
            .expect("written");
        let more = Drift { times: 4, ..both[0].clone() };
        assert_eq!(notes.save(vec![more.clone()]).await.expect("saved"), [more]);
        assert!(std::fs::read_to_string(&path).expect("read").contains("A remark."));
    }

    #[tokio::test]
    async fn the_oldest_kind_of_a_backend_is_removed_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let notes = DriftNotes::open(&folder.path().join("drift.md")).expect("opened");
        let other = Drift {
            key: DriftKey { backend: "codex".to_owned(), ..drift("x", 0).key },
            ..drift("x", 0)
        };
        let many = (0..300)
            .map(|second| drift(&format!("kind {second}"), second))
            .chain([other.clone()])
            .collect();
        let kept = notes.save(many).await.expect("saved");
        assert_eq!(kept.len(), MAX_KINDS + 1);
        assert!(kept.contains(&other), "kinds of another backend stay");
        assert!(
            kept.iter().all(|drift| *drift == other || drift.last.as_second() >= 100),
            "{kept:?}"
        );
    }
}
