//! Hearing a one-shot agent to its end although its guest has failed: a later parser may read the
//! whole answer.

use super::Report;
use super::task::Task;
use crate::agent::descriptor::Sharing;
use crate::turn::ProcessCommand;
use crate::turn::recording::What;

impl Task {
    /// Whether what the agent still says is worth waiting for: it serves this turn alone, leaves by
    /// itself, and is not on its way out.
    pub(super) fn can_drain(&self) -> bool {
        let open = self.turns.values().any(|open| !open.done);
        let leaves = self.processes.values().all(|running| running.port.is_none());
        self.parts.backend.descriptor().sharing == Sharing::Turn
            && open
            && leaves
            && !self.interrupted
            && !self.is_ending()
    }

    /// Closes the agent's stdin and goes on writing down what it says. The turn's clocks go on; its
    /// questions are over, for nobody could hand an answer on.
    pub(super) fn drain(&mut self) {
        self.recording.host(What::Host(
            "no guest sees what follows: the agent is heard to its end".to_owned(),
        ));
        self.timers.clear();
        self.tell_turns(|| Report::Blind);
        for (ask, turn) in std::mem::take(&mut self.asks) {
            if let Some(open) = self.turns.get(&turn) {
                // Whoever followed the turn may have gone.
                let _ = open.reports.send(Report::Withdrawn(ask));
            }
        }
        self.command_all(&ProcessCommand::CloseStdin);
    }

    /// Writes down what came while there is no guest.
    pub(super) fn write_down(&mut self) {
        for input in std::mem::take(&mut self.inputs) {
            self.recording.input(&input);
        }
    }
}
