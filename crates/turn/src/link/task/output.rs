//! The output of a link's processes on its way to the guest, and their end.
//!
//! When the guest of a one-shot agent has failed, the rest of its output is written down all the
//! same: a later parser may read the whole answer.

use super::{BATCH, Task};
use crate::link::Report;
use crate::recording::{self, What};
use crate::{OutputLine, ProcessCommand, ProcessEvent, reason};
use aetheel_model::agent::{Exit, Exited, Failure, FailureKind, Input, Line, ProcKey, TimedInput};
use aetheel_model::figures;

impl Task {
    /// Takes in what a process did, and what else it has done by now.
    pub(super) fn process_event(&mut self, proc: ProcKey, mut event: ProcessEvent) {
        let mut bytes = 0;
        loop {
            match event {
                ProcessEvent::Lines(lines) => bytes += self.lines(proc, lines),
                ProcessEvent::OutputLimit => self.turns.report_all(|| Report::OutputLimit),
                exit @ ProcessEvent::Exited { .. } if !self.inputs.is_empty() => {
                    self.processes.put_back(proc, exit);
                    break;
                }
                ProcessEvent::Exited { how, stderr_tail } => {
                    return self.process_exited(proc, how, stderr_tail);
                }
            }
            // Events that are there already go to the guest in the same call.
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

    /// Takes in lines; returns their bytes.
    fn lines(&mut self, proc: ProcKey, lines: Vec<OutputLine>) -> u64 {
        let at_ms = self.recording.now();
        let truncated = lines.iter().filter(|line| line.truncated).count();
        figures::lines_truncated(self.name(), truncated as u64);
        let bytes = lines.iter().map(|line| line.text.len() as u64 + 1).sum();
        self.inputs.extend(lines.into_iter().map(|OutputLine { pipe, text, truncated }| {
            TimedInput { at_ms, input: Input::Line(Line { proc, pipe, text, truncated }) }
        }));
        bytes
    }

    pub(super) fn process_exited(&mut self, proc: ProcKey, how: Exit, stderr_tail: String) {
        self.processes.remove(proc);
        if how != Exit::Code(0) && self.turns.is_empty() {
            tracing::info!(?how, "agent exited badly outside a turn");
        }
        self.report_exit(how, &stderr_tail);
        self.input(Input::Exited(Exited { proc, how, stderr_tail }));
    }

    /// Reports the end of a process to the turns.
    pub(super) fn report_exit(&self, how: Exit, stderr_tail: &str) {
        let failure = Failure {
            kind: FailureKind::Crashed,
            message: last_words(stderr_tail, how),
            retry_after_ms: None,
        };
        self.turns.report_all(|| Report::Trouble(failure.clone()));
        self.turns.report_all(|| Report::Stderr(stderr_tail.to_owned()));
        match how {
            // A long-lived agent that was leaving when the prompt came, and never took it.
            Exit::Code(0)
                if !self.is_one_shot()
                    && !self.processes.any_started()
                    && !self.state.has_output() =>
            {
                self.turns.report_all(|| Report::Orphaned);
            }
            Exit::Code(0) => self.turns.report_all(|| Report::ExitedWell),
            Exit::Unknown => self.turns.report_all(|| Report::Orphaned),
            _ => {}
        }
    }

    /// Takes in what came over HTTP; of a stream that was closed meanwhile, nothing.
    pub(super) fn net_input(&mut self, input: Input) {
        if let Some(bytes) = self.net.received(&input) {
            self.count_output(bytes as u64);
            self.input(input);
        }
    }

    pub(super) fn count_output(&mut self, bytes: u64) {
        self.spent.output = self.spent.output.saturating_add(bytes);
        if bytes > 0 {
            self.state.set_output(true);
        }
        if self.spent.output > self.parts.host.output_limit {
            self.turns.report_all(|| Report::OutputLimit);
        }
        // On a link of many turns, only a turn's own events say that it goes on.
        if bytes > 0 && self.turns.len() == 1 {
            self.turns.report_all(|| Report::Active);
        }
    }

    /// Whether what the agent still says is worth waiting for: it serves this turn alone, leaves by
    /// itself, and is not on its way out.
    pub(super) fn can_drain(&self) -> bool {
        self.is_one_shot()
            && self.turns.any_running()
            && !self.processes.any_listens()
            && !self.closing.is_interrupted()
            && !self.closing.is_ending()
    }

    /// Closes the agent's stdin and goes on writing down its output. The turn's clocks go on; its
    /// questions are over, for nobody could hand an answer on.
    pub(super) fn drain(&mut self) {
        self.recording.host(What::Host(recording::UNSEEN.to_owned()));
        self.timers.clear();
        self.turns.report_all(|| Report::GuestFailed);
        self.turns.withdraw_all();
        self.processes.command_all(&ProcessCommand::CloseStdin);
    }
}

/// Why an agent exited without ending its turn.
fn last_words(stderr: &str, how: Exit) -> String {
    let tail = reason::reason(stderr);
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
