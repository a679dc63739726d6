//! A person who wants to use the bot, and the check against the operator's access lists.

use std::fmt::Display;
use std::time::{Duration, Instant};

use tracing::info;

use super::identity::Identity;
use crate::wire::{Interaction, Message};
use aetheel_model::access::{self, AccessDecision, AccessRefusal, AccessRequest, IgnoredAuthor};
use aetheel_model::id::{ChannelId, GuildId, RoleId, UserId};

/// The time after a logged refusal in which further refusals of the same person are not logged.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(3_600);

/// The reason why somebody may not use the bot, for the operator's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AccessError {
    /// The author is not a person.
    #[error(transparent)]
    Ignored(IgnoredAuthor),
    /// The access lists do not allow it.
    #[error(transparent)]
    Refused(AccessRefusal),
}

/// A person who wants to use the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    /// The Discord id of the user.
    pub(crate) user: u64,
    /// The user's roles in the guild; empty in direct messages.
    pub(crate) roles: Vec<u64>,
    /// The channel or thread.
    pub(crate) channel: u64,
    /// The channel that the thread belongs to.
    pub(crate) parent: Option<u64>,
    /// The guild. `None` in direct messages.
    pub(crate) guild: Option<u64>,
    /// Whether the user owns the bot's application, alone or in a team.
    pub(crate) owner: bool,
}

impl Asker {
    /// Returns the author of a message, as far as the message describes them.
    pub(crate) fn author_of(message: &Message, parent: Option<u64>, identity: &Identity) -> Self {
        Self {
            user: message.author.id,
            roles: message.member.iter().flat_map(|member| member.roles.iter().copied()).collect(),
            channel: message.channel_id,
            parent,
            guild: message.guild_id,
            owner: identity.owners.contains(&message.author.id),
        }
    }

    pub(crate) fn of(interaction: &Interaction, identity: &Identity) -> Self {
        let user = interaction.user().id;
        Self {
            user,
            roles: interaction.roles().to_vec(),
            channel: interaction.channel,
            parent: interaction.parent(),
            guild: interaction.guild,
            owner: identity.owners.contains(&user),
        }
    }
}

impl Identity {
    /// Returns whether a person other than the bot wrote a message.
    pub(crate) fn is_from_person(&self, message: &Message) -> bool {
        let person =
            !message.author.bot && message.webhook_id.is_none() && message.author.id != self.id;
        person && matches!(message.kind, 0 | 19)
    }

    /// Checks, without a request, whether a person may use the bot in a channel.
    ///
    /// # Errors
    /// [`AccessError`].
    pub(crate) fn admit(&self, asker: &Asker) -> Result<(), AccessError> {
        let author = UserId::discord(asker.user);
        let owners = if asker.owner { vec![author] } else { Vec::new() };
        let roles: Vec<RoleId> = asker.roles.iter().copied().map(RoleId::discord).collect();
        let request = AccessRequest {
            author,
            is_bot: false,
            is_webhook: false,
            is_self: false,
            roles: &roles,
            channel: ChannelId::discord(asker.channel),
            parent_channel: asker.parent.map(ChannelId::discord),
            guild: asker.guild.map(GuildId::discord),
            owners: &owners,
        };
        match access::decide(&self.allowed, &request) {
            AccessDecision::Allowed => Ok(()),
            AccessDecision::Ignored(why) => Err(AccessError::Ignored(why)),
            AccessDecision::Refused(why) => Err(AccessError::Refused(why)),
        }
    }

    /// Logs a refusal, once per hour and person. The person gets no answer, because otherwise
    /// anybody could make the bot post.
    pub(crate) fn log_refusal(&self, asker: &Asker, name: &str, why: impl Display) {
        let now = Instant::now();
        let mut refusals = self.refusals.lock();
        refusals.retain(|_, at| now.duration_since(*at) < REFUSAL_INTERVAL);
        if refusals.insert(asker.user, now).is_none() {
            info!(
                user = asker.user,
                name,
                channel = asker.channel,
                guild = asker.guild,
                why = why.to_string(),
                hint = "to allow this person, add the user to ALLOWED_USERS or a role to ALLOWED_ROLES; `aetheel doctor` shows the names of the ids",
                "refused a discord user"
            );
        }
    }
}
