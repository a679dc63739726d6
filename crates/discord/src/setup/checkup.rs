//! Checks of the bot before a start, for `aetheel doctor`.
//!
//! The checks only read, and do not log in to the gateway, so they use none of the day's logins.

use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::options::DiscordOptions;
use super::start_error::StartError;
use crate::access::permissions::{GuildMembership, MissingPermissions, USED, missing, permissions};
use crate::api::Api;
use crate::api::endpoints::Endpoint;
use crate::ids;
use crate::rest::{RestError, Timeouts};
use crate::wire::guilds::{ChannelDetails, GuildDetails, MemberDetails};
use crate::wire::id;
use aetheel_model::id::{ChannelId, GuildId, UserId};

/// Time limits of all requests here. Short, because a person waits for the result.
const CHECKUP_TIMEOUTS: Timeouts = Timeouts::new(Duration::from_secs(5), Duration::from_secs(8));
/// The flags `GATEWAY_MESSAGE_CONTENT` and `GATEWAY_MESSAGE_CONTENT_LIMITED` of an application.
const MESSAGE_CONTENT: u64 = (1 << 18) | (1 << 19);

/// The bot's account and application at Discord.
#[derive(Clone, Debug)]
pub struct BotProfile {
    /// The name of the bot's account.
    pub name: String,
    /// The Discord id of the bot's account.
    pub id: u64,
    /// The Discord id of its application.
    pub application: u64,
    /// Whether the application may read messages that do not mention the bot.
    pub message_content: bool,
    /// The logins to the gateway that are left today, and the number per day.
    pub logins: (u64, u64),
    /// How many shards Discord recommends.
    pub shards: u32,
    /// The owner of the application: a user, or the owner of its team.
    pub owner: Option<ApplicationOwner>,
    /// The ids and names of the bot's servers, at most 200.
    pub servers: Vec<(GuildId, String)>,
}

/// The owner of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationOwner {
    /// The Discord id of the user.
    pub id: u64,
    /// The name of the user's account.
    pub name: String,
}

impl BotProfile {
    /// Returns the link with which a person who may manage a server invites the bot. It contains
    /// the bot's scopes and permissions.
    #[must_use]
    pub fn invite_url(&self) -> String {
        invite_url(self.application)
    }

    /// Returns the address of the page on which the application's intents are enabled.
    #[must_use]
    pub fn settings_page(&self) -> String {
        format!("https://discord.com/developers/applications/{}/bot", self.application)
    }
}

pub(crate) fn invite_url(application: u64) -> String {
    format!(
        "https://discord.com/oauth2/authorize?client_id={application}&scope=bot+applications.commands&permissions={USED}"
    )
}

/// The result of the check of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelCheck {
    /// The bot can see the channel.
    Found {
        /// The name that people see.
        name: String,
        /// The permissions that the bot lacks in it.
        missing: MissingPermissions,
    },
    /// The channel does not exist, or the bot cannot see it.
    Inaccessible,
    /// Discord did not answer. Contains the error.
    Unknown(String),
}

/// Requests the bot's account and permissions from Discord.
pub struct Checkup {
    api: Api,
    guilds: HashMap<u64, Guild>,
}

#[derive(Deserialize)]
struct AccountDetails {
    #[serde(with = "id")]
    id: u64,
    username: String,
}

#[derive(Deserialize)]
struct ApplicationDetails {
    #[serde(with = "id")]
    id: u64,
    #[serde(default)]
    flags: u64,
    owner: Option<AccountDetails>,
    team: Option<OwningTeam>,
}

#[derive(Deserialize)]
struct OwningTeam {
    #[serde(with = "id")]
    owner_user_id: u64,
    #[serde(default)]
    members: Vec<OwningTeamMember>,
}

#[derive(Deserialize)]
struct OwningTeamMember {
    user: AccountDetails,
}

impl ApplicationDetails {
    fn owner(self) -> Option<ApplicationOwner> {
        let of = |user: AccountDetails| ApplicationOwner { id: user.id, name: user.username };
        match self.team {
            Some(OwningTeam { owner_user_id, members }) => {
                let mut users = members.into_iter().map(|member| member.user);
                users.find(|user| user.id == owner_user_id).map(of)
            }
            None => self.owner.map(of),
        }
    }
}

#[derive(Deserialize)]
struct Server {
    #[serde(with = "id")]
    id: u64,
    name: String,
}

#[derive(Deserialize)]
struct LoginBudget {
    remaining: u64,
    total: u64,
}

#[derive(Deserialize)]
struct GatewayDetails {
    shards: u32,
    session_start_limit: LoginBudget,
}

#[derive(Clone)]
struct Guild {
    roles: Vec<(u64, u64)>,
    bot: GuildMembership,
}

impl Checkup {
    /// Prepares the checks. Makes no request.
    ///
    /// # Errors
    /// [`StartError`] if the configured text cannot be a token.
    pub fn new(options: &DiscordOptions) -> Result<Self, StartError> {
        Ok(Self { api: options.api()?, guilds: HashMap::new() })
    }

    /// Requests the bot's account and application.
    ///
    /// # Errors
    /// [`StartError`] if Discord rejects the token or does not answer.
    pub async fn bot(&self, options: &DiscordOptions) -> Result<BotProfile, StartError> {
        let refused = |error: RestError| match error {
            RestError::TokenRefused => StartError::TokenRefused,
            other => StartError::Unreachable {
                base: options.settings.api_base.clone(),
                why: other.to_string(),
            },
        };
        let me: AccountDetails = self.get(Endpoint::Me {}).await.map_err(refused)?;
        let application: ApplicationDetails =
            self.get(Endpoint::Application {}).await.map_err(refused)?;
        let gateway: GatewayDetails = self.get(Endpoint::Gateway {}).await.map_err(refused)?;
        let servers: Vec<Server> = self.get(Endpoint::Guilds {}).await.map_err(refused)?;
        let limit = gateway.session_start_limit;
        Ok(BotProfile {
            name: me.username,
            id: me.id,
            application: application.id,
            message_content: application.flags & MESSAGE_CONTENT != 0,
            logins: (limit.remaining, limit.total),
            shards: gateway.shards,
            servers: servers
                .into_iter()
                .map(|server| (GuildId::discord(server.id), server.name))
                .collect(),
            owner: application.owner(),
        })
    }

    /// Returns the name of a user, or `None` if Discord knows no user with this id.
    ///
    /// # Errors
    /// [`RestError`] if Discord did not answer.
    pub async fn user(&self, user: UserId) -> Result<Option<String>, RestError> {
        let Some(user) = user.as_discord() else { return Ok(None) };
        match self.get::<AccountDetails>(Endpoint::User { user }).await {
            Ok(user) => Ok(Some(user.username)),
            Err(error) if error.is_gone() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns by how many seconds this clock was ahead of Discord's at its last answer.
    #[must_use]
    pub fn clock_ahead(&self) -> Option<i64> {
        self.api.rest.clock_ahead()
    }

    /// Checks the bot's permissions in a channel.
    pub async fn channel(&mut self, channel: ChannelId, bot: u64) -> ChannelCheck {
        let channel = match ids::in_discord(channel) {
            Ok(channel) => channel,
            Err(why) => return ChannelCheck::Unknown(why),
        };
        match self.missing_permissions(channel, bot).await {
            Ok((name, missing)) => ChannelCheck::Found { name, missing },
            Err(error) if error.is_forbidden() => ChannelCheck::Inaccessible,
            Err(error) => ChannelCheck::Unknown(error.to_string()),
        }
    }

    async fn missing_permissions(
        &mut self,
        id: u64,
        bot: u64,
    ) -> Result<(String, MissingPermissions), RestError> {
        let channel: ChannelDetails = self.get(Endpoint::Channel { channel: id }).await?;
        let name = channel.name.clone().unwrap_or_else(|| "direct messages".to_owned());
        // Direct messages have no permissions.
        let Some(guild_id) = channel.guild_id else {
            return Ok((name, MissingPermissions::default()));
        };
        // Announcement, public and private threads.
        let thread = matches!(channel.kind, 10..=12);
        let overwrites = match channel.parent_id.filter(|_| thread) {
            Some(parent) => self
                .get::<ChannelDetails>(Endpoint::Channel { channel: parent })
                .await?
                .overwrites(),
            None => channel.overwrites(),
        };
        let guild = self.guild(guild_id, bot).await?;
        Ok((name, missing(permissions(&guild.bot, &guild.roles, &overwrites), thread)))
    }

    async fn guild(&mut self, id: u64, bot: u64) -> Result<Guild, RestError> {
        if let Some(known) = self.guilds.get(&id) {
            return Ok(known.clone());
        }
        let wire: GuildDetails = self.get(Endpoint::Guild { guild: id }).await?;
        let member: MemberDetails = self.get(Endpoint::Member { guild: id, user: bot }).await?;
        let membership = GuildMembership {
            user: bot,
            guild: id,
            owns_guild: wire.owner_id == bot,
            roles: member.role_ids(),
            timed_out: member.is_timed_out(),
        };
        let guild = Guild { roles: wire.role_permissions(), bot: membership };
        self.guilds.insert(id, guild.clone());
        Ok(guild)
    }

    async fn get<T: DeserializeOwned>(&self, endpoint: Endpoint<'_>) -> Result<T, RestError> {
        self.api.get(endpoint, CHECKUP_TIMEOUTS).await
    }
}
