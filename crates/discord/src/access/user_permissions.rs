//! The current permissions of a person in a channel, from Discord and the operator's access lists.
//!
//! Used for people who see channels outside of Discord, so that they can see and do no more than in
//! Discord. Discord's answers are cached for [`CACHE_TTL`]. A permission that Discord does not
//! confirm is not granted.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::asker::Asker;
use super::identity::Identity;
use super::permissions::{self, GuildMembership as Membership, permissions};
use crate::api::Api;
use crate::api::endpoints::Endpoint;
use crate::ids;
use crate::rest::{RestError, Timeouts};
use crate::wire::guilds::{ChannelDetails, GuildDetails, MemberDetails};
use aetheel_model::access::LanePermissions;
use aetheel_model::id::{ChannelId, GuildId};

/// How long an answer of Discord is used.
const CACHE_TTL: Duration = Duration::from_secs(10);
/// Maximum number of cached answers of a kind.
const CACHE_CAPACITY: usize = 4_096;
/// Time limits of a lookup. Short, because a person waits for a page.
const TIMEOUTS: Timeouts = Timeouts::new(Duration::from_secs(3), Duration::from_secs(4));
/// The type of a private thread, which only its members see.
const PRIVATE_THREAD: u8 = 12;

/// Recent answers of Discord. Concurrent lookups of a key share one request.
struct ReplyCache<K, V>(Mutex<HashMap<K, CachedReply<V>>>);

/// The time of a request, and its answer once it has arrived.
type CachedReply<V> = (Instant, Arc<OnceCell<V>>);

impl<K, V> Default for ReplyCache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> ReplyCache<K, V> {
    async fn get(
        &self,
        key: K,
        ask: impl Future<Output = Result<V, RestError>>,
    ) -> Result<V, RestError> {
        let cell = {
            let (mut known, now) = (self.0.lock(), Instant::now());
            if known.len() >= CACHE_CAPACITY {
                known.clear();
            }
            let entry = known.entry(key).or_insert_with(|| (now, Arc::default()));
            if now.duration_since(entry.0) >= CACHE_TTL {
                *entry = (now, Arc::default());
            }
            Arc::clone(&entry.1)
        };
        cell.get_or_try_init(|| ask).await.cloned()
    }

    fn forget(&self) {
        self.0.lock().clear();
    }
}

/// The answers of Discord from which permissions are computed.
#[derive(Default)]
pub(crate) struct PermissionCache {
    /// Channels by id. `None` if the bot cannot see the channel.
    channels: ReplyCache<u64, Option<Arc<ChannelDetails>>>,
    guilds: ReplyCache<u64, Option<Arc<GuildDetails>>>,
    /// Members by guild and user. `None` if the user is not a member.
    members: ReplyCache<(u64, u64), Option<Arc<MemberDetails>>>,
    /// Whether a user is in a private thread, by thread and user.
    thread_members: ReplyCache<(u64, u64), bool>,
}

impl PermissionCache {
    /// Clears everything, because permissions have changed somewhere.
    pub(crate) fn forget(&self) {
        self.channels.forget();
        self.guilds.forget();
        self.members.forget();
        self.thread_members.forget();
    }

    async fn channel(&self, api: &Api, id: u64) -> Result<Option<Arc<ChannelDetails>>, RestError> {
        let ask = async { found(api.get(Endpoint::Channel { channel: id }, TIMEOUTS).await) };
        self.channels.get(id, ask).await
    }

    async fn guild(&self, api: &Api, id: u64) -> Result<Option<Arc<GuildDetails>>, RestError> {
        let ask = async { found(api.get(Endpoint::Guild { guild: id }, TIMEOUTS).await) };
        self.guilds.get(id, ask).await
    }

    async fn member(
        &self,
        api: &Api,
        guild: u64,
        user: u64,
    ) -> Result<Option<Arc<MemberDetails>>, RestError> {
        let ask = async { found(api.get(Endpoint::Member { guild, user }, TIMEOUTS).await) };
        self.members.get((guild, user), ask).await
    }

    async fn is_thread_member(&self, api: &Api, thread: u64, user: u64) -> Result<bool, RestError> {
        let ask = async {
            let answer = api.get(Endpoint::ThreadMember { thread, user }, TIMEOUTS).await;
            found::<serde_json::Value>(answer).map(|member| member.is_some())
        };
        self.thread_members.get((thread, user), ask).await
    }

    /// Returns the current permissions of a user in a channel; none if the channel does not exist
    /// or the user is not a member.
    ///
    /// # Errors
    /// [`RestError`] if Discord did not answer.
    pub(crate) async fn permissions_of(
        &self,
        api: &Api,
        identity: &Identity,
        user: u64,
        id: u64,
    ) -> Result<LanePermissions, RestError> {
        let owner = identity.owners.contains(&user);
        let Some(channel) = self.channel(api, id).await? else {
            return Ok(LanePermissions::default());
        };
        let mut asker =
            Asker { user, roles: Vec::new(), channel: id, parent: None, guild: None, owner };
        let Some(guild_id) = channel.guild_id else {
            let inside = channel.recipients.iter().any(|recipient| recipient.id == user);
            let sees = inside && identity.admit(&asker).is_ok();
            let place = "direct messages".to_owned();
            return Ok(LanePermissions {
                sees,
                acts: sees,
                owner,
                place,
                ..LanePermissions::default()
            });
        };
        let thread = matches!(channel.kind, 10..=12);
        let parent = match channel.parent_id.filter(|_| thread) {
            Some(parent) => self.channel(api, parent).await?,
            None => None,
        };
        // A thread has the overwrites of its parent.
        let (Some(guild), Some(member), false) = (
            self.guild(api, guild_id).await?,
            self.member(api, guild_id, user).await?,
            thread && parent.is_none(),
        ) else {
            return Ok(LanePermissions::default());
        };
        asker.roles = member.role_ids();
        asker.parent = channel.parent_id.filter(|_| thread);
        asker.guild = Some(guild_id);
        let overwrites = parent.as_ref().unwrap_or(&channel).overwrites();
        let membership = Membership {
            user,
            guild: guild_id,
            owns_guild: guild.owner_id == user,
            roles: asker.roles.clone(),
            timed_out: member.is_timed_out(),
        };
        let may = permissions(&membership, &guild.role_permissions(), &overwrites);
        let mut sees = permissions::can_read(may) && identity.admit(&asker).is_ok();
        if sees && channel.kind == PRIVATE_THREAD && !permissions::can_manage_threads(may) {
            sees = self.is_thread_member(api, id, user).await?;
        }
        let name = channel.name.clone().unwrap_or_else(|| id.to_string());
        Ok(LanePermissions {
            sees,
            acts: sees && permissions::can_write(may, thread),
            owner,
            roles: ids::roles_with_everyone(&asker.roles, Some(guild_id)),
            parent: asker.parent.map(ChannelId::discord),
            guild: Some(GuildId::discord(guild_id)),
            place: format!("#{name}"),
        })
    }
}

/// Turns a refusal into `None`: the object does not exist, or the bot may not see it.
fn found<T>(answer: Result<T, RestError>) -> Result<Option<Arc<T>>, RestError> {
    match answer {
        Ok(value) => Ok(Some(Arc::new(value))),
        Err(error) if error.is_forbidden() => Ok(None),
        Err(error) => Err(error),
    }
}
