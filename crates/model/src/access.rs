//! The rules for who may use the bot, as pure functions of the operator's lists.
//!
//! Owns only the decision. The adapter of a chat platform looks up roles, parents and owners, and
//! logs refusals.

use crate::agent::Safety;
use crate::finding::Finding;
use crate::id::{ChannelId, GuildId, RoleId, UserId};

/// The people and places that may use the bot. An empty list does not restrict anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowLists {
    /// Users, by id. A member is admitted by this list or by `roles`; if both are empty,
    /// everyone is.
    pub users: Vec<UserId>,
    /// Roles of a member, by id; see [`AllowLists::users`].
    pub roles: Vec<RoleId>,
    /// Channels, or parents of threads, by id.
    pub channels: Vec<ChannelId>,
    /// Guilds the bot answers in, by id.
    pub guilds: Vec<GuildId>,
}

/// A request, as the chat platform describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRequest<'a> {
    /// The author.
    pub author: UserId,
    /// Whether the bot itself wrote it.
    pub is_self: bool,
    /// Whether the bot of another application wrote it.
    pub is_bot: bool,
    /// Whether an integration wrote it through a Discord webhook.
    pub is_webhook: bool,
    /// The author's roles in the guild.
    pub roles: &'a [RoleId],
    /// The channel or thread it was written in.
    pub channel: ChannelId,
    /// The channel a thread belongs to.
    pub parent_channel: Option<ChannelId>,
    /// The guild, or `None` for a direct message.
    pub guild: Option<GuildId>,
    /// The owner of the Discord application, or the members of the team that owns it.
    pub owners: &'a [UserId],
}

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessDecision {
    /// The request may go on to the dispatcher.
    Allowed,
    /// The author is not a person. The bot must not answer at all, or two bots could answer each
    /// other without end.
    Ignored(IgnoredAuthor),
    /// The author is a person without access. The refusal is logged, and shown only in reply to a
    /// command.
    Refused(AccessRefusal),
}

/// The kind of author that is never answered, whatever the lists contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnoredAuthor {
    /// The bot wrote it itself.
    #[error("own message")]
    Own,
    /// Another bot wrote it.
    #[error("message of a bot")]
    Bot,
    /// A Discord webhook wrote it.
    #[error("message of a webhook")]
    Webhook,
}

/// The reason why a person has no access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessRefusal {
    /// The guild is not in `ALLOWED_GUILDS`.
    #[error("this bot is not open to this server")]
    Guild,
    /// Neither the channel nor its parent is in `ALLOWED_CHANNELS`.
    #[error("this bot does not answer in this channel")]
    Channel,
    /// The person is neither in `ALLOWED_USERS` nor has one of `ALLOWED_ROLES`.
    #[error("you may not use this bot")]
    Member,
    /// It is a direct message from a user who is neither an owner nor in `ALLOWED_USERS`.
    #[error("this bot takes direct messages only from its owner")]
    Direct,
}

/// The permissions of a person in a place, according to Discord and the operator's lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanePermissions {
    /// Whether the person may read messages and activities there.
    pub sees: bool,
    /// Whether the person may write there.
    pub acts: bool,
    /// Whether the person owns the Discord application, alone or in a team, or has the rights of an
    /// owner.
    pub owner: bool,
    /// The user's roles in the guild, and the role of everyone there ([`GuildId::everyone`]).
    pub roles: Vec<RoleId>,
    /// The channel of the place, if it is a thread.
    pub parent: Option<ChannelId>,
    /// The guild of the place, or `None` for direct messages and places outside Discord.
    pub guild: Option<GuildId>,
    /// The name of the place, for people.
    pub place: String,
}

/// A person who asked in Discord for a link to the dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInRequest {
    /// The user.
    pub user: UserId,
    /// The person's name, on one line.
    pub name: String,
    /// The channel or thread in which the user asked.
    pub channel: ChannelId,
}

/// Decides about a request.
///
/// An empty list admits everybody. In a guild, the guild, the channel (or its parent) and the
/// member (by id or by role; a guild's own id is its `@everyone` role) must all be admitted. Direct
/// messages are only for owners and listed users; lists of guilds and channels do not apply to
/// them.
#[must_use]
pub fn decide(lists: &AllowLists, request: &AccessRequest<'_>) -> AccessDecision {
    if request.is_self {
        return AccessDecision::Ignored(IgnoredAuthor::Own);
    }
    if request.is_webhook {
        return AccessDecision::Ignored(IgnoredAuthor::Webhook);
    }
    if request.is_bot {
        return AccessDecision::Ignored(IgnoredAuthor::Bot);
    }
    let listed = lists.users.contains(&request.author);
    let Some(guild) = request.guild else {
        let allowed = listed || request.owners.contains(&request.author);
        return if allowed {
            AccessDecision::Allowed
        } else {
            AccessDecision::Refused(AccessRefusal::Direct)
        };
    };
    if !fits(&lists.guilds, guild) {
        return AccessDecision::Refused(AccessRefusal::Guild);
    }
    if !fits(&lists.channels, request.channel)
        && !request.parent_channel.is_some_and(|parent| lists.channels.contains(&parent))
    {
        return AccessDecision::Refused(AccessRefusal::Channel);
    }
    let open = lists.users.is_empty() && lists.roles.is_empty();
    let everyone = guild.everyone();
    let has_role = lists.roles.iter().any(|role| *role == everyone || request.roles.contains(role));
    if open || listed || has_role {
        AccessDecision::Allowed
    } else {
        AccessDecision::Refused(AccessRefusal::Member)
    }
}

fn fits<T: PartialEq>(list: &[T], id: T) -> bool {
    list.is_empty() || list.contains(&id)
}

/// Returns a warning for the operator at the start about who may use the bot and what they can do
/// with it. Returns `None` if people or roles are listed.
#[must_use]
pub fn warning(lists: &AllowLists, safety: Safety) -> Option<Finding> {
    if !lists.users.is_empty() || !lists.roles.is_empty() {
        return None;
    }
    let place = match (lists.channels.is_empty(), lists.guilds.is_empty()) {
        (false, _) => "in the channels of ALLOWED_CHANNELS",
        (true, false) => "in the servers of ALLOWED_GUILDS",
        (true, true) => "in any server this bot is in",
    };
    let power = match safety {
        Safety::Danger => {
            "run commands and read files on this machine, as the user the gateway runs as"
        }
        Safety::Edit => "change files in the workspace and read what the agent can read",
        Safety::Default => "talk to the agent and read what it can read",
    };
    let message = format!("anyone who can write {place} can {power}");
    let hint = "list people in ALLOWED_USERS or roles in ALLOWED_ROLES";
    Some(Finding::warning("access", message).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: UserId = UserId::discord(1);
    const ANN: UserId = UserId::discord(2);
    const BOB: UserId = UserId::discord(3);
    const GUILD: GuildId = GuildId::discord(10);
    const OTHER_GUILD: GuildId = GuildId::discord(11);
    const EVERYONE: RoleId = RoleId::discord(10);
    const CHANNEL: ChannelId = ChannelId::discord(20);
    const THREAD: ChannelId = ChannelId::discord(21);
    const OTHER_CHANNEL: ChannelId = ChannelId::discord(99);
    const ROLE: RoleId = RoleId::discord(30);

    fn lists(
        users: &[UserId],
        roles: &[RoleId],
        channels: &[ChannelId],
        guilds: &[GuildId],
    ) -> AllowLists {
        AllowLists {
            users: users.into(),
            roles: roles.into(),
            channels: channels.into(),
            guilds: guilds.into(),
        }
    }

    fn member(author: UserId) -> AccessRequest<'static> {
        AccessRequest {
            author,
            is_self: false,
            is_bot: false,
            is_webhook: false,
            roles: &[],
            channel: CHANNEL,
            parent_channel: None,
            guild: Some(GUILD),
            owners: &[OWNER],
        }
    }

    fn direct(author: UserId) -> AccessRequest<'static> {
        AccessRequest { guild: None, ..member(author) }
    }

    #[test]
    fn people_must_be_admitted_by_every_list_that_is_not_empty() {
        let with_role = AccessRequest { roles: &[ROLE], ..member(BOB) };
        let in_thread =
            AccessRequest { channel: THREAD, parent_channel: Some(CHANNEL), ..member(ANN) };
        use AccessDecision::{Allowed, Refused as No};
        for (name, lists, request, expected) in [
            ("nothing listed", lists(&[], &[], &[], &[]), member(ANN), Allowed),
            ("the user", lists(&[ANN], &[], &[], &[]), member(ANN), Allowed),
            ("another user", lists(&[ANN], &[], &[], &[]), member(BOB), No(AccessRefusal::Member)),
            (
                "the owner is listed like others",
                lists(&[ANN], &[], &[], &[]),
                member(OWNER),
                No(AccessRefusal::Member),
            ),
            ("the role", lists(&[], &[ROLE], &[], &[]), with_role, Allowed),
            (
                "without the role",
                lists(&[], &[ROLE], &[], &[]),
                member(ANN),
                No(AccessRefusal::Member),
            ),
            ("either list lets in", lists(&[ANN], &[ROLE], &[], &[]), with_role, Allowed),
            ("everyone by role", lists(&[], &[EVERYONE], &[], &[]), member(BOB), Allowed),
            ("the guild", lists(&[], &[], &[], &[GUILD]), member(ANN), Allowed),
            (
                "another guild",
                lists(&[], &[], &[], &[OTHER_GUILD]),
                member(ANN),
                No(AccessRefusal::Guild),
            ),
            (
                "a listed user in another guild",
                lists(&[ANN], &[], &[], &[OTHER_GUILD]),
                member(ANN),
                No(AccessRefusal::Guild),
            ),
            ("the channel", lists(&[], &[], &[CHANNEL], &[]), member(ANN), Allowed),
            (
                "another channel",
                lists(&[], &[], &[OTHER_CHANNEL], &[]),
                member(ANN),
                No(AccessRefusal::Channel),
            ),
            ("a thread by its parent", lists(&[], &[], &[CHANNEL], &[]), in_thread, Allowed),
            ("a thread by itself", lists(&[], &[], &[THREAD], &[]), in_thread, Allowed),
            (
                "the parent of a listed thread",
                lists(&[], &[], &[THREAD], &[]),
                member(ANN),
                No(AccessRefusal::Channel),
            ),
            ("the owner directly", lists(&[], &[], &[], &[]), direct(OWNER), Allowed),
            (
                "somebody directly",
                lists(&[], &[], &[], &[]),
                direct(ANN),
                No(AccessRefusal::Direct),
            ),
            (
                "a listed user directly",
                lists(&[ANN], &[], &[OTHER_CHANNEL], &[OTHER_GUILD]),
                direct(ANN),
                Allowed,
            ),
            (
                "a listed role counts for nothing directly",
                lists(&[], &[EVERYONE], &[], &[]),
                direct(BOB),
                No(AccessRefusal::Direct),
            ),
        ] {
            assert_eq!(decide(&lists, &request), expected, "{name}");
        }
    }

    #[test]
    fn authors_that_are_not_people_are_ignored_even_if_listed() {
        let lists = lists(&[ANN], &[], &[], &[]);
        for (request, reason) in [
            (AccessRequest { is_self: true, is_bot: true, ..member(ANN) }, IgnoredAuthor::Own),
            (AccessRequest { is_bot: true, ..direct(ANN) }, IgnoredAuthor::Bot),
            (
                AccessRequest { is_webhook: true, is_bot: true, ..member(ANN) },
                IgnoredAuthor::Webhook,
            ),
        ] {
            assert_eq!(decide(&lists, &request), AccessDecision::Ignored(reason));
        }
    }

    #[test]
    fn open_access_causes_a_warning_with_its_consequences() {
        let open = AllowLists::default();
        let text = warning(&open, Safety::Danger).expect("a warning").to_string();
        assert!(
            text.contains("any server")
                && text.contains("run commands")
                && text.contains("ALLOWED_USERS"),
            "{text}"
        );
        assert!(
            !warning(&open, Safety::Default).expect("a warning").message.contains("run commands")
        );
        assert!(
            warning(&lists(&[], &[], &[CHANNEL], &[]), Safety::Edit)
                .expect("a warning")
                .message
                .contains("ALLOWED_CHANNELS")
        );
        assert!(
            warning(&lists(&[], &[], &[], &[GUILD]), Safety::Edit)
                .expect("a warning")
                .message
                .contains("ALLOWED_GUILDS")
        );
        assert_eq!(warning(&lists(&[ANN], &[], &[], &[]), Safety::Danger), None);
        assert_eq!(warning(&lists(&[], &[ROLE], &[], &[]), Safety::Danger), None);
    }
}
