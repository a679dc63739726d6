//! The state that is collected while a link is rebuilt.

use super::recorded::RecordedActions;
use super::turns::RebuiltTurns;
use crate::link::FormerLink;
use crate::link::machine::LinkEffect;
use crate::tools::CallKey;
use crate::{ProcessCommand, SurvivingProcess};
use aetheel_model::agent::{Action, Input, ProcKey, SpawnFailed, Spawned};
use aetheel_recording::EntryKind;
use aetheel_recording::comparison::RebuildError;

#[derive(Default)]
pub(super) struct RebuildState {
    pub(super) recorded: RecordedActions,
    /// The actions of the guest that are not recorded, and notes about them.
    pub(super) unrecorded: Vec<EntryKind>,
    /// The number of inputs that the guest got.
    pub(super) replayed: u64,
    pub(super) turns: RebuiltTurns,
    /// The processes that outlived the gateway.
    pub(super) surviving: Vec<SurvivingProcess>,
    /// Commands that a process did not receive.
    pub(super) pending_commands: Vec<(ProcKey, ProcessCommand)>,
    /// Other effects that the recording does not show as performed.
    pending: Vec<LinkEffect>,
}

impl RebuildState {
    pub(super) fn of(former: &FormerLink<'_>) -> Result<Self, RebuildError> {
        let entries = &former.tail.entries;
        Ok(Self {
            recorded: RecordedActions::of(entries)?,
            turns: RebuiltTurns::of(entries),
            surviving: former.survivor.processes.clone(),
            ..Self::default()
        })
    }

    /// Returns whether a surviving process received fewer commands than these.
    pub(super) fn lacks_commands(&self, proc: ProcKey, commands: u64) -> bool {
        self.surviving.iter().any(|living| living.proc == proc && living.commands < commands)
    }

    /// Removes the request to start a process. Returns false if the process is not about to start.
    pub(super) fn take_spawn(&mut self, proc: ProcKey) -> bool {
        let is_start = |effect: &LinkEffect| matches!(effect, LinkEffect::Perform(Action::Spawn(spawn)) if spawn.proc == proc);
        !self.take_pending(is_start).is_empty()
    }

    /// Keeps an effect that is performed unless the recording shows that it was.
    pub(super) fn add_pending(&mut self, effect: LinkEffect) {
        self.pending.push(effect);
    }

    /// Removes and returns pending effects.
    pub(super) fn take_pending(&mut self, wanted: impl Fn(&LinkEffect) -> bool) -> Vec<LinkEffect> {
        self.pending.extract_if(.., |effect| wanted(effect)).collect()
    }

    /// Removes the effects that an input shows as performed.
    pub(super) fn input_recorded(&mut self, input: &Input) {
        match input {
            Input::Spawned(Spawned { proc, .. }) | Input::SpawnFailed(SpawnFailed { proc, .. }) => {
                self.take_spawn(*proc);
            }
            Input::ToolResult(result) => self.result_recorded(result.call),
            _ => {}
        }
        let is_performed = |effect: &LinkEffect| match effect {
            LinkEffect::Input(pending) => pending == input,
            _ => false,
        };
        self.pending.retain(|effect| !is_performed(effect));
    }

    /// Removes the effects that the result of a call shows as performed.
    pub(super) fn result_recorded(&mut self, call: CallKey) {
        self.pending.retain(|effect| match effect {
            LinkEffect::ReadFile { call: pending, .. } => *pending != call,
            LinkEffect::Return { result, .. } => result.call != call,
            _ => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::{AskAnswer, AskDecision, HostCommand, ToolResult};

    fn dismissed(ask: u32) -> Input {
        let answer = AskAnswer { ask, decision: AskDecision::Dismissed };
        Input::Command(HostCommand::Answer(answer))
    }

    fn result(call: CallKey) -> ToolResult {
        ToolResult { call, text: "done".to_owned(), failed: false }
    }

    #[test]
    fn an_effect_stays_until_the_recording_shows_it() {
        let mut notes = RebuildState::default();
        let keep = |notes: &mut RebuildState, effect| notes.add_pending(effect);
        for number in [1, 2] {
            keep(&mut notes, LinkEffect::Input(dismissed(number)));
            let result = result(number);
            keep(&mut notes, LinkEffect::Return { result, is_refusal: false });
        }
        notes.input_recorded(&dismissed(1));
        // The recorded result may have another text, for example after an update.
        let recorded = ToolResult { text: "other".to_owned(), ..result(2) };
        notes.input_recorded(&Input::ToolResult(recorded));
        let left = notes.take_pending(|_| true);
        let [LinkEffect::Return { result, .. }, LinkEffect::Input(input)] = &left[..] else {
            panic!("{left:?}")
        };
        assert_eq!((result.call, input), (1, &dismissed(2)));
    }
}
