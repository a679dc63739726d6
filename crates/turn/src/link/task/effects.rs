//! Performs the effects that the machine returns.

use super::LinkTask;
use crate::ProcessCommand;
use crate::link::effects::LinkEffect;
use crate::link::{LinkReport, UnknownOutput, UnsolicitedTurn};
use aetheel_model::agent::{
    Action, AgentEventKind, AgentNotice, DiagnosticLevel, Input, Signal, TurnRef,
};
use aetheel_recording::EntryKind;

/// The notice that an agent has no tools of the host, although its turn offered them.
const MISSING_TOOLS: &str = "The agent did not load the tools of Aetheel (files, questions, reminders and others), so it cannot use them in this conversation. `/new` begins another one.";

impl LinkTask {
    /// Performs the effects of the entries so far.
    pub(super) async fn perform_effects(&mut self) {
        while let Some(effect) = self.machine.turns.effects.next() {
            self.perform(effect).await;
        }
        self.replies.clients.retain(&self.machine.calls.served);
        self.state.publish(&self.machine);
    }

    pub(super) async fn perform(&mut self, effect: LinkEffect) {
        match effect {
            LinkEffect::Report(turn, report) => self.replies.report(turn, report),
            LinkEffect::Input(input) => {
                if let Input::SpawnFailed(failed) = &input {
                    tracing::warn!(reason = failed.message, "agent not started");
                }
                self.input(input);
            }
            LinkEffect::Note(note) => self.recording.host(EntryKind::Host(note)),
            LinkEffect::Perform(action) => self.perform_action(action).await,
            LinkEffect::ReadFile { call, file, cwd } => self.io.reads.begin(call, file, cwd),
            LinkEffect::Return { result, is_refusal } => self.return_result(result, is_refusal),
            // The driver caused it.
            LinkEffect::Repeat(..) => {}
            LinkEffect::ShowMissingTools(turn) => self.show_missing_tools(turn),
            // Their callers may be gone.
            LinkEffect::Steered(message, outcome) => {
                let _ = self.replies.steers.remove(&message).map(|reply_tx| reply_tx.send(outcome));
            }
            LinkEffect::Answered(query, reply) => {
                let _ = self.replies.queries.remove(&query).map(|reply_tx| reply_tx.send(reply));
            }
            LinkEffect::Unsolicited { lane, text, usage } => {
                tracing::info!(%lane, "the agent began a turn by itself and answered");
                let backend = self.deps.backend.descriptor().label().to_owned();
                // Fails while the gateway shuts down.
                let _ = self.deps.unsolicited.send(UnsolicitedTurn { lane, backend, text, usage });
            }
            LinkEffect::TooManyUnsolicited(most) => tracing::warn!(
                most,
                "the agent begins too many turns by itself; more of them are dropped for a minute"
            ),
            LinkEffect::Dropped(what, error) => {
                self.log.dropped(what, &error, &mut self.recording);
            }
            LinkEffect::Diagnostic(level, text) => self.log.diagnostic(level, &text),
            LinkEffect::Unknown(unknown) => (self.deps.on_unknown)(&UnknownOutput {
                backend: &self.machine.settings.backend,
                generation: self.deps.backend.generation(),
                agent_version: self.machine.agent_version.as_deref(),
                link: &self.deps.id,
                unknown: &unknown,
            }),
            LinkEffect::Terminate(grace) => {
                self.state.close();
                let stop = ProcessCommand::Stop { signal: Signal::Terminate, grace };
                self.io.processes.command_all(&stop);
            }
            LinkEffect::Kill => {
                self.state.close();
                self.io.processes.kill();
            }
        }
    }

    async fn perform_action(&mut self, action: Action) {
        if acts_outside(&action) {
            self.io.write_ahead(&self.recording).await;
        }
        if let Action::Spawn(spawn) = action {
            let started = self.io.spawn(spawn, &self.deps, &mut self.machine, &mut self.recording);
            let input = started.await;
            return self.input(input);
        }
        match self.io.perform(&action, self.deps.line_limit()) {
            Ok(input) => input.into_iter().for_each(|input| self.input(input)),
            Err((what, error)) => {
                self.machine.processes.command_dropped(&action);
                self.log.dropped(what, &error, &mut self.recording);
            }
        }
    }

    /// Shows people once if the agent of a session has the address of the MCP server, but never
    /// asked it for its tools.
    fn show_missing_tools(&mut self, turn: TurnRef) {
        let is_addressed = self.io.body_sources.is_addressed(turn.session);
        if is_addressed && self.machine.calls.listed(turn.session) {
            tracing::warn!("the agent has not asked the tool server for its tools");
            let (level, text) = (DiagnosticLevel::Warn, MISSING_TOOLS.to_owned());
            let notice = AgentEventKind::Notice(AgentNotice { level, key: None, text });
            self.replies.report(turn.turn, LinkReport::Event(notice));
        }
    }
}

/// Returns whether an action has an effect outside the gateway that must not happen twice.
fn acts_outside(action: &Action) -> bool {
    matches!(
        action,
        Action::Spawn(_)
            | Action::Write(_)
            | Action::CloseStdin(_)
            | Action::Stop(_)
            | Action::Http(_)
            | Action::OpenStream(_)
    )
}
