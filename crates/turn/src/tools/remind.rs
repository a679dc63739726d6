//! The tool `aetheel_remind`: one more turn at a later time.

use schemars::JsonSchema;
use serde::Deserialize;

use super::input::{HostToolInput, check_later_turn};

/// Gives you one more turn in this conversation at a later time, with the text as its prompt. People
/// see it with /schedules and can remove it. The result is its id.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct LaterTurn {
    /// The time, such as `2026-03-01T09:00:00+01:00`.
    pub at: Option<String>,
    /// The time from now instead, such as `45m` or `2h 30m`.
    #[serde(rename = "in")]
    pub after: Option<String>,
    /// The prompt of that turn, understandable without further context.
    #[serde(alias = "reason")]
    pub text: String,
}

impl HostToolInput for LaterTurn {
    fn check(&self) -> Result<(), &'static str> {
        check_later_turn(self.at.as_ref(), self.after.as_ref(), &self.text)
    }
}
