//! Collects the output and the end of a link's processes as inputs of the guest.

use super::BATCH;
use super::io::LinkIo;
use crate::link::LinkReport;
use crate::link::machine::LinkMachine;
use crate::{OutputLine, ProcessEvent};
use aetheel_model::agent::{AgentLine, Exit, Exited, Input, ProcKey};
use aetheel_runtime::figures;

impl LinkIo {
    /// Handles an event of a process, and further events that have already arrived.
    pub(super) fn process_event(
        &mut self,
        now: f64,
        proc: ProcKey,
        mut event: ProcessEvent,
        machine: &mut LinkMachine,
    ) {
        loop {
            match event {
                ProcessEvent::Lines(lines) => {
                    let truncated = lines.iter().filter(|line| line.truncated).count();
                    figures::lines_truncated(&machine.settings.backend, truncated as u64);
                    for OutputLine { pipe, text, truncated } in lines {
                        self.input(now, Input::Line(AgentLine { proc, pipe, text, truncated }));
                    }
                }
                ProcessEvent::OutputLimit => machine.turns.report_all(|| LinkReport::OutputLimit),
                exit @ ProcessEvent::Exited { .. } if !self.inputs.is_empty() => {
                    self.processes.defer_exit(proc, exit);
                    break;
                }
                ProcessEvent::Exited { how, stderr_tail } => {
                    return self.process_exited(now, Exited { proc, how, stderr_tail }, machine);
                }
            }
            // Events that have already arrived go to the guest in the same call.
            if self.inputs.len() >= BATCH {
                break;
            }
            match self.processes.try_next_event(proc) {
                Some(more) => event = more,
                None => break,
            }
        }
    }

    /// Handles the end of a process.
    pub(super) fn process_exited(&mut self, now: f64, exited: Exited, machine: &LinkMachine) {
        self.processes.remove(exited.proc);
        if exited.how != Exit::Code(0) && machine.turns.is_empty() {
            tracing::info!(how = ?exited.how, "agent failed outside a turn");
        }
        self.input(now, Input::Exited(exited));
    }

    /// Adds an input from HTTP, and further inputs that have already arrived, unless they belong to
    /// a stream that was closed.
    pub(super) fn net_input(&mut self, now: f64, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next {
            if self.net.received(&input) {
                self.input(now, input);
            }
            next = if self.inputs.len() < BATCH { self.net.try_next() } else { None };
        }
    }
}
