//! Reads the state files as the gateway does when it starts, without changing them and without a
//! lock, for commands that check a folder before a start.

use std::path::Path;

use super::deliveries::WebhookDelivery;
use super::ledger::{LedgerEntry, LedgerFile};
use super::{
    AgentSchedule, CollisionMute, Drift, EndedRollout, FileError, Journal, LimitNote, LostTurn,
    MendingNote, PastConversation, RolloutNote,
};
use super::{SavedSignIn, TurnShare, baselines, bindings, blocking, discord_notes, schedule_notes};
use aetheel_model::budget::BudgetGrant;
use aetheel_model::claim::Claim;
use aetheel_model::plain::with_causes;

/// Reads every state file of a configuration folder. Returns the parts that cannot be read, each
/// with its file and line; they stay in the file. A missing file is empty.
pub async fn inspect(folder: &Path) -> Vec<String> {
    let folder = folder.to_owned();
    blocking(move || {
        let at = |file: &str, read: fn(&Path) -> InspectionResult| {
            read(&folder.join(file)).unwrap_or_else(|error| vec![with_causes(&error)])
        };
        [
            at("state/queue.md", Journal::inspect),
            at("state/sessions.md", entries::<bindings::SavedBinding>),
            at("state/history.md", entries::<PastConversation>),
            at("state/discord.md", entries::<discord_notes::DiscordNote>),
            at("state/schedules.md", entries::<schedule_notes::ScheduleNote>),
            at("state/agent-schedules.md", entries::<AgentSchedule>),
            at("state/drift.md", entries::<Drift>),
            at("state/limits.md", entries::<LimitNote>),
            at("state/claims.md", entries::<Claim>),
            at("state/collisions.md", entries::<CollisionMute>),
            at("state/budgets.md", entries::<BudgetGrant>),
            at("state/rollouts.md", entries::<RolloutNote>),
            at("state/rollout-history.md", entries::<EndedRollout>),
            at("state/mending.md", entries::<MendingNote>),
            at("state/baselines.md", entries::<baselines::SavedBaseline>),
            at("state/lost.md", entries::<LostTurn>),
            at("state/webhooks.md", entries::<WebhookDelivery>),
            at("state/shares.md", entries::<TurnShare>),
            at("state/sign-ins.md", entries::<SavedSignIn>),
        ]
        .concat()
    })
    .await
}

/// A line for each part that cannot be read.
type InspectionResult = Result<Vec<String>, FileError>;

fn entries<E: LedgerEntry>(path: &Path) -> InspectionResult {
    Ok(LedgerFile::<E>::open(path, "")?.warnings)
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
