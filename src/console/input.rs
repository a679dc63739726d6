//! Reads stdin on a separate thread, because a blocked read must not delay the exit of the program.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;

use tokio::sync::mpsc;

use super::outlet::ConsoleState;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TerminalInput {
    /// A submitted text, which may have several lines.
    Line(String),
    /// Ctrl-C on an empty line.
    Interrupt,
    /// Ctrl-D on an empty line.
    End,
}

/// Starts to read. The channel is closed at the end of the input.
pub(super) fn read(shared: Arc<ConsoleState>) -> mpsc::Receiver<TerminalInput> {
    let (sender, receiver) = mpsc::channel(16);
    let spawned = std::thread::Builder::new().name("stdin".to_owned()).spawn(move || match shared
        .take_editing()
    {
        Some(editing) => editing.run(&sender, || shared.questions.borrow().is_empty()),
        // An error also ends the input.
        None => drop(lines(&sender)),
    });
    if let Err(error) = spawned {
        tracing::error!(%error, "cannot read stdin");
    }
    receiver
}

fn lines(sender: &mpsc::Sender<TerminalInput>) -> io::Result<()> {
    for line in io::stdin().lock().split(b'\n') {
        let line = String::from_utf8_lossy(&line?).trim_end_matches('\r').to_owned();
        if sender.blocking_send(TerminalInput::Line(line)).is_err() {
            return Ok(());
        }
    }
    if io::stdin().is_terminal() {
        // After Ctrl-D, the cursor is still on the line of the prompt.
        writeln!(io::stdout())?;
    }
    Ok(())
}
