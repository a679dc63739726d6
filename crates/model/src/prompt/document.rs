//! The markdown files that the system prompt consists of.

/// A markdown file in the configuration folder that becomes a section of the system prompt.
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
    /// Durable facts, which the agent adds to itself.
    Memory,
    /// Notes on tools and interfaces.
    Tools,
}

impl Document {
    /// All files, in the order of the prompt.
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
    /// The name and the notes of the channel, project or job that the prompt is for.
    pub notes: Option<(String, String)>,
    /// A line for each fault in reading the files, naming the file.
    pub warnings: Vec<String>,
}

impl Documents {
    /// Sets the text of a file.
    pub fn set(&mut self, document: Document, text: Option<String>) {
        self.texts[document as usize] = text;
    }

    /// Returns the text of a file, or `None` if it is missing.
    #[must_use]
    pub fn get(&self, document: Document) -> Option<&str> {
        self.texts[document as usize].as_deref()
    }
}
