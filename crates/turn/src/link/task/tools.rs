//! Serves calls of the host's tools: reads files, and passes results to the guest or to the client of
//! the MCP server.

use super::LinkTask;
use crate::link::machine::LinkMachine;
use crate::link::served;
use crate::tool_endpoints::{EndpointRequest, ServedCall, ToolReply};
use crate::tools::ToolError;
use aetheel_model::agent::{Input, ToolRequest, ToolResult};
use aetheel_model::plain::one_line;
use aetheel_recording::EntryKind;

impl LinkTask {
    /// Serves a request that arrived at the MCP server. A call is carried out unless its request was
    /// repeated.
    pub(super) fn serve_agent(&mut self, request: EndpointRequest) {
        let LinkMachine { calls, turns, .. } = &mut self.machine;
        let call = match request {
            EndpointRequest::Call(call) => self.replies.clients.attach(&calls.served, call).err(),
            EndpointRequest::List(session, reply_tx) => {
                // The client may be gone.
                let _ = reply_tx.send(calls.list(session, turns));
                None
            }
        };
        let Some(call) = call else { return };
        let running = turns.of_session(call.session).filter(|open| !open.done);
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
        self.machine.calls.limit(&request, &self.machine.turns, &self.deps);
        self.replies.clients.add(request.call, reply_tx);
        self.record(EntryKind::Called(request));
        // The next process counts the recorded calls.
        self.recording.write_soon();
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
