//! `state/baselines.md`: the usual output (baseline) of each version of an agent.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::ledger::{EntryError, LedgerEntry, LedgerFile, Token, code};
use super::{FileError, Workspace, blocking};
use aetheel_model::baseline::{Baseline, Position, Version, drop_oldest};

const HEADING: &str = "# Baselines

The usual output of each version of an agent: backend, version, turns with and without an answer, when the last one ended, and the positions
of text that was shown, or that was the answer or appeared beside it in this many turns. See docs/drift.md. The file can be removed.

";

#[derive(Clone, Debug)]
pub(super) struct SavedBaseline(Version, Baseline);

/// The saved baselines. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct BaselineNotes(Arc<Mutex<LedgerFile<SavedBaseline>>>);

impl Workspace {
    /// Returns the saved baselines of agents.
    #[must_use]
    pub fn baseline_notes(&self) -> &BaselineNotes {
        &self.baselines
    }
}

impl BaselineNotes {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self(Arc::new(Mutex::new(LedgerFile::open(path, HEADING)?))))
    }

    /// Returns the baselines as the file was last read or written.
    #[must_use]
    pub fn all(&self) -> Vec<(Version, Baseline)> {
        let ledger = self.0.lock();
        ledger
            .entries
            .values()
            .map(|SavedBaseline(version, saved)| (version.clone(), saved.clone()))
            .collect()
    }

    /// Saves the current baseline of a version, and removes the versions of that agent that have
    /// been unused for longest. `current` is called when it is this call's turn to write, so that the
    /// last of several calls at the same time writes the latest baseline.
    ///
    /// # Errors
    /// [`FileError`]; the file is unchanged.
    pub async fn save(
        &self,
        version: Version,
        current: impl FnOnce(&Version) -> Option<Baseline> + Send + 'static,
    ) -> Result<(), FileError> {
        let notes = self.clone();
        blocking(move || {
            let mut ledger = notes.0.lock();
            let Some(baseline) = current(&version) else { return Ok(()) };
            ledger.refresh()?;
            let entries = std::mem::take(&mut ledger.entries);
            let mut all: BTreeMap<Version, Baseline> = entries
                .into_iter()
                .map(|(version, SavedBaseline(_, saved))| (version, saved))
                .collect();
            let backend = version.backend.clone();
            all.insert(version, baseline);
            drop_oldest(&mut all, &backend);
            let line = |(version, saved): (Version, Baseline)| {
                (version.clone(), SavedBaseline(version, saved))
            };
            ledger.entries = all.into_iter().map(line).collect();
            ledger.save()
        })
        .await
    }
}

impl LedgerEntry for SavedBaseline {
    type Key = Version;

    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
        use Token::{Code, Word};
        let fault = |expected| Some(Err(EntryError::Parts(expected)));
        let [
            Code(backend),
            _,
            Code(agent_version),
            Word(answered),
            _,
            Word(silent),
            _,
            _,
            Code(last),
            rest @ ..,
        ] = tokens
        else {
            return fault("it does not have a backend, a version, two counts of turns and a time");
        };
        let (Ok(answered), Ok(silent), Ok(last)) = (answered.parse(), silent.parse(), last.parse())
        else {
            return fault("one of its counts or its time is invalid");
        };
        let (mut positions, mut rest) = (BTreeMap::new(), rest);
        while !rest.is_empty() {
            let (name, position) = match rest {
                [Code(name), Word(word), after @ ..] if word == "shown" => {
                    rest = after;
                    (name, Position::Shown)
                }
                [Code(name), Word(word), Word(turns), after @ ..]
                    if word == "beside" || word == "answer" =>
                {
                    let Ok(turns) = turns.parse() else {
                        return fault("a position has no number of turns");
                    };
                    rest = after;
                    let is_answer = word == "answer";
                    (name, if is_answer { Position::Answer } else { Position::Beside }(turns))
                }
                _ => return fault("a position is neither `shown`, `beside` nor `answer`"),
            };
            positions.insert(name.clone(), position);
        }
        let (backend, agent_version) = (backend.clone(), agent_version.clone());
        let baseline = Baseline::saved(answered, silent, last, positions);
        Some(Ok(Self(Version { backend, agent_version }, baseline)))
    }

    fn key(&self) -> Self::Key {
        self.0.clone()
    }

    fn write(&self) -> String {
        let Self(Version { backend, agent_version }, baseline) = self;
        let mut line = format!(
            "{} agent {}: {} answered, {} silent, last {}",
            code(backend),
            code(agent_version),
            baseline.answered,
            baseline.silent,
            code(&baseline.last.to_string()),
        );
        for (name, position) in &baseline.positions {
            let name = code(name);
            line.push_str(&match position {
                Position::Shown => format!(", {name} shown"),
                Position::Beside(turns) => format!(", {name} beside {turns}"),
                Position::Answer(turns) => format!(", {name} answer {turns}"),
            });
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn baseline(second: i64) -> Baseline {
        let positions = [
            ("<tip>.text".to_owned(), Position::Beside(3)),
            ("<a`b>.c[] last 9".to_owned(), Position::Shown),
            ("z".to_owned(), Position::Beside(1)),
            ("said".to_owned(), Position::Answer(3)),
        ];
        let last = Timestamp::from_second(second).expect("a time");
        Baseline::saved(12, 1, last, positions.into())
    }

    fn version(backend: &str, agent_version: &str) -> Version {
        Version { backend: backend.to_owned(), agent_version: agent_version.to_owned() }
    }

    #[tokio::test]
    async fn baselines_survive_a_restart_for_the_latest_versions() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("baselines.md");
        let notes = BaselineNotes::open(&path).expect("opened");
        for (name, second) in [("1.0", 1), ("1.1", 2), ("1.2", 3), ("1.1", 4), ("1.3", 5)] {
            notes
                .save(version("gemini", name), move |_| Some(baseline(second)))
                .await
                .expect("saved");
        }
        notes.save(version("codex", "0.1"), |_| Some(baseline(0))).await.expect("saved");
        let expected = vec![
            (version("codex", "0.1"), baseline(0)),
            (version("gemini", "1.1"), baseline(4)),
            (version("gemini", "1.2"), baseline(3)),
            (version("gemini", "1.3"), baseline(5)),
        ];
        let text = std::fs::read_to_string(&path).expect("read");
        assert_eq!(BaselineNotes::open(&path).expect("opened").all(), expected, "{text}");
    }
}
