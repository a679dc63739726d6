//! Asks questions at the terminal, one after the other. The person types a line that can be edited,
//! or one that is never shown.

use std::io::{self, IsTerminal as _, Write as _};

use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use secrecy::SecretString;

/// Largest size of an answer that is not shown, in bytes.
const MAX_HIDDEN_BYTES: usize = 4 << 10;

/// The person aborted the questions with Ctrl-C or Ctrl-D, or the terminal was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the questions were aborted")]
pub struct PromptAborted;

/// Asks questions at the terminal.
pub struct TerminalPrompt {
    editor: DefaultEditor,
}

impl TerminalPrompt {
    /// Returns `None` if stdin or stdout is not a terminal, so that nobody can be asked.
    #[must_use]
    pub fn at_terminal() -> Option<Self> {
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            return None;
        }
        Some(Self { editor: DefaultEditor::new().ok()? })
    }

    /// Asks for a line. `standing` is the current value: it is shown as the default, and is
    /// returned for an empty answer.
    ///
    /// # Errors
    /// Returns [`PromptAborted`] if the question is aborted.
    pub fn ask(&mut self, question: &str, standing: &str) -> Result<String, PromptAborted> {
        let shown = if standing.is_empty() { String::new() } else { format!(" [{standing}]") };
        match self.editor.readline(&format!("{question}{shown}: ")) {
            Ok(line) if line.trim().is_empty() => Ok(standing.to_owned()),
            Ok(line) => Ok(line.trim().to_owned()),
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => Err(PromptAborted),
            Err(error) => {
                tracing::debug!(%error, "the terminal is gone");
                Err(PromptAborted)
            }
        }
    }

    /// Asks for yes or no until the answer is one of them. `standing` is the default.
    ///
    /// # Errors
    /// Returns [`PromptAborted`] if the question is aborted.
    pub fn confirm(&mut self, question: &str, standing: bool) -> Result<bool, PromptAborted> {
        loop {
            let answer = self.ask(question, if standing { "yes" } else { "no" })?;
            match answer.to_ascii_lowercase().as_str() {
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                // Write errors are ignored: the next question detects a closed terminal.
                _ => drop(writeln!(io::stdout(), "Answer yes or no.")),
            }
        }
    }

    /// Asks for a secret without showing the typed keys.
    ///
    /// # Errors
    /// Returns [`PromptAborted`] if the question is aborted.
    pub fn ask_secret(&mut self, question: &str) -> Result<SecretString, PromptAborted> {
        let mut out = io::stdout();
        let typed = {
            // The echo is switched off before the question appears.
            let _quiet = EchoOff::stdin().ok_or(PromptAborted)?;
            // Write errors are ignored: the read detects a closed terminal.
            let _ = write!(out, "{question} (not shown): ").and_then(|()| out.flush());
            read_hidden_line(|| {
                let mut byte = [0];
                // Bytes are read one by one, so that input for the next question is not consumed.
                matches!(rustix::io::read(io::stdin(), &mut byte), Ok(1)).then_some(byte[0])
            })
        };
        let _ = writeln!(out);
        typed
    }
}

/// Reads keys up to Enter. Ctrl-U clears the line. Escape sequences and control characters are
/// ignored.
fn read_hidden_line(mut next: impl FnMut() -> Option<u8>) -> Result<SecretString, PromptAborted> {
    let mut line: Vec<u8> = Vec::new();
    loop {
        match next().ok_or(PromptAborted)? {
            b'\r' | b'\n' => break,
            0x03 => return Err(PromptAborted),
            0x04 if line.is_empty() => return Err(PromptAborted),
            0x08 | 0x7f => drop(line.pop()),
            0x15 => line.clear(),
            0x1b => {
                // The last byte of a sequence is a letter or `~`.
                if next().ok_or(PromptAborted)? == b'[' {
                    while !(0x40..=0x7e).contains(&next().ok_or(PromptAborted)?) {}
                }
            }
            byte if byte < 0x20 || line.len() >= MAX_HIDDEN_BYTES => {}
            byte => line.push(byte),
        }
    }
    Ok(String::from_utf8_lossy(&line).trim().to_owned().into())
}

/// Switches off echo, line editing and signals of the terminal until it is dropped.
struct EchoOff(Termios);

impl EchoOff {
    fn stdin() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut quiet = before.clone();
        quiet.local_modes -=
            LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN;
        quiet.input_modes -= InputModes::IXON;
        tcsetattr(io::stdin(), OptionalActions::Now, &quiet).ok()?;
        Some(Self(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        // Errors are ignored: a closed terminal has no mode.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn of(keys: &str) -> Result<String, PromptAborted> {
        let mut keys = keys.bytes();
        read_hidden_line(|| keys.next()).map(|line| line.expose_secret().to_owned())
    }

    #[test]
    fn a_hidden_line_contains_only_characters() {
        assert_eq!(of("a.b\x7fc\rnext"), Ok("a.c".to_owned()));
        assert_eq!(of("wrong\x15right\n"), Ok("right".to_owned()));
        assert_eq!(of("a\x1b[Ab\x1b[200~c\x01\r"), Ok("abc".to_owned()));
        assert_eq!(of("\r"), Ok(String::new()));
        for left in ["abc\x03", "\x04", "", "abc", "\x1b"] {
            assert_eq!(of(left), Err(PromptAborted), "{left:?}");
        }
    }
}
