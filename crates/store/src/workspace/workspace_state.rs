//! The state files of a configuration folder, which are read at the start.

use std::path::Path;

use jiff::Timestamp;

use super::{
    AgentSchedule, Bindings, CollisionMute, DiscordNotes, Drift, EndedRollout, FileError, History,
    LimitNote, LostTurns, MendingNote, RolloutEnd, RolloutNote, SavedBaseline, ScheduleProgress,
    Shares, StateFile,
};
use aetheel_model::budget::BudgetGrant;
use aetheel_model::claim::Claim;

/// The state files. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct WorkspaceState {
    /// The sessions and settings of all lanes.
    pub bindings: Bindings,
    /// The earlier conversations of all channels.
    pub history: History,
    /// The last message that was handled in each Discord channel, and the open questions.
    pub discord: DiscordNotes,
    /// The times up to which heartbeats and cron jobs have run.
    pub schedules: StateFile<ScheduleProgress>,
    /// The turns that agents asked for at later times.
    pub agent_schedules: StateFile<AgentSchedule>,
    /// Output of agents that their backends do not know.
    pub drift: StateFile<Drift>,
    /// The usual output of the versions of agents.
    pub baselines: StateFile<SavedBaseline>,
    /// The rollouts of new versions of backends.
    pub rollouts: StateFile<RolloutNote>,
    /// The rollouts that have ended.
    pub ended_rollouts: StateFile<EndedRollout>,
    /// The lanes that wait until an allowance is renewed.
    pub limits: StateFile<LimitNote>,
    /// The paths that conversations and people have reserved.
    pub claims: StateFile<Claim>,
    /// The muted warnings about files that two conversations use.
    pub collision_mutes: StateFile<CollisionMute>,
    /// The decisions of owners about budgets.
    pub budgets: StateFile<BudgetGrant>,
    /// The attempts to mend backends.
    pub mending: StateFile<MendingNote>,
    /// The turns whose answer could not be parsed.
    pub lost: LostTurns,
    /// The read-only links to turns.
    pub shares: Shares,
}

impl WorkspaceState {
    /// Reads the files of a `state` folder; a missing file is empty. Blocks.
    pub(super) fn open(state: &Path) -> Result<Self, FileError> {
        Ok(Self {
            bindings: Bindings::open(state)?,
            history: History::open(state)?,
            discord: DiscordNotes::open(state)?,
            schedules: StateFile::open(state)?,
            agent_schedules: StateFile::open(state)?,
            drift: StateFile::open(state)?,
            baselines: StateFile::open(state)?,
            rollouts: StateFile::open(state)?,
            ended_rollouts: StateFile::open(state)?,
            limits: StateFile::open(state)?,
            claims: StateFile::open(state)?,
            collision_mutes: StateFile::open(state)?,
            budgets: StateFile::open(state)?,
            mending: StateFile::open(state)?,
            lost: LostTurns::open(state)?,
            shares: Shares::open(state)?,
        })
    }

    /// Moves the note about a rollout to those that have ended, also if it was not saved before.
    ///
    /// # Errors
    /// [`FileError`]; a saved note is then still there.
    pub async fn end_rollout(
        &self,
        note: RolloutNote,
        end: RolloutEnd,
        at: Timestamp,
    ) -> Result<(), FileError> {
        let backend = note.backend.clone();
        self.ended_rollouts.save(EndedRollout { at, end, note }).await?;
        self.rollouts.remove(backend).await
    }
}
