use aetheel_backend_sdk::wit::{EventKind, Failure, Mode, Safety, Settings, StartTurn};

/// The differences between agents. Each link creates a new instance.
pub trait Agent: Default + 'static {
    /// Returns the descriptor, see [`aetheel_backend_sdk::Backend::describe`].
    fn describe() -> String;

    /// Returns the program to start. `start` is the first turn, or `None` if a query arrives before
    /// any turn.
    ///
    /// # Errors
    /// The turn or the query fails with the returned failure.
    fn launch(&mut self, start: Option<&StartTurn>) -> Result<Launch, Failure>;

    /// Returns whether the running process can serve this turn. If not, the process is restarted.
    fn fits(&self, _start: &StartTurn) -> bool {
        true
    }

    /// Returns the agent's ids of modes. For a missing id, well-known ids are tried.
    fn modes(&self) -> &Modes;

    /// Returns how the system prompt is passed to the agent.
    fn system_prompt(&self) -> SystemPrompt {
        SystemPrompt::Prompt
    }

    /// Returns the authentication method that needs no user interaction. It is tried once, when the
    /// agent requires authentication. It is never guessed, because Gemini CLI 0.61.0 discards its
    /// existing sign-in when another method is requested.
    fn sign_in(&self) -> Option<&str> {
        None
    }

    /// Converts a text that is not part of the answer into its event.
    fn aside(&self, _text: &str) -> Option<EventKind> {
        None
    }

    /// Returns the minimum pause in milliseconds before the agent repeats an answer, for agents
    /// that repeat answers without announcing it.
    fn retry_pause_ms(&self) -> Option<f64> {
        None
    }

    /// Returns why the agent exited during its start, if the exit code or the end of stderr shows
    /// it.
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
    /// Additional environment variables.
    pub environment: Vec<(String, String)>,
    /// Private files for the process: the flag whose value is the file, the file's name on the
    /// link, and its content.
    pub files: Vec<(&'static str, &'static str, String)>,
}

/// The agent's ids of modes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// Asks before every change.
    pub default: Option<String>,
    /// Edits files without asking.
    pub edit: Option<String>,
    /// Does everything without asking.
    pub danger: Option<String>,
    /// Only reads and plans.
    pub plan: Option<String>,
}

/// How the system prompt is passed to an agent that does not announce the field `systemPrompt`.
/// With an announcement, that field is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemPrompt {
    /// As the first text of a session's first prompt, and again after a change.
    #[default]
    Prompt,
    /// As `_meta.systemPrompt.append` when the session is opened (claude-agent-acp 0.49.0). After a
    /// change, as [`Self::Prompt`].
    Meta,
    /// The agent does not get a system prompt.
    None,
}

impl Modes {
    /// Returns the configured id for a turn's settings.
    pub(crate) fn given(&self, settings: &Settings) -> Option<&str> {
        match (settings.mode, settings.safety) {
            (Mode::Plan, _) => self.plan.as_deref(),
            (Mode::Build, Safety::Default) => self.default.as_deref(),
            (Mode::Build, Safety::Edit) => self.edit.as_deref(),
            (Mode::Build, Safety::Danger) => self.danger.as_deref(),
        }
    }
}

/// Known ids of planning modes.
pub(crate) const PLANNING: &[&str] = &["plan", "spec", "architect"];

/// Returns known mode ids for a turn's settings. The first id that the agent offers is used.
///
/// The ids are from claude-agent-acp 0.49.0, codex-acp 2.6.0, Gemini CLI 0.61.0, OpenCode 1.18.33,
/// Factory Droid 0.225.2, and goose. In OpenCode's mode `build`, its configuration decides about
/// permissions.
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
