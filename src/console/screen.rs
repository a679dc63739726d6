//! The contents of the terminal: text that was printed, and, where a line can be edited, below it
//! the row that is not whole yet, the line that is being written, and the status. While it is being
//! written everything goes through the line's editor, which keeps it whole; a thread hands it over,
//! so that nobody waits for a terminal.

use std::borrow::Cow;
use std::io::Write;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustyline::ExternalPrinter;

use super::rows::{Rows, in_a_row};
use super::status::Status;
use super::terminal::size;
use crate::vigil;

/// Stands before the line.
pub(super) const MARK: &str = "> ";
/// For the editor, when the terminal is given back.
const DRAW_TIMEOUT: Duration = Duration::from_secs(1);
/// Rows that a tool's output leaves to the text above the line.
const SPARE_ROWS: usize = 6;
/// Makes the editor draw what it shows anew: nothing is printed, and a message ends with its row.
const AGAIN: &str = "\x1b[A\n";

/// Prints text, beside the line somebody is writing where there is an editor.
pub(super) struct Screen {
    out: Arc<Out>,
    colour: bool,
    /// None: lines are read as they come, by the terminal's own means.
    line: Option<(mpsc::Sender<Piece>, Arc<Shown>)>,
}

struct Out(Mutex<Box<dyn Write + Send>>);

enum Piece {
    /// Goes on where the last one ended.
    Text(String),
    /// Whole rows that belong to nothing else.
    Beside(String),
    /// The status changed, so that the editor has to draw its lines anew.
    Again,
    /// Everything before it is on the screen.
    Done(mpsc::Sender<()>),
}

/// The lines the editor shows beside its own.
#[derive(Default)]
pub(super) struct Shown {
    state: Mutex<State>,
    changed: Condvar,
    colour: bool,
    pieces: OnceLock<mpsc::Sender<Piece>>,
}

#[derive(Default)]
struct State {
    rows: Rows,
    /// The part of the row that is not whole that was drawn.
    drawn_row: String,
    status: Status,
    reading: Reading,
    /// How often it was drawn.
    draws: u64,
    /// The line is too high for the screen: drawing it again would only move it.
    high: bool,
}

/// How the editor stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reading {
    #[default]
    Not,
    /// It takes the terminal.
    Begins,
    /// The line stands on the screen.
    Drawn,
    /// The terminal was given back.
    Left,
}

impl Screen {
    /// Makes a screen without an editor: text goes to `out` as it comes.
    pub(super) fn plain(out: Box<dyn Write + Send>, colour: bool) -> Self {
        Self { out: Arc::new(Out(Mutex::new(out))), colour, line: None }
    }

    /// Prints through an editor that shows `shown`.
    pub(super) fn with_line(
        out: Box<dyn Write + Send>,
        printer: impl ExternalPrinter + Send + 'static,
        shown: Arc<Shown>,
    ) -> std::io::Result<Self> {
        let (sender, pieces) = mpsc::channel();
        let (colour, kept, out) =
            (shown.colour, Arc::clone(&shown), Arc::new(Out(Mutex::new(out))));
        let below = Arc::clone(&out);
        // An editor is shown on one screen.
        let _ = kept.pieces.set(sender.clone());
        vigil::thread("screen", move || hand_over(&pieces, printer, &shown, &below))?;
        Ok(Self { out, colour, line: Some((sender, kept)) })
    }

    /// Prints text as it is.
    pub(super) fn print(&self, text: &str) {
        self.give(Piece::Text(text.to_owned()));
    }

    /// Prints whole rows that belong to nothing else.
    pub(super) fn beside(&self, text: &str) {
        self.give(Piece::Beside(text.to_owned()));
    }

    /// Invites to write, where the editor does not.
    pub(super) fn prompt(&self) {
        if self.line.is_none() {
            self.print(&mark(self.colour));
        }
    }

    /// Changes the status, where there is one.
    pub(super) fn status(&self, change: impl FnOnce(&mut Status)) {
        if let Some((_, shown)) = &self.line {
            change(&mut shown.state().status);
            self.give(Piece::Again);
        }
    }

    /// Takes the line away; what is printed later stands below what was.
    pub(super) fn leave(&self) {
        let Some((sender, shown)) = &self.line else { return };
        let begins = |state: &mut State| state.reading == Reading::Begins;
        shown.changed.wait_while_for(&mut shown.state(), begins, DRAW_TIMEOUT);
        let (done, all) = mpsc::channel();
        if sender.send(Piece::Done(done)).is_ok() {
            // Somebody who looks through the history keeps the editor from showing anything.
            let _ = all.recv_timeout(DRAW_TIMEOUT);
        }
        let mut state = shown.state();
        let before = std::mem::replace(&mut state.reading, Reading::Left);
        shown.changed.notify_all();
        let gone = if before == Reading::Drawn { "\r\x1b[J" } else { "" };
        let drawn = std::mem::take(&mut state.drawn_row);
        state.rows.leave(&drawn);
        let rest = state.rows.take();
        drop(state);
        self.out.write(&format!("{gone}{rest}"));
    }

    fn give(&self, piece: Piece) {
        let piece = match &self.line {
            Some((sender, shown)) if shown.state().reading != Reading::Left => {
                match sender.send(piece) {
                    Ok(()) => return,
                    Err(mpsc::SendError(piece)) => piece,
                }
            }
            _ => piece,
        };
        if let Piece::Text(text) | Piece::Beside(text) = piece {
            self.out.write(&text);
        }
    }
}

impl Out {
    fn write(&self, text: &str) {
        let mut out = self.0.lock();
        // A closed stdout ends the session by its own means (SIGPIPE is ignored by Rust; the reader
        // is gone anyway).
        let _: std::io::Result<()> = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Hands over to the editor what is to be printed, when the line stands on the screen.
fn hand_over(
    pieces: &mpsc::Receiver<Piece>,
    mut printer: impl ExternalPrinter,
    shown: &Shown,
    below: &Out,
) {
    while let Ok(first) = pieces.recv() {
        let (mut whole, mut done) = (String::new(), Vec::new());
        let columns = size().0;
        let mut state = shown.state();
        // What came meanwhile goes along.
        for piece in std::iter::once(first).chain(pieces.try_iter()) {
            match piece {
                Piece::Text(text) => whole += &state.rows.add(&text, columns),
                Piece::Beside(text) => whole += &text,
                Piece::Again => {}
                Piece::Done(sender) => done.push(sender),
            }
        }
        let waits = |state: &mut State| {
            state.reading != Reading::Left && (state.reading != Reading::Drawn || state.high)
        };
        shown.changed.wait_while(&mut state, waits);
        let left = state.reading == Reading::Left;
        drop(state);
        if left {
            below.write(&whole);
            continue;
        }
        let draws = shown.state().draws;
        // A terminal that is gone ends the session by its own means.
        let _ = printer.print(if whole.is_empty() { AGAIN.to_owned() } else { whole });
        if !done.is_empty() {
            let unchanged = |state: &mut State| state.draws == draws;
            shown.changed.wait_while_for(&mut shown.state(), unchanged, DRAW_TIMEOUT);
        }
        for sender in done {
            let _ = sender.send(());
        }
    }
}

impl Shown {
    pub(super) fn new(colour: bool) -> Self {
        Self { colour, ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The editor is about to take the terminal; false: it may not any more.
    pub(super) fn begin(&self) -> bool {
        let mut state = self.state();
        if state.reading == Reading::Left {
            return false;
        }
        state.reading = Reading::Begins;
        true
    }

    /// The editor gave the terminal back, with what it showed left on the screen.
    pub(super) fn end(&self) {
        let mut state = self.state();
        let drawn = std::mem::take(&mut state.drawn_row);
        state.rows.leave(&drawn);
        state.high = false;
        if state.reading != Reading::Left {
            state.reading = Reading::Not;
        }
        self.changed.notify_all();
    }

    /// Lists what a word may become, above the line.
    pub(super) fn list(&self, names: &str) {
        if let Some(pieces) = self.pieces.get() {
            // Without a screen there is nobody to read it.
            let _ = pieces.send(Piece::Beside(format!("{names}\n")));
        }
    }

    /// Nothing is edited any more.
    pub(super) fn gone(&self) {
        self.state().reading = Reading::Left;
        self.changed.notify_all();
    }

    /// Returns the text above the line and before it.
    pub(super) fn above(&self) -> String {
        let mut state = self.state();
        let whole = state.rows.begun().replace('\t', "    ");
        let row = in_a_row(&whole, size().0, true);
        if state.reading == Reading::Begins {
            state.reading = Reading::Drawn;
        }
        state.draws += 1;
        state.drawn_row = if row == whole { state.rows.begun().to_owned() } else { String::new() };
        self.changed.notify_all();
        format!("{row}\n{}", mark(self.colour))
    }

    /// Returns the rows below the line, as many as were announced by [`Shown::rows_below`]: the
    /// last lines of a running tool, and the status.
    pub(super) fn below(&self, rows: usize) -> Vec<String> {
        let columns = size().0;
        let state = self.state();
        let output = state.status.output();
        let output = &output[output.len() - output.len().min(rows.saturating_sub(1))..];
        let mut lines: Vec<String> =
            output.iter().map(|line| in_a_row(&format!("  | {line}"), columns, false)).collect();
        // Whatever changed since the rows were counted.
        lines.resize(rows.saturating_sub(1), String::new());
        lines.push(in_a_row(&state.status.line(Instant::now()), columns, false));
        if self.colour {
            lines.iter_mut().for_each(|line| *line = format!("\x1b[2m{line}\x1b[0m"));
        }
        lines
    }

    /// Returns how many rows to draw below a line; `None` if it is too high to be drawn again and
    /// again.
    pub(super) fn rows_below(&self, line: &str) -> Option<usize> {
        let (columns, rows) = size();
        let height = line.split('\n').map(|row| row.len() / columns + 1).sum::<usize>() + 3;
        let high = height > rows;
        let mut state = self.state();
        if std::mem::replace(&mut state.high, high) != high {
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

    /// Stands in for editor and terminal: keeps the texts both get.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<String>>);

    impl ExternalPrinter for Paper {
        fn print(&mut self, message: String) -> rustyline::Result<()> {
            self.0.lock().push_str(&message.replace(AGAIN, ""));
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

    fn screen() -> (Screen, Arc<Shown>, Paper) {
        let (paper, shown) = (Paper::default(), Arc::new(Shown::new(false)));
        let screen =
            Screen::with_line(Box::new(paper.clone()), paper.clone(), Arc::clone(&shown)).unwrap();
        (screen, shown, paper)
    }

    /// The editor draws, until it shows this.
    fn draws(shown: &Shown, wanted: &str) {
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
    fn whole_rows_are_printed_while_the_line_is_drawn_and_the_rest_stands_above_it() {
        let (screen, shown, paper) = screen();
        screen.print("Once upon a ti");
        assert!(shown.begin());
        draws(&shown, "Once upon a ti\n> ");
        screen.beside("a line of the log\n");
        paper.says("a line of the log\n");
        screen.print("me\nthere\twas");
        paper.says("a line of the log\nOnce upon a time\n");
        draws(&shown, "there    was\n> ");
        shown.end();
        // What was drawn stays on the screen with what was sent; nothing is printed until the next
        // line is drawn.
        screen.print(" a king\n");
        assert!(shown.begin());
        draws(&shown, "\n> ");
        paper.says("a line of the log\nOnce upon a time\n a king\n");
    }

    #[test]
    fn a_line_that_is_too_high_is_not_moved() {
        let (screen, shown, paper) = screen();
        assert!(shown.begin());
        draws(&shown, "\n> ");
        assert_eq!((shown.rows_below("a"), shown.rows_below(&"\n".repeat(500))), (Some(1), None));
        screen.print("news\n");
        shown.end();
        assert!(shown.begin());
        draws(&shown, "\n> ");
        paper.says("news\n");
    }

    #[test]
    fn nothing_is_lost_when_the_terminal_is_given_back() {
        let (screen, shown, paper) = screen();
        screen.print("one\ntwo");
        // The editor never began, and may not any more.
        shown.gone();
        paper.says("one\n");
        screen.leave();
        screen.print(", three\n");
        paper.says("one\ntwo, three\n");
        assert!(!shown.begin());
    }
}
