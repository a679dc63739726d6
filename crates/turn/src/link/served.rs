//! The calls of host tools that arrive at the host's MCP server. Pure.
//!
//! Such a call has no guest that could repeat it after a restart of the gateway. Instead, its client
//! may call again, and an identical call of the same turn gets the result of the first one.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use crate::tool_endpoints::{ServedCall, ToolReply};
use crate::tools::CallKey;
use aetheel_model::agent::{ToolRequest, TurnKey};

/// The first key of these calls. Guests choose keys below `0x4000_0000`.
const FIRST_KEY: CallKey = 0xC000_0000;

/// The calls whose clients have no result yet.
#[derive(Default)]
pub(super) struct ServedCalls {
    calls: BTreeMap<CallKey, Pending>,
    /// The number of calls so far.
    count: u32,
}

struct Pending {
    request: ToolRequest,
    /// The client, or `None` for a call from before a restart of the gateway.
    reply_tx: Option<oneshot::Sender<ToolReply>>,
    /// The result, if the client was gone when it arrived.
    result: Option<ToolReply>,
}

impl Pending {
    /// Returns whether no client waits for the result.
    fn is_unclaimed(&self) -> bool {
        self.reply_tx.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl ServedCalls {
    /// Returns the key of the next call.
    pub(super) fn next_key(&mut self) -> CallKey {
        self.count += 1;
        FIRST_KEY | self.count
    }

    /// Adds a call.
    pub(super) fn add(&mut self, request: ToolRequest, reply_tx: oneshot::Sender<ToolReply>) {
        let pending = Pending { request, reply_tx: Some(reply_tx), result: None };
        self.calls.insert(pending.request.call, pending);
    }

    /// Adds a call from before a restart of the gateway.
    pub(super) fn restore(&mut self, request: &ToolRequest) {
        self.count = self.count.max(request.call & !FIRST_KEY);
        let pending = Pending { request: request.clone(), reply_tx: None, result: None };
        self.calls.insert(request.call, pending);
    }

    /// Forgets the results from before a restart: the agent has continued, so it has them.
    pub(super) fn forget_results(&mut self) {
        self.calls.retain(|_, call| call.result.is_none());
    }

    pub(super) fn contains(&self, call: CallKey) -> bool {
        self.calls.contains_key(&call)
    }

    /// Removes the calls of a turn that has ended. Their clients learn that.
    pub(super) fn turn_ends(&mut self, turn: TurnKey) {
        self.calls.retain(|_, call| call.request.turn != turn);
    }

    /// Passes an earlier call, whose client is gone, to the client of an identical one. Returns the
    /// client if there is no such call.
    pub(super) fn claim(&mut self, turn: TurnKey, call: ServedCall) -> Result<(), ServedCall> {
        let is_same = |pending: &Pending| {
            let request = &pending.request;
            request.turn == turn
                && request.name == call.name
                && request.input == call.input
                && pending.is_unclaimed()
        };
        let Some((key, pending)) = self.calls.iter_mut().find(|(_, pending)| is_same(pending))
        else {
            return Err(call);
        };
        match pending.result.take() {
            Some(result) => {
                let key = *key;
                self.calls.remove(&key);
                // If this client is gone too, it counts as informed.
                let _ = call.reply_tx.send(result);
            }
            None => pending.reply_tx = Some(call.reply_tx),
        }
        Ok(())
    }

    /// Sets the result of a call. Returns its client, if one waits.
    pub(super) fn end(
        &mut self,
        call: CallKey,
        result: &ToolReply,
    ) -> Option<oneshot::Sender<ToolReply>> {
        let pending = self.calls.get_mut(&call)?;
        if pending.is_unclaimed() {
            pending.result = Some(result.clone());
            return None;
        }
        self.calls.remove(&call)?.reply_tx
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(call: CallKey) -> ToolRequest {
        let (name, input) = ("tool".to_owned(), "{}".to_owned());
        ToolRequest { call, session: 1, turn: 5, name, input }
    }

    fn call() -> (ServedCall, oneshot::Receiver<ToolReply>) {
        let (reply_tx, reply) = oneshot::channel();
        let (name, input) = ("tool".to_owned(), "{}".to_owned());
        (ServedCall { session: 1, name, input, reply_tx }, reply)
    }

    fn result() -> ToolReply {
        ToolReply { text: "done".to_owned(), failed: false }
    }

    #[test]
    fn an_identical_call_gets_the_result_of_one_whose_client_is_gone() {
        let mut calls = ServedCalls::default();
        let key = calls.next_key();
        calls.add(request(key), call().0.reply_tx);
        assert!(calls.end(key, &result()).is_none());
        let (again, mut reply) = call();
        assert!(calls.claim(5, again).is_ok());
        assert_eq!(reply.try_recv().unwrap(), result());
        assert!(calls.claim(5, call().0).is_err(), "the next one is a new call");
    }

    #[test]
    fn a_call_from_before_a_restart_waits_for_its_client() {
        let mut calls = ServedCalls::default();
        calls.restore(&request(FIRST_KEY | 7));
        assert_eq!(calls.next_key(), FIRST_KEY | 8);
        assert!(calls.claim(6, call().0).is_err(), "it belongs to another turn");
        let (again, mut reply) = call();
        assert!(calls.claim(5, again).is_ok());
        let client = calls.end(FIRST_KEY | 7, &result()).expect("it waits");
        client.send(result()).unwrap();
        assert_eq!(reply.try_recv().unwrap(), result());
        calls.restore(&request(FIRST_KEY | 9));
        calls.end(FIRST_KEY | 9, &result());
        calls.forget_results();
        assert!(calls.claim(5, call().0).is_err());
    }

    #[test]
    fn a_call_with_a_client_is_not_claimed_by_another_one() {
        let mut calls = ServedCalls::default();
        let key = calls.next_key();
        let (first, _reply) = call();
        calls.add(request(key), first.reply_tx);
        assert!(calls.claim(5, call().0).is_err());
    }
}
