//! `state/drift.md`: output of agents that their backends do not know (drift), so that a restart
//! does not report anything twice and other programs can read the counts.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::state_file::{EntryError, LineForm, StateEntry, Token};

/// Maximum number of kinds that are kept for each backend. The kind that has not occurred for
/// longest is removed first.
const MAX_KINDS: usize = 200;

const FORM: LineForm = LineForm::new(
    "{} agent {} component {}: {} # times, {} to {}, recording {}",
    "it does not have a backend, a version, a component, a kind, two times and a recording",
)
.without_words();

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

impl StateEntry for Drift {
    type Key = DriftKey;
    const FILE: &str = "drift.md";
    const HEADING: &str = "# Drift

Output of agents that their backends do not know: backend, version of the agent, component, kind, count, first and last time, and the
latest recording that contains it. See docs/drift.md. If you remove a line, you are notified again when it occurs again.

";

    fn key(&self) -> DriftKey {
        self.key.clone()
    }

    fn write(&self) -> String {
        let Self { key, times, first, last, recording } = self;
        let DriftKey { backend, agent_version, what, component } = key;
        FORM.write(&[backend, agent_version, component, what, times, first, last, recording])
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        let [backend, agent_version, component, what, first, last, recording] =
            FORM.values(tokens)?;
        let mut words = tokens.iter().filter(|token| matches!(token, Token::Word(_)));
        let times = words.find_map(|word| word.text().parse().ok());
        let times = times.ok_or(EntryError::Parts("it has no count"))?;
        let (Ok(first), Ok(last)) = (first.read(), last.read()) else {
            let [first, last] = [first, last].map(|token| token.text().to_owned());
            return Err(EntryError::InvalidPeriod { first, last });
        };
        Ok(Self {
            key: DriftKey {
                backend: backend.read()?,
                agent_version: agent_version.read()?,
                what: what.read()?,
                component: component.read()?,
            },
            times,
            first,
            last,
            recording: recording.read()?,
        })
    }

    fn trim(entries: &mut BTreeMap<DriftKey, Self>) {
        let backends: BTreeSet<String> = entries.keys().map(|key| key.backend.clone()).collect();
        for backend in backends {
            bound_drift(entries, &backend);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::StateFile;

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
        assert_eq!(StateFile::<Drift>::read_folder(folder.path()).expect("read"), []);
        assert!(!path.exists(), "reading changes nothing");
        let notes = StateFile::<Drift>::open(&folder.path().join("state")).expect("opened");
        let both = vec![drift("event type \"a`b\" 7", 1), drift("line", 2)];
        notes.save_all(both.clone()).await.expect("saved");
        assert_eq!(StateFile::<Drift>::read_folder(folder.path()).expect("read"), both);
        let text = std::fs::read_to_string(&path).expect("read");
        let line = "- `gemini` agent `0.9.1 (x)` component `0123456789ab`: `line` 3 times, `1970-01-01T00:00:02Z` to `1970-01-01T00:00:02Z`, recording `1f0c9a2e`.\n";
        assert!(text.contains(line), "{text}");
        std::fs::write(&path, text.replace(line, "") + "- `gemini` whatever\n\nA remark.\n")
            .expect("written");
        let more = Drift { times: 4, ..both[0].clone() };
        notes.save(more.clone()).await.expect("saved");
        assert_eq!(notes.all(), [more]);
        assert!(std::fs::read_to_string(&path).expect("read").contains("A remark."));
    }

    #[tokio::test]
    async fn the_oldest_kind_of_a_backend_is_removed_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let notes = StateFile::<Drift>::open(folder.path()).expect("opened");
        let other = Drift {
            key: DriftKey { backend: "codex".to_owned(), ..drift("x", 0).key },
            ..drift("x", 0)
        };
        let many = (0..300)
            .map(|second| drift(&format!("kind {second}"), second))
            .chain([other.clone()])
            .collect();
        notes.save_all(many).await.expect("saved");
        let saved = notes.all();
        assert_eq!(saved.len(), MAX_KINDS + 1);
        assert!(saved.contains(&other), "kinds of another backend stay");
        assert!(
            saved.iter().all(|drift| *drift == other || drift.last.as_second() >= 100),
            "{saved:?}"
        );
    }
}
