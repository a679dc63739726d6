//! Conversions between Discord's numbers, which this crate uses, and the ids of other crates, which
//! may belong to another chat platform.

use aetheel_model::event::{CommandToken, Event, EventOrigin, Lane};
use aetheel_model::id::{ChannelId, GuildId, MessageId, RoleId};

/// The origin of an event, with Discord's numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum DiscordOrigin<'a> {
    /// See [`EventOrigin::Message`].
    Message { channel: u64, message: u64 },
    /// See [`EventOrigin::Interaction`].
    Interaction { channel: u64, interaction: u64, pass: Option<&'a CommandToken> },
    /// The event has no message in a chat. The channel is that of [`EventOrigin::Internal`].
    Internal { channel: Option<ChannelId> },
    /// A person wrote it on another chat platform.
    Elsewhere,
}

pub(super) fn origin(event: &EventOrigin) -> DiscordOrigin<'_> {
    let place = |channel: &ChannelId, id: &MessageId| channel.as_discord().zip(id.as_discord());
    match event {
        EventOrigin::Message { channel, message } => match place(channel, message) {
            Some((channel, message)) => DiscordOrigin::Message { channel, message },
            None => DiscordOrigin::Elsewhere,
        },
        EventOrigin::Interaction { channel, interaction, pass } => {
            match place(channel, interaction) {
                Some((channel, interaction)) => {
                    DiscordOrigin::Interaction { channel, interaction, pass: pass.as_ref() }
                }
                None => DiscordOrigin::Elsewhere,
            }
        }
        EventOrigin::Internal { channel } => DiscordOrigin::Internal { channel: *channel },
        EventOrigin::Console => DiscordOrigin::Internal { channel: None },
    }
}

/// Returns the channel for the answer to an event: that of its origin, or else that of its lane, or
/// else `default`. Returns `None` if the answer belongs to another chat platform.
pub(super) fn answer_channel(event: &Event, default: Option<ChannelId>) -> Option<u64> {
    match (origin(&event.origin), &event.lane) {
        (
            DiscordOrigin::Message { channel, .. } | DiscordOrigin::Interaction { channel, .. },
            _,
        ) => Some(channel),
        (DiscordOrigin::Internal { channel: Some(channel) }, _) => channel.as_discord(),
        (DiscordOrigin::Internal { channel: None }, Lane::Channel(channel)) => channel.as_discord(),
        (DiscordOrigin::Internal { channel: None }, _) => default?.as_discord(),
        (DiscordOrigin::Elsewhere, _) => None,
    }
}

pub(super) fn lane(channel: u64) -> Lane {
    Lane::Channel(ChannelId::discord(channel))
}

/// Returns the channel of a notice, or else `default`, which is the operator's output channel.
///
/// # Errors
/// The reason for which the notice cannot be posted.
pub(super) fn notice_channel(
    channel: Option<ChannelId>,
    default: Option<ChannelId>,
) -> Result<u64, String> {
    let none = || "there is no channel for notices; set OUTPUT_CHANNEL_ID".to_owned();
    in_discord(channel.or(default).ok_or_else(none)?)
}

/// Returns the number of a channel.
///
/// # Errors
/// The reason, for the log, if the channel belongs to another chat platform.
pub(super) fn in_discord(channel: ChannelId) -> Result<u64, String> {
    channel.as_discord().ok_or_else(|| format!("the channel {channel} is not in discord"))
}

/// Returns the roles of a member, including the role of everyone in the guild.
pub(super) fn roles_with_everyone(roles: &[u64], guild: Option<u64>) -> Vec<RoleId> {
    let everyone = guild.map(|guild| GuildId::discord(guild).everyone());
    roles.iter().copied().map(RoleId::discord).chain(everyone).collect()
}
