//! Computes the permissions of a member, usually the bot, in a channel from roles and overwrites.
//!
//! Pure. Follows "Permission Overwrites", "Implicit Permissions" and "Permissions for Timed Out
//! Members" of Discord's documentation (topic Permissions, 2026-08). Tested below and by
//! `tests/gateway/doctor.rs`.

use crate::wire::guilds::Overwrite;

/// All permissions, which the owner and administrators have.
const ALL: u64 = u64::MAX;
const ADMINISTRATOR: u64 = 1 << 3;
const ADD_REACTIONS: u64 = 1 << 6;
const VIEW_CHANNEL: u64 = 1 << 10;
const SEND_MESSAGES: u64 = 1 << 11;
const ATTACH_FILES: u64 = 1 << 15;
const READ_MESSAGE_HISTORY: u64 = 1 << 16;
const MANAGE_THREADS: u64 = 1 << 34;
const CREATE_PUBLIC_THREADS: u64 = 1 << 35;
const SEND_MESSAGES_IN_THREADS: u64 = 1 << 38;

/// The permissions that the bot uses. Without those in `NEEDED` it cannot answer; without those in
/// `WANTED` a feature is missing.
const NEEDED: [(u64, &str); 3] = [
    (VIEW_CHANNEL, "View Channel"),
    (SEND_MESSAGES, "Send Messages"),
    (READ_MESSAGE_HISTORY, "Read Message History"),
];
const WANTED: [(u64, &str); 4] = [
    (ATTACH_FILES, "Attach Files"),
    (ADD_REACTIONS, "Add Reactions"),
    (SEND_MESSAGES_IN_THREADS, "Send Messages in Threads"),
    (CREATE_PUBLIC_THREADS, "Create Public Threads"),
];

/// All permissions that the bot uses, for the invite.
pub(crate) const USED: u64 = all(&NEEDED) | all(&WANTED);

const fn all(list: &[(u64, &str)]) -> u64 {
    let (mut bits, mut rest) = (0, list);
    while let [(bit, _), after @ ..] = rest {
        bits |= *bit;
        rest = after;
    }
    bits
}

/// The properties of a member that determine permissions.
#[derive(Clone, Debug, Default)]
pub(crate) struct GuildMembership {
    pub(crate) user: u64,
    pub(crate) guild: u64,
    pub(crate) owns_guild: bool,
    /// The roles of the member, without the role of everyone.
    pub(crate) roles: Vec<u64>,
    pub(crate) timed_out: bool,
}

/// The permissions that are missing in a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingPermissions {
    /// Permissions without which the bot cannot answer.
    pub needed: Vec<&'static str>,
    /// Permissions without which a feature is missing.
    pub wanted: Vec<&'static str>,
}

/// Computes the permissions of a member in a channel. `roles` are all roles of the guild with their
/// permissions. For a thread, `overwrites` are those of its parent.
pub(crate) fn permissions(
    member: &GuildMembership,
    roles: &[(u64, u64)],
    overwrites: &[Overwrite],
) -> u64 {
    let of_role = |id: u64| {
        roles.iter().find(|(role, _)| *role == id).map_or(0, |(_, permissions)| *permissions)
    };
    let base = member.roles.iter().fold(of_role(member.guild), |all, role| all | of_role(*role));
    if member.owns_guild || base & ADMINISTRATOR != 0 {
        return ALL;
    }
    let of = |id: u64| overwrites.iter().filter(move |overwrite| overwrite.id == id);
    let apply = |permissions: u64, (allow, deny): (u64, u64)| (permissions & !deny) | allow;
    let sum = |(allow, deny): (u64, u64), overwrite: &Overwrite| {
        (allow | overwrite.allow, deny | overwrite.deny)
    };
    let mut permissions = apply(base, of(member.guild).fold((0, 0), sum));
    permissions =
        apply(permissions, member.roles.iter().flat_map(|role| of(*role)).fold((0, 0), sum));
    permissions = apply(permissions, of(member.user).fold((0, 0), sum));
    if member.timed_out {
        permissions &= VIEW_CHANNEL | READ_MESSAGE_HISTORY;
    }
    if permissions & VIEW_CHANNEL == 0 { 0 } else { permissions }
}

/// Returns whether these permissions include reading a channel and its history.
pub(crate) fn can_read(permissions: u64) -> bool {
    permissions & VIEW_CHANNEL != 0 && permissions & READ_MESSAGE_HISTORY != 0
}

pub(crate) fn can_write(permissions: u64, thread: bool) -> bool {
    let bit = if thread { SEND_MESSAGES_IN_THREADS } else { SEND_MESSAGES };
    permissions & bit != 0
}

/// Returns whether these permissions include seeing private threads without being a member of them.
pub(crate) fn can_manage_threads(permissions: u64) -> bool {
    permissions & MANAGE_THREADS != 0
}

/// Lists the permissions that the bot uses and lacks. Sending in a thread needs another permission
/// than in a channel.
pub(crate) fn missing(permissions: u64, thread: bool) -> MissingPermissions {
    let lacks = |(bit, _): &&(u64, &'static str)| permissions & bit == 0;
    let sends = |(bit, name): (u64, &'static str)| match bit {
        SEND_MESSAGES if thread => (SEND_MESSAGES_IN_THREADS, "Send Messages in Threads"),
        _ => (bit, name),
    };
    let needed: Vec<_> = NEEDED.into_iter().map(sends).collect();
    let here = |(bit, _): &&(u64, &'static str)| {
        !thread || ![SEND_MESSAGES_IN_THREADS, CREATE_PUBLIC_THREADS].contains(bit)
    };
    let names =
        |list: &[(u64, &'static str)]| list.iter().filter(lacks).map(|(_, name)| *name).collect();
    let wanted: Vec<_> = WANTED.iter().filter(here).copied().collect();
    MissingPermissions { needed: names(&needed), wanted: names(&wanted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUILD: u64 = 1;
    const CREW: u64 = 2;
    const QUIET: u64 = 3;
    const BOT: u64 = 9;

    fn bot() -> GuildMembership {
        GuildMembership {
            user: BOT,
            guild: GUILD,
            owns_guild: false,
            roles: vec![CREW, QUIET],
            timed_out: false,
        }
    }

    fn over(id: u64, allow: u64, deny: u64) -> Overwrite {
        Overwrite { id, allow, deny }
    }

    const VIEW_SEND: u64 = VIEW_CHANNEL | SEND_MESSAGES;

    #[test]
    fn permissions_are_those_of_everyone_and_of_all_roles() {
        let roles = [(GUILD, VIEW_CHANNEL), (CREW, SEND_MESSAGES), (77, ATTACH_FILES)];
        assert_eq!(permissions(&bot(), &roles, &[]), VIEW_SEND);
    }

    #[test]
    fn role_overwrites_override_everyone_and_member_overwrites_override_both() {
        let roles = [(GUILD, VIEW_SEND)];
        let everyone = over(GUILD, 0, VIEW_SEND);
        assert_eq!(permissions(&bot(), &roles, &[everyone]), 0);
        assert_eq!(
            permissions(&bot(), &roles, &[over(CREW, VIEW_SEND, 0), everyone]),
            VIEW_SEND,
            "in any order"
        );
        // Among roles, an allow wins over a deny, regardless of their order.
        let both = [over(CREW, SEND_MESSAGES, 0), over(QUIET, 0, SEND_MESSAGES)];
        assert_eq!(permissions(&bot(), &roles, &both), VIEW_SEND);
        assert_eq!(
            permissions(&bot(), &roles, &[both[0], over(BOT, 0, SEND_MESSAGES)]),
            VIEW_CHANNEL
        );
        assert_eq!(
            permissions(&bot(), &roles, &[over(77, 0, VIEW_SEND)]),
            VIEW_SEND,
            "a role that the member lacks has no effect"
        );
    }

    #[test]
    fn owners_and_administrators_have_all_permissions_despite_denials() {
        let denied = [over(GUILD, 0, ALL), over(BOT, 0, ALL)];
        assert_eq!(permissions(&bot(), &[(CREW, ADMINISTRATOR)], &denied), ALL);
        assert_eq!(permissions(&GuildMembership { owns_guild: true, ..bot() }, &[], &denied), ALL);
        assert_eq!(
            permissions(&bot(), &[(GUILD, 0)], &[over(BOT, ADMINISTRATOR | VIEW_CHANNEL, 0)])
                & SEND_MESSAGES,
            0
        );
    }

    #[test]
    fn without_view_channel_nothing_is_permitted_and_timed_out_members_only_read() {
        let roles = [(GUILD, VIEW_SEND | READ_MESSAGE_HISTORY)];
        assert_eq!(permissions(&bot(), &roles, &[over(GUILD, 0, VIEW_CHANNEL)]), 0);
        let quiet = GuildMembership { timed_out: true, ..bot() };
        assert_eq!(permissions(&quiet, &roles, &[]), VIEW_CHANNEL | READ_MESSAGE_HISTORY);
    }

    #[test]
    fn an_invite_requests_exactly_the_checked_permissions() {
        for thread in [false, true] {
            assert_eq!(missing(USED, thread), MissingPermissions::default());
        }
        for bit in (0..64).map(|at| 1 << at).filter(|bit| USED & bit != 0) {
            let lacks = missing(USED & !bit, false);
            assert_eq!(lacks.needed.len() + lacks.wanted.len(), 1, "{bit}: {lacks:?}");
        }
    }

    #[test]
    fn missing_permissions_are_named_and_threads_have_their_own() {
        assert_eq!(missing(ALL, false), MissingPermissions::default());
        let lacks = missing(VIEW_SEND | ATTACH_FILES, false);
        assert_eq!(lacks.needed, ["Read Message History"]);
        assert_eq!(
            lacks.wanted,
            ["Add Reactions", "Send Messages in Threads", "Create Public Threads"]
        );
        let thread = missing(VIEW_SEND | READ_MESSAGE_HISTORY | ATTACH_FILES | ADD_REACTIONS, true);
        assert_eq!((thread.needed, thread.wanted), (vec!["Send Messages in Threads"], vec![]));
    }
}
