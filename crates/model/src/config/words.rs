//! The values of settings that are words, lists or bounds.

use std::time::Duration;

/// The fate of a prompt from an idle lane while all slots are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyPolicy {
    /// It is refused with the reply that the bot is busy.
    Reject,
    /// It waits for a slot.
    Queue,
}

/// How agents are to be confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxWish {
    /// By Landlock where the kernel has it, else not at all, which is said loudly.
    Auto,
    /// By the kernel; refuses to start without.
    Landlock,
    /// By bubblewrap; refuses to start without.
    Bwrap,
    /// Agents are not confined.
    Off,
}

impl SandboxWish {
    pub(super) const WORDS: [(&str, Self); 4] = [
        ("auto", Self::Auto),
        ("landlock", Self::Landlock),
        ("bwrap", Self::Bwrap),
        ("off", Self::Off),
    ];
}

/// Whether agents outlive the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderWish {
    /// Where a holder can be had.
    Auto,
    /// Refuses to start without.
    Require,
    /// They end with it.
    Off,
}

impl HolderWish {
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
    /// How long it took.
    Time,
    /// Tokens, in and out.
    Tokens,
    /// As the agent says.
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

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Human on a terminal, JSON otherwise.
    Auto,
    /// Lines for people to read.
    Human,
    /// One JSON object a line.
    Json,
}

/// The people and places that may use the bot; an empty list allows everyone it could name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowLists {
    /// Users, by id. A member is let in by either list; both empty: everyone.
    pub users: Vec<u64>,
    /// Roles of a member, by id; see [`AllowLists::users`].
    pub roles: Vec<u64>,
    /// Channels, or parents of threads, by id.
    pub channels: Vec<u64>,
    /// Guilds the bot answers in, by id.
    pub guilds: Vec<u64>,
}

/// Bounds on what a guest and its agent can cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line kept whole, bytes.
    pub line: usize,
    /// Output of a run, bytes.
    pub output: u64,
    /// Text of a prompt, bytes.
    pub prompt: usize,
    /// All memories of one guest, bytes.
    pub guest_memory: usize,
    /// Run time of one call.
    pub guest_call: Duration,
    /// Size of a component, bytes.
    pub component: u64,
    /// Time to compile one.
    pub compile: Duration,
}

impl Default for Limits {
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

/// Which components may serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// All that are admitted.
    Any,
    /// Those whose SHA-256 stands in `backends.md`.
    Pinned,
    /// Those with a signature by one of `BACKEND_SIGNERS`.
    Signed,
}

impl Trust {
    pub(super) const WORDS: [(&str, Self); 3] =
        [("any", Self::Any), ("pinned", Self::Pinned), ("signed", Self::Signed)];

    /// As the operator writes it.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, trust)| *trust == self).map_or("any", |(word, _)| word)
    }
}
