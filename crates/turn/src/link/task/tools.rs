//! Carries out the calls of the host's tools, each exactly once.
//!
//! A call is recorded like any other action, and its result like any other input. In between, the
//! recording also contains the file of a call that posts one ([`EntryKind::Attached`]). So a rebuilt
//! link knows which calls have had their effect: it completes those, and carries out the others. A
//! question is open until its result is recorded, like the questions of guests. Delegated calls go
//! through the driver to the audience, again after a crash: a repetition has no further effect.

use std::time::Instant;

use super::LinkTask;
use crate::link::LinkReport;
use crate::link::action_error::ActionError;
use crate::link::calls::{CallState, FileRead, OpenedCall};
use crate::link::served;
use crate::tool_endpoints::{EndpointRequest, ServedCall, ToolReply};
use crate::tools::{CallKey, ToolError, delegated_result};
use aetheel_model::agent::{
    AgentEventKind, AgentNotice, Artifact, ArtifactBody, AskDecision, AskKey, DiagnosticLevel,
    Input, ToolRequest, ToolResult, TurnKey, TurnRef,
};
use aetheel_model::host_tool::{HostToolKind, answer_text};
use aetheel_model::plain::{counted, one_line, short_line};
use aetheel_recording::EntryKind;

/// The notice that an agent has no tools of the host, although its turn offered them.
const MISSING_TOOLS: &str = "The agent did not load the tools of Aetheel (files, questions, reminders and others), so it cannot use them in this conversation. `/new` begins another one.";
/// Maximum length of a result in the notice about its call, in characters.
const MAX_SHOWN_CHARS: usize = 200;

impl LinkTask {
    /// Opens a call and carries it out.
    pub(super) fn tool_request(&mut self, request: &ToolRequest) {
        match self.open_call(request) {
            Ok(_) => self.carry_out(request.call),
            Err(error) => self.dropped("tool-request", &error),
        }
    }

    /// Opens a call, but does not carry it out. Only a question or a call for the audience is
    /// reported: the driver knows whether it was reported before. Returns the key of that.
    ///
    /// # Errors
    /// [`ActionError::CallOpen`] if a call with this key is open.
    pub(super) fn open_call(
        &mut self,
        request: &ToolRequest,
    ) -> Result<Option<AskKey>, ActionError> {
        let turn = TurnRef { session: request.session, turn: request.turn };
        let limits = self.deps.host.tool_limits;
        // A recorded call was within the limits of its time.
        let per_turn = if self.rebuilding { u32::MAX } else { limits.per_turn };
        let opened = self.calls.open(request, self.turns.is_running(turn), per_turn)?;
        if !self.rebuilding && !self.is_within_rate(request, limits.per_hour) {
            self.calls.refuse(request.call, ToolError::HourSpent(limits.per_hour));
            return Ok(None);
        }
        // The next process counts the recorded calls.
        self.recording.write_soon();
        let (key, is_added, report) = match opened {
            OpenedCall::Alone => return Ok(None),
            OpenedCall::Asks(ask) => (ask.ask, self.turns.ask(&ask), LinkReport::Ask(*ask)),
            OpenedCall::Delegates(call) => {
                (call.key, self.turns.delegate(turn, call.key), LinkReport::Delegated(call))
            }
        };
        if !is_added {
            self.calls.refuse(request.call, ToolError::AskInUse);
            return Ok(None);
        }
        self.report(turn, "tool-request", report);
        Ok(Some(key))
    }

    /// Counts a call that is not refused for another reason. Returns whether its lane may have it.
    fn is_within_rate(&self, request: &ToolRequest, per_hour: u32) -> bool {
        let open = self.calls.get(request.call);
        let is_refused = open.is_some_and(|open| matches!(open.state, CallState::Refused(_)));
        let session = self.turns.sessions.get(request.session).filter(|_| !is_refused);
        session.is_none_or(|session| {
            self.deps.tool_rates.count(&session.lane, per_hour, Instant::now())
        })
    }

    /// Shows people the result of a call that they see in no other way: of one that the audience
    /// carried out, and of each that failed. The first line of a result is for people too, and the
    /// others are for the model. So is the advice after the reason of a failure.
    pub(super) fn show_call(&mut self, result: &ToolResult) {
        let Some(open) = self.calls.get(result.call) else { return };
        let kind = HostToolKind::parse(&open.tool);
        let is_shown =
            matches!(open.state, CallState::Delegated(_)) && kind != Some(HostToolKind::ListAgents);
        if !result.failed && !is_shown {
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

    /// Tells people once if the agent of a session has the address of the MCP server, but never asked
    /// it for its tools.
    pub(super) fn show_missing_tools(&mut self, turn: TurnRef) {
        let session = turn.session;
        let is_new = !self.rebuilding && self.body_sources.is_addressed(session);
        if is_new && self.calls.listed(session) {
            tracing::warn!("the agent has not asked the tool server for its tools");
            let text = MISSING_TOOLS.to_owned();
            let notice = AgentNotice { level: DiagnosticLevel::Warn, key: None, text };
            self.report(turn, "tools", LinkReport::Event(AgentEventKind::Notice(notice)));
        }
    }

    /// Carries out all open calls. Called once a link is rebuilt.
    pub(super) fn carry_out_all(&mut self) {
        for call in self.calls.keys() {
            self.carry_out(call);
        }
    }

    fn carry_out(&mut self, call: CallKey) {
        let Some(open) = self.calls.get(call) else { return };
        match &open.state {
            CallState::Refused(error) => {
                let (tool, reason) = (one_line(&open.tool), error.to_string());
                tracing::warn!(tool, call, reason, "a call of a host tool failed");
                self.tool_result(call, reason, true);
            }
            CallState::File(file) => {
                let file = file.clone();
                match self.turns.sessions.get(open.turn.session) {
                    Some(session) => self.calls.read(call, file, session.cwd.clone().into()),
                    None => {
                        self.calls.refuse(call, ToolError::TurnNotOpen);
                        self.carry_out(call);
                    }
                }
            }
            CallState::Attached(result) => {
                let result = result.clone();
                self.tool_result(call, result, false);
            }
            CallState::Asked(_) | CallState::Delegated(_) => {}
        }
    }

    /// Waits until the files that the agent posted in a turn are part of the answer. An agent may end
    /// its turn without waiting for the results of its calls.
    pub(super) async fn finish_files(&mut self, turn: TurnKey) {
        if self.rebuilding {
            for call in self.calls.unread_files(turn) {
                self.carry_out(call);
            }
        }
        while !self.calls.unread_files(turn).is_empty() {
            let read = self.calls.next_read().await;
            self.file_read(read);
        }
    }

    /// Attaches a file that was read for a call to the answer.
    pub(super) fn file_read(&mut self, read: FileRead) {
        let FileRead { call, result } = read;
        // Otherwise its turn has ended.
        let Some(open) = self.calls.get(call) else { return };
        let turn = open.turn.turn;
        if !matches!(open.state, CallState::File(_)) {
            return;
        }
        match result {
            Ok(artifact) => {
                let name = artifact.name.as_deref().map(one_line);
                tracing::info!(call, name, bytes = size_of(&artifact), "the agent posts a file");
                self.recording.host(EntryKind::Attached { call, turn, artifact: artifact.clone() });
                self.attach(call, artifact);
            }
            Err(error) => self.calls.refuse(call, error.into()),
        }
        self.carry_out(call);
    }

    /// Adds a recorded file to the answer of its turn.
    pub(super) fn attach(&mut self, call: CallKey, artifact: Artifact) {
        let name = artifact.name.as_deref().map(one_line).unwrap_or_default();
        let bytes = counted(size_of(&artifact), "byte");
        let result = format!("The file `{name}` ({bytes}) is attached to your answer.");
        if let Some(turn) = self.calls.attach(call, result) {
            let event = AgentEventKind::Artifact(artifact);
            self.report(turn, "tool-request", LinkReport::Event(event));
        }
    }

    /// Ends a call that asked people, or that the audience carried out. Returns false if no call has
    /// this key.
    pub(super) fn answer_call(&mut self, ask: AskKey, decision: &AskDecision) -> bool {
        let Some(call) = self.calls.asking(ask) else { return false };
        if self.turns.close_ask(ask).is_some() {
            let is_delegated = self
                .calls
                .get(call)
                .is_some_and(|open| matches!(open.state, CallState::Delegated(_)));
            let (text, failed) = match is_delegated {
                true => delegated_result(decision),
                false => (answer_text(decision), false),
            };
            self.tool_result(call, text, failed);
        }
        true
    }

    /// Closes the calls of a turn that has ended. They get no result.
    pub(super) fn end_calls(&mut self, turn: TurnRef) {
        self.served.turn_ends(turn.turn);
        for ask in self.calls.turn_ends(turn.turn) {
            self.turns.withdraw(ask);
        }
    }

    /// Serves a request that arrived at the MCP server.
    pub(super) fn serve_agent(&mut self, request: EndpointRequest) {
        match request {
            EndpointRequest::List(session, reply_tx) => {
                self.calls.listed(session);
                let is_open = self.turns.sessions.get(session).is_some();
                let tools = if is_open { self.calls.tools_of(session) } else { Vec::new() };
                // The client may be gone.
                let _ = reply_tx.send(tools);
            }
            EndpointRequest::Call(call) => self.serve_call(call),
        }
    }

    /// Carries out a call that arrived at the MCP server, unless its request was repeated.
    fn serve_call(&mut self, call: ServedCall) {
        let Err(call) = self.served.attach(call) else { return };
        let running = self.turns.of_session(call.session).filter(|open| !open.done);
        let Some(turn) = running.map(|open| open.turn) else {
            let (tool, reason) = (one_line(&call.name), ToolError::TurnNotOpen.to_string());
            tracing::warn!(tool, reason, "a call of a host tool failed");
            // The client may be gone.
            let _ = call.reply_tx.send(ToolReply { text: reason, failed: true });
            return;
        };
        let ServedCall { number, name, input, reply_tx, .. } = call;
        let (session, turn) = (turn.session, turn.turn);
        let request = ToolRequest { call: served::key(number), session, turn, name, input };
        self.recording.host(EntryKind::Called(request.clone()));
        self.served.add(request.clone(), reply_tx);
        self.tool_request(&request);
    }

    fn tool_result(&mut self, call: CallKey, text: String, failed: bool) {
        let result = ToolResult { call, text, failed };
        self.show_call(&result);
        if !self.served.contains(call) {
            return self.input(Input::ToolResult(result));
        }
        self.calls.close(call);
        self.recording.host(EntryKind::Returned(result.clone()));
        let reply = ToolReply { text: result.text, failed };
        let Some(reply_tx) = self.served.end(call, &reply) else { return };
        let (written, lines) = (self.progress.clone(), self.recording.sent());
        // The agent must not continue with a result that a restarted gateway would not know.
        tokio::spawn(async move {
            if let Some(mut written) = written {
                // An error means that the link has ended, and so has the recording.
                let _ = written.wait_for(|written| *written >= lines).await;
            }
            // The client may be gone.
            let _ = reply_tx.send(reply);
        });
    }
}

/// Returns the size of an artifact's content in bytes.
fn size_of(artifact: &Artifact) -> usize {
    match &artifact.body {
        ArtifactBody::Base64(text) => text.trim_end_matches('=').len() * 3 / 4,
        ArtifactBody::Text(text) | ArtifactBody::Link(text) => text.len(),
    }
}
