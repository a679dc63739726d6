//! Saves and restores the mode of the terminal, and reads its size.

use std::io::{self, IsTerminal as _, Write as _};

use rustix::fs::fstat;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The mode of the terminal before a line was edited.
pub(super) struct SavedTerminalMode(Termios);

impl SavedTerminalMode {
    /// Returns `None` if stdin is not a terminal.
    pub(super) fn of_stdin() -> Option<Self> {
        tcgetattr(io::stdin()).ok().map(Self)
    }

    /// Restores the mode, even while another thread reads from the terminal.
    pub(super) fn restore(&self) {
        let mut out = io::stdout();
        // Switches bracketed paste off. Errors are ignored: a closed terminal needs neither step.
        let _ = out.write_all(b"\x1b[?2004l").and_then(|()| out.flush());
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Returns the columns and rows of the terminal, or 80 and 24 if stdout does not report them.
pub(super) fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        }
        _ => (80, 24),
    }
}

/// Returns whether stderr is the same terminal as stdout.
pub(super) fn shows_stderr() -> bool {
    let device = |fd: rustix::io::Result<rustix::fs::Stat>| fd.ok().map(|stat| stat.st_rdev);
    io::stderr().is_terminal() && device(fstat(io::stderr())) == device(fstat(io::stdout()))
}
