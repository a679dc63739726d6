//! Reads the state files as the gateway does when it starts, without changing them and without a
//! lock, for commands that check a folder before a start.

use std::path::Path;

use super::baselines::SavedBaseline;
use super::bindings::SavedBinding;
use super::blocking::blocking;
use super::deliveries::WebhookDelivery;
use super::discord_notes::DiscordNote;
use super::state_file::{StateEntry, StateFile};
use super::{
    AgentSchedule, CollisionMute, Drift, EndedRollout, FileError, LimitNote, LostTurn, MendingNote,
    PastConversation, RolloutNote, SavedSignIn, ScheduleProgress, TurnShare, journal,
};
use aetheel_model::budget::BudgetGrant;
use aetheel_model::claim::Claim;
use aetheel_model::plain::with_causes;

/// Reads every state file of a configuration folder. Returns the parts that cannot be read, each
/// with its file and line; they stay in the file. A missing file is empty.
pub async fn inspect(folder: &Path) -> Vec<String> {
    let folder = folder.to_owned();
    blocking(move || {
        let state = folder.join("state");
        let inspections: [fn(&Path) -> InspectionResult; 19] = [
            |state| journal::inspect(&state.join("queue.md")),
            entries::<SavedBinding>,
            entries::<PastConversation>,
            entries::<DiscordNote>,
            entries::<ScheduleProgress>,
            entries::<AgentSchedule>,
            entries::<Drift>,
            entries::<LimitNote>,
            entries::<Claim>,
            entries::<CollisionMute>,
            entries::<BudgetGrant>,
            entries::<RolloutNote>,
            entries::<EndedRollout>,
            entries::<MendingNote>,
            entries::<SavedBaseline>,
            entries::<LostTurn>,
            entries::<WebhookDelivery>,
            entries::<TurnShare>,
            entries::<SavedSignIn>,
        ];
        let found = inspections
            .into_iter()
            .flat_map(|inspect| inspect(&state).unwrap_or_else(|error| vec![with_causes(&error)]));
        found.collect()
    })
    .await
}

/// A line for each part that cannot be read.
type InspectionResult = Result<Vec<String>, FileError>;

fn entries<T: StateEntry>(state: &Path) -> InspectionResult {
    Ok(StateFile::<T>::open(state)?.warnings())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn unreadable_lines_are_reported_and_nothing_is_changed_or_created() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(inspect(folder.path()).await, Vec::<String>::new());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        let state = folder.path().join("state");
        fs::create_dir(&state).unwrap();
        let texts = [
            ("queue.md", "# Queue\n\n- [ ] `1` `{\"new\":`\n"),
            ("drift.md", "- `of a later version` it says something else.\n"),
        ];
        for (name, text) in texts {
            fs::write(state.join(name), text).unwrap();
        }
        fs::create_dir(state.join("history.md")).unwrap();
        let found = inspect(folder.path()).await;
        assert_eq!(found.len(), 3, "{found:?}");
        for (fault, file) in found.iter().zip(["queue.md` line 3", "history.md", "drift.md"]) {
            assert!(fault.contains(file), "{found:?}");
        }
        for (name, text) in texts {
            assert_eq!(fs::read_to_string(state.join(name)).unwrap(), text);
        }
    }
}
