//! Calls the guest and applies its actions.

use super::LinkTask;
use crate::ProcessCommand;
use crate::link::LinkReport;
use aetheel_model::agent::{Action, HostCommand, Input, TimedInput, TurnKey};
use aetheel_recording::{EntryKind, GuestFailure};

/// Maximum number of consecutive calls into a guest without waiting for an event in between.
const CALLS: u32 = 1_000;

impl LinkTask {
    /// Passes the collected inputs to the guest and applies its actions. Without a guest, the inputs
    /// are only recorded.
    pub(super) async fn call_guest(&mut self) {
        let inputs = std::mem::take(&mut self.inputs);
        self.record_inputs(&inputs).await;
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
                    self.checkpoints.request_between_turns();
                }
                self.check_limits();
            }
            Err(failure) => self.fail(failure),
        }
        self.perform_effects().await;
    }

    async fn record_inputs(&mut self, inputs: &[TimedInput]) {
        self.checkpoints.add_inputs(inputs.len() as u64);
        for timed in inputs {
            self.recording.input(timed);
            self.machine.apply_input(timed.at_ms, &timed.input);
        }
        self.machine.ledger.inputs(inputs.iter().map(|timed| &timed.input));
        self.inputs_recorded(inputs);
        self.perform_effects().await;
    }

    async fn apply_actions(&mut self, actions: Vec<Action>) {
        self.machine.ledger.actions(&actions);
        for action in actions {
            if let Action::TurnDone(done) = &action {
                self.finish_files(done.turn).await;
            }
            self.log.action_bytes += self.recording.action(&action) as u64;
            if let Action::ToolRequest(request) = &action {
                self.limit_call(request);
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

    /// Waits until the files that the agent posted in a turn are part of the answer. An agent may end
    /// its turn without waiting for the results of its calls.
    async fn finish_files(&mut self, turn: TurnKey) {
        while !self.machine.calls.unread_files(turn).is_empty() {
            let read = self.io.reads.next().await;
            self.file_read(read);
            self.perform_effects().await;
        }
    }

    /// The sandbox bounds one call. These limits bound all calls together.
    fn check_limits(&mut self) {
        self.log.calls += 1;
        let limit = self.deps.host.resources.output;
        if self.log.calls > CALLS {
            self.fail(GuestFailure::CutOff(format!(
                "it was called {CALLS} times in a row and never waited for anything"
            )));
        } else if self.log.action_bytes > limit {
            self.fail(GuestFailure::CutOff(format!(
                "its actions had more than {limit} bytes in one turn"
            )));
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
