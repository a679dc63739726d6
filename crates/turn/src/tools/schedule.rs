//! The tool `aetheel_schedule`: turns at the times of a cron expression.

use schemars::JsonSchema;
use serde::Deserialize;

use super::input::{HostToolInput, check_text, check_words};

/// Gives you turns in this conversation at the times of a cron expression, with the text as the
/// prompt. People are asked first, see it with /schedules, and can remove it. The result is its id.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct RepeatedTurn {
    /// A cron expression with five fields, such as `0 9 * * 1-5`, or a word such as `@daily`. At
    /// least 15 minutes between two times.
    pub cron: String,
    /// Its time zone, such as `Europe/Berlin`. The default is UTC.
    pub time_zone: Option<String>,
    /// The prompt of each turn, understandable without further context.
    pub text: String,
    /// The number of days after which it ends, at most 90. The default is 30.
    pub days: Option<u32>,
}

impl HostToolInput for RepeatedTurn {
    fn check(&self) -> Result<(), &'static str> {
        check_text(&self.text)?;
        check_words(self.time_zone.iter().chain([&self.cron]))
    }
}
