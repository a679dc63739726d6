use aetheel_backend_sdk::wit::{EventKind, Failure, Mode, Safety, Settings};

/// The ways in which one agent differs from the others. Made anew for every link.
pub trait Agent: Default + 'static {
    /// Returns the descriptor, see [`aetheel_backend_sdk::Backend::describe`].
    fn describe() -> String;

    /// Returns what to start. `settings` are those of the first turn; none where a question comes
    /// before any turn.
    ///
    /// # Errors
    /// The turn or the question fails with it.
    fn launch(&mut self, settings: Option<&Settings>) -> Result<Launch, Failure>;

    /// Whether the process that was started last may serve a turn with these settings; otherwise
    /// the next one does.
    fn fits(&self, _settings: &Settings) -> bool {
        true
    }

    /// The agent's own ids of modes; those left out are looked for among well-known ones.
    fn modes(&self) -> &Modes;

    /// How the system prompt reaches the agent.
    fn system_prompt(&self) -> SystemPrompt {
        SystemPrompt::Prompt
    }

    /// The way of signing in that needs no person, used once when the agent wants to be signed in.
    /// Never guessed: Gemini CLI 0.61.0 forgets the sign-in it has when asked for another.
    fn sign_in(&self) -> Option<&str> {
        None
    }

    /// Turns a piece of text that is no part of the answer into the event it stands for.
    fn aside(&self, _text: &str) -> Option<EventKind> {
        None
    }

    /// The least pause in milliseconds before the agent tells an answer anew, for agents that do so
    /// without saying it.
    fn retry_pause_ms(&self) -> Option<f64> {
        None
    }

    /// Says why the agent exited while it was starting, where the exit code or the end of stderr
    /// tells.
    fn start_failure(&self, _code: u32, _stderr: &str) -> Option<Failure> {
        None
    }
}

/// A process to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// One of the descriptor's programs.
    pub program: String,
    /// Its arguments, without the program itself.
    pub arguments: Vec<String>,
    /// Variables it is started with.
    pub environment: Vec<(String, String)>,
    /// Private files it is started with: the flag that names one, its name on the link, what is in
    /// it.
    pub files: Vec<(&'static str, &'static str, String)>,
}

/// The agent's ids of modes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// Asks before it changes anything.
    pub default: Option<String>,
    /// Edits files without asking.
    pub edit: Option<String>,
    /// Does everything without asking.
    pub danger: Option<String>,
    /// Looks and plans only.
    pub plan: Option<String>,
}

/// How the system prompt reaches an agent that does not advertise the field `systemPrompt`, which
/// is used where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemPrompt {
    /// As the first text of a session's first prompt, and again when it has changed.
    #[default]
    Prompt,
    /// As `_meta.systemPrompt.append` when the session is opened, as claude-agent-acp 0.49.0 takes
    /// it; a change as [`Self::Prompt`].
    Meta,
    /// The agent cannot be given one.
    None,
}

impl Modes {
    /// The id for a turn's settings, where one was given.
    pub(crate) fn given(&self, settings: &Settings) -> Option<&str> {
        match (settings.mode, settings.safety) {
            (Mode::Plan, _) => self.plan.as_deref(),
            (Mode::Build, Safety::Default) => self.default.as_deref(),
            (Mode::Build, Safety::Edit) => self.edit.as_deref(),
            (Mode::Build, Safety::Danger) => self.danger.as_deref(),
        }
    }
}

/// Ids by which agents are known to mean planning.
pub(crate) const PLANNING: &[&str] = &["plan", "spec", "architect"];

/// Ids of modes by which agents are known to mean a level; the first that an agent offers is taken.
///
/// Those of claude-agent-acp 0.49.0, codex-acp 2.6.0, Gemini CLI 0.61.0, OpenCode 1.18.33, Factory
/// Droid 0.225.2, and goose. `build` of OpenCode leaves permissions to its configuration.
pub(crate) fn well_known(settings: &Settings) -> &'static [&'static str] {
    match (settings.mode, settings.safety) {
        (Mode::Plan, _) => PLANNING,
        (Mode::Build, Safety::Default) => {
            &["default", "ask", "normal", "read-only", "approve", "build"]
        }
        (Mode::Build, Safety::Edit) => &[
            "acceptEdits",
            "accept-edits",
            "autoEdit",
            "auto-edit",
            "auto_edit",
            "auto-low",
            "workspace-write",
            "smart_approve",
        ],
        (Mode::Build, Safety::Danger) => {
            &["bypassPermissions", "yolo", "agent-full-access", "full-access", "auto-high", "auto"]
        }
    }
}
