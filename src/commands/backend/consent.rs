//! Asks the operator to accept the capabilities that a component requests.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use aetheel_model::agent::capability::{Capabilities, describe};

/// Largest number of capabilities that an operator can be expected to read.
const MAX_LISTED_CAPABILITIES: usize = 400;

/// The reason why the capabilities are not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConsentError {
    /// There are this many.
    #[error(
        "it requests {0} permissions, which is more than an operator can review; do not trust this backend"
    )]
    TooMany(usize),
    #[error("stdin is not a terminal; review the list and confirm with `--yes`")]
    NotATerminal,
    /// The operator did not answer yes.
    #[error("not agreed")]
    Declined,
}

/// Lists the capabilities, one per line.
pub(super) fn list_capabilities(more: &Capabilities) -> String {
    describe(more).iter().map(|sentence| format!("  {sentence}\n")).collect()
}

/// Asks the operator on stderr and reads the answer from stdin. `yes` means that the operator
/// already agreed with `--yes`.
///
/// # Errors
/// Returns the reason if the operator did not agree or could not be asked.
pub(super) fn ask(more: &Capabilities, question: &str, yes: bool) -> Result<(), ConsentError> {
    if more.len() > MAX_LISTED_CAPABILITIES {
        return Err(ConsentError::TooMany(more.len()));
    }
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(ConsentError::NotATerminal);
    }
    eprint!("{question} [y/N] ");
    let _ = io::stderr().flush(); // without a visible question, nobody answers yes
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        true => Ok(()),
        false => Err(ConsentError::Declined),
    }
}
