//! The terminal itself: its mode before a line is edited there, and its size.

use std::io::{self, IsTerminal as _, Write as _};

use rustix::fs::fstat;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// How the terminal was.
pub(super) struct Before(Termios);

impl Before {
    /// None: stdin is no terminal.
    pub(super) fn of_stdin() -> Option<Self> {
        tcgetattr(io::stdin()).ok().map(Self)
    }

    /// Makes it so again, also under the hands of whoever reads from it.
    pub(super) fn restore(&self) {
        let mut out = io::stdout();
        // Pasted texts are not marked any more. A terminal that is gone needs neither.
        let _ = out.write_all(b"\x1b[?2004l").and_then(|()| out.flush());
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// The terminal's size in columns and rows; 80 by 24 where stdout tells none.
pub(super) fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        }
        _ => (80, 24),
    }
}

/// Whether what is written to stderr stands where answers do.
pub(super) fn shows_stderr() -> bool {
    let device = |fd: rustix::io::Result<rustix::fs::Stat>| fd.ok().map(|stat| stat.st_rdev);
    io::stderr().is_terminal() && device(fstat(io::stderr())) == device(fstat(io::stdout()))
}
