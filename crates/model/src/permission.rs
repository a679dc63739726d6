//! The permissions of agents: the pairs of permission mode and tools that work together.

use crate::agent::AllowedTools;

/// The tools that only read, which agents may use if `ALLOWED_TOOLS` is not set.
pub const READING_TOOLS: &str = "file_read,file_search,content_search,web_search,web_fetch";

/// A choice of what agents may do. Its two settings are written together, because a mode in which
/// an agent edits files has no effect while `ALLOWED_TOOLS` names only tools that read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermissionChoice {
    /// The word for the choice, as an answer and as the value of a flag.
    pub word: &'static str,
    /// The value of `PERMISSION_MODE`.
    pub mode: &'static str,
    /// The value of `ALLOWED_TOOLS`.
    pub tools: &'static str,
    /// The description for people.
    pub title: &'static str,
}

/// All choices. The first one is recommended.
pub const PERMISSION_CHOICES: [PermissionChoice; 5] = [
    PermissionChoice {
        word: "ask",
        mode: "default",
        tools: "*",
        title: "Ask before every change (recommended): agents read, and ask with buttons before anything else",
    },
    PermissionChoice {
        word: "edit",
        mode: "acceptEdits",
        tools: "*",
        title: "Edit files, ask before commands",
    },
    PermissionChoice {
        word: "plan",
        mode: "plan",
        tools: "*",
        title: "Plan first: agents change nothing before somebody agrees to their plan",
    },
    PermissionChoice {
        word: "read",
        mode: "default",
        tools: READING_TOOLS,
        title: "Only read: agents can neither edit files nor run commands",
    },
    PermissionChoice {
        word: "everything",
        mode: "bypassPermissions",
        tools: "*",
        title: "Everything without asking: everyone who may talk to the bot can run any command on this machine as the gateway's user; read SECURITY.md first",
    },
];

/// The recommended choice.
pub const RECOMMENDED_PERMISSION: PermissionChoice = PERMISSION_CHOICES[0];

/// The notice to the operator that agents may only read.
pub const READS_ONLY: &str = "agents may only read (ALLOWED_TOOLS)";

/// The notice to people in `/status` and `/help` that agents may only read.
pub const READS_ONLY_IN_CHAT: &str = "Agents may only read (ALLOWED_TOOLS): they can neither edit files nor run commands. The operator can change that with aetheel init.";

/// The operator's next step if agents may only read.
pub const READS_ONLY_HINT: &str = "to let them ask before other tools, set `PERMISSION_MODE=default` and `ALLOWED_TOOLS=*`, or run `aetheel init`";

impl PermissionChoice {
    /// Finds a choice by its word, or by its mode. `danger` is the safety level of `everything`.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        let text = if text.trim() == "danger" { "everything" } else { text.trim() };
        PERMISSION_CHOICES.into_iter().find(|choice| [choice.word, choice.mode].contains(&text))
    }

    /// Finds the choice that these two settings have.
    #[must_use]
    pub fn of(mode: &str, tools: &str) -> Option<Self> {
        let allowed = AllowedTools::parse(tools).ok()?;
        let chosen = |choice: &Self| {
            let reads = choice.tools == READING_TOOLS;
            choice.mode == mode
                && (reads && reads_only(&allowed) || !reads && allowed == AllowedTools::All)
        };
        PERMISSION_CHOICES.into_iter().find(chosen)
    }
}

/// Returns whether agents may use no tool that changes anything.
#[must_use]
pub fn reads_only(allowed: &AllowedTools) -> bool {
    let AllowedTools::Only(tools) = allowed else { return false };
    tools.iter().all(|tool| READING_TOOLS.split(',').any(|reading| reading == tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_found_by_its_word_and_by_its_settings() {
        for choice in PERMISSION_CHOICES {
            assert_eq!(PermissionChoice::find(choice.word), Some(choice));
            assert_eq!(PermissionChoice::of(choice.mode, choice.tools), Some(choice));
            let allowed = AllowedTools::parse(choice.tools).expect("valid");
            assert_eq!(reads_only(&allowed), choice.word == "read", "{choice:?}");
        }
        assert_eq!(PermissionChoice::find("danger").map(|choice| choice.word), Some("everything"));
        assert_eq!(PermissionChoice::find("acceptEdits").map(|choice| choice.word), Some("edit"));
        assert_eq!(PermissionChoice::find("yolo"), None);
        assert_eq!(PermissionChoice::of("acceptEdits", "file_read,bash"), None);
    }
}
