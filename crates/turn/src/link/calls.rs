//! The calls of the host's tools on a link, each carried out exactly once.
//!
//! A call is recorded like any other action, and its result like any other input. In between, the
//! recording also contains the file of a call that posts one ([`EntryKind::Attached`]). So it shows
//! which calls have had their effect, and a rebuilt link has the same open calls at each point of the
//! recording. A question is open until its result is recorded, like the questions of guests.
//! Delegated calls go through the driver to the audience, again after a crash: a repetition has no
//! further effect.
//!
//! [`EntryKind::Attached`]: aetheel_recording::EntryKind::Attached

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::action_error::ActionError;
use super::effects::LinkEffect;
use super::served::ServedCalls;
use super::turns::LinkTurns;
use super::{LinkDeps, LinkReport};
use crate::tools::{
    self, CallKey, DelegatedCall, MAX_OPEN_CALLS, PostFile, ToolError, ToolInput, delegated_result,
};
use aetheel_model::agent::{
    AgentEventKind, AgentNotice, Artifact, ArtifactBody, AskDecision, AskKey, DiagnosticLevel,
    HostTool, SessionKey, ToolRequest, ToolResult, TurnKey, TurnRef,
};
use aetheel_model::fold::MAX_ARTIFACTS;
use aetheel_model::host_tool::{HostToolKind, answer_text};
use aetheel_model::plain::{counted, one_line, short_line};

/// Maximum length of a result in the notice about its call, in characters.
const MAX_SHOWN_CHARS: usize = 200;
/// Marks the keys of the host's own questions. The rest is the key of the call. A guest uses keys
/// below it.
pub const HOST_ASK: AskKey = 0x8000_0000;

/// The calls of a link.
#[derive(Default)]
pub(super) struct ToolCalls {
    /// The tools of the latest turn of each session.
    sessions: BTreeMap<SessionKey, Vec<HostTool>>,
    /// The sessions whose agents asked the MCP server for their tools.
    listed: BTreeSet<SessionKey>,
    turns: BTreeMap<TurnKey, TurnTools>,
    open: BTreeMap<CallKey, OpenCall>,
    /// The calls that arrive at the MCP server.
    pub(super) served: ServedCalls,
    /// The reason why the next call is refused.
    next_refusal: Option<ToolError>,
}

/// The tools of a turn.
struct TurnTools {
    /// The names of the tools that the turn offers.
    offered: Vec<String>,
    /// The number of files of the answer.
    files: usize,
    /// The number of calls so far.
    calls: u32,
}

/// A call without a recorded result.
pub(super) struct OpenCall {
    pub(super) turn: TurnRef,
    pub(super) tool: String,
    pub(super) state: CallState,
}

/// The state of a call.
pub(super) enum CallState {
    /// It is not carried out.
    Refused(ToolError),
    /// The file must be read.
    File(PostFile),
    /// The file is part of the answer. Contains the result.
    Attached(String),
    /// People are asked.
    Asked(AskKey),
    /// The audience of the turn carries it out.
    Delegated(AskKey),
    /// The result was returned. It is not recorded yet.
    Returned,
}

impl ToolCalls {
    /// Sets the tools that a turn offers.
    pub(super) fn turn_begins(&mut self, turn: TurnRef, tools: &[HostTool]) {
        let offered = tools.iter().map(|tool| tool.name.clone()).collect();
        self.turns.insert(turn.turn, TurnTools { offered, files: 0, calls: 0 });
        self.sessions.insert(turn.session, tools.to_vec());
    }

    /// Notes that the agent of a session asked for its tools. Returns whether it had not before.
    pub(super) fn listed(&mut self, session: SessionKey) -> bool {
        self.listed.insert(session)
    }

    /// Forgets the tools of a session that is closed.
    pub(super) fn session_closes(&mut self, session: SessionKey) {
        self.sessions.remove(&session);
        self.listed.remove(&session);
    }

    /// Returns the tools of the latest turn of a session whose agent asks for them, or none if the
    /// session is not open. Returns all tools if no turn is known, because an agent that outlived the
    /// gateway lists them only once.
    pub(super) fn list(&mut self, session: SessionKey, turns: &LinkTurns) -> Vec<HostTool> {
        self.listed(session);
        if turns.sessions.get(session).is_none() {
            return Vec::new();
        }
        let known = self.sessions.get(&session).cloned();
        known.unwrap_or_else(|| tools::host_tools(&HostToolKind::ALL))
    }

    /// Closes the calls of a turn that has ended. They get no result.
    pub(super) fn end(&mut self, turn: TurnKey, turns: &mut LinkTurns) {
        self.served.turn_ends(turn);
        self.turns.remove(&turn);
        let ended = self.open.extract_if(.., |_, call| call.turn.turn == turn);
        for ask in ended.filter_map(|(_, call)| call.ask()) {
            turns.withdraw(ask);
        }
    }

    /// Counts a file of the answer that the agent reported by itself.
    pub(super) fn file_reported(&mut self, turn: TurnKey) {
        if let Some(tools) = self.turns.get_mut(&turn) {
            tools.files += 1;
        }
    }

    /// Refuses the next call if its turn or its lane had too many. Calls that are refused for
    /// another reason do not count for the lane. Only calls that arrive now are limited: a recorded
    /// call was within the limits of its time.
    pub(super) fn limit(&mut self, request: &ToolRequest, turns: &LinkTurns, deps: &LinkDeps) {
        let limits = deps.host.tool_limits;
        let turn = TurnRef { session: request.session, turn: request.turn };
        let is_running = turns.is_running(turn);
        let calls = self.turns.get(&turn.turn).map_or(0, |tools| tools.calls);
        if is_running && calls >= limits.per_turn {
            self.next_refusal = Some(ToolError::TurnSpent(limits.per_turn));
            return;
        }
        let is_valid = self.check(request, is_running).is_ok();
        let session = turns.sessions.get(request.session).filter(|_| is_valid);
        let is_within = session.is_none_or(|session| {
            deps.tool_rates.count(&session.lane, limits.per_hour, Instant::now())
        });
        if !is_within {
            self.next_refusal = Some(ToolError::HourSpent(limits.per_hour));
        }
    }

    /// Opens a call, and carries it out unless the audience or people do that. A call with the key of
    /// an open one gets no result, because that would be taken for the result of the first one.
    pub(super) fn begin(&mut self, request: &ToolRequest, turns: &mut LinkTurns) {
        let refusal = self.next_refusal.take();
        let ToolRequest { call, session, turn, name, .. } = request;
        if self.open.contains_key(call) {
            return turns.effects.dropped("tool-request", ActionError::CallOpen(*call));
        }
        let turn = TurnRef { session: *session, turn: *turn };
        let key = HOST_ASK | call;
        let checked = refusal.map_or_else(|| self.check(request, turns.is_running(turn)), Err);
        if let Some(tools) = self.turns.get_mut(&turn.turn) {
            tools.calls = tools.calls.saturating_add(1);
        }
        let (state, report) = match checked {
            Ok(ToolInput::PostFile(file)) => (CallState::File(file), None),
            Ok(ToolInput::Ask(question)) => {
                (CallState::Asked(key), Some(LinkReport::Ask(question.ask(key, turn))))
            }
            Ok(ToolInput::Delegated(tool, request)) => {
                let call = DelegatedCall { key, call: *call, tool, request };
                (CallState::Delegated(key), Some(LinkReport::Delegated(call)))
            }
            Err(error) => (CallState::Refused(error), None),
        };
        let tool = name.chars().take(64).collect();
        self.open.insert(*call, OpenCall { turn, tool, state });
        match report {
            None => self.carry_out(*call, turns),
            Some(report) if turns.add_ask(turn.turn, key, Vec::new()) => {
                turns.report(turn, "tool-request", report);
            }
            Some(_) => self.refuse(*call, ToolError::AskInUse, turns),
        }
    }

    /// Checks a call, whose turn may be running.
    ///
    /// # Errors
    /// Returns the reason why the call is refused.
    fn check(&self, request: &ToolRequest, is_running: bool) -> Result<ToolInput, ToolError> {
        let turn = TurnRef { session: request.session, turn: request.turn };
        let tools = self.turns.get(&turn.turn).filter(|_| is_running);
        let tools = tools.ok_or(ToolError::TurnNotOpen)?;
        let calls = self.open.values().filter(|open| open.turn == turn);
        let calls = calls.filter(|open| !matches!(open.state, CallState::Refused(_)));
        if calls.count() >= MAX_OPEN_CALLS {
            return Err(ToolError::TooManyCalls);
        }
        let input = tools::parse(&request.name, &request.input, &tools.offered)?;
        let is_file =
            |open: &&OpenCall| open.turn == turn && matches!(open.state, CallState::File(_));
        let files = tools.files + self.open.values().filter(is_file).count();
        match input {
            ToolInput::PostFile(_) if files >= MAX_ARTIFACTS => Err(ToolError::TooManyFiles),
            input => Ok(input),
        }
    }

    fn carry_out(&mut self, call: CallKey, turns: &mut LinkTurns) {
        let Some(open) = self.open.get(&call) else { return };
        match &open.state {
            CallState::Refused(error) => {
                let result = ToolResult { call, text: error.to_string(), failed: true };
                self.give_back(result, true, turns);
            }
            CallState::File(file) => match turns.sessions.get(open.turn.session) {
                Some(session) => {
                    let (file, cwd) = (file.clone(), session.cwd.clone().into());
                    turns.effects.push(LinkEffect::ReadFile { call, file, cwd });
                }
                None => self.refuse(call, ToolError::TurnNotOpen, turns),
            },
            CallState::Attached(text) => {
                let result = ToolResult { call, text: text.clone(), failed: false };
                self.give_back(result, false, turns);
            }
            CallState::Asked(_) | CallState::Delegated(_) | CallState::Returned => {}
        }
    }

    /// Refuses an open call.
    pub(super) fn refuse(&mut self, call: CallKey, error: ToolError, turns: &mut LinkTurns) {
        if let Some(open) = self.open.get_mut(&call) {
            open.state = CallState::Refused(error);
        }
        self.carry_out(call, turns);
    }

    /// Adds the recorded file of a call to the answer of its turn. Does nothing if it was added
    /// before.
    pub(super) fn attach(&mut self, call: CallKey, artifact: Artifact, turns: &mut LinkTurns) {
        let open = self.open.get_mut(&call);
        let Some(open) = open.filter(|open| matches!(open.state, CallState::File(_))) else {
            return;
        };
        let name = artifact.name.as_deref().map(one_line).unwrap_or_default();
        let bytes = counted(artifact_size(&artifact), "byte");
        let text = format!("The file `{name}` ({bytes}) is attached to your answer.");
        open.state = CallState::Attached(text);
        let turn = open.turn;
        self.file_reported(turn.turn);
        let event = AgentEventKind::Artifact(artifact);
        turns.report(turn, "tool-request", LinkReport::Event(event));
        self.carry_out(call, turns);
    }

    /// Ends a call that asked people, or that the audience carried out. Returns false if no call has
    /// this key.
    pub(super) fn answer(
        &mut self,
        ask: AskKey,
        decision: &AskDecision,
        turns: &mut LinkTurns,
    ) -> bool {
        let Some(call) = self.asking(ask) else { return false };
        if turns.asks.remove(&ask).is_some() {
            let state = self.open.get(&call).map(|open| &open.state);
            let (text, failed) = match state {
                Some(CallState::Delegated(_)) => delegated_result(decision),
                _ => (answer_text(decision), false),
            };
            self.give_back(ToolResult { call, text, failed }, false, turns);
        }
        true
    }

    /// Returns the result of a call, which is not recorded yet.
    fn give_back(&mut self, result: ToolResult, is_refusal: bool, turns: &mut LinkTurns) {
        self.show_result(&result, turns);
        if let Some(open) = self.open.get_mut(&result.call) {
            open.state = CallState::Returned;
        }
        turns.effects.push(LinkEffect::Return { result, is_refusal });
    }

    /// Closes a call whose result is recorded.
    pub(super) fn close(&mut self, result: &ToolResult, turns: &mut LinkTurns) {
        // Does nothing if the result was shown when it was returned.
        self.show_result(result, turns);
        if let Some(ask) = self.open.remove(&result.call).and_then(|open| open.ask()) {
            // A driver needs the decision only for questions of the guest.
            turns.answered(ask, AskDecision::Dismissed);
        }
    }

    pub(super) fn get(&self, call: CallKey) -> Option<&OpenCall> {
        self.open.get(&call)
    }

    /// Returns the open calls of a turn whose files are not read yet.
    pub(super) fn unread_files(&self, turn: TurnKey) -> Vec<CallKey> {
        let unread =
            |open: &OpenCall| open.turn.turn == turn && matches!(open.state, CallState::File(_));
        self.open.iter().filter(|(_, open)| unread(open)).map(|(call, _)| *call).collect()
    }

    /// Returns the call with the key of a question.
    pub(super) fn asking(&self, ask: AskKey) -> Option<CallKey> {
        self.open.iter().find(|(_, open)| open.ask() == Some(ask)).map(|(call, _)| *call)
    }

    /// Shows people the result of a call that they see in no other way: of one that the audience
    /// carried out, and of each that failed. The first line of a result is for people too, and the
    /// others are for the model. So is the advice after the reason of a failure.
    fn show_result(&self, result: &ToolResult, turns: &mut LinkTurns) {
        let Some(open) = self.open.get(&result.call) else { return };
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
        turns.report(turn, "tool-result", LinkReport::Event(AgentEventKind::Notice(notice)));
    }
}

impl OpenCall {
    /// Returns the key of its question, or of its way to the audience.
    pub(super) fn ask(&self) -> Option<AskKey> {
        match self.state {
            CallState::Asked(ask) | CallState::Delegated(ask) => Some(ask),
            _ => None,
        }
    }
}

/// Returns the size of an artifact's content in bytes.
pub(super) fn artifact_size(artifact: &Artifact) -> usize {
    match &artifact.body {
        ArtifactBody::Base64(text) => text.trim_end_matches('=').len() * 3 / 4,
        ArtifactBody::Text(text) | ArtifactBody::Link(text) => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_of_a_closed_session_are_forgotten() {
        let mut calls = ToolCalls::default();
        for session in 1..=2 {
            let turn = TurnRef { session, turn: session };
            calls.turn_begins(turn, &tools::host_tools(&[HostToolKind::Ask]));
            calls.end(turn.turn, &mut LinkTurns::default());
        }
        calls.session_closes(1);
        assert_eq!(calls.sessions.keys().collect::<Vec<_>>(), [&2]);
    }
}
