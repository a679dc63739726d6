//! Saves and restores the mode of the terminal, and reads its size.

use std::io::{self, IsTerminal as _, Write as _};

use rustix::fs::fstat;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The mode of the terminal before a line was edited.
pub(crate) struct SavedTerminalMode(Termios);

impl SavedTerminalMode {
    /// Returns `None` if stdin is not a terminal.
    pub(crate) fn of_stdin() -> Option<Self> {
        tcgetattr(io::stdin()).ok().map(Self)
    }

    /// Restores the mode, even while another thread reads from the terminal, and begins a line.
    pub(crate) fn restore(&self) {
        let mut out = io::stdout();
        // Switches bracketed paste off, and removes the prompt. Errors are ignored: a closed
        // terminal needs none of this.
        let _ = out.write_all(b"\x1b[?2004l\r\x1b[J").and_then(|()| out.flush());
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Returns the columns of the terminal, or 80 if stdout does not report them.
pub(crate) fn columns() -> usize {
    tcgetwinsize(io::stdout()).map(|size| size.ws_col.into()).ok().filter(|n| *n > 0).unwrap_or(80)
}

/// Returns whether stderr is the same terminal as stdout.
pub(crate) fn shows_stderr() -> bool {
    let device = |fd: rustix::io::Result<rustix::fs::Stat>| fd.ok().map(|stat| stat.st_rdev);
    io::stderr().is_terminal() && device(fstat(io::stderr())) == device(fstat(io::stdout()))
}
