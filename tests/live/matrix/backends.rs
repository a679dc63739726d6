//! The columns of the matrix.

use aetheel_model::agent::descriptor::Feature;

use super::scenarios::Reports;

/// One column: a backend, either one-shot or long-lived, with its agent.
#[derive(Clone, Copy, Debug)]
pub struct Backend {
    /// The column's name, by which `BACKEND=` selects it.
    pub name: &'static str,
    /// The component's name.
    pub component: &'static str,
    /// The backend's name: the component's, or that of a launch profile of `config/acp.md`.
    pub backend: &'static str,
    /// The agent's name in `scripts/agents.versions`.
    pub agent: &'static str,
    /// Starts one process per turn, although the component also supports long-lived agents.
    pub one_shot: bool,
    /// The model that must be set, if the agent's settings file does not name one.
    pub model: Option<&'static str>,
    /// The agent's name of the tool that reads a file.
    pub reads: &'static str,
    /// The agent's name of the tool that runs commands.
    pub runs: &'static str,
    /// Runs only the rows about rights. The agent has a backend of its own that is tested with the
    /// other rows.
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
    /// Returns whether the agent behaves differently as root. Claude Code does.
    pub fn differs_for_root(&self) -> bool {
        matches!(self.agent, "claude" | "claude-agent-acp")
    }

    /// Returns whether the agent asks questions in plan mode only. Codex 0.169.0 has its tool for
    /// questions only there.
    pub fn asks_while_planning_only(&self) -> bool {
        self.component == "codex"
    }

    /// Returns whether people are asked before a tool of the gateway is called. codex-acp 2.6.0
    /// names the tool only in texts, which its backend does not trust.
    pub fn asks_before_host_tools(&self) -> bool {
        self.agent == "codex-acp"
    }

    /// Returns whether the tools of the gateway are available while the agent only plans. A call
    /// ends such a run of Droid 0.225.2.
    pub fn plans_with_host_tools(&self) -> bool {
        let ends_the_run = self.component == "droid" && self.one_shot;
        !(self.asks_before_host_tools() || ends_the_run)
    }

    /// Returns whether the model receives the reason of a denial. The other protocols have no field
    /// for it.
    pub fn passes_reasons_on(&self) -> bool {
        matches!(self.component, "claude" | "opencode")
    }

    /// Returns whether resumed turns report no tokens: in one-shot runs, Droid 0.225.2 reports the
    /// sum over the session, which its backend does not report as a turn's usage.
    pub fn reports_no_tokens_when_resumed(&self) -> bool {
        self.component == "droid" && self.one_shot
    }

    /// Returns when the agent reports the tokens that it uses.
    pub fn reports_tokens(&self) -> Reports {
        match (self.component, self.one_shot) {
            ("gemini" | "droid" | "acp", _) | ("codex", true) => Reports::AtTheEnd,
            _ => Reports::EachRequest,
        }
    }

    /// Returns when the agent reports the price of what it uses.
    pub fn reports_dollars(&self) -> Reports {
        match self.agent {
            "opencode" => Reports::EachRequest,
            "claude" | "claude-agent-acp" => Reports::AtTheEnd,
            _ => Reports::Never,
        }
    }

    /// Returns whether writing a file is distinguished from editing one. codex-acp 2.6.0 calls
    /// every change of files an edit.
    pub fn distinguishes_writing(&self) -> bool {
        self.agent != "codex-acp"
    }

    /// Returns whether text that was printed while the gateway was away arrives only when the text
    /// is complete, as with OpenCode 1.18.33.
    pub fn delivers_missed_text_at_its_end(&self) -> bool {
        self.component == "opencode" && !self.one_shot
    }

    /// Returns whether sessions are saved after the answer. Claude Code 2.1.197 does so a moment
    /// later.
    pub fn writes_sessions_late(&self) -> bool {
        matches!(self.agent, "claude" | "claude-agent-acp")
    }

    /// Returns whether a session can be resumed only in another minute. Gemini CLI 0.61.0 names a
    /// session's file by the minute, and cannot load one that was created within the same minute.
    pub fn resumes_in_another_minute_only(&self) -> bool {
        self.agent == "gemini" && !self.one_shot
    }
}

/// Returns a feature's name in descriptors.
pub fn name_of(feature: Feature) -> String {
    serde_json::to_value(feature)
        .ok()
        .and_then(|name| name.as_str().map(str::to_owned))
        .unwrap_or_default()
}
