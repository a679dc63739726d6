//! Reads stdin on a separate thread, because a blocked read must not delay the exit of the program.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::names::NameSource;
use crate::outlet::ConsoleState;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TerminalInput {
    /// A submitted text, which may have several lines.
    Line(String),
    /// Ctrl-C on an empty line.
    Interrupt,
    /// The end of the input: Ctrl-D on an empty line, or a closed terminal.
    End,
}

/// Reads lines one by one, when they are asked for. The terminal is thus free for output while a
/// command runs, and when the session has ended.
pub(crate) struct LineReader {
    wanted: std::sync::mpsc::Sender<()>,
    typed: mpsc::Receiver<TerminalInput>,
    is_reading: bool,
}

impl LineReader {
    /// Starts the thread that reads. `names` are the words that the Tab key completes.
    pub(crate) fn start(shared: &Arc<ConsoleState>, names: NameSource) -> Self {
        let (wanted, wishes) = std::sync::mpsc::channel();
        let (sender, typed) = mpsc::channel(1);
        let shared = Arc::clone(shared);
        let read = move || {
            let mut editor = shared.take_editor().map(|editor| editor.completing(names));
            while wishes.recv().is_ok() {
                let typed = match &mut editor {
                    Some(editor) => editor.read(|| shared.questions.borrow().is_empty()),
                    None => read_line(),
                };
                if sender.blocking_send(typed).is_err() {
                    break;
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("stdin".to_owned()).spawn(read) {
            tracing::error!(%error, "cannot read stdin");
        }
        Self { wanted, typed, is_reading: false }
    }

    /// Returns the next input. Nothing is lost if the call is cancelled.
    pub(crate) async fn next(&mut self) -> TerminalInput {
        // Fails if the thread has ended; the other channel is then closed, too.
        self.is_reading = self.is_reading || self.wanted.send(()).is_ok();
        let typed = self.typed.recv().await;
        self.is_reading = false;
        typed.unwrap_or(TerminalInput::End)
    }
}

/// Reads a line without an editor. An error ends the input.
fn read_line() -> TerminalInput {
    let mut line = Vec::new();
    match io::stdin().lock().read_until(b'\n', &mut line) {
        Ok(1..) => {
            let line = String::from_utf8_lossy(&line);
            TerminalInput::Line(line.trim_end_matches('\n').trim_end_matches('\r').to_owned())
        }
        ended => {
            if ended.is_ok() && io::stdin().is_terminal() {
                // After Ctrl-D, the cursor is still on the line of the prompt.
                let _ = writeln!(io::stdout());
            }
            TerminalInput::End
        }
    }
}
