//! Calls the guest and applies its actions.

use super::LinkTask;
use crate::ProcessCommand;
use crate::link::LinkReport;
use aetheel_model::agent::{Action, HostCommand, Input};
use aetheel_recording::{EntryKind, GuestFailure};

/// Maximum number of consecutive calls into a guest without waiting for an event in between.
const CALLS: u32 = 1_000;

/// The work of a guest. The sandbox bounds one call, and these limits bound all calls together.
#[derive(Default)]
pub(super) struct GuestUsage {
    /// Calls since the task last waited for an event.
    pub(super) calls: u32,
    /// The size of the actions since the last turn began, in bytes.
    pub(super) action_bytes: u64,
}

impl GuestUsage {
    /// Counts a call. `limit` is the maximum size of the actions in a turn, in bytes.
    ///
    /// # Errors
    /// [`GuestFailure::CutOff`] if a limit is exceeded.
    fn check_call(&mut self, limit: u64) -> Result<(), GuestFailure> {
        self.calls += 1;
        if self.calls > CALLS {
            return Err(GuestFailure::CutOff(format!(
                "it was called {CALLS} times in a row and never waited for anything"
            )));
        }
        if self.action_bytes > limit {
            return Err(GuestFailure::CutOff(format!(
                "its actions had more than {limit} bytes in one turn"
            )));
        }
        Ok(())
    }
}

impl LinkTask {
    /// Passes the collected inputs to the guest and applies its actions. Without a guest, the inputs
    /// are only recorded.
    pub(super) async fn call_guest(&mut self) {
        let inputs = std::mem::take(&mut self.io.inputs);
        for timed in &inputs {
            self.recording.input(timed);
            self.machine.apply_input(timed.at_ms, &timed.input);
        }
        self.machine.ledger.inputs(inputs.iter().map(|timed| &timed.input));
        self.io.inputs_recorded(&inputs, &self.machine, &self.recording);
        self.perform_effects().await;
        let is_interrupting = inputs
            .iter()
            .any(|input| matches!(input.input, Input::Command(HostCommand::Interrupt(_))));
        let Ok(guest) = self.guest.as_mut() else { return };
        match guest.handle(inputs).await {
            Ok(actions) => {
                if is_interrupting && actions.is_empty() && self.machine.settings.is_one_shot {
                    self.machine.turns.report_all(|| LinkReport::InterruptIgnored);
                }
                self.apply_actions(actions).await;
                if self.machine.turns.is_empty() {
                    self.checkpoints.request_between_turns(self.machine.inputs);
                }
                if let Err(failure) = self.usage.check_call(self.deps.host.resources.output) {
                    self.fail(failure);
                }
            }
            Err(failure) => self.fail(failure),
        }
        self.perform_effects().await;
    }

    async fn apply_actions(&mut self, actions: Vec<Action>) {
        self.machine.ledger.actions(&actions);
        for action in actions {
            if let Action::TurnDone(done) = &action {
                // An agent may end its turn without waiting for its files, which are part of the
                // answer.
                while !self.machine.calls.unread_files(done.turn).is_empty() {
                    let read = self.io.reads.next().await;
                    let note = self.machine.file_read(self.recording.now(), read);
                    note.into_iter().for_each(|note| self.recording.host(note));
                    self.perform_effects().await;
                }
            }
            self.usage.action_bytes += self.recording.action(&action) as u64;
            if let Action::ToolRequest(request) = &action {
                self.machine.calls.limit(request, &self.machine.turns, &self.deps);
            }
            let is_call = matches!(action, Action::ToolRequest(_));
            self.machine.apply_action(self.recording.now(), action);
            self.perform_effects().await;
            if is_call {
                // The next process counts the recorded calls.
                self.recording.write_soon();
            }
        }
    }

    /// Ends the link after a failure of its guest. Processes are killed, except a one-shot agent
    /// whose remaining output is recorded, because a later parser may be able to read the answer.
    pub(super) fn fail(&mut self, failure: GuestFailure) {
        let kind = failure.kind();
        let turns = self.machine.turns.ids();
        tracing::warn!(?turns, kind, %failure, "backend failed; its link ends");
        self.recording.host(EntryKind::Host(failure.to_string()));
        self.guest = Err(failure);
        if self.machine.can_drain() {
            self.recording.host(EntryKind::Host(aetheel_recording::UNSEEN.to_owned()));
            self.machine.drain();
            self.io.processes.command_all(&ProcessCommand::CloseStdin);
        } else {
            self.machine.kill();
        }
    }
}
