//! Stands for `session` in a build without it.

use crate::startup::OptionalPart;
use crate::startup::settings::OperatorSettings;

/// Refuses `aetheel console`. Returns the exit code.
pub(super) async fn run(_settings: OperatorSettings) -> Result<u8, u8> {
    Err(OptionalPart::Console.refuse_command())
}
