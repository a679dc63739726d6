//! `state/baselines.md`: the usual output (baseline) of each version of an agent.

use std::collections::{BTreeMap, BTreeSet};

use super::state_file::{EntryError, LineForm, StateEntry, Token, code};
use aetheel_model::baseline::{Baseline, Position, Version, drop_oldest};

const FORM: LineForm = LineForm::new(
    "{} agent {}: # answered, # silent, last {}",
    "it does not have a backend, a version, two counts of turns and a time",
);

/// The baseline of a version of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedBaseline(pub Version, pub Baseline);

impl StateEntry for SavedBaseline {
    type Key = Version;
    const FILE: &str = "baselines.md";
    const HEADING: &str = "# Baselines

The usual output of each version of an agent: backend, version, turns with and without an answer, when the last one ended, and the positions
of text that was shown, or that was the answer or appeared beside it in this many turns. See docs/drift.md. The file can be removed.

";

    fn key(&self) -> Version {
        self.0.clone()
    }

    fn write(&self) -> String {
        let Self(Version { backend, agent_version }, baseline) = self;
        let Baseline { answered, silent, last, positions, .. } = baseline;
        let mut line = FORM.write(&[backend, agent_version, answered, silent, last]);
        for (name, position) in positions {
            let name = code(name);
            line.push_str(&match position {
                Position::Shown => format!(", {name} shown"),
                Position::Beside(turns) => format!(", {name} beside {turns}"),
                Position::Answer(turns) => format!(", {name} answer {turns}"),
            });
        }
        line
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        use Token::{Code, Word};
        let fault = |expected| Err(EntryError::Parts(expected));
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
        Ok(Self(Version { backend, agent_version }, baseline))
    }

    fn trim(entries: &mut BTreeMap<Version, Self>) {
        let backends: BTreeSet<String> = entries.keys().map(|key| key.backend.clone()).collect();
        for backend in backends {
            drop_oldest(entries, &backend, |Self(_, baseline)| baseline.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::workspace::StateFile;

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
        let open = || StateFile::<SavedBaseline>::open(folder.path()).expect("opened");
        let notes = open();
        for (name, second) in [("1.0", 1), ("1.1", 2), ("1.2", 3), ("1.1", 4), ("1.3", 5)] {
            let saved = SavedBaseline(version("gemini", name), baseline(second));
            notes.save(saved).await.expect("saved");
        }
        let saved = SavedBaseline(version("codex", "0.1"), baseline(0));
        notes.save(saved).await.expect("saved");
        let expected = [
            SavedBaseline(version("codex", "0.1"), baseline(0)),
            SavedBaseline(version("gemini", "1.1"), baseline(4)),
            SavedBaseline(version("gemini", "1.2"), baseline(3)),
            SavedBaseline(version("gemini", "1.3"), baseline(5)),
        ];
        let text = std::fs::read_to_string(&path).expect("read");
        assert_eq!(open().all(), expected, "{text}");
    }
}
