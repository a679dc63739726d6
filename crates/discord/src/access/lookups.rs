//! Caches channels, members and roles, so that each is requested from Discord once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tracing::debug;

use crate::api::Api;
use crate::api::endpoints::Endpoint;
use crate::rest::{RestError, Timeouts};
use crate::wire::{Channel, Member, Role};

/// Time limits of requests during which the next event of the channel waits. Callers repeat the
/// request if Discord did not answer.
pub(crate) const LOOK_UP_TIMEOUTS: Timeouts =
    Timeouts::new(Duration::from_secs(5), Duration::from_secs(3));
/// Maximum number of cached channels, and of members. A full cache is cleared.
const CACHE_CAPACITY: usize = 4_096;

type Members = HashMap<(u64, u64), Arc<OnceCell<Option<Member>>>>;

#[derive(Default)]
pub(crate) struct LookupCache {
    channels: Mutex<HashMap<u64, Channel>>,
    /// Members by guild and user; `None` if Discord knows no such member.
    members: Mutex<Members>,
    /// The bot's own role by guild; `None` if the bot has no role of its own there.
    roles: Mutex<HashMap<u64, Option<u64>>>,
}

impl LookupCache {
    /// Returns a channel.
    ///
    /// # Errors
    /// [`RestError`].
    pub(crate) async fn channel(&self, api: &Api, channel: u64) -> Result<Channel, RestError> {
        if let Some(known) = self.channels.lock().get(&channel) {
            return Ok(known.clone());
        }
        match api.get::<Channel>(Endpoint::Channel { channel }, LOOK_UP_TIMEOUTS).await {
            Ok(found) => {
                let mut channels = self.channels.lock();
                if channels.len() >= CACHE_CAPACITY {
                    channels.clear();
                }
                channels.insert(channel, found.clone());
                Ok(found)
            }
            Err(error) => {
                debug!(channel, %error, "cannot look the channel up");
                Err(error)
            }
        }
    }

    /// Returns a member of a guild as of the last login, or `None` if Discord knows no such member.
    /// Channels that ask at the same time share one request.
    ///
    /// # Errors
    /// [`RestError`] if Discord cannot answer now.
    pub(crate) async fn member(
        &self,
        api: &Api,
        guild: u64,
        user: u64,
    ) -> Result<Option<Member>, RestError> {
        let cell = {
            let mut members = self.members.lock();
            if members.len() >= CACHE_CAPACITY {
                members.clear();
            }
            Arc::clone(members.entry((guild, user)).or_default())
        };
        let look_up = || async {
            match api.get::<Member>(Endpoint::Member { guild, user }, LOOK_UP_TIMEOUTS).await {
                Ok(member) => Ok(Some(member)),
                Err(error) if error.is_temporary() => Err(error),
                Err(_) => Ok(None),
            }
        };
        cell.get_or_try_init(look_up).await.cloned()
    }

    /// Returns the bot's own role in a guild. Discord creates one for a bot that is invited with
    /// permissions, and members cannot give it to others (Discord's documentation of role tags,
    /// 2026-08).
    ///
    /// # Errors
    /// [`RestError`] if Discord cannot answer now.
    pub(crate) async fn our_role(
        &self,
        api: &Api,
        guild: u64,
        me: u64,
    ) -> Result<Option<u64>, RestError> {
        if let Some(known) = self.roles.lock().get(&guild) {
            return Ok(*known);
        }
        let role = match api.get::<Vec<Role>>(Endpoint::Roles { guild }, LOOK_UP_TIMEOUTS).await {
            Ok(roles) => {
                roles.into_iter().find(|role| role.tags.bot_id == Some(me)).map(|role| role.id)
            }
            Err(error) if error.is_temporary() => return Err(error),
            Err(_) => None,
        };
        self.roles.lock().insert(guild, role);
        Ok(role)
    }

    /// Returns the role that [`LookupCache::our_role`] found before. Makes no request.
    pub(crate) fn known_role(&self, guild: Option<u64>) -> Option<u64> {
        guild.and_then(|guild| self.roles.lock().get(&guild).copied().flatten())
    }

    pub(crate) fn forget_members(&self) {
        self.members.lock().clear();
        self.roles.lock().clear();
    }
}
