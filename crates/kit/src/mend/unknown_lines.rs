//! The stage that adds lines of kinds that do not exist.

use std::collections::BTreeSet;

use super::scramble::Scramble;
use super::stages::{MendTrial, actions_json};
use super::{MendJudgement, MendRule};
use crate::mutation::{ADDED_TEXT, Change, Mutant, OTHER_KIND, Recording, reports};
use crate::unread::holds;
use aetheel_recording::{GuestFailure, RecordingEntry, RolloutPair};

impl MendTrial<'_> {
    /// Adds lines of kinds that do not exist to the recordings. If the serving version reports such a
    /// line, the changed version must do so too: it may neither show the line nor drop it.
    pub(super) async fn unknown_lines(
        &self,
        judgement: &mut MendJudgement,
    ) -> Result<(), GuestFailure> {
        let RolloutPair { serving, successor } = self.pair;
        let lost = self.evidence.lost.iter().map(|lost| &lost.case);
        let mut known = BTreeSet::new();
        for case in self.evidence.cases.iter().chain(lost) {
            let entries: Vec<serde_json::Value> = case
                .tape
                .entries
                .iter()
                .filter_map(|entry| serde_json::to_value(entry).ok())
                .collect();
            let recording = Recording::new(entries);
            let unchanged = [
                reports(&actions_json(&**serving, &case.tape.entries).await?.0),
                reports(&actions_json(&**successor, &case.tape.entries).await?.0),
            ];
            let added = recording.changes().filter(|(.., change)| *change == Change::Added);
            for (position, _, change) in added {
                let Some(mutant) = recording.mutant(position, change) else { continue };
                if !known.insert(position.name.clone()) || judgement.mutants >= self.most_trials() {
                    continue;
                }
                judgement.mutants += 1;
                let (entries, words) = self.with_other_words(&mutant);
                let before = actions_json(&**serving, &entries).await?.0;
                if reports(&before) <= unchanged[0] {
                    continue;
                }
                let now = actions_json(&**successor, &entries).await?.0;
                let is_reported = reports(&now) > unchanged[1];
                let fault = match now.iter().any(|action| shows(action, &words)) {
                    true => "shown",
                    false if is_reported => continue,
                    false => "dropped without a report",
                };
                let name = case.path.display();
                let text = format!("{name}: {} {change}: the line is {fault}", position.name);
                judgement.add(MendRule::Unknown, text);
            }
        }
        Ok(())
    }

    /// Returns the number of changed recordings after which no line is added.
    fn most_trials(&self) -> usize {
        self.effort.mutants.saturating_mul(2)
    }

    /// Replaces the kind and the words of an added line by others, which the author of the change
    /// cannot know. Also returns the words.
    fn with_other_words(&self, mutant: &Mutant) -> (Vec<RecordingEntry>, String) {
        let scramble = Scramble::new(self.effort.seed);
        let (words, kind) = (scramble.apply(ADDED_TEXT), scramble.apply(OTHER_KIND));
        let parsed = mutant.entries.iter().enumerate().filter_map(|(at, entry)| {
            if at != mutant.entry {
                return serde_json::from_value(entry.clone()).ok();
            }
            let text = entry.to_string().replace(ADDED_TEXT, &words);
            serde_json::from_str(&text.replace(OTHER_KIND, &kind)).ok()
        });
        (parsed.collect(), words)
    }
}

/// Returns whether people see these words by an action, other than in the sample of a report.
fn shows(action: &serde_json::Value, words: &str) -> bool {
    action.pointer("/event/kind/unrecognised").is_none()
        && action.get("diagnostic").is_none()
        && holds(action, words)
}
