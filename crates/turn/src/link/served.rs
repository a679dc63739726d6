//! The calls of host tools that arrive at the host's MCP server. Pure.
//!
//! Each call has the number that the tool relay gave to its request. The relay sends a request again
//! with the same number until it gets the result, because the gateway may be killed at any point. A
//! repeated request is attached to the open call, or gets the recorded result.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use crate::tool_endpoints::{ServedCall, ToolReply};
use crate::tools::CallKey;
use aetheel_model::agent::{ToolRequest, TurnKey};

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
    request: ToolRequest,
    /// The client. `None` before its request arrives again after a restart of the gateway.
    reply_tx: Option<oneshot::Sender<ToolReply>>,
    /// Kept until the end of the turn, because the gateway does not learn whether the relay has it.
    result: Option<ToolReply>,
}

impl ServedCalls {
    /// Adds a call.
    pub(super) fn add(&mut self, request: ToolRequest, reply_tx: oneshot::Sender<ToolReply>) {
        let served = RelayedCall { request, reply_tx: Some(reply_tx), result: None };
        self.calls.insert(served.request.call, served);
    }

    /// Adds a call from before a restart of the gateway.
    pub(super) fn restore(&mut self, request: &ToolRequest) {
        let served = RelayedCall { request: request.clone(), reply_tx: None, result: None };
        self.calls.insert(request.call, served);
    }

    pub(super) fn contains(&self, call: CallKey) -> bool {
        self.calls.contains_key(&call)
    }

    /// Removes the calls of a turn that has ended. Their clients learn that.
    pub(super) fn turn_ends(&mut self, turn: TurnKey) {
        self.calls.retain(|_, call| call.request.turn != turn);
    }

    /// Attaches a repeated request to its call, or sends it the result. Returns the request if it is
    /// a new call.
    pub(super) fn attach(&mut self, call: ServedCall) -> Result<(), ServedCall> {
        let known = self.calls.get_mut(&key(call.number));
        let Some(known) = known.filter(|known| known.request.session == call.session) else {
            return Err(call);
        };
        match &known.result {
            // The client may be gone.
            Some(result) => drop(call.reply_tx.send(result.clone())),
            None => known.reply_tx = Some(call.reply_tx),
        }
        Ok(())
    }

    /// Sets the result of a call. Returns its client, if one waits.
    pub(super) fn end(
        &mut self,
        call: CallKey,
        result: &ToolReply,
    ) -> Option<oneshot::Sender<ToolReply>> {
        let known = self.calls.get_mut(&call)?;
        known.result = Some(result.clone());
        known.reply_tx.take()
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

    fn result() -> ToolReply {
        ToolReply { text: "done".to_owned(), failed: false }
    }

    #[test]
    fn a_repeated_request_is_attached_to_its_call_and_an_identical_one_is_a_new_call() {
        let mut calls = ServedCalls::default();
        let (first, mut lost) = call(7);
        calls.add(request(7), first.reply_tx);
        assert!(calls.attach(call(8).0).is_err(), "the same input with another number");
        let (again, mut reply) = call(7);
        assert!(calls.attach(again).is_ok());
        calls.end(key(7), &result()).expect("a client").send(result()).unwrap();
        assert_eq!(reply.try_recv().unwrap(), result());
        assert!(lost.try_recv().is_err(), "only the last request gets the result");
    }

    #[test]
    fn a_call_from_before_a_restart_gets_its_recorded_result_until_its_turn_ends() {
        let mut calls = ServedCalls::default();
        calls.restore(&request(7));
        assert!(calls.end(key(7), &result()).is_none(), "nobody waits yet");
        for _ in 0..2 {
            let (again, mut reply) = call(7);
            assert!(calls.attach(again).is_ok());
            assert_eq!(reply.try_recv().unwrap(), result());
        }
        let other = ServedCall { session: 2, ..call(7).0 };
        assert!(calls.attach(other).is_err(), "a number of another session");
        calls.turn_ends(5);
        assert!(calls.attach(call(7).0).is_err());
    }
}
