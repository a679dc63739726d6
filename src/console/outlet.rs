//! Where answers, questions and notices go: the screen, and what is kept of the last answer.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::editing::{Editing, Names};
use super::files;
use super::folded::Folded;
use super::questions::Waiting;
use super::reply::ConsoleReply;
use super::screen::Screen;
use super::terminal::{Before, shows_stderr};
use crate::dispatch::{DeliveryError, Notice, Outlet, Reply};
use crate::event::{Attached, Event};
use crate::plain::clean_text;

/// Prints whole rows that belong to no answer.
pub type Beside = dyn Fn(&str) + Send + Sync;

/// Where the terminal's answers go.
pub struct Console {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    /// Streams and decorates; otherwise only final texts are printed.
    pub(super) live: bool,
    /// A line can be edited; otherwise lines are read as they come.
    pub(super) editing: bool,
    colour: bool,
    pub(super) screen: Screen,
    terminal: Option<Before>,
    /// Until its thread runs.
    line: Mutex<Option<Editing>>,
    names: Option<Arc<OnceLock<Arc<Names>>>>,
    /// The folded parts of the last answer, for `/open`.
    pub(super) folded: Mutex<Folded>,
    pub(super) answers: watch::Sender<Answers>,
    pub(super) questions: watch::Sender<Waiting>,
}

/// Answers printed so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Answers {
    pub(super) all: u32,
    pub(super) failed: u32,
}

impl Console {
    /// Makes one that prints to `out`; `live` streams and decorates.
    #[must_use]
    pub fn new(live: bool, out: Box<dyn Write + Send>) -> Self {
        let colour = live && std::env::var_os("NO_COLOR").is_none();
        Self::of(live, colour, Screen::plain(out, colour))
    }

    /// Makes one for stdin and stdout as they are: at a terminal with a line that can be edited,
    /// and with what was written there before (`history`, a file that is made when missing). The
    /// terminal is given back by [`Console::leave`].
    #[must_use]
    pub fn here(history: PathBuf) -> Self {
        let live = io::stdin().is_terminal() && io::stdout().is_terminal();
        let colour = std::env::var_os("NO_COLOR").is_none();
        let Some(before) = live.then(Before::of_stdin).flatten() else {
            return Self::new(live, stdout());
        };
        let made = Editing::new(history, colour).map_err(io::Error::other);
        let made = made.and_then(|(line, printer)| {
            Ok((Screen::with_line(stdout(), printer, Arc::clone(&line.shown))?, line))
        });
        match made {
            Ok((screen, line)) => {
                let names = Some(line.names());
                let shared = Shared {
                    editing: true,
                    terminal: Some(before),
                    line: Mutex::new(Some(line)),
                    names,
                    ..Shared::of(true, colour, screen)
                };
                Self { shared: Arc::new(shared) }
            }
            Err(error) => {
                tracing::debug!(%error, "no line can be edited here");
                Self::new(live, stdout())
            }
        }
    }

    pub(super) fn of(live: bool, colour: bool, screen: Screen) -> Self {
        Self { shared: Arc::new(Shared::of(live, colour, screen)) }
    }

    /// Whether somebody sits there.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.shared.live
    }

    /// Where lines of the log go, if they would stand in the line that is being written: whole rows
    /// above it, whoever prints.
    #[must_use]
    pub fn beside(&self) -> Option<Arc<Beside>> {
        let shared = (self.shared.editing && shows_stderr()).then(|| self.shared())?;
        Some(Arc::new(move |rows| shared.screen.beside(rows)))
    }

    /// Gives the terminal back. Later prints stand below.
    pub fn leave(&self) {
        self.shared.screen.leave();
        if let Some(before) = &self.shared.terminal {
            before.restore();
        }
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }
}

impl Shared {
    fn of(live: bool, colour: bool, screen: Screen) -> Self {
        Self {
            live,
            editing: false,
            colour,
            screen,
            terminal: None,
            line: Mutex::default(),
            names: None,
            folded: Mutex::default(),
            answers: watch::Sender::default(),
            questions: watch::Sender::default(),
        }
    }

    pub(super) fn folded(&self) -> MutexGuard<'_, Folded> {
        self.folded.lock()
    }

    /// Prints text as it is.
    pub(super) fn print(&self, text: &str) {
        self.screen.print(text);
    }

    /// A line beside the answer.
    pub(super) fn aside(&self, text: &str) {
        if self.colour {
            self.screen.beside(&format!("\x1b[2m{text}\x1b[0m\n"));
        } else {
            self.screen.beside(&format!("{text}\n"));
        }
    }

    pub(super) fn prompt(&self) {
        if self.live {
            self.screen.prompt();
        }
    }

    /// Hands the editor to the thread that reads; none: it was taken, or no line can be edited.
    pub(super) fn take_editing(&self) -> Option<Editing> {
        self.line.lock().take()
    }

    /// Says where names come from that can be completed.
    pub(super) fn complete_with(&self, names: Arc<Names>) {
        if let Some(place) = &self.names {
            // They come from one place only.
            let _ = place.set(names);
        }
    }
}

#[async_trait]
impl Outlet for Console {
    fn open(&self, event: &Event) -> Box<dyn Reply> {
        Box::new(ConsoleReply::new(self.shared.clone(), event))
    }

    async fn fetch(&self, attached: &Attached, limit: u64) -> Result<Vec<u8>, String> {
        files::read(attached, limit).await
    }

    async fn notify(&self, notice: Notice) -> Result<(), DeliveryError> {
        // In place of the button; others have theirs in their words.
        let how =
            if notice.text.ends_with("(recoverable)") { " /recover delivers it." } else { "" };
        let text = format!("{}{how}", clean_text(&notice.text));
        if self.shared.live {
            self.shared.aside(&format!("· {text}"));
            return Ok(());
        }
        // Answers alone are for whoever reads stdout.
        writeln!(io::stderr(), "{text}").map_err(|error| DeliveryError::Refused(error.to_string()))
    }
}

/// Standard output, for [`Console::new`].
#[must_use]
pub fn stdout() -> Box<dyn Write + Send> {
    Box::new(io::stdout())
}
