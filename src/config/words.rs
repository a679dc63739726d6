//! The values of settings that are words, lists or bounds.

use std::time::Duration;

/// What a prompt from an idle lane gets while all slots are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyPolicy {
    /// The busy reply.
    Reject,
    /// It waits.
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
    /// Not at all.
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

/// A piece of the line below an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FooterPart {
    /// Who answered.
    Backend,
    /// With which model.
    Model,
    /// How long it took.
    Time,
    /// In and out.
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
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Who may use the bot; an empty list allows everyone it could name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowLists {
    /// Users, by id. A member is let in by either list; both empty: everyone.
    pub users: Vec<u64>,
    /// Roles, by id.
    pub roles: Vec<u64>,
    /// Channels, or parents of threads, by id.
    pub channels: Vec<u64>,
    /// Guilds, by id.
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
