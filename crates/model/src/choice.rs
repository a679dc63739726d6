//! Choices of the operator, each with its words in settings.

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
    /// All values with their words.
    pub const WORDS: [(&str, Self); 2] = [("reject", Self::Reject), ("queue", Self::Queue)];
}

impl SandboxMode {
    /// All values with their words.
    pub const WORDS: [(&str, Self); 4] = [
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
    /// All values with their words.
    pub const WORDS: [(&str, Self); 5] = [
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
    /// All values with their words.
    pub const WORDS: [(&str, Self); 3] =
        [("auto", Self::Auto), ("human", Self::Human), ("json", Self::Json)];
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
    /// All values with their words.
    pub const WORDS: [(&str, Self); 3] =
        [("any", Self::Any), ("pinned", Self::Pinned), ("signed", Self::Signed)];

    /// Returns the word for the rule in settings.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, trust)| *trust == self).map_or("any", |(word, _)| word)
    }
}
