//! The table of commands: their names, arguments, permissions and required features.

use self::CommandArgument as Argument;
use aetheel_model::agent::descriptor::Feature;

/// A command that a front end offers. `A` is its work there.
#[derive(Clone, Copy, Debug)]
pub struct Command<A> {
    /// The name, without `/`.
    pub name: &'static str,
    /// The explanation for people, in one line.
    pub description: &'static str,
    /// The arguments. The console takes a value without a name as the first one.
    pub arguments: &'static [CommandArgument],
    /// The people who may use it.
    pub access: CommandAccess,
    /// The feature of the backend without which the command is left out of the help.
    pub needs: Option<Feature>,
    /// The work of the command.
    pub action: A,
}

/// An argument of a command.
#[derive(Clone, Copy, Debug)]
pub struct CommandArgument {
    /// The name.
    pub name: &'static str,
    /// The explanation for people, in one line.
    pub description: &'static str,
    /// The kind of value.
    pub kind: ArgumentKind,
}

/// The kind of value of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// Text that can be left out.
    Text,
    /// Text that must be given.
    Required,
    /// Text that can be left out, for which the front end suggests values.
    Suggested,
    /// A file.
    File,
}

/// The people who may use a command, among those who may use the bot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandAccess {
    /// All of them.
    Everyone,
    /// The owners of the bot, and the person at the console.
    Owners,
}

/// The work of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandAction {
    /// Shows the state of the lane, or checks whether a backend can work.
    Status,
    /// Shows the running and waiting prompts.
    Queue,
    /// Shows what the turns of the lane used, and the budgets.
    Usage,
    /// Lists conversations, or resumes one or a copy of it.
    Sessions,
    /// Shows the state of the lane, or shows or chooses settings.
    Settings,
    /// Shortens the conversation.
    Compact,
    /// Shows or binds the lane's project.
    Project,
    /// Lists, takes or releases claims.
    Claim,
    /// Delivers lost replies that can be read now.
    Recover,
}

impl CommandArgument {
    /// Makes an argument that can be left out.
    #[must_use]
    pub const fn text(name: &'static str, description: &'static str) -> Self {
        Self { name, description, kind: ArgumentKind::Text }
    }

    /// Makes an argument for which the front end suggests values.
    #[must_use]
    pub const fn suggested(name: &'static str, description: &'static str) -> Self {
        Self { kind: ArgumentKind::Suggested, ..Self::text(name, description) }
    }
}

impl<A: Copy> Command<A> {
    /// Makes a command for everyone.
    #[must_use]
    pub const fn new(
        action: A,
        name: &'static str,
        description: &'static str,
        arguments: &'static [CommandArgument],
    ) -> Self {
        let access = CommandAccess::Everyone;
        Self { name, description, arguments, access, needs: None, action }
    }

    /// Returns the command with other work.
    #[must_use]
    pub const fn with_action<B: Copy>(self, action: B) -> Command<B> {
        let Self { name, description, arguments, access, needs, .. } = self;
        Command { name, description, arguments, access, needs, action }
    }

    const fn needing(self, feature: Feature) -> Self {
        Self { needs: Some(feature), ..self }
    }

    const fn for_owners(self) -> Self {
        Self { access: CommandAccess::Owners, ..self }
    }
}

const STATUS: [Argument; 1] = [Argument::suggested("check", "For owners: a backend to check")];
const SESSIONS: [Argument; 2] = [
    Argument::suggested("resume", "The conversation to resume"),
    Argument::suggested("fork", "The conversation to continue a copy of"),
];
const SETTINGS: [Argument; 5] = [
    Argument::suggested("backend", "The backend that answers; `unset` for the default"),
    Argument::suggested("model", "The model; `unset` for the default"),
    Argument::suggested("thinking", "How much the model thinks; `unset` for the default"),
    Argument::suggested(
        "safety",
        "The level up to which the agent acts without asking; `unset` for the default",
    ),
    Argument::suggested("mode", "`build` or `plan`"),
];
const PROJECT: [Argument; 2] = [
    Argument::text("directory", "The folder; `unset` for the default"),
    Argument::suggested("backend", "The backend; `unset` for the default"),
];
const CLAIM: [Argument; 4] = [
    Argument::text(
        "paths",
        "Files or folders to reserve, separated by commas; `src/*.rs` works too",
    ),
    Argument::text("for", "How long, such as `30m` or `2h`; without it, an hour"),
    Argument::text("reason", "The reason, for other people"),
    Argument::text("release", "The claim to release, by its id; `all` for those of this channel"),
];

impl CommandAction {
    /// Returns the command's row of the table.
    #[must_use]
    pub const fn command(self) -> Command<Self> {
        let (name, description, arguments): (_, _, &[Argument]) = match self {
            Self::Status => (
                "status",
                "Show the backend, the prompts and the settings of this channel",
                &STATUS,
            ),
            Self::Queue => ("queue", "Show running and waiting prompts", &[]),
            Self::Usage => (
                "usage",
                "Show what this channel used in the last days, and the budgets that apply here",
                &[],
            ),
            Self::Sessions => {
                ("sessions", "List the conversations of this channel, or continue one", &SESSIONS)
            }
            Self::Settings => {
                ("settings", "Show and change the settings of this channel", &SETTINGS)
            }
            Self::Compact => (
                "compact",
                "Compact this channel's conversation, so that it takes less of the model's context",
                &[],
            ),
            Self::Project => (
                "project",
                "Show or change the folder that this channel's agent works in",
                &PROJECT,
            ),
            Self::Claim => (
                "claim",
                "Show the files that are reserved here, or reserve or release some",
                &CLAIM,
            ),
            Self::Recover => ("recover", "Deliver lost replies that can be read now", &[]),
        };
        let command = Command::new(self, name, description, arguments);
        match self {
            Self::Sessions => command.needing(Feature::Resume),
            Self::Compact => command.needing(Feature::Compact),
            Self::Project => command.for_owners(),
            _ => command,
        }
    }
}
