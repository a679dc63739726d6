//! The line editor: a thread on which rustyline reads keys, edits the line, searches the history
//! and completes words. [`EditorRows`] provides the rows above and below the line.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustyline::completion::{Completer, FilenameCompleter, Pair, longest_common_prefix, unescape};
use rustyline::config::BellStyle;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, ColorMode, CompletionType, ConditionalEventHandler, Config, Context, Editor, Event,
    EventContext, EventHandler, Helper, KeyCode, KeyEvent, Modifiers, Movement, RepeatCount,
};
use tokio::sync::mpsc;

use super::completion::{CompletionKind, NameKind, completion_at, matching_names};
use super::input::TerminalInput;
use super::screen::{EditorRows, MARK};
use crate::plain::{clean_text, one_line};

/// Largest number of history entries.
const MAX_HISTORY_ENTRIES: usize = 500;
/// Largest size of a history entry, in bytes. Longer lines were probably pasted, and are not saved.
const MAX_ENTRY_BYTES: usize = 16 << 10;
/// Largest number of candidates that are listed.
const MAX_LISTED_CANDIDATES: usize = 100;

/// Returns the names of a kind, or the commands for `None`. A call may take a second.
pub(super) type NameSource = dyn Fn(Option<NameKind>) -> Vec<String> + Send + Sync;

/// The editor, before its thread starts.
pub(super) struct LineEditor {
    editor: Editor<EditorHelper, FileHistory>,
    history: PathBuf,
    pub(super) shown: Arc<EditorRows>,
    names: Arc<OnceLock<Arc<NameSource>>>,
}

impl LineEditor {
    /// Makes an editor, and a printer for text above its line. The file `history` is created if it
    /// is missing.
    ///
    /// # Errors
    /// The terminal does not support line editing.
    pub(super) fn new(
        history: PathBuf,
        colour: bool,
    ) -> rustyline::Result<(Self, impl rustyline::ExternalPrinter + Send + 'static)> {
        let config = Config::builder()
            .max_history_size(MAX_HISTORY_ENTRIES)?
            .completion_type(CompletionType::List)
            .bell_style(BellStyle::None)
            // rustyline calls the highlighter, which draws the rows around the line, only if
            // colours are enabled. The console decides about colours itself.
            .color_mode(ColorMode::Forced)
            .build();
        let mut editor = Editor::with_history(config.clone(), FileHistory::with_config(&config))?;
        let printer = editor.create_external_printer()?;
        let (shown, names) = (Arc::new(EditorRows::new(colour)), Arc::default());
        editor.set_helper(Some(EditorHelper {
            shown: Arc::clone(&shown),
            names: Arc::clone(&names),
            files: FilenameCompleter::new(),
        }));
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        if let Err(error) =
            open(&history).map_err(ReadlineError::Io).and_then(|()| editor.load_history(&history))
        {
            tracing::warn!(file = %history.display(), %error, "cannot load the history of the console");
        }
        Ok((Self { editor, history, shown, names }, printer))
    }

    /// Returns the cell for the source of names, which is set later.
    pub(super) fn names(&self) -> Arc<OnceLock<Arc<NameSource>>> {
        Arc::clone(&self.names)
    }

    /// Reads lines until the receiver is dropped, or the terminal is given back or closed. `keeps`
    /// returns whether a line is saved in the history.
    pub(super) fn run(mut self, sender: &mpsc::Sender<TerminalInput>, keeps: impl Fn() -> bool) {
        for (key, typed) in [('c', TerminalInput::Interrupt), ('d', TerminalInput::End)] {
            let handler = EmptyLineHandler { sender: sender.clone(), typed };
            self.editor
                .bind_sequence(KeyEvent::ctrl(key), EventHandler::Conditional(Box::new(handler)));
        }
        while self.shown.begin() {
            let read = self.editor.readline(&format!("\n{MARK}"));
            self.shown.end();
            let typed = match read {
                Ok(line) => {
                    let line = clean_text(&line).trim_end_matches('\n').to_owned();
                    if keeps() {
                        self.keep(&line);
                    }
                    TerminalInput::Line(line)
                }
                Err(ReadlineError::Interrupted) => TerminalInput::Interrupt,
                Err(ReadlineError::Eof) => TerminalInput::End,
                Err(error) => {
                    tracing::debug!(%error, "the terminal is gone");
                    break;
                }
            };
            if sender.blocking_send(typed).is_err() {
                break;
            }
        }
        self.shown.close();
    }

    fn keep(&mut self, line: &str) {
        if line.trim().is_empty() || line.len() > MAX_ENTRY_BYTES {
            return;
        }
        // If the entry cannot be saved, it is only missing in later sessions.
        let kept = self
            .editor
            .add_history_entry(line)
            .and_then(|_| self.editor.append_history(&self.history));
        if let Err(error) = kept {
            tracing::debug!(%error, "cannot save a line in the history of the console");
        }
    }
}

/// Creates the history file with access for this user only. rustyline would change the umask for
/// this, which affects agents that start at the same time.
fn open(history: &Path) -> std::io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(history) {
        Ok(mut file) => file.write_all(b"#V2\n"),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Handles Ctrl-C and Ctrl-D on an empty line. The editor then continues with its line.
struct EmptyLineHandler {
    sender: mpsc::Sender<TerminalInput>,
    typed: TerminalInput,
}

impl ConditionalEventHandler for EmptyLineHandler {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        if context.line().is_empty() {
            // Fails if the session has ended.
            let _ = self.sender.blocking_send(self.typed.clone());
            return Some(Cmd::Noop);
        }
        (self.typed == TerminalInput::Interrupt).then_some(Cmd::Kill(Movement::WholeBuffer))
    }
}

/// rustyline's helper: provides candidates, the row above the line, and the status below it.
struct EditorHelper {
    shown: Arc<EditorRows>,
    names: Arc<OnceLock<Arc<NameSource>>>,
    files: FilenameCompleter,
}

/// A placeholder for the rows below the line, with one line break per row. The text is inserted
/// when the rows are drawn.
struct RowsBelow(String);

impl Hint for RowsBelow {
    fn display(&self) -> &str {
        &self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for EditorHelper {
    type Hint = RowsBelow;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<RowsBelow> {
        self.shown.rows_below(line).map(|rows| RowsBelow("\n.".repeat(rows)))
    }
}

impl Highlighter for EditorHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        default: bool,
    ) -> Cow<'b, str> {
        if default { Cow::Owned(self.shown.above()) } else { Cow::Borrowed(prompt) }
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        // Forced before a submitted line, or a line break in it, is drawn for the last time.
        self.shown.set_submitted(kind == CmdKind::ForcedRefresh);
        false
    }

    fn highlight_hint<'h>(&self, place: &'h str) -> Cow<'h, str> {
        let rows = self.shown.below(place.matches('\n').count());
        Cow::Owned(rows.iter().map(|row| format!("\n{row}")).collect())
    }
}

impl Completer for EditorHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let Some((begins, what)) = completion_at(&line[..at]) else { return Ok((at, Vec::new())) };
        let named = match what {
            CompletionKind::Path => return self.paths(line, at),
            CompletionKind::Command => None,
            CompletionKind::Name(named) => Some(named),
        };
        let all = self.names.get().map(|names| names(named)).unwrap_or_default();
        let fit = matching_names(all, &line[begins..at]).into_iter();
        let fit = fit.map(|name| Pair { display: name.clone(), replacement: name }).collect();
        Ok((begins, self.complete_or_list(fit, &line[begins..at])))
    }
}

impl EditorHelper {
    /// Completes paths, and quotes those that contain blanks.
    fn paths(&self, line: &str, at: usize) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (begins, mut paths) = self.files.complete_path(line, at)?;
        for path in paths.iter_mut().filter(|path| path.replacement.contains('\\')) {
            path.replacement = format!("\"{}", unescape(&path.replacement, Some('\\')));
        }
        Ok((begins, self.complete_or_list(paths, &line[begins..at])))
    }

    /// Returns the common prefix of all candidates as the only candidate. If it is not longer than
    /// the typed word, the candidates are listed above the line instead. rustyline's own list would
    /// erase rows above the line.
    fn complete_or_list(&self, candidates: Vec<Pair>, written: &str) -> Vec<Pair> {
        if candidates.len() < 2 {
            return candidates;
        }
        let agreed = longest_common_prefix(&candidates).unwrap_or_default();
        if agreed.len() > written.len() {
            return vec![Pair { display: String::new(), replacement: agreed.to_owned() }];
        }
        let mut list = candidates
            .iter()
            .take(MAX_LISTED_CANDIDATES)
            .map(|candidate| one_line(&candidate.display))
            .collect::<Vec<_>>()
            .join("  ");
        if candidates.len() > MAX_LISTED_CANDIDATES {
            list.push_str(&format!("  … {} more", candidates.len() - MAX_LISTED_CANDIDATES));
        }
        self.shown.list(&list);
        Vec::new()
    }
}

impl Validator for EditorHelper {}
impl Helper for EditorHelper {}
