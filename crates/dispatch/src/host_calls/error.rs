//! The reasons why a call of a host tool is not carried out.

use super::limits::{MAX_AHEAD_DAYS, MAX_HOPS, MAX_OPEN, MAX_SLEEPS};
use crate::claims::ClaimError;
use crate::outlet::ChannelError;
use crate::outlet::messages::PromptRefusal;

/// The reason why a call is not carried out. The model gets the text.
#[derive(Debug, thiserror::Error)]
pub(super) enum HostCallError {
    /// The lane is not a channel.
    #[error("this tool works only in a channel of a chat platform, and this turn runs in {0}")]
    NotInAChannel(String),
    /// An agent asked for the turn itself.
    #[error(
        "an agent asked for this turn, and such a turn cannot ask for further ones with this tool; a person can ask for it"
    )]
    ByAgent,
    /// The turn has no asker.
    #[error(
        "nobody asked for this turn, so it is not known what may be read or used on behalf of whom"
    )]
    NoAsker,
    /// The value is not a channel.
    #[error("{0:?} is not a channel; give its id, as `aetheel_list_agents` lists it")]
    InvalidChannel(String),
    /// The permissions of the asker cannot be checked.
    #[error(
        "it cannot be checked whether the person who asked may use that channel ({0}); try again later"
    )]
    Unchecked(#[source] ChannelError),
    /// The asker may not use the channel, or it does not exist. Both are the same for the agent.
    #[error("there is no such channel that the person who asked may use")]
    NoSuchChannel,
    /// The other channel does not accept work.
    #[error(
        "that channel accepts no work from other channels; the operator can allow it with `host-tools` in channels.md"
    )]
    NotAccepted,
    /// The agent may not be used there.
    #[error("the agent {0:?} cannot be used there; `aetheel_list_agents` lists the agents")]
    NoSuchAgent(String),
    /// The work would be handed to the place it is in.
    #[error("this agent and this channel have the work already; name another agent or channel")]
    SamePlace,
    /// The work was handed over too often.
    #[error(
        "this work was handed over {MAX_HOPS} times since a person asked, which is the limit; do it here, or ask the people"
    )]
    TooManyHops,
    /// Work was handed over there a moment ago.
    #[error("work was handed over from here to there a moment ago; try again in {0} seconds")]
    CoolDown(u64),
    /// The time cannot be read.
    #[error("{text:?} is not {expected}; correct it and call the tool again")]
    InvalidTime { text: String, expected: &'static str },
    /// The time is too early or too late.
    #[error("the time must be between one minute and {0} days from now")]
    OutOfRange(i64),
    /// The times of an expression are too close together.
    #[error("there must be at least 15 minutes between two of its times; choose a rarer schedule")]
    TooOften,
    /// The expression has no time within the days.
    #[error("the schedule has no time within its {0} days, at most {MAX_AHEAD_DAYS}")]
    Never(i64),
    /// The channel has too many turns at later times.
    #[error(
        "this channel has {MAX_OPEN} turns at later times, which is the limit; people can remove some with /schedules"
    )]
    TooManyOpen,
    /// The agent sleeps already.
    #[error("this conversation is to be continued at another time already; end your turn")]
    SleepsAlready,
    /// The work was continued too often.
    #[error(
        "this work was continued {MAX_SLEEPS} times in a row, which is the limit; report the state to the people instead"
    )]
    TooManySleeps,
    /// People did not allow it.
    #[error("the people did not allow this; do not try it again, and continue without it")]
    NotAllowed,
    /// The channel cannot be read.
    #[error("the channel cannot be read: {0}")]
    Unreadable(#[source] ChannelError),
    /// The event was refused.
    #[error("it was not accepted: {0}")]
    Refused(#[from] PromptRefusal),
    /// The claim was refused.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The state cannot be saved.
    #[error("it cannot be saved; try again later")]
    NotSaved(#[source] aetheel_store::workspace::FileError),
}
