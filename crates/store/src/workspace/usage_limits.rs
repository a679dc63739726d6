//! `state/limits.md`: the lanes that wait until an allowance of an agent's account is renewed, so
//! that they still wait after a restart.

use jiff::Timestamp;

use super::state_file::{EntryError, LineForm, StateEntry, Token, entry_fields};
use aetheel_model::event::Lane;

const FORM: LineForm = LineForm::new(
    "{} backend {} model {} until {} attempt # turn {} allowance {}",
    "it does not have a lane, a backend, a model, a time, an attempt, a turn and an allowance",
);

/// A lane that waits until an allowance is renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitNote {
    /// The lane.
    pub lane: Lane,
    /// The name of the backend whose agent reported the limit.
    pub backend: String,
    /// The model of the turn, or `None` for the agent's default. Other models may have another
    /// allowance.
    pub model: Option<String>,
    /// When the lane continues.
    pub until: Timestamp,
    /// How many turns in a row reached the limit.
    pub attempt: u32,
    /// The id of the last of these turns.
    pub turn: String,
    /// The name of the allowance for people, if the agent named it.
    pub allowance: Option<String>,
}

impl StateEntry for LimitNote {
    type Key = Lane;
    const FILE: &str = "limits.md";
    const HEADING: &str = "# Usage limits

Lanes that wait until an allowance of their agent's account is renewed: lane, backend, model, time of the renewal, number of the
attempt, its turn, and the allowance. If you remove a line, the lane tries again after the next start. See docs/limits.md.

";

    entry_fields!(FORM; lane, backend, model, until, attempt, turn, allowance);

    fn key(&self) -> Lane {
        self.lane.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::StateFile;
    use aetheel_model::id::ChannelId;

    fn note(channel: u64, model: Option<&str>) -> LimitNote {
        LimitNote {
            lane: Lane::Channel(ChannelId::discord(channel)),
            backend: "mini".to_owned(),
            model: model.map(str::to_owned),
            until: "2026-11-26T14:05:00Z".parse().expect("a time"),
            attempt: 2,
            turn: "1f0c9a2e".to_owned(),
            allowance: model.map(|_| "5 hours, `all` models".to_owned()),
        }
    }

    #[tokio::test]
    async fn notes_survive_a_restart_and_invalid_ones_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("limits.md");
        let open = || StateFile::<LimitNote>::open(folder.path()).expect("opened");
        let notes = open();
        let (one, two) = (note(1, None), note(2, Some("big/model")));
        for note in [&one, &two] {
            notes.save(note.clone()).await.expect("saved");
        }
        let text = std::fs::read_to_string(&path).expect("read") + "- `channel:3` for ever.\n";
        std::fs::write(&path, text).expect("written");
        let again = open();
        assert_eq!((again.get(&one.lane), again.get(&two.lane)), (Some(one.clone()), Some(two)));
        again.remove(one.lane.clone()).await.expect("removed");
        assert_eq!(open().get(&one.lane), None);
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.contains("- `channel:3` for ever."), "{text}");
    }
}
