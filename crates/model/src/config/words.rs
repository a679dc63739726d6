//! The types of settings that are words, lists or limits.

use std::time::Duration;

use crate::id::{ChannelId, GuildId, RoleId, UserId};

/// The treatment of a prompt from an idle lane while all slots are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyPolicy {
    /// It is refused with a reply that the bot is busy.
    Reject,
    /// It waits for a slot.
    Queue,
}

/// How agents are confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxMode {
    /// Agents are confined by Landlock if the kernel supports it. Otherwise they are not confined,
    /// which is reported.
    Auto,
    /// Agents are confined by Landlock. The gateway does not start without it.
    Landlock,
    /// Agents are confined by bubblewrap. The gateway does not start without it.
    Bwrap,
    /// Agents are not confined.
    Off,
}

impl SandboxMode {
    pub(super) const WORDS: [(&str, Self); 4] = [
        ("auto", Self::Auto),
        ("landlock", Self::Landlock),
        ("bwrap", Self::Bwrap),
        ("off", Self::Off),
    ];
}

/// Whether agents outlive the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderMode {
    /// Agents outlive the gateway if a holder (the process that keeps them while it restarts) is
    /// available.
    Auto,
    /// Agents must outlive the gateway. It does not start without a holder.
    Require,
    /// Agents end with the gateway.
    Off,
}

impl HolderMode {
    pub(super) const WORDS: [(&str, Self); 3] =
        [("auto", Self::Auto), ("require", Self::Require), ("off", Self::Off)];
}

/// A piece of the line below an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FooterPart {
    /// The backend that answered.
    Backend,
    /// The model that answered.
    Model,
    /// How long the turn took.
    Time,
    /// Input and output tokens.
    Tokens,
    /// The cost that the agent reported.
    Cost,
}

impl FooterPart {
    pub(super) const WORDS: [(&str, Self); 5] = [
        ("backend", Self::Backend),
        ("model", Self::Model),
        ("time", Self::Time),
        ("tokens", Self::Tokens),
        ("cost", Self::Cost),
    ];
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people if the output is a terminal, otherwise JSON.
    Auto,
    /// Lines for people.
    Human,
    /// One JSON object on each line.
    Json,
}

/// The people and places that may use the bot. An empty list does not restrict anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowLists {
    /// Users, by id. A member is admitted by this list or by `roles`; if both are empty, everyone
    /// is.
    pub users: Vec<UserId>,
    /// Roles of a member, by id; see [`AllowLists::users`].
    pub roles: Vec<RoleId>,
    /// Channels, or parents of threads, by id.
    pub channels: Vec<ChannelId>,
    /// Guilds the bot answers in, by id.
    pub guilds: Vec<GuildId>,
}

/// Limits of the resources that a guest and its agent may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Maximum length of a line that is kept completely, in bytes.
    pub line: usize,
    /// Maximum output of a run, in bytes.
    pub output: u64,
    /// Maximum text of a prompt, in bytes.
    pub prompt: usize,
    /// Maximum size of all memories of one guest together, in bytes.
    pub guest_memory: usize,
    /// Maximum run time of one call into a guest.
    pub guest_call: Duration,
    /// Maximum size of a component, in bytes.
    pub component: u64,
    /// Maximum time to compile a component.
    pub compile: Duration,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            line: 8 << 20,
            output: 64 << 20,
            prompt: 256 << 10,
            guest_memory: 128 << 20,
            guest_call: Duration::from_secs(1),
            component: 48 << 20,
            compile: Duration::from_secs(120),
        }
    }
}

/// The rule for which components may serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// All components that are admitted.
    Any,
    /// Components whose SHA-256 is in `backends.md`.
    Pinned,
    /// Components with a signature by one of `BACKEND_SIGNERS`.
    Signed,
}

impl Trust {
    pub(super) const WORDS: [(&str, Self); 3] =
        [("any", Self::Any), ("pinned", Self::Pinned), ("signed", Self::Signed)];

    /// Returns the word for the rule in settings.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, trust)| *trust == self).map_or("any", |(word, _)| word)
    }
}
