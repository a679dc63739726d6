//! Serves calls of the host's tools: reads files, and passes results to the guest or to the client of
//! the MCP server.

use super::LinkTask;
use crate::link::calls::{CallState, artifact_size};
use crate::link::machine::LinkMachine;
use crate::link::reads::FileRead;
use crate::link::served;
use crate::tool_endpoints::{EndpointRequest, ServedCall, ToolReply};
use crate::tools::ToolError;
use aetheel_model::agent::{Input, ToolRequest, ToolResult};
use aetheel_model::plain::one_line;
use aetheel_recording::EntryKind;

impl LinkTask {
    /// Attaches a file that was read for a call to the answer.
    pub(super) fn file_read(&mut self, read: FileRead) {
        let FileRead { call, result } = read;
        // Otherwise its turn has ended.
        let Some(open) = self.machine.calls.get(call) else { return };
        let turn = open.turn.turn;
        if !matches!(open.state, CallState::File(_)) {
            return;
        }
        match result {
            Ok(artifact) => {
                let name = artifact.name.as_deref().map(one_line);
                tracing::info!(
                    call,
                    name,
                    bytes = artifact_size(&artifact),
                    "the agent posts a file"
                );
                self.record(EntryKind::Attached { call, turn, artifact });
            }
            Err(error) => self.machine.refuse_call(call, error.into()),
        }
    }

    /// Serves a request that arrived at the MCP server.
    pub(super) fn serve_agent(&mut self, request: EndpointRequest) {
        match request {
            EndpointRequest::List(session, reply_tx) => {
                let calls = &mut self.machine.calls;
                calls.listed(session);
                let is_open = self.machine.turns.sessions.get(session).is_some();
                let tools = if is_open { calls.tools_of(session) } else { Vec::new() };
                // The client may be gone.
                let _ = reply_tx.send(tools);
            }
            EndpointRequest::Call(call) => self.serve_call(call),
        }
    }

    /// Carries out a call that arrived at the MCP server, unless its request was repeated.
    fn serve_call(&mut self, call: ServedCall) {
        let Err(call) = self.replies.clients.attach(&self.machine.calls.served, call) else {
            return;
        };
        let running = self.machine.turns.of_session(call.session).filter(|open| !open.done);
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
        self.limit_call(&request);
        self.replies.clients.add(request.call, reply_tx);
        self.record(EntryKind::Called(request));
        // The next process counts the recorded calls.
        self.recording.write_soon();
    }

    /// Refuses the next call if there were too many.
    pub(super) fn limit_call(&mut self, request: &ToolRequest) {
        let LinkMachine { calls, turns, .. } = &mut self.machine;
        calls.limit(request, turns, &self.deps.host.tool_limits, &self.deps.tool_rates);
    }

    /// Returns the result of a call to the guest or the client.
    pub(super) fn return_result(&mut self, result: ToolResult, is_refusal: bool) {
        let (call, failed) = (result.call, result.failed);
        if is_refusal {
            let tool = self.machine.calls.get(call).map(|open| one_line(&open.tool));
            let reason = &result.text;
            tracing::warn!(tool, call, reason, "a call of a host tool failed");
        }
        if !self.machine.calls.served.contains(call) {
            return self.input(Input::ToolResult(result));
        }
        let reply = ToolReply { text: result.text.clone(), failed };
        self.record(EntryKind::Returned(result));
        let Some(reply_tx) = self.replies.clients.take(call) else { return };
        let (written, lines) = (self.io.progress.clone(), self.recording.sent());
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
