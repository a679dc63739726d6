//! Prints answers, questions and notices, and keeps the parts of the last answer.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::tz::TimeZone;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::editing::LineEditor;
use crate::files;
use crate::folded::Folded;
use crate::questions::OpenQuestions;
use crate::reply::ConsoleReply;
use crate::saved::SavedPrompts;
use crate::screen::Screen;
use crate::terminal::{SavedTerminalMode, shows_stderr};
use aetheel_dispatch::{DeliveryError, Notice, Outlet, Reply};
use aetheel_model::event::{AttachedFile, Event};
use aetheel_model::plain::clean_text;
use aetheel_model::shown_time::readable;

/// The prompt before the input line.
pub(crate) const PROMPT: &str = "> ";

/// Prints complete rows that do not belong to an answer.
pub type PrintBeside = dyn Fn(&str) + Send + Sync;

/// The outlet for the console's answers.
pub struct Console {
    shared: Arc<ConsoleState>,
}

pub(crate) struct ConsoleState {
    /// Whether answers are streamed and decorated. Otherwise only final texts are printed.
    pub(crate) live: bool,
    pub(crate) colour: bool,
    pub(crate) screen: Screen,
    terminal: Option<SavedTerminalMode>,
    /// The line editor, until its thread starts.
    editor: Mutex<Option<LineEditor>>,
    /// The prompts that wait when the console is left, at a terminal.
    pub(crate) saved: Option<SavedPrompts>,
    /// The folded parts of the last answer, for `/open`.
    folded: Mutex<Folded>,
    pub(crate) answers: watch::Sender<AnswerCounts>,
    pub(crate) questions: watch::Sender<OpenQuestions>,
}

/// Numbers of printed answers.
#[derive(Clone, Copy, Default)]
pub(crate) struct AnswerCounts {
    pub(crate) all: u32,
    pub(crate) failed: u32,
}

impl Console {
    /// Makes a console with a person at a terminal without colours.
    #[cfg(test)]
    pub(crate) fn printing_to(out: Box<dyn Write + Send>) -> Self {
        Self { shared: Arc::new(ConsoleState::new(true, false, Screen::plain(out))) }
    }

    /// Makes a console for stdin and stdout. At a terminal, the input line can be edited and has
    /// the history of the file `history`, which is created if it is missing. [`Console::leave`]
    /// gives the terminal back.
    #[must_use]
    pub fn at_terminal(history: PathBuf) -> Self {
        let live = io::stdin().is_terminal() && io::stdout().is_terminal();
        let colour = live && std::env::var_os("NO_COLOR").is_none();
        let saved = live.then(|| SavedPrompts::beside(&history));
        let terminal = live.then(SavedTerminalMode::of_stdin).flatten();
        let edited = terminal.as_ref().and_then(|_| {
            let made = LineEditor::new(history).map_err(io::Error::other);
            let made = made.and_then(|(editor, printer)| {
                let out = Box::new(io::stdout());
                Ok((Screen::above_line(out, printer, editor.state())?, editor))
            });
            made.inspect_err(|error| tracing::debug!(%error, "no line can be edited here")).ok()
        });
        let shared = match edited {
            Some((screen, editor)) => ConsoleState {
                terminal,
                editor: Mutex::new(Some(editor)),
                saved,
                ..ConsoleState::new(live, colour, screen)
            },
            None => ConsoleState {
                saved,
                ..ConsoleState::new(live, colour, Screen::plain(Box::new(io::stdout())))
            },
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns whether a person is at the terminal.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.shared.live
    }

    /// Returns a printer for log lines if stderr is the same terminal. It prints whole rows above
    /// the input line, instead of into it.
    #[must_use]
    pub fn log_printer(&self) -> Option<Arc<PrintBeside>> {
        let shared = (self.shared.screen.has_editor() && shows_stderr()).then(|| self.shared())?;
        Some(Arc::new(move |rows| shared.screen.print(rows)))
    }

    /// Gives the terminal back. Later output is printed below the existing text.
    pub fn leave(&self) {
        self.shared.screen.close();
        if let Some(before) = &self.shared.terminal {
            before.restore();
        }
    }

    pub(crate) fn shared(&self) -> Arc<ConsoleState> {
        self.shared.clone()
    }
}

impl ConsoleState {
    fn new(live: bool, colour: bool, screen: Screen) -> Self {
        Self {
            live,
            colour,
            screen,
            terminal: None,
            editor: Mutex::default(),
            saved: None,
            folded: Mutex::default(),
            answers: watch::Sender::default(),
            questions: watch::Sender::default(),
        }
    }

    pub(crate) fn folded(&self) -> MutexGuard<'_, Folded> {
        self.folded.lock()
    }

    /// Prints a line that is not part of the answer.
    pub(crate) fn print_note(&self, text: &str) {
        let text = readable(text, &TimeZone::system());
        let (dim, normal) = if self.colour { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        self.screen.print(&format!("{dim}{text}{normal}\n"));
    }

    /// Prints a line that reports a failure or news: below the answer at a terminal, and to stderr
    /// in a script, which expects only answers on stdout.
    pub(crate) fn report(&self, text: &str) -> io::Result<()> {
        if self.live {
            self.print_note(text);
            return Ok(());
        }
        writeln!(io::stderr(), "{}", readable(text, &TimeZone::system()))
    }

    /// Prints the prompt at a terminal. An editor prints its own.
    pub(crate) fn prompt(&self) {
        if self.live && !self.screen.has_editor() {
            self.screen.print(PROMPT);
        }
    }

    /// Returns the editor for the reading thread, or `None` if the line cannot be edited.
    pub(crate) fn take_editor(&self) -> Option<LineEditor> {
        self.editor.lock().take()
    }
}

#[async_trait]
impl Outlet for Console {
    fn open(&self, event: &Event) -> Box<dyn Reply> {
        Box::new(ConsoleReply::new(self.shared.clone(), event))
    }

    async fn fetch(&self, attached: &AttachedFile, limit: u64) -> Result<Vec<u8>, String> {
        files::read(attached, limit).await.map_err(|error| error.to_string())
    }

    async fn notify(&self, notice: Notice) -> Result<(), DeliveryError> {
        // Replaces the button that Discord shows for these notices.
        let how =
            if notice.text.ends_with("(recoverable)") { " /recover delivers it." } else { "" };
        let text = format!("{}{how}", clean_text(&notice.text));
        self.shared
            .report(&format!("· {text}"))
            .map_err(|error| DeliveryError::Refused(error.to_string()))
    }
}
