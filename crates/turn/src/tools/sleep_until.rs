//! The tool `aetheel_sleep_until`: the work continues at a later time.

use schemars::JsonSchema;
use serde::Deserialize;

use super::input::{HostToolInput, check_later_turn};

/// Continues this work later: end your turn after the call, and you get another turn at that time,
/// with the reason. Use it to wait for something that takes long, instead of waiting in a command.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct SleepUntil {
    /// The time, such as `2026-03-01T09:00:00+01:00`.
    pub at: Option<String>,
    /// The time from now instead, such as `45m` or `2h 30m`.
    #[serde(rename = "in")]
    pub after: Option<String>,
    /// Why you wait, and how to continue then.
    #[serde(alias = "reason")]
    #[schemars(rename = "reason")]
    pub text: String,
}

impl HostToolInput for SleepUntil {
    fn check(&self) -> Result<(), &'static str> {
        check_later_turn(self.at.as_ref(), self.after.as_ref(), &self.text)
    }
}
