//! Prints rows on stdout. While a line is edited, they appear above it.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustyline::ExternalPrinter;

use aetheel_runtime::supervisor;

/// Time limit for rows that wait to be printed when the terminal is given back.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The state of the line editor. While the editor takes the terminal over, the external printer of
/// rustyline still writes directly to the terminal, so a row could end up behind the prompt. Rows
/// therefore wait until the editor has shown its line.
#[derive(Default)]
pub(crate) struct EditorState {
    phase: Mutex<EditorPhase>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum EditorPhase {
    #[default]
    Idle,
    Starting,
    /// The editor shows its line, and prints rows above it.
    Editing,
}

impl EditorState {
    pub(crate) fn set(&self, phase: EditorPhase) {
        *self.phase.lock() = phase;
        self.changed.notify_all();
    }

    /// Prints rows, once the editor is not starting.
    fn print(&self, printer: &mut impl ExternalPrinter, rows: String) {
        let mut phase = self.phase.lock();
        self.changed.wait_while(&mut phase, |phase| *phase == EditorPhase::Starting);
        // An idle editor must not start before the rows are printed. A running editor can need the
        // lock before it takes the rows.
        let idle = (*phase == EditorPhase::Idle).then_some(phase);
        // Errors are ignored: if the terminal is closed, SIGHUP or the end of stdin ends the
        // session.
        drop(printer.print(rows));
        drop(idle);
    }
}

/// Prints rows.
pub(crate) struct Screen {
    out: Mutex<Box<dyn Write + Send>>,
    /// Rows for the thread that prints above the edited line. `None` without an editor.
    above_line: Option<mpsc::Sender<PrintRequest>>,
    is_closed: AtomicBool,
}

enum PrintRequest {
    Rows(String),
    /// Replies when everything before it was passed to the editor.
    Flush(mpsc::Sender<()>),
}

impl Screen {
    /// Makes a screen without an editor.
    pub(crate) fn plain(out: Box<dyn Write + Send>) -> Self {
        Self { out: Mutex::new(out), above_line: None, is_closed: AtomicBool::new(false) }
    }

    /// Makes a screen that prints above the line of an editor. A thread passes the rows to the
    /// editor, which does not take any while a person searches the history.
    pub(crate) fn above_line(
        out: Box<dyn Write + Send>,
        mut printer: impl ExternalPrinter + Send + 'static,
        editor: Arc<EditorState>,
    ) -> std::io::Result<Self> {
        let (sender, outputs) = mpsc::channel();
        supervisor::spawn_thread("screen", move || {
            for output in outputs {
                match output {
                    PrintRequest::Rows(rows) => editor.print(&mut printer, rows),
                    PrintRequest::Flush(done) => drop(done.send(())),
                }
            }
        })?;
        Ok(Self { above_line: Some(sender), ..Self::plain(out) })
    }

    /// Returns whether the input line is edited. Only complete rows can be printed then.
    pub(crate) fn has_editor(&self) -> bool {
        self.above_line.is_some()
    }

    /// Prints text; with an editor, complete rows.
    pub(crate) fn print(&self, text: &str) {
        if !text.is_empty() && !self.pass(PrintRequest::Rows(text.to_owned())) {
            let mut out = self.out.lock();
            // Errors are ignored, as in `EditorState::print`.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }

    /// Prints the rows that still wait, and all later rows without the editor.
    pub(crate) fn close(&self) {
        let (done, flushed) = mpsc::channel();
        if self.pass(PrintRequest::Flush(done)) {
            // While a person searches the history, the editor prints nothing.
            let _ = flushed.recv_timeout(FLUSH_TIMEOUT);
        }
        self.is_closed.store(true, Ordering::Release);
    }

    /// Returns whether there is an editor that prints the output.
    fn pass(&self, output: PrintRequest) -> bool {
        let editor = self.above_line.as_ref().filter(|_| !self.is_closed.load(Ordering::Acquire));
        editor.is_some_and(|editor| editor.send(output).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Sends whether the editor can change its phase while rows are printed.
    struct Recorder(Arc<EditorState>, mpsc::Sender<bool>);

    impl ExternalPrinter for Recorder {
        fn print(&mut self, _: String) -> rustyline::Result<()> {
            let is_free = self.0.phase.try_lock().is_some();
            Ok(self.1.send(is_free).map_err(std::io::Error::other)?)
        }
    }

    #[test]
    fn rows_wait_while_the_editor_starts_and_an_editor_waits_while_rows_are_printed() {
        let editor = Arc::new(EditorState::default());
        let (sender, printed) = mpsc::channel();
        let printer = Recorder(Arc::clone(&editor), sender);
        let out = Box::new(std::io::sink());
        let screen = Screen::above_line(out, printer, Arc::clone(&editor)).unwrap();
        screen.print("before the editor starts\n");
        assert!(!printed.recv().unwrap());
        editor.set(EditorPhase::Starting);
        screen.print("while it starts\n");
        // Wakes the printing thread once it waits.
        while !editor.changed.notify_one() {
            thread::yield_now();
        }
        assert!(printed.try_recv().is_err());
        editor.set(EditorPhase::Editing);
        assert!(printed.recv().unwrap());
    }
}
