//! Whether a guest that is told a recording would have done what was done: what people saw, what was
//! asked and what reached an agent. What else it says of the same output is its own affair.

use std::collections::VecDeque;
use std::io;

use crate::recording::{self, Entry, What};
use crate::{Backend, Guest, GuestFailure, LaunchError};
use aetheel_model::agent::{Action, Command, EventKind, Input, TimedInput};

/// Why a link cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRebuilt {
    /// A guest cannot be told all that the old one was.
    #[error("its recording is not whole: {0}")]
    Incomplete(&'static str),
    /// Its turn was stopped for good, or it was about to leave.
    #[error("it was about to end")]
    Leaving,
    /// The guest gave up.
    #[error("its backend failed while it was told the recording: {0}")]
    Guest(#[from] GuestFailure),
    /// The guest makes something else of it than was done.
    #[error("its backend makes something else of the recording than was done already")]
    Differs,
    /// Its private files are gone.
    #[error("its folder cannot be used")]
    Folder(#[source] io::Error),
    /// A process cannot be taken over.
    #[error("its agent cannot be taken over")]
    Process(#[from] LaunchError),
}

/// What was done, in order, that a guest is yet to want.
#[derive(Default)]
pub(super) struct Deeds {
    expected: VecDeque<Action>,
    /// Some agent-events are not written down.
    sparse: bool,
}

impl Deeds {
    /// The deeds of a recording.
    ///
    /// # Errors
    /// A guest cannot be told all that the old one was.
    pub(super) fn of(entries: &[Entry]) -> Result<Self, NotRebuilt> {
        let mut deeds = Self::default();
        for entry in entries {
            let missing = match &entry.what {
                What::Out(action) => {
                    deeds.expected.extend(Some(action).filter(|it| counts(it)).cloned());
                    continue;
                }
                What::Lost(_) => "lines are missing",
                What::Cut(_) => "it was cut",
                What::Moved { .. } => "the link went over to another generation by its state",
                What::In(Input::Command(Command::Shutdown)) => return Err(NotRebuilt::Leaving),
                What::Host(what) if what == recording::MASKED => "an input had a secret in it",
                What::Host(what) if what == recording::UNSEEN => "its backend had failed",
                What::Host(what) => {
                    deeds.sparse |= what == recording::SPARSE;
                    continue;
                }
                _ => continue,
            };
            return Err(NotRebuilt::Incomplete(missing));
        }
        Ok(deeds)
    }

    /// Takes note of an action; false: it is not in the recording, and is to be done.
    ///
    /// # Errors
    /// Something else was done.
    pub(super) fn had(&mut self, action: &Action) -> Result<bool, NotRebuilt> {
        if !counts(action) {
            return Ok(!self.expected.is_empty());
        }
        match self.expected.front() {
            None => Ok(false),
            Some(expected) if expected == action => {
                self.expected.pop_front();
                Ok(true)
            }
            Some(_) if self.sparse && matches!(action, Action::Event(_)) => Ok(true),
            Some(_) => Err(NotRebuilt::Differs),
        }
    }

    /// Whether all of them were wanted.
    pub(super) fn are_over(&self) -> bool {
        self.expected.is_empty()
    }
}

/// Tells a fresh guest a recording; it stands then where the one stands that the recording is of.
///
/// # Errors
/// [`NotRebuilt`]: it would have done something else, or something more.
pub(super) async fn retell(
    backend: &dyn Backend,
    entries: &[Entry],
) -> Result<Box<dyn Guest>, NotRebuilt> {
    let mut deeds = Deeds::of(entries)?;
    let mut guest = backend.open().await?;
    let mut inputs = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let What::In(input) = &entry.what else { continue };
        inputs.push(TimedInput { at_ms: entry.t, input: input.clone() });
        let more = entries.get(at + 1).map(|next| &next.what);
        if matches!(more, Some(What::In(_))) && inputs.len() < super::BATCH {
            continue;
        }
        for action in guest.handle(std::mem::take(&mut inputs)).await? {
            if counts(&action) && !deeds.had(&action)? {
                return Err(NotRebuilt::Differs);
            }
        }
    }
    if deeds.are_over() { Ok(guest) } else { Err(NotRebuilt::Differs) }
}

/// Whether doing an action twice, or not at all, would be noticed.
fn counts(action: &Action) -> bool {
    match action {
        Action::Event(event) => matches!(event.kind, EventKind::Text(_)),
        Action::Diagnostic(_) => false,
        _ => true,
    }
}
