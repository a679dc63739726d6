//! The calls of the host's tools on a link. Pure.
//!
//! A call is open until its result is recorded. So a rebuilt link, which gets the recorded results,
//! has the same open calls at each point of the recording.

use std::collections::{BTreeMap, BTreeSet};

use super::action_error::ActionError;
use crate::tools::{self, CallKey, DelegatedCall, MAX_OPEN_CALLS, PostFile, ToolError, ToolInput};
use aetheel_model::agent::{Ask, AskKey, HostTool, SessionKey, ToolRequest, TurnKey, TurnRef};
use aetheel_model::fold::MAX_ARTIFACTS;
use aetheel_model::host_tool::HostToolKind;

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

/// The rest of the way of an opened call.
pub(super) enum OpenedCall {
    /// The link carries it out alone, or reports it later.
    Alone,
    /// People are asked.
    Asks(Box<Ask>),
    /// The audience of the turn carries it out.
    Delegates(DelegatedCall),
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

    /// Returns the tools of the latest turn of an open session. Returns all tools if no turn is known,
    /// because an agent that outlived the gateway lists them only once.
    pub(super) fn tools_of(&self, session: SessionKey) -> Vec<HostTool> {
        let known = self.sessions.get(&session).cloned();
        known.unwrap_or_else(|| tools::host_tools(&HostToolKind::ALL))
    }

    /// Closes the calls of a turn that has ended. Returns its open questions.
    pub(super) fn turn_ends(&mut self, turn: TurnKey) -> Vec<AskKey> {
        self.turns.remove(&turn);
        let mut asks = Vec::new();
        self.open.retain(|_, call| {
            let ends = call.turn.turn == turn;
            asks.extend(call.ask().filter(|_| ends));
            !ends
        });
        asks
    }

    /// Counts a file of the answer that the agent reported by itself.
    pub(super) fn file_reported(&mut self, turn: TurnKey) {
        if let Some(tools) = self.turns.get_mut(&turn) {
            tools.files += 1;
        }
    }

    /// Sets the reason why the next call is refused. Only calls that arrive now are: a recorded call
    /// was within the limits of its time.
    pub(super) fn refuse_next(&mut self, error: ToolError) {
        self.next_refusal = Some(error);
    }

    /// Returns the number of calls of a turn so far.
    pub(super) fn count(&self, turn: TurnKey) -> u32 {
        self.turns.get(&turn).map_or(0, |tools| tools.calls)
    }

    /// Opens a call. `is_running` is whether its turn is running.
    ///
    /// # Errors
    /// [`ActionError::CallOpen`] if a call with this key is open. Such a call gets no result,
    /// because that would be taken for the result of the first one.
    pub(super) fn open(
        &mut self,
        request: &ToolRequest,
        is_running: bool,
    ) -> Result<OpenedCall, ActionError> {
        let refusal = self.next_refusal.take();
        let ToolRequest { call, session, turn, name, .. } = request;
        if self.open.contains_key(call) {
            return Err(ActionError::CallOpen(*call));
        }
        let turn = TurnRef { session: *session, turn: *turn };
        let ask = HOST_ASK | call;
        let checked = refusal.map_or_else(|| self.check(request, is_running), Err);
        if let Some(tools) = self.turns.get_mut(&turn.turn) {
            tools.calls = tools.calls.saturating_add(1);
        }
        let state = match checked {
            Ok(ToolInput::PostFile(file)) => CallState::File(file),
            Ok(ToolInput::Ask(question)) => {
                let tool = name.clone();
                self.open.insert(*call, OpenCall { turn, tool, state: CallState::Asked(ask) });
                return Ok(OpenedCall::Asks(Box::new(question.ask(ask, turn))));
            }
            Ok(ToolInput::Delegated(kind, request)) => {
                let tool = name.clone();
                self.open.insert(*call, OpenCall { turn, tool, state: CallState::Delegated(ask) });
                return Ok(OpenedCall::Delegates(DelegatedCall {
                    key: ask,
                    call: *call,
                    tool: kind,
                    request,
                }));
            }
            Err(error) => CallState::Refused(error),
        };
        let tool = name.chars().take(64).collect();
        self.open.insert(*call, OpenCall { turn, tool, state });
        Ok(OpenedCall::Alone)
    }

    /// Checks a call, whose turn may be running.
    ///
    /// # Errors
    /// Returns the reason why the call is refused.
    pub(super) fn check(
        &self,
        request: &ToolRequest,
        is_running: bool,
    ) -> Result<ToolInput, ToolError> {
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

    /// Refuses a call that was open.
    pub(super) fn refuse(&mut self, call: CallKey, error: ToolError) {
        if let Some(open) = self.open.get_mut(&call) {
            open.state = CallState::Refused(error);
        }
    }

    /// Notes that the file of a call is part of the answer. Returns the turn, or `None` if the call
    /// is not open or its file was attached before.
    pub(super) fn attach(&mut self, call: CallKey, result: String) -> Option<TurnRef> {
        let open = self.open.get_mut(&call)?;
        if !matches!(open.state, CallState::File(_)) {
            return None;
        }
        open.state = CallState::Attached(result);
        let turn = open.turn;
        self.file_reported(turn.turn);
        Some(turn)
    }

    /// Notes that the result of a call was returned.
    pub(super) fn set_returned(&mut self, call: CallKey) {
        if let Some(open) = self.open.get_mut(&call) {
            open.state = CallState::Returned;
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

    /// Removes a call, because its result is recorded. Returns the key of its question, if it has
    /// one.
    pub(super) fn close(&mut self, call: CallKey) -> Option<AskKey> {
        self.open.remove(&call)?.ask()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_of_a_closed_session_are_forgotten() {
        let mut calls = ToolCalls::default();
        for session in 1..=2 {
            let turn = TurnRef { session, turn: session };
            calls.turn_begins(turn, &tools::host_tools(&[HostToolKind::Ask]));
            calls.turn_ends(turn.turn);
        }
        calls.session_closes(1);
        assert_eq!(calls.sessions.keys().collect::<Vec<_>>(), [&2]);
        assert_eq!(calls.tools_of(2).len(), 1);
    }
}
