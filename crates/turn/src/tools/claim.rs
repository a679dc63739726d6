//! The tool `aetheel_claim`: files that the agent reserves for its conversation.

use serde::Deserialize;

use aetheel_model::claim::{MAX_CLAIM_PATHS, MAX_PATTERN_CHARS};

/// Maximum length of the reason, in characters.
const MAX_REASON_CHARS: usize = 200;

/// The action of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimAction {
    /// Reserve the paths.
    #[default]
    Take,
    /// Extend the time.
    Renew,
    /// Release the paths.
    Release,
    /// List all claims in the working directory.
    List,
}

impl ClaimAction {
    /// The words of all actions.
    pub(super) const WORDS: [&str; 4] = ["take", "renew", "release", "list"];
}

/// The input of the tool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ClaimCall {
    /// The action.
    #[serde(default)]
    pub action: ClaimAction,
    /// The paths. To renew and to release, none means all of the conversation.
    #[serde(default)]
    pub paths: Vec<String>,
    /// The time in minutes.
    pub minutes: Option<u32>,
    /// The reason for people and other agents.
    pub reason: Option<String>,
}

impl ClaimCall {
    /// Checks the limits.
    ///
    /// # Errors
    /// Returns the limit that is violated.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let is_long = |path: &String| path.chars().count() > 4 * MAX_PATTERN_CHARS;
        let reason = self.reason.as_deref().unwrap_or_default();
        if self.paths.len() > MAX_CLAIM_PATHS {
            Err("there are more than 20 paths; name a folder instead of its files")
        } else if self.paths.iter().any(is_long) {
            Err("a path is too long")
        } else if self.action == ClaimAction::Take && self.paths.is_empty() {
            Err("there are no paths; name files or folders in `paths`")
        } else if reason.chars().count() > MAX_REASON_CHARS {
            Err("the reason has more than 200 characters")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_a_known_action_and_few_paths() {
        let read = |input: &str| serde_json::from_str::<ClaimCall>(input);
        let taken = read(r#"{"paths":["a"]}"#).expect("valid");
        assert_eq!((taken.action, taken.check()), (ClaimAction::Take, Ok(())));
        for word in ClaimAction::WORDS {
            read(&format!(r#"{{"action":"{word}"}}"#)).expect(word);
        }
        assert!(read(r#"{"action":"steal"}"#).is_err());
        assert!(read("{}").expect("valid").check().is_err());
        assert_eq!(read(r#"{"action":"release"}"#).expect("valid").check(), Ok(()));
        let many = serde_json::json!({"paths": vec!["a"; 10_000]}).to_string();
        assert!(read(&many).expect("valid").check().is_err());
    }
}
