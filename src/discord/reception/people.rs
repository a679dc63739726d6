//! What was looked up of channels and members, so that Discord is asked once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::OnceCell;
use tracing::debug;

use super::{LOOK_UP, lock};
use crate::discord::api::Api;
use crate::discord::rest::RestError;
use crate::discord::wire::{Channel, Member};

/// Channels, and members, that are remembered.
const KEPT: usize = 4_096;

type Members = HashMap<(u64, u64), Arc<OnceCell<Option<Member>>>>;

#[derive(Default)]
pub(in super::super) struct People {
    channels: Mutex<HashMap<u64, Channel>>,
    /// By guild and user. None: Discord knows of no such member.
    members: Mutex<Members>,
}

impl People {
    /// A channel.
    ///
    /// # Errors
    /// [`RestError`].
    pub(in super::super) async fn channel(&self, api: &Api, channel: u64) -> Result<Channel, RestError> {
        if let Some(known) = lock(&self.channels).get(&channel) {
            return Ok(known.clone());
        }
        match api.channel(channel, LOOK_UP).await {
            Ok(found) => {
                let mut channels = lock(&self.channels);
                if channels.len() >= KEPT {
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

    /// Somebody as a member of a guild, as of the last login; also when several channels ask at the same time, Discord is
    /// asked once. None: Discord knows of no such member.
    ///
    /// # Errors
    /// When Discord cannot say that now.
    pub(super) async fn member(&self, api: &Api, guild: u64, user: u64) -> Result<Option<Member>, RestError> {
        let cell = {
            let mut members = lock(&self.members);
            if members.len() >= KEPT {
                members.clear();
            }
            Arc::clone(members.entry((guild, user)).or_default())
        };
        let look_up = || async {
            match api.member(guild, user, LOOK_UP).await {
                Ok(member) => Ok(Some(member)),
                Err(error) if error.is_passing() => Err(error),
                Err(_) => Ok(None),
            }
        };
        cell.get_or_try_init(look_up).await.cloned()
    }

    /// Forgets who has which roles.
    pub(super) fn forget_members(&self) {
        lock(&self.members).clear();
    }
}
