//! The recorded actions of the guest, with the decisions and files that belong to them. Each is used
//! once, in order.

use std::collections::{BTreeMap, VecDeque};

use crate::link::task::log::is_dropped_command;
use crate::tools::CallKey;
use aetheel_model::agent::{Action, Artifact, AskKey, TurnKey};
use aetheel_model::policy::PolicyRuling;
use aetheel_recording::comparison::{ExpectedActions, RebuildError};
use aetheel_recording::{EntryKind, RecordingEntry};

#[derive(Default)]
pub(super) struct RecordedActions {
    /// The actions that the guest has not returned yet.
    pub(super) expected: ExpectedActions,
    /// Whether each command to a process was sent.
    sent: VecDeque<bool>,
    /// The files that were attached to answers, by the turn and the call.
    pub(super) attached: BTreeMap<(TurnKey, CallKey), Artifact>,
    /// The decision of policies about each question, by its key.
    rulings: BTreeMap<AskKey, VecDeque<Option<PolicyRuling>>>,
}

impl RecordedActions {
    pub(super) fn of(entries: &[RecordingEntry]) -> Result<Self, RebuildError> {
        let attached = entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::Attached { call, turn, artifact } => {
                Some(((*turn, *call), artifact.clone()))
            }
            _ => None,
        });
        Ok(Self {
            expected: ExpectedActions::of(entries)?,
            sent: sent_commands(entries),
            attached: attached.collect(),
            rulings: rulings(entries),
        })
    }

    /// Returns whether a recorded action was carried out. The old link counted only the commands
    /// that it sent.
    pub(super) fn was_sent(&mut self, action: &Action) -> bool {
        !is_command(action) || self.sent.pop_front().unwrap_or(true)
    }

    /// Returns the decision of policies about the next recorded question with this key, if people
    /// did not see the question for that reason.
    pub(super) fn next_ruling(&mut self, ask: AskKey) -> Option<PolicyRuling> {
        self.rulings.get_mut(&ask)?.pop_front()?.filter(PolicyRuling::is_final)
    }
}

/// Returns the decision of policies about each recorded question.
fn rulings(entries: &[RecordingEntry]) -> BTreeMap<AskKey, VecDeque<Option<PolicyRuling>>> {
    let mut rulings: BTreeMap<AskKey, VecDeque<_>> = BTreeMap::new();
    for entry in entries {
        match &entry.kind {
            EntryKind::Out(Action::Ask(ask)) => rulings.entry(ask.ask).or_default().push_back(None),
            EntryKind::Ruled(ruling) => {
                if let Some(last) = rulings.get_mut(&ruling.ask).and_then(VecDeque::back_mut) {
                    *last = Some(ruling.clone());
                }
            }
            _ => {}
        }
    }
    rulings
}

/// Returns whether an action is a command to a process.
fn is_command(action: &Action) -> bool {
    matches!(action, Action::Write(_) | Action::CloseStdin(_) | Action::Stop(_))
}

/// Returns whether each recorded command to a process was sent. A note that it was not follows the
/// command.
fn sent_commands(entries: &[RecordingEntry]) -> VecDeque<bool> {
    let (mut sent, mut is_last) = (VecDeque::new(), false);
    for entry in entries {
        match &entry.kind {
            EntryKind::Out(action) => {
                is_last = is_command(action);
                sent.extend(is_last.then_some(true));
            }
            EntryKind::In(_) => is_last = false,
            EntryKind::Host(note) if is_last && is_dropped_command(note) => {
                sent.pop_back();
                sent.push_back(false);
                is_last = false;
            }
            _ => {}
        }
    }
    sent
}
