//! The columns of the matrix.

use aetheel::agent::descriptor::Feature;

/// One column: a backend in one of its two lives, with the agent it drives.
#[derive(Clone, Copy, Debug)]
pub struct Backend {
    /// What the column is called; `BACKEND=` selects by it.
    pub name: &'static str,
    /// The component's name.
    pub component: &'static str,
    /// The backend's name: the component's, or that of a launch profile of `config/acp.md`.
    pub backend: &'static str,
    /// The agent's name in `scripts/agents.versions`.
    pub agent: &'static str,
    /// One process a turn, although the component also keeps agents alive.
    pub one_shot: bool,
    /// The model it must be told, where its settings file does not say.
    pub model: Option<&'static str>,
    /// The agent's name of the tool that reads a file.
    pub reads: &'static str,
    /// The agent's name of the tool that runs commands.
    pub runs: &'static str,
    /// Only what it may do at each level is looked at: the agent has a backend of its own that
    /// stands for the rest.
    pub rights_only: bool,
}

/// All columns, in the order of the table.
pub const BACKENDS: &[Backend] = &[
    column("claude", "claude", "claude", false, None, "Read", "Bash"),
    column("claude one-shot", "claude", "claude", true, None, "Read", "Bash"),
    column("codex", "codex", "codex", false, None, "view_image", "exec_command"),
    column("codex one-shot", "codex", "codex", true, None, "view_image", "exec_command"),
    column("gemini", "gemini", "gemini", false, None, "read_file", "run_shell_command"),
    column("gemini one-shot", "gemini", "gemini", true, None, "read_file", "run_shell_command"),
    column("opencode", "opencode", "opencode", false, None, "read", "bash"),
    column("opencode one-shot", "opencode", "opencode", true, None, "read", "bash"),
    column("droid", "droid", "droid", false, Some("custom:first"), "Read", "Execute"),
    column("droid one-shot", "droid", "droid", true, Some("custom:first"), "Read", "Execute"),
    profile("acp:claude-agent-acp", "claude-acp", "claude-agent-acp", "Read", "Bash"),
    profile("acp:codex-acp", "codex-acp", "codex-acp", "exec_command", "exec_command"),
    Backend {
        rights_only: true,
        ..profile("acp:gemini", "gemini-acp", "gemini", "read_file", "run_shell_command")
    },
    Backend {
        rights_only: true,
        ..profile("acp:opencode", "opencode-acp", "opencode", "read", "bash")
    },
    Backend { rights_only: true, ..profile("acp:droid", "droid-acp", "droid", "Read", "Execute") },
];

const fn column(
    name: &'static str,
    component: &'static str,
    agent: &'static str,
    one_shot: bool,
    model: Option<&'static str>,
    reads: &'static str,
    runs: &'static str,
) -> Backend {
    Backend {
        name,
        component,
        backend: component,
        agent,
        one_shot,
        model,
        reads,
        runs,
        rights_only: false,
    }
}

const fn profile(
    name: &'static str,
    backend: &'static str,
    agent: &'static str,
    reads: &'static str,
    runs: &'static str,
) -> Backend {
    Backend {
        name,
        component: "acp",
        backend,
        agent,
        one_shot: false,
        model: None,
        reads,
        runs,
        rights_only: false,
    }
}

impl Backend {
    /// Claude Code has rules of its own for root.
    pub fn minds_root(&self) -> bool {
        matches!(self.agent, "claude" | "claude-agent-acp")
    }

    /// Codex 0.169.0 has its tool for questions in plan mode only.
    pub fn asks_while_planning_only(&self) -> bool {
        self.component == "codex"
    }

    /// Whether the model reads why something was denied; the others' answers have no room for
    /// words.
    pub fn hears_why(&self) -> bool {
        matches!(self.component, "claude" | "opencode")
    }

    /// Droid 0.225.2 tells the sum over the session in one-shot runs, which its backend does not
    /// pass off as a turn's.
    pub fn tells_no_tokens_when_resumed(&self) -> bool {
        self.component == "droid" && self.one_shot
    }

    /// codex-acp 2.6.0 calls every change of files an edit.
    pub fn tells_writing_apart(&self) -> bool {
        self.agent != "codex-acp"
    }

    /// OpenCode 1.18.33 tells what nobody listened to only once a text is whole.
    pub fn tells_torn_text_at_its_end(&self) -> bool {
        self.component == "opencode" && !self.one_shot
    }

    /// Claude Code 2.1.197 writes a conversation to disk a moment after its answer.
    pub fn writes_sessions_late(&self) -> bool {
        matches!(self.agent, "claude" | "claude-agent-acp")
    }

    /// Gemini CLI 0.61.0 names a session's file by the minute and cannot load one that was made
    /// within the same.
    pub fn resumes_in_another_minute_only(&self) -> bool {
        self.agent == "gemini" && !self.one_shot
    }
}

/// A feature by the name it has in descriptors.
pub fn name_of(feature: Feature) -> String {
    serde_json::to_value(feature)
        .ok()
        .and_then(|name| name.as_str().map(str::to_owned))
        .unwrap_or_default()
}
