//! The line editor: rustyline with the keys, the history and the completion of the console.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustyline::completion::{Completer, FilenameCompleter, Pair, unescape};
use rustyline::config::BellStyle;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Context, Editor, Event, EventContext,
    EventHandler, ExternalPrinter, Helper, KeyCode, KeyEvent, Modifiers, Movement, RepeatCount,
};

use crate::completion::{CompletionKind, completion_at, matching_names};
use crate::input::TerminalInput;
use crate::names::NameSource;
use crate::outlet::PROMPT;
use crate::screen::{EditorPhase, EditorState};
use aetheel_model::plain::{clean_text, one_line};

/// Largest number of history entries.
const MAX_HISTORY_ENTRIES: usize = 500;
/// Largest size of a history entry, in bytes. Longer lines were probably pasted, and are not saved.
const MAX_ENTRY_BYTES: usize = 16 << 10;

/// Reads lines from the terminal.
pub(crate) struct LineEditor {
    editor: Editor<NameCompleter, FileHistory>,
    history: PathBuf,
    state: Arc<EditorState>,
}

impl LineEditor {
    /// Makes an editor, and a printer for text above its line. The file `history` is created if it
    /// is missing.
    ///
    /// # Errors
    /// The terminal does not support line editing.
    pub(crate) fn new(
        history: PathBuf,
    ) -> rustyline::Result<(Self, impl ExternalPrinter + Send + 'static)> {
        let config = Config::builder()
            .max_history_size(MAX_HISTORY_ENTRIES)?
            .completion_type(CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            .bell_style(BellStyle::None)
            .build();
        let mut editor = Editor::with_history(config.clone(), FileHistory::with_config(&config))?;
        let printer = editor.create_external_printer()?;
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        let clear = EventHandler::Conditional(Box::new(ClearLine));
        editor.bind_sequence(KeyEvent::ctrl('c'), clear);
        let loaded = create(&history).map_err(ReadlineError::Io);
        if let Err(error) = loaded.and_then(|()| editor.load_history(&history)) {
            tracing::warn!(file = %history.display(), %error, "cannot load the history of the console");
        }
        Ok((Self { editor, history, state: Arc::default() }, printer))
    }

    /// Sets the names that the Tab key completes.
    pub(crate) fn completing(mut self, names: NameSource) -> Self {
        let (files, state) = (FilenameCompleter::new(), Arc::clone(&self.state));
        self.editor.set_helper(Some(NameCompleter { names, files, state }));
        self
    }

    pub(crate) fn state(&self) -> Arc<EditorState> {
        Arc::clone(&self.state)
    }

    /// Reads a line. `keeps` returns whether it is saved in the history.
    pub(crate) fn read(&mut self, keeps: impl Fn() -> bool) -> TerminalInput {
        self.state.set(EditorPhase::Starting);
        let line = self.editor.readline(PROMPT);
        self.state.set(EditorPhase::Idle);
        match line {
            Ok(line) => {
                let line = clean_text(&line).trim_end_matches('\n').to_owned();
                if keeps() && !line.trim().is_empty() && line.len() <= MAX_ENTRY_BYTES {
                    self.keep(&line);
                }
                TerminalInput::Line(line)
            }
            Err(ReadlineError::Interrupted) => TerminalInput::Interrupt,
            Err(error) => {
                tracing::debug!(%error, "the input ends");
                TerminalInput::End
            }
        }
    }

    /// Saves a line. If that fails, it is only missing in later sessions.
    fn keep(&mut self, line: &str) {
        let added = self.editor.add_history_entry(line);
        if let Err(error) = added.and_then(|_| self.editor.append_history(&self.history)) {
            tracing::debug!(%error, "cannot save a line in the history of the console");
        }
    }
}

/// Creates the history file with access for this user only. rustyline would change the umask for
/// this, which affects agents that start at the same time.
fn create(history: &Path) -> std::io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(history) {
        Ok(mut file) => file.write_all(b"#V2\n"),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes Ctrl-C clear the line. On an empty line, it interrupts.
struct ClearLine;

impl ConditionalEventHandler for ClearLine {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let has_text = !context.line().is_empty();
        Some(if has_text { Cmd::Kill(Movement::WholeBuffer) } else { Cmd::Interrupt })
    }
}

/// Completes commands, names and paths.
struct NameCompleter {
    names: NameSource,
    files: FilenameCompleter,
    state: Arc<EditorState>,
}

impl Completer for NameCompleter {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let Some((begins, kind)) = completion_at(&line[..at]) else { return Ok((at, Vec::new())) };
        if kind == CompletionKind::Path {
            return self.paths(line, at);
        }
        let names = matching_names((self.names)(kind), &line[begins..at]).into_iter();
        let pair = |name: String| Pair { display: one_line(&name), replacement: name };
        Ok((begins, names.map(pair).collect()))
    }
}

impl NameCompleter {
    /// Completes paths, and quotes those that contain blanks.
    fn paths(&self, line: &str, at: usize) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (begins, mut paths) = self.files.complete_path(line, at)?;
        for path in &mut paths {
            path.display = one_line(&path.display);
            if path.replacement.contains('\\') {
                path.replacement = format!("\"{}", unescape(&path.replacement, Some('\\')));
            }
        }
        Ok((begins, paths))
    }
}

impl Hinter for NameCompleter {
    type Hint = String;

    /// Returns no hint. rustyline calls this function whenever it shows the line, for the first
    /// time after it has taken the terminal over.
    fn hint(&self, _: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.state.set(EditorPhase::Editing);
        None
    }
}

impl Highlighter for NameCompleter {}
impl Validator for NameCompleter {}
impl Helper for NameCompleter {}
