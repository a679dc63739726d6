//! Passes the output and the end of a link's processes to the guest.
//!
//! If the guest of a one-shot agent has failed, the rest of the output is still recorded, because a
//! later parser may be able to read the answer.

use super::{BATCH, LinkTask};
use crate::link::LinkReport;
use crate::{OutputLine, ProcessCommand, ProcessEvent};
use aetheel_model::agent::descriptor::StderrNoise;
use aetheel_model::agent::{
    AgentFailure, AgentLine, Exit, Exited, FailureKind, Input, ProcKey, TimedInput,
};
use aetheel_recording::{EntryKind, reason};
use aetheel_runtime::figures;

/// The signals by which somebody asks a process to end: HUP, INT and TERM.
const ENDING_SIGNALS: [u32; 3] = [1, 2, 15];

impl LinkTask {
    /// Handles an event of a process, and further events that have already arrived.
    pub(super) fn process_event(&mut self, proc: ProcKey, mut event: ProcessEvent) {
        let mut bytes = 0;
        loop {
            match event {
                ProcessEvent::Lines(lines) => bytes += self.lines(proc, lines),
                ProcessEvent::OutputLimit => self.turns.report_all(|| LinkReport::OutputLimit),
                exit @ ProcessEvent::Exited { .. } if !self.inputs.is_empty() => {
                    self.processes.defer_exit(proc, exit);
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
            match self.processes.try_next_event(proc) {
                Some(more) => event = more,
                None => break,
            }
        }
        self.count_output(bytes);
    }

    /// Adds lines as inputs. Returns their size in bytes.
    fn lines(&mut self, proc: ProcKey, lines: Vec<OutputLine>) -> u64 {
        let at_ms = self.recording.now();
        let truncated = lines.iter().filter(|line| line.truncated).count();
        figures::lines_truncated(self.name(), truncated as u64);
        let bytes = lines.iter().map(|line| line.text.len() as u64 + 1).sum();
        self.inputs.extend(lines.into_iter().map(|OutputLine { pipe, text, truncated }| {
            TimedInput { at_ms, input: Input::Line(AgentLine { proc, pipe, text, truncated }) }
        }));
        bytes
    }

    pub(super) fn process_exited(&mut self, proc: ProcKey, how: Exit, stderr_tail: String) {
        self.processes.remove(proc);
        if how != Exit::Code(0) && self.turns.is_empty() {
            tracing::info!(?how, "agent failed outside a turn");
        }
        self.report_exit(how, &stderr_tail);
        self.input(Input::Exited(Exited { proc, how, stderr_tail }));
    }

    /// Reports the end of a process to all turns.
    pub(super) fn report_exit(&self, how: Exit, stderr_tail: &str) {
        let failure = AgentFailure {
            kind: FailureKind::Crashed,
            message: exit_message(stderr_tail, how, &self.deps.backend.descriptor().stderr_noise),
            retry_after_ms: None,
        };
        self.turns.report_all(|| LinkReport::AgentFailed(failure.clone()));
        self.turns.report_all(|| LinkReport::Stderr(stderr_tail.to_owned()));
        match how {
            // Something else had asked the agent to end when the prompt arrived. It never read the
            // prompt, because an agent that begins to work prints something.
            how if is_asked_for(how)
                && !self.is_one_shot()
                && !self.closing.is_ending()
                && !self.processes.any_started()
                && !self.state.has_output() =>
            {
                self.turns.report_all(|| LinkReport::Orphaned);
            }
            Exit::Code(0) => self.turns.report_all(|| LinkReport::ExitedWell),
            Exit::Unknown => self.turns.report_all(|| LinkReport::Orphaned),
            _ => {}
        }
    }

    /// Adds an input from HTTP, unless it belongs to a stream that was closed.
    pub(super) fn net_input(&mut self, input: Input) {
        if let Some(bytes) = self.net.received(&input) {
            self.count_output(bytes as u64);
            self.input(input);
        }
    }

    pub(super) fn count_output(&mut self, bytes: u64) {
        self.counters.output = self.counters.output.saturating_add(bytes);
        if bytes > 0 {
            self.state.set_output(true);
        }
        if self.counters.output > self.deps.host.resources.output {
            self.turns.report_all(|| LinkReport::OutputLimit);
        }
        // If several turns are open, only a turn's own events show that it makes progress.
        if bytes > 0 && self.turns.len() == 1 {
            self.turns.report_all(|| LinkReport::Active);
        }
    }

    /// Returns whether the remaining output of the agent is worth recording: it serves only this
    /// turn, exits by itself, and is not being stopped.
    pub(super) fn can_drain(&self) -> bool {
        self.is_one_shot()
            && self.turns.any_running()
            && !self.processes.any_listens()
            && !self.closing.is_interrupted()
            && !self.closing.is_ending()
    }

    /// Closes the agent's stdin and continues to record its output. The turn's time limits
    /// continue. Its questions are closed, because nothing can pass on an answer.
    pub(super) fn drain(&mut self) {
        self.recording.host(EntryKind::Host(aetheel_recording::UNSEEN.to_owned()));
        self.timers.clear();
        self.turns.report_all(|| LinkReport::GuestFailed);
        self.turns.withdraw_all();
        self.processes.command_all(&ProcessCommand::CloseStdin);
    }
}

/// Returns whether a process ended as it does when it is asked to. Many agents report the signal as
/// exit code 128 plus its number.
fn is_asked_for(how: Exit) -> bool {
    match how {
        Exit::Code(0) => true,
        Exit::Code(code) => code > 128 && ENDING_SIGNALS.contains(&(code - 128)),
        Exit::Signal(signal) => ENDING_SIGNALS.contains(&signal),
        Exit::Unknown => false,
    }
}

/// Returns the failure message of an agent that exited without ending its turn.
fn exit_message(stderr: &str, how: Exit, noise: &StderrNoise) -> String {
    let tail = reason::reason(stderr, noise);
    let how = match how {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::Unknown => "unknown exit".to_owned(),
    };
    if tail.is_empty() {
        format!("the agent ended without a result ({how})")
    } else {
        format!("{tail} ({how})")
    }
}
