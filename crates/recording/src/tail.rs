//! The part of a recording from which a link can be rebuilt.

use super::checkpoint::Checkpoint;
use super::format::{EntryKind, Header, ReadError, RecordingEntry};

/// Number of checkpoints from which a link may be rebuilt, the newest ones. Several are needed only
/// if one is damaged.
pub const MAX_TRIED: usize = 2;
/// Identifies the line of a checkpoint. In texts, the quotation marks would be escaped.
const KEY: &str = r#","checkpoint":{"#;

/// The part of a recording from which a link can be rebuilt.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordingTail {
    /// The checkpoint with which the part begins. `None` for the whole recording.
    pub checkpoint: Option<Checkpoint>,
    /// The entries after it.
    pub entries: Vec<RecordingEntry>,
}

/// The reason why a part of a recording cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TailError {
    /// A line cannot be parsed.
    #[error("its recording is damaged")]
    Unreadable(#[from] ReadError),
    /// The checkpoint does not match its digest.
    #[error("the digest of the checkpoint in line {0} is wrong")]
    WrongDigest(usize),
}

impl RecordingTail {
    /// Returns the byte positions of the parts of a recording, in the order in which they should be
    /// tried: those of the newest checkpoints, and that of the first line after the header.
    #[must_use]
    pub fn positions(text: &str) -> Vec<usize> {
        let line_of = |(at, _): (usize, &str)| {
            let start = text[..at].rfind('\n')? + 1;
            let number = text[start..at].strip_prefix(r#"{"t":"#)?;
            number.parse::<f64>().ok().map(|_| start)
        };
        let mut positions: Vec<usize> =
            text.rmatch_indices(KEY).filter_map(line_of).take(MAX_TRIED).collect();
        positions.push(text.find('\n').map_or(text.len(), |end| end + 1));
        positions
    }

    /// Parses the part at one of the [`RecordingTail::positions`] of a recording.
    ///
    /// # Errors
    /// [`TailError`] if one of its lines cannot be parsed, or the checkpoint was changed.
    pub fn parse(text: &str, position: usize) -> Result<Self, TailError> {
        let before = text[..position].lines().count();
        let mut entries = Vec::new();
        for (at, line) in text[position..].lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let entry = serde_json::from_str(line);
            let line = before + at + 1;
            entries.push(entry.map_err(|error| ReadError::Entry { line, error })?);
        }
        let starts =
            matches!(entries.first(), Some(RecordingEntry { kind: EntryKind::Checkpoint(_), .. }));
        let first = if starts { Some(entries.remove(0)) } else { None };
        let checkpoint = match first.map(|entry| entry.kind) {
            Some(EntryKind::Checkpoint(checkpoint)) if checkpoint.is_intact() => Some(*checkpoint),
            Some(_) => return Err(TailError::WrongDigest(before + 1)),
            None => None,
        };
        Ok(Self { checkpoint, entries })
    }

    /// Returns the digest of the component for which the part was recorded.
    #[must_use]
    pub fn digest<'a>(&'a self, header: &'a Header) -> &'a str {
        self.checkpoint.as_ref().map_or(&header.digest, |checkpoint| &checkpoint.guest.digest)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::super::checkpoint::{CheckpointLine, NOTE};
    use super::*;

    fn host(t: f64, what: &str) -> String {
        let kind = EntryKind::Host(what.to_owned());
        serde_json::to_string(&RecordingEntry { t, kind }).unwrap()
    }

    fn line(t: f64, state: &str) -> String {
        let checkpoint = Checkpoint::with_state(state.to_owned()).sealed();
        serde_json::to_string(&CheckpointLine::new(t, &checkpoint)).unwrap()
    }

    fn states(text: &str) -> Vec<Result<Option<String>, String>> {
        let parse = |position| {
            let tail = RecordingTail::parse(text, position).map_err(|error| error.to_string())?;
            Ok(tail.checkpoint.map(|checkpoint| checkpoint.guest.state))
        };
        RecordingTail::positions(text).into_iter().map(parse).collect()
    }

    #[test]
    fn the_newest_checkpoints_come_first_and_the_whole_recording_last() {
        let decoy = host(2.0, r#"{"t":1,"checkpoint":{"state":"decoy"}}"#);
        let lines = [
            "header".to_owned(),
            line(1.0, "one"),
            decoy,
            line(3.0, "two"),
            line(4.5, "three"),
            host(5.0, "x"),
        ];
        let found = states(&lines.join("\n"));
        let some = |state: &str| Ok(Some(state.to_owned()));
        // The whole recording begins with the first checkpoint here.
        assert_eq!(found, [some("three"), some("two"), some("one")]);
    }

    #[test]
    fn a_damaged_line_affects_only_parts_that_contain_it() {
        let text = ["header", "{broken", &line(2.0, "good"), &host(3.0, "x")].join("\n");
        let found = states(&text);
        assert_eq!(found[0], Ok(Some("good".to_owned())));
        assert_eq!(found[1], Err("its recording is damaged".to_owned()));
    }

    #[test]
    fn a_changed_checkpoint_is_refused() {
        let changed = line(2.0, "good").replace("good", "evil");
        let text = ["header", &host(1.0, "x"), &changed].join("\n");
        let wrong = "the digest of the checkpoint in line 3 is wrong".to_owned();
        assert_eq!(states(&text), [Err(wrong), Ok(None)]);
    }

    #[test]
    fn a_program_without_checkpoints_reads_a_note() {
        #[derive(Debug, PartialEq, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        enum OldKind {
            In(String),
            Host(String),
        }
        #[derive(Deserialize)]
        struct OldEntry {
            #[serde(flatten)]
            kind: OldKind,
        }
        let text = line(1.0, "state");
        let old: OldEntry = serde_json::from_str(&text).unwrap();
        assert_eq!(old.kind, OldKind::Host(NOTE.to_owned()));
        let new: RecordingEntry = serde_json::from_str(&text).unwrap();
        assert!(matches!(new.kind, EntryKind::Checkpoint(_)));
    }
}
