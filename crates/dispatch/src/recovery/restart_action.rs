//! How an event continues whose turn was interrupted.

use aetheel_store::workspace::JournalEntry;

/// The number of crashes after which an event is suspected to cause them.
pub(super) const CRASH_LIMIT: u32 = 3;

/// How an event of a previous process continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartAction {
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
    pub(crate) fn of(entry: Option<&JournalEntry>) -> Self {
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
