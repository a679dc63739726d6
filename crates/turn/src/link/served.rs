//! The calls of host tools that arrive at the host's MCP server. Pure.
//!
//! Each call has the number that the tool relay gave to its request. The relay sends a request again
//! with the same number until it gets the result, because the gateway may be killed at any point. A
//! repeated request is attached to the open call, or gets the recorded result.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use crate::tool_endpoints::{ServedCall, ToolReply};
use crate::tools::CallKey;
use aetheel_model::agent::{SessionKey, ToolRequest, ToolResult, TurnKey};

/// The first key of these calls. Guests choose keys below `0x4000_0000`.
const FIRST_KEY: CallKey = 0xC000_0000;

/// Returns the key of the call with a number.
pub(super) fn key(number: u32) -> CallKey {
    FIRST_KEY | number
}

/// The calls of open turns.
#[derive(Default)]
pub(super) struct ServedCalls {
    calls: BTreeMap<CallKey, RelayedCall>,
}

struct RelayedCall {
    session: SessionKey,
    turn: TurnKey,
    /// Kept until the end of the turn, because the gateway does not learn whether the relay has it.
    result: Option<ToolReply>,
}

/// The clients that wait for results. After a restart of the gateway, their requests arrive again.
#[derive(Default)]
pub(super) struct ServedClients(BTreeMap<CallKey, oneshot::Sender<ToolReply>>);

impl ServedCalls {
    /// Adds a recorded call.
    pub(super) fn add(&mut self, request: &ToolRequest) {
        let (session, turn) = (request.session, request.turn);
        self.calls.insert(request.call, RelayedCall { session, turn, result: None });
    }

    pub(super) fn contains(&self, call: CallKey) -> bool {
        self.calls.contains_key(&call)
    }

    /// Removes the calls of a turn that has ended.
    pub(super) fn turn_ends(&mut self, turn: TurnKey) {
        self.calls.retain(|_, call| call.turn != turn);
    }

    /// Sets the result of a call.
    pub(super) fn end(&mut self, result: &ToolResult) {
        if let Some(call) = self.calls.get_mut(&result.call) {
            let ToolResult { text, failed, .. } = result.clone();
            call.result = Some(ToolReply { text, failed });
        }
    }
}

impl ServedClients {
    /// Adds the client of a new call.
    pub(super) fn add(&mut self, call: CallKey, client: oneshot::Sender<ToolReply>) {
        self.0.insert(call, client);
    }

    /// Attaches a repeated request to its call, or sends it the result. Returns the request if it is
    /// a new call.
    pub(super) fn attach(
        &mut self,
        calls: &ServedCalls,
        call: ServedCall,
    ) -> Result<(), ServedCall> {
        let known = calls.calls.get(&key(call.number));
        let Some(known) = known.filter(|known| known.session == call.session) else {
            return Err(call);
        };
        match &known.result {
            // The client may be gone.
            Some(result) => drop(call.reply_tx.send(result.clone())),
            None => self.add(key(call.number), call.reply_tx),
        }
        Ok(())
    }

    /// Removes the client of a call that has a result.
    pub(super) fn take(&mut self, call: CallKey) -> Option<oneshot::Sender<ToolReply>> {
        self.0.remove(&call)
    }

    /// Removes the clients of calls whose turn has ended. They learn that.
    pub(super) fn retain(&mut self, calls: &ServedCalls) {
        self.0.retain(|call, _| calls.contains(*call));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u32) -> ToolRequest {
        let (name, input) = ("tool".to_owned(), "{}".to_owned());
        ToolRequest { call: key(number), session: 1, turn: 5, name, input }
    }

    fn call(number: u32) -> (ServedCall, oneshot::Receiver<ToolReply>) {
        let (reply_tx, reply) = oneshot::channel();
        let (name, input) = ("tool".to_owned(), "{}".to_owned());
        (ServedCall { session: 1, number, name, input, reply_tx }, reply)
    }

    fn result() -> ToolResult {
        ToolResult { call: key(7), text: "done".to_owned(), failed: false }
    }

    fn reply() -> ToolReply {
        ToolReply { text: "done".to_owned(), failed: false }
    }

    #[test]
    fn a_repeated_request_is_attached_to_its_call_and_an_identical_one_is_a_new_call() {
        let (mut calls, mut clients) = (ServedCalls::default(), ServedClients::default());
        let (first, mut lost) = call(7);
        calls.add(&request(7));
        clients.add(key(7), first.reply_tx);
        assert!(clients.attach(&calls, call(8).0).is_err(), "the same input with another number");
        let (again, mut received) = call(7);
        assert!(clients.attach(&calls, again).is_ok());
        calls.end(&result());
        clients.take(key(7)).expect("a client").send(reply()).unwrap();
        assert_eq!(received.try_recv().unwrap(), reply());
        assert!(lost.try_recv().is_err(), "only the last request gets the result");
    }

    #[test]
    fn a_call_from_before_a_restart_gets_its_recorded_result_until_its_turn_ends() {
        let (mut calls, mut clients) = (ServedCalls::default(), ServedClients::default());
        calls.add(&request(7));
        calls.end(&result());
        assert!(clients.take(key(7)).is_none(), "nobody waits yet");
        for _ in 0..2 {
            let (again, mut received) = call(7);
            assert!(clients.attach(&calls, again).is_ok());
            assert_eq!(received.try_recv().unwrap(), reply());
        }
        let other = ServedCall { session: 2, ..call(7).0 };
        assert!(clients.attach(&calls, other).is_err(), "a number of another session");
        calls.turn_ends(5);
        assert!(clients.attach(&calls, call(7).0).is_err());
    }
}
