//! Stands for `console` in a build without it.

use crate::startup::OptionalPart;
use crate::startup::settings::OperatorSettings;

/// Refuses `aetheel console`. Returns the exit code.
#[expect(clippy::unused_async, reason = "a build with a console waits for people")]
pub(super) async fn run(_settings: OperatorSettings) -> u8 {
    OptionalPart::Console.refuse_command()
}
