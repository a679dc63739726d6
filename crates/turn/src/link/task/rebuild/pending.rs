//! The effects that a recording does not show as performed.

use crate::link::effects::LinkEffect;
use crate::tools::CallKey;
use aetheel_model::agent::{Action, Input, ProcKey, SpawnFailed, Spawned};

/// The effects of replayed entries that are performed unless a later entry shows that they were.
#[derive(Default)]
pub(super) struct PendingEffects(Vec<LinkEffect>);

impl PendingEffects {
    pub(super) fn push(&mut self, effect: LinkEffect) {
        self.0.push(effect);
    }

    /// Removes and returns effects.
    pub(super) fn take(&mut self, wanted: impl Fn(&LinkEffect) -> bool) -> Vec<LinkEffect> {
        self.0.extract_if(.., |effect| wanted(effect)).collect()
    }

    /// Removes the start of a process. Returns false if the process is not about to start.
    pub(super) fn take_spawn(&mut self, proc: ProcKey) -> bool {
        let is_start = |effect: &LinkEffect| matches!(effect, LinkEffect::Perform(Action::Spawn(spawn)) if spawn.proc == proc);
        !self.take(is_start).is_empty()
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
        self.0.retain(|effect| !matches!(effect, LinkEffect::Input(pending) if pending == input));
    }

    /// Removes the effects that the result of a call shows as performed.
    pub(super) fn result_recorded(&mut self, call: CallKey) {
        self.0.retain(|effect| match effect {
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
        let mut pending = PendingEffects::default();
        for number in [1, 2] {
            pending.push(LinkEffect::Input(dismissed(number)));
            let result = result(number);
            pending.push(LinkEffect::Return { result, is_refusal: false });
        }
        pending.input_recorded(&dismissed(1));
        // The recorded result may have another text, for example after an update.
        let recorded = ToolResult { text: "other".to_owned(), ..result(2) };
        pending.input_recorded(&Input::ToolResult(recorded));
        let left = pending.take(|_| true);
        let [LinkEffect::Return { result, .. }, LinkEffect::Input(input)] = &left[..] else {
            panic!("{left:?}")
        };
        assert_eq!((result.call, input), (1, &dismissed(2)));
    }
}
