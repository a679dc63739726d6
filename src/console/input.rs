//! Input from stdin, read on a thread of its own: a blocked read must not hold the program's end
//! up.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;

use tokio::sync::mpsc;

use super::outlet::Shared;

/// One input of the person at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// Something was written and sent; it may have several lines.
    Line(String),
    /// Ctrl-C where nothing is written.
    Interrupt,
    /// Ctrl-D where nothing is written.
    End,
}

/// Begins to read; the channel ends with the input.
pub(super) fn read(shared: Arc<Shared>) -> mpsc::Receiver<Typed> {
    let (sender, receiver) = mpsc::channel(16);
    let spawned = std::thread::Builder::new().name("stdin".to_owned()).spawn(move || match shared
        .take_editing()
    {
        Some(editing) => editing.run(&sender, || shared.questions.borrow().is_empty()),
        // However it ends, there is no more.
        None => drop(lines(&sender)),
    });
    if let Err(error) = spawned {
        tracing::error!(%error, "cannot read stdin");
    }
    receiver
}

fn lines(sender: &mpsc::Sender<Typed>) -> io::Result<()> {
    for line in io::stdin().lock().split(b'\n') {
        let line = String::from_utf8_lossy(&line?).trim_end_matches('\r').to_owned();
        if sender.blocking_send(Typed::Line(line)).is_err() {
            return Ok(());
        }
    }
    if io::stdin().is_terminal() {
        // Ctrl-D leaves the cursor behind the prompt.
        writeln!(io::stdout())?;
    }
    Ok(())
}
