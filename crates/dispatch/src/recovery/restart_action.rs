//! How an event continues whose turn was interrupted.

use crate::persistence::EventPersistence;
use aetheel_model::event::Event;
use aetheel_store::workspace::JournalEntry;

/// The number of crashes after which an event is suspected to cause them.
pub(super) const CRASH_LIMIT: u32 = 3;

/// How an event of a previous process continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestartAction {
    /// The event is finished, because its turn has ended.
    Finish,
    /// The event runs, for the first time or again.
    Run,
    /// People are asked whether the event runs again.
    AskPeople,
    /// The agent of the event still runs, so the turn continues.
    Resume,
}

impl RestartAction {
    /// Returns the action for an event without a running agent, according to its journal entry.
    pub(super) fn of(entry: Option<&JournalEntry>) -> Self {
        match entry {
            None => Self::Finish,
            Some(entry) if entry.answer.is_some() => Self::Finish,
            Some(entry)
                if entry.offered_ms.is_some()
                    || entry.used_tool
                    || entry.doubtful
                    || entry.started >= CRASH_LIMIT =>
            {
                Self::AskPeople
            }
            Some(_) => Self::Run,
        }
    }
}

/// The follow-up of an event whose turn has left its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnFollowUp {
    Nothing,
    /// The event runs again.
    Rerun,
    /// People are asked whether it runs again.
    AskPeople,
    /// The event waits again, and its lane is paused, until its backend works.
    Paused,
}

/// Returns how to continue an event whose agent was lost because the holder (the process that
/// runs agents) has ended. The rules are those after a crash of the gateway. Returns `None` if
/// the event is not in the journal; it has then failed.
pub(crate) fn follow_up_lost_agent(
    persistence: &EventPersistence,
    event: &Event,
) -> Option<TurnFollowUp> {
    let (_, entry) = persistence.journal_entry(event)?;
    match RestartAction::of(Some(&entry)) {
        RestartAction::Run => {
            tracing::warn!("the agent was lost; the turn runs again");
            Some(TurnFollowUp::Rerun)
        }
        RestartAction::AskPeople => Some(TurnFollowUp::AskPeople),
        RestartAction::Finish | RestartAction::Resume => None,
    }
}
