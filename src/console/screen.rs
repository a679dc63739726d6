//! The contents of the terminal: printed text and, if the line can be edited, below it the
//! incomplete row, the input line and the status. While the editor shows its line, all output goes
//! through the editor, which keeps the line intact. A separate thread passes text to the editor, so
//! that nobody waits for the terminal.

use std::borrow::Cow;
use std::io::Write;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustyline::ExternalPrinter;

use super::rows::{RowBuffer, fit_row};
use super::status::StatusLine;
use super::terminal::size;
use aetheel_runtime::supervisor;

/// The prompt before the input line.
pub(super) const MARK: &str = "> ";
/// Time limit for the editor to draw when the terminal is given back.
const DRAW_TIMEOUT: Duration = Duration::from_secs(1);
/// Rows that stay free for the text above the line when a tool's output is shown.
const SPARE_ROWS: usize = 6;
/// Makes the editor redraw its rows without printing anything. The cursor moves up and down again,
/// because rustyline adds a line break to a message that does not end with one.
const REDRAW: &str = "\x1b[A\n";

/// Prints text, above the input line if there is an editor.
pub(super) struct Screen {
    out: Arc<TerminalOutput>,
    colour: bool,
    /// `None` without an editor; the terminal then reads whole lines itself.
    line: Option<(mpsc::Sender<PrintRequest>, Arc<EditorRows>)>,
}

struct TerminalOutput(Mutex<Box<dyn Write + Send>>);

enum PrintRequest {
    /// Markdown that continues the answer.
    Answer(String),
    /// The end of the answer or of a part of it.
    AnswerEnd,
    /// Complete rows that do not belong to an answer.
    Beside(String),
    /// Redraws the editor's rows, because the status changed.
    Redraw,
    /// Replies when everything before it is on the screen.
    Flush(mpsc::Sender<()>),
}

/// The rows that the editor shows around its line.
#[derive(Default)]
pub(super) struct EditorRows {
    state: Mutex<ScreenState>,
    changed: Condvar,
    colour: bool,
    pieces: OnceLock<mpsc::Sender<PrintRequest>>,
}

#[derive(Default)]
struct ScreenState {
    rows: RowBuffer,
    /// Whether the line is drawn for the last time.
    is_submitted: bool,
    status: StatusLine,
    reading: EditorState,
    /// How often the rows were drawn.
    draws: u64,
    /// Whether the line is too high for the screen. Redrawing it would only move it.
    is_too_high: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EditorState {
    #[default]
    Idle,
    /// The editor takes the terminal.
    Starting,
    /// The line is on the screen.
    Drawn,
    /// The terminal was given back.
    Closed,
}

impl Screen {
    /// Makes a screen without an editor. Text goes to `out` directly.
    pub(super) fn plain(out: Box<dyn Write + Send>, colour: bool) -> Self {
        Self { out: Arc::new(TerminalOutput(Mutex::new(out))), colour, line: None }
    }

    /// Makes a screen that prints through an editor, which shows `shown`.
    pub(super) fn with_line(
        out: Box<dyn Write + Send>,
        printer: impl ExternalPrinter + Send + 'static,
        shown: Arc<EditorRows>,
    ) -> std::io::Result<Self> {
        let (sender, pieces) = mpsc::channel();
        let (colour, kept, out) =
            (shown.colour, Arc::clone(&shown), Arc::new(TerminalOutput(Mutex::new(out))));
        let below = Arc::clone(&out);
        // Fails if it is already set; an editor has only one screen.
        let _ = kept.pieces.set(sender.clone());
        supervisor::spawn_thread("screen", move || {
            forward_to_editor(&pieces, printer, &shown, &below)
        })?;
        Ok(Self { out, colour, line: Some((sender, kept)) })
    }

    /// Prints text of the answer: as Markdown above an editor's line, otherwise unchanged.
    pub(super) fn answer(&self, text: &str) {
        self.send(PrintRequest::Answer(text.to_owned()));
    }

    /// Prints the rest of the answer or of a part of it. `is_line_open` is whether its text does
    /// not end with a line break.
    pub(super) fn end_answer(&self, is_line_open: bool) {
        match &self.line {
            Some((_, shown)) if shown.state().reading != EditorState::Closed => {
                self.send(PrintRequest::AnswerEnd)
            }
            _ if is_line_open => self.out.write("\n"),
            _ => {}
        }
    }

    /// Prints complete rows that do not belong to an answer.
    pub(super) fn beside(&self, text: &str) {
        self.send(PrintRequest::Beside(text.to_owned()));
    }

    /// Prints the prompt if there is no editor.
    pub(super) fn prompt(&self) {
        if self.line.is_none() {
            self.out.write(&mark(self.colour));
        }
    }

    /// Changes the status, if there is an editor that shows it.
    pub(super) fn status(&self, change: impl FnOnce(&mut StatusLine)) {
        if let Some((_, shown)) = &self.line {
            change(&mut shown.state().status);
            self.send(PrintRequest::Redraw);
        }
    }

    /// Removes the input line. Later output is printed below the existing text.
    pub(super) fn close(&self) {
        let Some((sender, shown)) = &self.line else { return };
        let begins = |state: &mut ScreenState| state.reading == EditorState::Starting;
        shown.changed.wait_while_for(&mut shown.state(), begins, DRAW_TIMEOUT);
        let (done, all) = mpsc::channel();
        if sender.send(PrintRequest::Flush(done)).is_ok() {
            // While the person searches the history, the editor prints nothing.
            let _ = all.recv_timeout(DRAW_TIMEOUT);
        }
        let mut state = shown.state();
        let before = std::mem::replace(&mut state.reading, EditorState::Closed);
        shown.changed.notify_all();
        let gone = if before == EditorState::Drawn { "\r\x1b[J" } else { "" };
        let rest = state.rows.end(size().0);
        drop(state);
        self.out.write(&format!("{gone}{rest}"));
    }

    fn send(&self, piece: PrintRequest) {
        let piece = match &self.line {
            Some((sender, shown)) if shown.state().reading != EditorState::Closed => {
                match sender.send(piece) {
                    Ok(()) => return,
                    Err(mpsc::SendError(piece)) => piece,
                }
            }
            _ => piece,
        };
        if let PrintRequest::Answer(text) | PrintRequest::Beside(text) = piece {
            self.out.write(&text);
        }
    }
}

impl TerminalOutput {
    fn write(&self, text: &str) {
        let mut out = self.0.lock();
        // Write errors are ignored: if the terminal is closed, SIGHUP or the end of stdin ends the
        // session.
        let _: std::io::Result<()> = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Passes text to the editor while its line is on the screen.
fn forward_to_editor(
    pieces: &mpsc::Receiver<PrintRequest>,
    mut printer: impl ExternalPrinter,
    shown: &EditorRows,
    below: &TerminalOutput,
) {
    while let Ok(first) = pieces.recv() {
        let (mut whole, mut done) = (String::new(), Vec::new());
        let columns = size().0;
        let mut state = shown.state();
        // Combines all waiting requests.
        for piece in std::iter::once(first).chain(pieces.try_iter()) {
            match piece {
                PrintRequest::Answer(text) => whole += &state.rows.add(&text, columns),
                PrintRequest::AnswerEnd => whole += &state.rows.end(columns),
                PrintRequest::Beside(text) => whole += &text,
                PrintRequest::Redraw => {}
                PrintRequest::Flush(sender) => done.push(sender),
            }
        }
        let waits = |state: &mut ScreenState| {
            state.reading != EditorState::Closed
                && (state.reading != EditorState::Drawn || state.is_too_high)
        };
        shown.changed.wait_while(&mut state, waits);
        let left = state.reading == EditorState::Closed;
        drop(state);
        if left {
            below.write(&whole);
            continue;
        }
        let draws = shown.state().draws;
        // Errors are ignored: if the terminal is closed, SIGHUP or the end of stdin ends the
        // session.
        let _ = printer.print(if whole.is_empty() { REDRAW.to_owned() } else { whole });
        if !done.is_empty() {
            let unchanged = |state: &mut ScreenState| state.draws == draws;
            shown.changed.wait_while_for(&mut shown.state(), unchanged, DRAW_TIMEOUT);
        }
        for sender in done {
            let _ = sender.send(());
        }
    }
}

impl EditorRows {
    pub(super) fn new(colour: bool) -> Self {
        let state = ScreenState { rows: RowBuffer::new(colour), ..ScreenState::default() };
        Self { colour, state: Mutex::new(state), ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, ScreenState> {
        self.state.lock()
    }

    /// Called before the editor takes the terminal. Returns `false` if the terminal was given back.
    pub(super) fn begin(&self) -> bool {
        let mut state = self.state();
        if state.reading == EditorState::Closed {
            return false;
        }
        state.reading = EditorState::Starting;
        true
    }

    /// Called when the editor has released the terminal. Its rows stay on the screen.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_submitted = false;
        state.is_too_high = false;
        if state.reading != EditorState::Closed {
            state.reading = EditorState::Idle;
        }
        self.changed.notify_all();
    }

    /// Sets whether the line is drawn for the last time. The incomplete row above it is then left
    /// out, because it is printed when it is complete.
    pub(super) fn set_submitted(&self, is_submitted: bool) {
        self.state().is_submitted = is_submitted;
    }

    /// Lists candidates for a word above the line.
    pub(super) fn list(&self, names: &str) {
        if let Some(pieces) = self.pieces.get() {
            // Fails if the screen is gone.
            let _ = pieces.send(PrintRequest::Beside(format!("{names}\n")));
        }
    }

    /// Called when the editor has ended.
    pub(super) fn close(&self) {
        self.state().reading = EditorState::Closed;
        self.changed.notify_all();
    }

    /// Returns the row above the line and the prompt.
    pub(super) fn above(&self) -> String {
        let mut state = self.state();
        let columns = size().0;
        let partial = if state.is_submitted { String::new() } else { state.rows.partial(columns) };
        let row = fit_row(&partial.replace('\t', "    "), columns, true);
        if state.reading == EditorState::Starting {
            state.reading = EditorState::Drawn;
        }
        state.draws += 1;
        self.changed.notify_all();
        format!("{row}\n{}", mark(self.colour))
    }

    /// Returns the rows below the line: the last lines of a running tool, and the status. Their
    /// number was announced by [`EditorRows::rows_below`].
    pub(super) fn below(&self, rows: usize) -> Vec<String> {
        let columns = size().0;
        let state = self.state();
        let output = state.status.output();
        let output = &output[output.len() - output.len().min(rows.saturating_sub(1))..];
        let mut lines: Vec<String> =
            output.iter().map(|line| fit_row(&format!("  | {line}"), columns, false)).collect();
        // The output may have changed since the rows were counted.
        lines.resize(rows.saturating_sub(1), String::new());
        lines.push(fit_row(&state.status.line(Instant::now()), columns, false));
        if self.colour {
            lines.iter_mut().for_each(|line| *line = format!("\x1b[2m{line}\x1b[0m"));
        }
        lines
    }

    /// Returns the number of rows to draw below a line, or `None` if the line is too high to be
    /// redrawn.
    pub(super) fn rows_below(&self, line: &str) -> Option<usize> {
        let (columns, rows) = size();
        let height = line.split('\n').map(|row| row.len() / columns + 1).sum::<usize>() + 3;
        let high = height > rows;
        let mut state = self.state();
        if std::mem::replace(&mut state.is_too_high, high) != high {
            self.changed.notify_all();
        }
        let output = state.status.output().len();
        (!high).then(|| 1 + output.min(rows.saturating_sub(height + SPARE_ROWS)))
    }
}

fn mark(colour: bool) -> Cow<'static, str> {
    if colour {
        Cow::Owned(format!("\x1b[1m{}\x1b[0m ", MARK.trim_end()))
    } else {
        Cow::Borrowed(MARK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fake editor and terminal that collect the printed text.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<String>>);

    impl ExternalPrinter for Paper {
        fn print(&mut self, message: String) -> rustyline::Result<()> {
            self.0.lock().push_str(&message.replace(REDRAW, ""));
            Ok(())
        }
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        fn says(&self, wanted: &str) {
            let begun = Instant::now();
            while *self.0.lock() != wanted {
                assert!(
                    begun.elapsed() < Duration::from_secs(10),
                    "{:?} instead of {wanted:?}",
                    self.0.lock()
                );
                std::thread::yield_now();
            }
        }
    }

    fn screen() -> (Screen, Arc<EditorRows>, Paper) {
        let (paper, shown) = (Paper::default(), Arc::new(EditorRows::new(false)));
        let screen =
            Screen::with_line(Box::new(paper.clone()), paper.clone(), Arc::clone(&shown)).unwrap();
        (screen, shown, paper)
    }

    /// Redraws until the editor shows this text.
    fn draws(shown: &EditorRows, wanted: &str) {
        let begun = Instant::now();
        while shown.above() != wanted {
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "{:?} instead of {wanted:?}",
                shown.above()
            );
            std::thread::yield_now();
        }
    }

    #[test]
    fn complete_rows_are_printed_while_the_line_is_drawn_and_the_rest_is_shown_above_it() {
        let (screen, shown, paper) = screen();
        screen.answer("Once upon a ti");
        assert!(shown.begin());
        draws(&shown, "Once upon a ti\n> ");
        screen.beside("a line of the log\n");
        paper.says("a line of the log\n");
        screen.answer("me\n\nthere\twas");
        paper.says("a line of the log\nOnce upon a time\n\n");
        draws(&shown, "there    was\n> ");
        // The row is not left above the submitted line, because it is printed when it is complete.
        shown.set_submitted(true);
        assert_eq!(shown.above(), "\n> ");
        shown.end();
        // Nothing is printed until the next line is drawn.
        screen.answer(" a king\n");
        screen.end_answer(false);
        assert!(shown.begin());
        draws(&shown, "\n> ");
        paper.says("a line of the log\nOnce upon a time\n\nthere\twas a king\n");
    }

    #[test]
    fn a_line_that_is_too_high_is_not_redrawn() {
        let (screen, shown, paper) = screen();
        assert!(shown.begin());
        draws(&shown, "\n> ");
        assert_eq!((shown.rows_below("a"), shown.rows_below(&"\n".repeat(500))), (Some(1), None));
        screen.beside("news\n");
        shown.end();
        assert!(shown.begin());
        draws(&shown, "\n> ");
        paper.says("news\n");
    }

    #[test]
    fn nothing_is_lost_when_the_terminal_is_given_back() {
        let (screen, shown, paper) = screen();
        screen.answer("one\n\ntwo");
        // The editor never started.
        shown.close();
        paper.says("one\n\n");
        screen.close();
        paper.says("one\n\ntwo\n");
        screen.answer("three\n");
        paper.says("one\n\ntwo\nthree\n");
        assert!(!shown.begin());
    }
}
