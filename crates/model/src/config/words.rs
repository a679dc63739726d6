//! The types of settings that are words, lists or limits.

use std::time::Duration;

use super::reader::VariableReader;
use super::table::settings;
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

impl BusyPolicy {
    pub(super) const WORDS: [(&str, Self); 2] = [("reject", Self::Reject), ("queue", Self::Queue)];
}

impl SandboxMode {
    pub(super) const WORDS: [(&str, Self); 4] = [
        ("auto", Self::Auto),
        ("landlock", Self::Landlock),
        ("bwrap", Self::Bwrap),
        ("off", Self::Off),
    ];

    /// Returns the mode with this name in `AGENT_SANDBOX`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(word, _)| *word == name).map(|(_, mode)| *mode)
    }
}

/// Whether an agent mends a backend that lost replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MendMode {
    /// No agent is started.
    Off,
    /// An agent makes a change, and an owner decides about it.
    Ask,
    /// An agent makes a change, and it is installed if it passes all tests.
    Auto,
}

impl MendMode {
    pub(super) const WORDS: [(&str, Self); 3] =
        [("off", Self::Off), ("ask", Self::Ask), ("auto", Self::Auto)];
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

/// The reaction to a file that two conversations use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollisionMode {
    /// Nothing.
    Off,
    /// People are warned.
    Warn,
    /// People are asked before an agent writes the file, if it asks for permission, and warned.
    Ask,
}

impl CollisionMode {
    /// All values with their words.
    pub const WORDS: [(&str, Self); 3] =
        [("warn", Self::Warn), ("ask", Self::Ask), ("off", Self::Off)];
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

impl LogFormat {
    pub(super) const WORDS: [(&str, Self); 3] =
        [("auto", Self::Auto), ("human", Self::Human), ("json", Self::Json)];
}

settings! {
    /// The people and places that may use the bot. An empty list does not restrict anything.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct AllowLists {
        /// Users, by id. A member is admitted by this list or by `roles`; if both are empty,
        /// everyone is.
        users: Vec<UserId> = "ALLOWED_USERS", "", ids(UserId::parse_nonzero),
            "Discord user ids that may use the bot, separated by commas";
        /// Roles of a member, by id; see [`AllowLists::users`].
        roles: Vec<RoleId> = "ALLOWED_ROLES", "", ids(RoleId::parse_nonzero),
            "Discord role ids that may use the bot, separated by commas";
        /// Channels, or parents of threads, by id.
        channels: Vec<ChannelId> = "ALLOWED_CHANNELS", "", ids(ChannelId::parse_nonzero),
            "Ids of the Discord channels in which the bot answers, separated by commas. An empty list means all";
        /// Guilds the bot answers in, by id.
        guilds: Vec<GuildId> = "ALLOWED_GUILDS", "", ids(GuildId::parse_nonzero),
            "Ids of the Discord guilds in which the bot answers, separated by commas. An empty list means all";
    }
}

settings! {
    /// Limits of the resources that a guest and its agent may use.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ResourceLimits {
        /// Maximum length of a line that is kept completely, in bytes.
        line: usize = "LINE_LIMIT_BYTES", "8388608", number(8 << 20, 1 << 30),
            advanced "Longest line of agent output that is kept whole, in bytes; can only be raised";
        /// Maximum output of a run, in bytes.
        output: u64 = "OUTPUT_LIMIT_BYTES", "67108864", number(64 << 20, 1 << 40),
            advanced "Maximum output of a turn, in bytes; beyond it the turn is stopped; can only be raised";
        /// Maximum text of a prompt, in bytes.
        prompt: usize = "PROMPT_LIMIT_BYTES", "262144", number(256 << 10, 1 << 30),
            advanced "Longest prompt, in bytes; can only be raised";
        /// Maximum size of all memories of one guest together, in bytes.
        guest_memory: usize = "GUEST_MEMORY_BYTES", "134217728", number(128 << 20, 4 << 30),
            advanced "Memory of one backend instance, in bytes; can only be raised";
        /// Number of guests whose memory is reserved and reused, or `None` for no such pool.
        guest_pool: Option<u32> = "GUEST_POOL", "64", number_or_zero(1_000),
            advanced "Backend instances whose memory is reserved and reused, which makes short turns cheaper; more get new memory; 0 switches the reuse off";
        /// Maximum run time of one call into a guest.
        guest_call: Duration = "GUEST_CALL_MS", "1000", milliseconds(1_000),
            advanced "Processor time of one call into a backend, in milliseconds; can only be raised";
        /// Maximum size of a component, in bytes.
        component: u64 = "COMPONENT_LIMIT_BYTES", "50331648", number(48 << 20, 1 << 30),
            advanced "Largest backend file, in bytes; can only be raised";
        /// Maximum time to compile a component.
        compile: Duration = "COMPILE_TIMEOUT_MS", "120000", milliseconds(120_000),
            advanced "Longest time to compile a backend, in milliseconds; can only be raised";
    }
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self::read_from(&mut VariableReader::new(&|_| None))
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
