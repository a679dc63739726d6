//! Applies the calls of the host's tools, each exactly once.
//!
//! A call is recorded like any other action, and its result like any other input. In between, the
//! recording also contains the file of a call that posts one ([`EntryKind::Attached`]). So it shows
//! which calls have had their effect. A question is open until its result is recorded, like the
//! questions of guests. Delegated calls go through the driver to the audience, again after a crash: a
//! repetition has no further effect.
//!
//! [`EntryKind::Attached`]: aetheel_recording::EntryKind::Attached

use super::{LinkEffect, LinkMachine};
use crate::link::LinkReport;
use crate::link::calls::{CallState, OpenedCall};
use crate::tools::{CallKey, ToolError, delegated_result};
use aetheel_model::agent::{
    AgentEventKind, AgentNotice, Artifact, ArtifactBody, AskDecision, AskKey, DiagnosticLevel,
    ToolRequest, ToolResult, TurnKey, TurnRef,
};
use aetheel_model::host_tool::{HostToolKind, answer_text};
use aetheel_model::plain::{counted, one_line, short_line};

/// Maximum length of a result in the notice about its call, in characters.
const MAX_SHOWN_CHARS: usize = 200;

impl LinkMachine {
    /// Opens a call, and carries it out unless the audience or people do that.
    pub(super) fn open_call(&mut self, request: &ToolRequest) {
        let turn = TurnRef { session: request.session, turn: request.turn };
        let opened = match self.calls.open(request, self.turns.is_running(turn)) {
            Ok(opened) => opened,
            Err(error) => return self.dropped("tool-request", error),
        };
        let (key, report) = match opened {
            OpenedCall::Alone => return self.carry_out(request.call),
            OpenedCall::Asks(ask) => (ask.ask, LinkReport::Ask(*ask)),
            OpenedCall::Delegates(call) => (call.key, LinkReport::Delegated(call)),
        };
        if self.turns.add_ask(turn.turn, key, Vec::new()) {
            self.report(turn, "tool-request", report);
        } else {
            self.calls.refuse(request.call, ToolError::AskInUse);
            self.carry_out(request.call);
        }
    }

    fn carry_out(&mut self, call: CallKey) {
        let Some(open) = self.calls.get(call) else { return };
        match &open.state {
            CallState::Refused(error) => {
                let text = error.to_string();
                self.return_result(ToolResult { call, text, failed: true }, true);
            }
            CallState::File(file) => match self.turns.sessions.get(open.turn.session) {
                Some(session) => {
                    let (file, cwd) = (file.clone(), session.cwd.clone().into());
                    self.effect(LinkEffect::ReadFile { call, file, cwd });
                }
                None => self.refuse_call(call, ToolError::TurnNotOpen),
            },
            CallState::Attached(text) => {
                let text = text.clone();
                self.return_result(ToolResult { call, text, failed: false }, false);
            }
            CallState::Asked(_) | CallState::Delegated(_) | CallState::Returned => {}
        }
    }

    /// Refuses an open call.
    pub(in crate::link) fn refuse_call(&mut self, call: CallKey, error: ToolError) {
        self.calls.refuse(call, error);
        self.carry_out(call);
    }

    /// Adds a recorded file to the answer of its turn.
    pub(super) fn attach(&mut self, call: CallKey, artifact: Artifact) {
        let name = artifact.name.as_deref().map(one_line).unwrap_or_default();
        let bytes = counted(artifact_size(&artifact), "byte");
        let text = format!("The file `{name}` ({bytes}) is attached to your answer.");
        if let Some(turn) = self.calls.attach(call, text) {
            let event = AgentEventKind::Artifact(artifact);
            self.report(turn, "tool-request", LinkReport::Event(event));
            self.carry_out(call);
        }
    }

    /// Ends a call that asked people, or that the audience carried out. Returns false if no call has
    /// this key.
    pub(in crate::link) fn answer_call(&mut self, ask: AskKey, decision: &AskDecision) -> bool {
        let Some(call) = self.calls.asking(ask) else { return false };
        if self.turns.close_ask(ask).is_some() {
            let state = self.calls.get(call).map(|open| &open.state);
            let (text, failed) = match state {
                Some(CallState::Delegated(_)) => delegated_result(decision),
                _ => (answer_text(decision), false),
            };
            self.return_result(ToolResult { call, text, failed }, false);
        }
        true
    }

    fn return_result(&mut self, result: ToolResult, is_refusal: bool) {
        self.show_result(&result);
        self.calls.set_returned(result.call);
        self.effect(LinkEffect::Return { result, is_refusal });
    }

    /// Closes a call whose result is recorded.
    pub(super) fn close_call(&mut self, result: &ToolResult) {
        // Does nothing if the result was shown when it was returned.
        self.show_result(result);
        let Some(ask) = self.calls.close(result.call) else { return };
        if let Some(open) = self.turns.close_ask(ask) {
            // A driver needs the decision only for questions of the guest.
            let report = LinkReport::Answered(ask, AskDecision::Dismissed);
            self.effect(LinkEffect::Repeat(open.turn, report));
        }
    }

    /// Shows people the result of a call that they see in no other way: of one that the audience
    /// carried out, and of each that failed. The first line of a result is for people too, and the
    /// others are for the model. So is the advice after the reason of a failure.
    fn show_result(&mut self, result: &ToolResult) {
        let Some(open) = self.calls.get(result.call) else { return };
        let kind = HostToolKind::parse(&open.tool);
        let is_shown = match open.state {
            CallState::Returned => false,
            CallState::Delegated(_) => result.failed || kind != Some(HostToolKind::ListAgents),
            _ => result.failed,
        };
        if !is_shown {
            return;
        }
        let turn = open.turn;
        let first = result.text.lines().next().unwrap_or_default();
        let (level, text) = match result.failed {
            true => {
                let what = kind.map_or("call a tool", HostToolKind::in_words);
                let reason = first.split_once("; ").map_or(first, |(reason, _)| reason);
                (DiagnosticLevel::Warn, format!("The agent could not {what}: {reason}"))
            }
            false => (DiagnosticLevel::Info, first.to_owned()),
        };
        let text = short_line(&text, MAX_SHOWN_CHARS);
        let notice = AgentNotice { level, key: None, text };
        self.report(turn, "tool-result", LinkReport::Event(AgentEventKind::Notice(notice)));
    }

    /// Closes the calls of a turn that has ended. They get no result.
    pub(super) fn end_calls(&mut self, turn: TurnKey) {
        self.served.turn_ends(turn);
        for ask in self.calls.turn_ends(turn) {
            self.withdraw(ask);
        }
    }

    /// Closes a question that the agent does not need any more, and reports that to its turn.
    pub(super) fn withdraw(&mut self, ask: AskKey) {
        if let Some(open) = self.turns.close_ask(ask) {
            self.effect(LinkEffect::Report(open.turn, LinkReport::Withdrawn(ask)));
        }
    }
}

/// Returns the size of an artifact's content in bytes.
pub(in crate::link) fn artifact_size(artifact: &Artifact) -> usize {
    match &artifact.body {
        ArtifactBody::Base64(text) => text.trim_end_matches('=').len() * 3 / 4,
        ArtifactBody::Text(text) | ArtifactBody::Link(text) => text.len(),
    }
}
