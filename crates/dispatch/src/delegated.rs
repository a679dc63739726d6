//! The calls of host tools that running turns pass to [`host_calls`](super::host_calls).

use std::sync::Arc;

use tokio::sync::mpsc;

use super::collisions::checkouts::CheckoutPlace;
use super::outlet::handle::ReplyHandle;
use super::persistence::EventProgress;
use super::questions::QuestionContext;
use aetheel_model::event::{AgentRights, Event, EventOrigin};
use aetheel_model::id::ChannelId;
use aetheel_store::workspace::PendingSave;
use aetheel_turn::{Answerer, DelegatedCall};

/// A call that waits to be carried out.
pub(crate) struct PendingCall {
    pub(crate) call: DelegatedCall,
    /// Receives the result.
    pub(crate) answer: Answerer,
    /// The turn of the call.
    pub(crate) turn: CallingTurn,
    pub(crate) context: QuestionContext,
    pub(crate) reply: Arc<ReplyHandle>,
    /// The record that the turn has had an effect. It must be on disk before the effect.
    pub(crate) saving: Option<(EventProgress, PendingSave)>,
}

/// The turn of a call, for the part that carries it out.
pub struct CallContext<'a> {
    pub(crate) question: &'a QuestionContext,
    pub(crate) reply: &'a Arc<ReplyHandle>,
    pub(crate) progress: &'a EventProgress,
}

/// The facts about a turn that decide what its calls may do.
#[derive(Clone, Debug)]
pub(crate) struct CallingTurn {
    /// The event of the turn.
    pub(crate) event: Event,
    /// The name of the backend.
    pub(crate) backend: String,
    /// The rights of the turn.
    pub(crate) rights: AgentRights,
    /// The working directory of the turn.
    pub(crate) checkout: CheckoutPlace,
}

impl CallingTurn {
    /// Returns the channel or thread of the turn, or `None` if its lane is not one.
    pub(crate) fn channel(&self) -> Option<ChannelId> {
        self.event.lane.channel()
    }

    /// Returns the channel of the turn's thread, or `None` if the lane is not a thread.
    pub(crate) fn parent(&self) -> Option<ChannelId> {
        self.event.parent.or(match self.event.origin {
            EventOrigin::Internal { .. } | EventOrigin::Console => None,
            EventOrigin::Message { channel, .. } | EventOrigin::Interaction { channel, .. } => {
                Some(channel).filter(|channel| self.channel() != Some(*channel))
            }
        })
    }
}

/// Parses a channel: its id, or `<#id>`.
pub(crate) fn parse_channel(text: &str) -> Option<ChannelId> {
    let text = text.trim();
    let inner = text.strip_prefix("<#").and_then(|rest| rest.strip_suffix('>')).unwrap_or(text);
    inner.parse().ok()
}

/// Passes calls on. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct CallQueue(mpsc::UnboundedSender<PendingCall>);

impl CallQueue {
    /// Creates a queue, and the receiver for
    /// [`carry_out_all`](super::host_calls::carry_out_all).
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<PendingCall>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Passes a call on. If nothing receives it, because the program ends, the call gets no result.
    pub(crate) fn send(&self, call: PendingCall) {
        let _ = self.0.send(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_an_id_or_a_mention() {
        let seven = Some(ChannelId::discord(7));
        assert_eq!((parse_channel("7"), parse_channel(" <#7> ")), (seven, seven));
        for other in ["", "#general", "<#7", "<@7>", "7 8"] {
            assert_eq!(parse_channel(other), None, "{other}");
        }
    }
}
