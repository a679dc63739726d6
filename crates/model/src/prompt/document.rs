//! The markdown files the system prompt is made of.

/// One of the markdown files in the configuration folder that become sections of the system prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Document {
    /// Name, role and specialisation.
    Identity,
    /// The agent's personality, tone and values.
    Soul,
    /// The rules by which the agent works.
    Agents,
    /// Facts about the user.
    User,
    /// Durable facts; the agent's own file.
    Memory,
    /// Notes on tools and interfaces.
    Tools,
}

impl Document {
    /// All of them, in the order of the prompt.
    pub const ALL: [Self; 6] =
        [Self::Identity, Self::Soul, Self::Agents, Self::User, Self::Memory, Self::Tools];

    /// Returns the file name.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Self::Identity => "identity.md",
            Self::Soul => "soul.md",
            Self::Agents => "agents.md",
            Self::User => "user.md",
            Self::Memory => "memory.md",
            Self::Tools => "tools.md",
        }
    }

    /// Returns the title of its section.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Identity => "Identity",
            Self::Soul => "Soul",
            Self::Agents => "Agents",
            Self::User => "User",
            Self::Memory => "Long-Term Memory",
            Self::Tools => "Tool Configuration",
        }
    }
}

/// The texts of the files at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Documents {
    texts: [Option<String>; 6],
    /// The notes of the place that the prompt is for: its name, and the text.
    pub noted: Option<(String, String)>,
    /// Faults in reading them, one line each, naming the file.
    pub warnings: Vec<String>,
}

impl Documents {
    /// Puts a text in.
    pub fn set(&mut self, document: Document, text: Option<String>) {
        self.texts[document as usize] = text;
    }

    /// The text of a file; none when it is missing.
    #[must_use]
    pub fn get(&self, document: Document) -> Option<&str> {
        self.texts[document as usize].as_deref()
    }
}
