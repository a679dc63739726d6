//! Passes calls of host tools that the dispatcher carries out to the audience, and the results to the
//! link.

use tokio::sync::mpsc;

use crate::tools::CallKey;
use crate::{CallReply, GatewayCall, ToolReply};

/// The calls of a turn that the audience carries out.
pub(super) struct AudienceCalls {
    reply_tx: mpsc::UnboundedSender<(CallKey, ToolReply)>,
    replies: mpsc::UnboundedReceiver<(CallKey, ToolReply)>,
}

impl AudienceCalls {
    pub(super) fn new() -> Self {
        let (reply_tx, replies) = mpsc::unbounded_channel();
        Self { reply_tx, replies }
    }

    /// Returns the handle for the result of a call.
    pub(super) fn reply(&self, call: CallKey) -> CallReply {
        CallReply::new(call, self.reply_tx.clone())
    }

    /// Waits for the next result. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> (CallKey, ToolReply) {
        match self.replies.recv().await {
            Some(reply) => reply,
            None => std::future::pending().await,
        }
    }
}

impl super::Driver<'_> {
    /// Lets the audience carry out a call. Called again after a restart if the result was not
    /// recorded.
    pub(super) fn call(&mut self, call: CallKey, request: GatewayCall) {
        let reply = self.calls.reply(call);
        self.audience.call(request, reply);
    }
}
