//! Collects the output and the end of a link's processes as inputs of the guest.

use super::{BATCH, LinkTask};
use crate::link::LinkReport;
use crate::{OutputLine, ProcessEvent};
use aetheel_model::agent::{AgentLine, Exit, Exited, Input, ProcKey, TimedInput};
use aetheel_runtime::figures;

impl LinkTask {
    /// Handles an event of a process, and further events that have already arrived.
    pub(super) fn process_event(&mut self, proc: ProcKey, mut event: ProcessEvent) {
        loop {
            match event {
                ProcessEvent::Lines(lines) => self.lines(proc, lines),
                ProcessEvent::OutputLimit => {
                    self.machine.turns.report_all(|| LinkReport::OutputLimit)
                }
                exit @ ProcessEvent::Exited { .. } if !self.inputs.is_empty() => {
                    self.io.processes.defer_exit(proc, exit);
                    break;
                }
                ProcessEvent::Exited { how, stderr_tail } => {
                    return self.process_exited(proc, how, stderr_tail);
                }
            }
            // Events that have already arrived go to the guest in the same call.
            if self.inputs.len() >= BATCH {
                break;
            }
            match self.io.processes.try_next_event(proc) {
                Some(more) => event = more,
                None => break,
            }
        }
    }

    /// Adds lines as inputs.
    fn lines(&mut self, proc: ProcKey, lines: Vec<OutputLine>) {
        let at_ms = self.recording.now();
        let truncated = lines.iter().filter(|line| line.truncated).count();
        figures::lines_truncated(self.name(), truncated as u64);
        self.inputs.extend(lines.into_iter().map(|OutputLine { pipe, text, truncated }| {
            TimedInput { at_ms, input: Input::Line(AgentLine { proc, pipe, text, truncated }) }
        }));
    }

    pub(super) fn process_exited(&mut self, proc: ProcKey, how: Exit, stderr_tail: String) {
        self.io.processes.remove(proc);
        if how != Exit::Code(0) && self.machine.turns.is_empty() {
            tracing::info!(?how, "agent failed outside a turn");
        }
        self.input(Input::Exited(Exited { proc, how, stderr_tail }));
    }

    /// Adds an input from HTTP, and further inputs that have already arrived, unless they belong to
    /// a stream that was closed.
    pub(super) fn net_input(&mut self, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next {
            if self.io.net.received(&input) {
                self.input(input);
            }
            next = if self.inputs.len() < BATCH { self.io.net.try_next() } else { None };
        }
    }
}
