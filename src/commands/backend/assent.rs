//! Asking the person at the terminal whether a backend may do what it wants to.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::agent::capability::{Capabilities, say};

/// Most of a list that a person can be expected to read.
const READABLE: usize = 400;

/// Lists the wishes, one line each.
pub(super) fn list(more: &Capabilities) -> String {
    say(more).iter().map(|sentence| format!("  {sentence}\n")).collect()
}

/// Whether the operator agrees: asked on stderr, answered on stdin. `yes`: they said so beforehand.
///
/// # Errors
/// Why it cannot be taken for agreed, and what to do.
pub(super) fn given(more: &Capabilities, question: &str, yes: bool) -> Result<(), String> {
    if more.len() > READABLE {
        return Err(format!(
            "it wants {} things, more than anybody reads: that is no honest backend",
            more.len()
        ));
    }
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err("nobody is here to agree; look at it and say `--yes`".to_owned());
    }
    eprint!("{question} [y/N] ");
    let _ = io::stderr().flush(); // who cannot read the question does not say yes
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        true => Ok(()),
        false => Err("not agreed".to_owned()),
    }
}
