//! The person who used a command or menu, or is typing an option of a command, with the token for
//! the answer.

use serde::Deserialize;
use serde_json::Value;

use crate::access::asker::Asker;
use crate::access::identity::Identity;
use crate::wire::{Channel, SlashInteraction, id_in, interacting_user};
use aetheel_model::plain::short_line;

/// A person who waits for an answer. Has no `Debug`, so that the token is never logged.
#[derive(Clone)]
pub(crate) struct InteractionCaller {
    pub(super) interaction: u64,
    pub(super) token: String,
    pub(super) channel: u64,
    parent: Option<u64>,
    guild: Option<u64>,
    user: u64,
    roles: Vec<u64>,
    /// The name that other people see.
    pub(super) name: String,
}

impl InteractionCaller {
    /// Parses the user of an interaction of any kind.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let (user, member) = interacting_user(value)?;
        Some(Self {
            interaction: id_in(&value["id"])?,
            token: value["token"].as_str()?.to_owned(),
            channel: id_in(&value["channel_id"]).or_else(|| id_in(&value["channel"]["id"]))?,
            parent: Channel::deserialize(&value["channel"])
                .ok()
                .and_then(|channel| channel.thread_parent()),
            guild: id_in(&value["guild_id"]),
            user: user.id,
            roles: member.roles,
            name: short_line(member.nick.as_deref().unwrap_or(user.display_name()), 64),
        })
    }

    pub(super) fn asker(&self, identity: &Identity) -> Asker {
        Asker {
            user: self.user,
            roles: self.roles.clone(),
            channel: self.channel,
            parent: self.parent,
            guild: self.guild,
            owner: identity.owners.contains(&self.user),
        }
    }
}

impl From<&SlashInteraction> for InteractionCaller {
    fn from(slash: &SlashInteraction) -> Self {
        Self {
            interaction: slash.interaction,
            token: slash.token.clone(),
            channel: slash.channel,
            parent: slash.parent,
            guild: slash.guild,
            user: slash.user.id,
            roles: slash.roles.clone(),
            name: short_line(slash.nick.as_deref().unwrap_or(slash.user.display_name()), 64),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn callers_in_threads_and_direct_messages_are_parsed() {
        let thread = InteractionCaller::read(&json!({
            "id": "1", "type": 4, "token": "t", "channel_id": "3", "channel": {"id": "3", "type": 11, "parent_id": "9"}, "guild_id": "4",
            "member": {"user": {"id": "7", "username": "ann"}, "roles": ["8"], "nick": "Annie"},
        }))
        .expect("read");
        assert_eq!(
            (thread.channel, thread.parent, thread.guild, thread.roles, thread.name.as_str()),
            (3, Some(9), Some(4), vec![8], "Annie")
        );
        let direct = json!({"id": "1", "type": 3, "token": "t", "channel_id": "3", "user": {"id": "7", "username": "ann"}});
        let direct = InteractionCaller::read(&direct).expect("read");
        assert_eq!(
            (direct.user, direct.guild, direct.parent, direct.name.as_str()),
            (7, None, None, "ann")
        );
    }
}
