//! The buttons below notices: why they are offered, and what pressing one does.

use aetheel_model::event::Sequence;

/// The reason why people are asked whether to run an event again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfferReason {
    /// The event was running during too many crashes of the gateway.
    SetAside,
    /// The event was interrupted after its agent had used a tool.
    Interrupted,
    /// The event was interrupted, and its agent may have used a tool.
    PossibleToolUse,
    /// The turn of the event panicked.
    Panicked,
}

/// The effect of pressing the button of an [`Offer`](crate::outlet::Offer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferEffect {
    /// The event runs again.
    Started,
    /// One or more lost replies are delivered.
    Delivered,
    /// The abilities of a component are accepted.
    Accepted,
    /// Something else was decided. The text precedes the name of the person below the notice, for
    /// example `✅ Promoted by`.
    Decided(&'static str),
}

/// The reason why a button press has no effect. `Display` is worded for the person who pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferRefusal {
    /// The event was started again already, or the offer is too old.
    #[error("This is no longer available.")]
    Gone,
    /// The offer of the previous process, which this process is about to repeat.
    #[error("I have restarted and am checking this. Please try again in a moment.")]
    NotReady,
    /// The person neither asked for the event nor is an approver.
    #[error(
        "You may not start this again: only the person who asked, the bot's owner and its approvers may."
    )]
    NotYours,
    /// The gateway is stopping.
    #[error("I am restarting. Please try again in a minute.")]
    ShuttingDown,
    /// The new start of the event could not be saved.
    #[error("This could not be saved, so it was not started. Please try again later. (storage)")]
    NotSaved,
    /// The button is about a lost reply, and the person may not use the bot in that channel.
    #[error("You may not start this: only people who may use me in this channel can.")]
    NotAdmitted,
    /// The button is about lost replies of other people, and the person is neither the owner nor an
    /// approver.
    #[error("This is for the bot's owner and its approvers.")]
    NotOperator,
    /// The button decides about a component, and the person is not the owner.
    #[error("Only my owner may accept this.")]
    NotOwner,
    /// The current backend cannot read the lost reply.
    #[error("No version of the backend can read this answer yet. It is kept.")]
    NotYet,
    /// The button is about a channel, and the person may not use the bot there.
    #[error("Only people who may use me in this channel can do that.")]
    NotHere,
    /// The decision could not be carried out.
    #[error("That did not work; the log has the reason. Nothing was changed.")]
    NotPossible,
    /// The decision is still being carried out.
    #[error("I am working on it; the log has the result.")]
    Working,
    /// The lost reply is still being read.
    #[error("I am reading it again; if that works, the reply follows.")]
    Reading,
    /// The lost reply was delivered, or is being delivered.
    #[error("This was delivered already.")]
    Delivered,
}

/// Returns the id of a button: the event, and the attempt at it. An old button therefore cannot
/// start a later attempt.
pub(super) fn offer_id(sequence: Sequence, again: u32) -> String {
    format!("{sequence}-{again}")
}

pub(super) fn parse_offer_id(id: &str) -> Option<(Sequence, u32)> {
    let (sequence, again) = id.split_once('-')?;
    Some((sequence.parse().ok()?, again.parse().ok()?))
}
