//! The tool `aetheel_claim`: files that the agent reserves for its conversation.

use schemars::JsonSchema;
use serde::Deserialize;

use super::input::HostToolInput;
use aetheel_model::claim::{
    DEFAULT_CLAIM_MINUTES, MAX_CLAIM_MINUTES, MAX_CLAIM_PATHS, MAX_PATTERN_CHARS,
};

/// Maximum length of the reason, in characters.
const MAX_REASON_CHARS: usize = 200;

/// The action of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the comment of the field describes the actions to agents")]
pub enum ClaimAction {
    #[default]
    Take,
    Renew,
    Release,
    List,
}

/// Reserves files for your work, so that agents of other conversations which work in the same
/// directory, and their people, know that they should not change them. Use it before a change that
/// touches several files or takes long, and release the files when you are done. Fails with the
/// holder and the time if another conversation has reserved a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ClaimCall {
    /// `take` (the default), `renew` (extends the time), `release` or `list`.
    #[serde(default)]
    pub action: ClaimAction,
    /// Files or folders below the working directory. `*` stands for any characters of a name. To
    /// renew or release, none means all of your claims.
    #[serde(default)]
    #[schemars(length(max = MAX_CLAIM_PATHS))]
    pub paths: Vec<String>,
    /// The time in minutes.
    #[schemars(
        description = format!("How long. The default is {DEFAULT_CLAIM_MINUTES} minutes."),
        range(min = 1, max = MAX_CLAIM_MINUTES)
    )]
    pub minutes: Option<u32>,
    /// The reason, for other agents and for people.
    pub reason: Option<String>,
}

impl HostToolInput for ClaimCall {
    fn check(&self) -> Result<(), &'static str> {
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
        for word in ["take", "renew", "release", "list"] {
            read(&format!(r#"{{"action":"{word}"}}"#)).expect(word);
        }
        assert!(read(r#"{"action":"steal"}"#).is_err());
        assert!(read("{}").expect("valid").check().is_err());
        assert_eq!(read(r#"{"action":"release"}"#).expect("valid").check(), Ok(()));
        let many = serde_json::json!({"paths": vec!["a"; 10_000]}).to_string();
        assert!(read(&many).expect("valid").check().is_err());
    }
}
