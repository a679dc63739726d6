//! Cells that cannot pass, with the reasons. This is the only place that treats columns differently
//! in a row.

use aetheel_model::agent::descriptor::Feature;

use super::backends::{Backend, name_of};

const DROID_PERSISTS: &str = "Droid 0.225.2 tries a failing service again for minutes and has no setting for it; the turn's time ends it";
const DROID_BEGINS_ANEW: &str = "Droid 0.225.2 begins anew under an id that its service does not know, and reports success; a notice says so";
const CLAUDE_ACP_ASKS: &str = "claude-agent-acp 0.49.0 asks for permission, at times (2 of 11 runs), before it names the tool, so people are asked first";
const CLAUDE_HIDES_THE_END: &str =
    "Claude Code 2.1.197 does not report when the limit of a key ends, so the turn fails";
const CODEX_HIDES_THE_END: &str =
    "Codex 0.169.0 does not report when the limit of a key ends, so the turn fails";
const DROID_HIDES_THE_END: &str = "Droid 0.225.2 tries again for about 20 s and does not report when the limit ends, so the turn fails";
const OPENCODE_WAITS: &str = "OpenCode 1.18.33 prints nothing in one-shot runs and waits until the limit ends; the turn's time ends it";
const GEMINI_WAITS: &str = "Gemini CLI 0.61.0 prints nothing in live runs with its usual settings and waits until the limit ends; people see that it is silent, and the turn's time ends it";
const CODEX_ACP_ANSWERS: &str =
    "codex-acp 2.6.0 tells the model's failure as its own answer and calls the turn a success";

const CLAUDE_ACP_SAVES_LATE: &str = "claude-agent-acp 0.49.0 has not saved, at times (1 of 42 runs without a gateway), a conversation when it is ended in its first turn: the answer to the next message says so, and the one after it begins anew";
const CLAUDE_ACP_JOINS: &str = "claude-agent-acp 0.49.0 tells, at times, the half answer and the whole one of its second try as one text";

/// Cells that are run although the agent is to blame for their failure: the column (or the name of
/// a component and a `*` for all of its columns), the row, how often it fails, and the reason to
/// print.
const FAULTS: &[(&str, &str, Often, &str)] = &[
    ("droid*", "error-500", Often::Always, DROID_PERSISTS),
    ("droid-one-shot", "error-429", Often::Always, DROID_PERSISTS),
    ("droid-one-shot", "unknown-session", Often::Always, DROID_BEGINS_ANEW),
    ("acp-claude-agent-acp", "host-team", Often::AtTimes, CLAUDE_ACP_ASKS),
    ("acp-claude-agent-acp", "gateway-killed-tool", Often::AtTimes, CLAUDE_ACP_ASKS),
    ("claude*", "limit-key", Often::Always, CLAUDE_HIDES_THE_END),
    ("acp-claude-agent-acp", "limit-key", Often::Always, CLAUDE_HIDES_THE_END),
    ("codex*", "limit-key", Often::Always, CODEX_HIDES_THE_END),
    ("acp-codex-acp", "limit-key", Often::Always, CODEX_HIDES_THE_END),
    ("droid", "limit-plan", Often::Always, DROID_HIDES_THE_END),
    ("droid", "limit-key", Often::Always, DROID_HIDES_THE_END),
    ("droid-one-shot", "limit-plan", Often::Always, DROID_PERSISTS),
    ("droid-one-shot", "limit-key", Often::Always, DROID_PERSISTS),
    ("gemini", "limit-plan", Often::Always, GEMINI_WAITS),
    ("opencode-one-shot", "limit-plan", Often::Always, OPENCODE_WAITS),
    ("opencode-one-shot", "limit-key", Often::Always, OPENCODE_WAITS),
    ("acp-codex-acp", "error-500", Often::Always, CODEX_ACP_ANSWERS),
    ("acp-claude-agent-acp", "cut", Often::AtTimes, CLAUDE_ACP_JOINS),
    ("acp-claude-agent-acp", "agent-terminated-first", Often::AtTimes, CLAUDE_ACP_SAVES_LATE),
    ("gemini-one-shot", "cut", Often::Always, GEMINI_KEEPS_NOTHING),
];

/// How often an agent makes a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Often {
    /// The cell must fail.
    Always,
    /// The failure depends on a race within the agent.
    AtTimes,
}

const GEMINI_KEEPS_NOTHING: &str = "Gemini CLI 0.61.0 keeps no session whose first answer broke off: the answer to the next message says so, and the one after it begins anew";

/// Returns how often the agent fails in a cell, and why.
pub fn fault(backend: &Backend, scenario: &str) -> Option<(Often, &'static str)> {
    let slug = super::results::slug(backend.name);
    let fits = |column: &str| {
        column.strip_suffix('*').map_or(column == slug, |component| component == backend.component)
    };
    FAULTS
        .iter()
        .find(|(column, row, ..)| fits(column) && *row == scenario)
        .map(|(.., often, why)| (*often, *why))
}

/// Returns why a row does not apply to a column whose backend declares the features for it.
pub fn unable(backend: &Backend, scenario: &str) -> Option<&'static str> {
    if backend.agent == "codex-acp" && scenario == "gateway-killed-tool" {
        return Some("people are asked before each call");
    }
    (backend.agent == "codex-acp" && scenario == "question").then_some(
        "codex-acp 2.6.0 has its tool for questions only in a collaboration mode that its backend does not select",
    )
}

/// Returns why a backend does not declare a feature, so that a row that needs it does not apply.
pub fn lacking(backend: &Backend, feature: Feature) -> String {
    let why = match (backend.one_shot, feature) {
        (true, Feature::Permissions | Feature::Questions | Feature::Steer) => {
            "one-shot runs read nothing after the prompt"
        }
        (true, Feature::Streaming) => "one-shot runs print whole messages",
        (true, Feature::Thinking) => "one-shot runs do not report thoughts",
        (true, Feature::HostTools) => {
            "the address of the tools could only be an argument or an entry in the user's own settings"
        }
        (_, Feature::AllowedTools) => {
            "the protocol has no such setting; the gateway asks, and refuses what is not on the list"
        }
        (false, Feature::Questions) => {
            "the agent offers its model no tool for questions over this protocol"
        }
        (false, Feature::Steer) => "a second prompt would end the running one",
        _ => return format!("the backend does not declare `{}`", name_of(feature)),
    };
    why.to_owned()
}
