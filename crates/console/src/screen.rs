//! Prints rows on stdout. While a line is edited, they appear above it.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use rustyline::ExternalPrinter;

use aetheel_runtime::supervisor;

/// Time limit for rows that wait to be printed when the terminal is given back.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

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
    ) -> std::io::Result<Self> {
        let (sender, outputs) = mpsc::channel();
        supervisor::spawn_thread("screen", move || {
            // Errors are ignored: if the terminal is closed, SIGHUP or the end of stdin ends the
            // session.
            for output in outputs {
                match output {
                    PrintRequest::Rows(rows) => drop(printer.print(rows)),
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
            // Errors are ignored, as above.
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
