//! Questions to the person at the terminal, one after the other: a line that can be edited, or one
//! that is never shown.

use std::io::{self, IsTerminal as _, Write as _};

use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use secrecy::SecretString;

/// Bytes of an answer that is not shown.
const HIDDEN: usize = 4 << 10;

/// The person left: Ctrl-C, Ctrl-D, or a terminal that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the questions were not answered to the end")]
pub struct Left;

/// Asks, at the terminal.
pub struct Asking {
    editor: DefaultEditor,
}

impl Asking {
    /// None: nobody can be asked, because stdin or stdout is no terminal.
    #[must_use]
    pub fn at_terminal() -> Option<Self> {
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            return None;
        }
        Some(Self { editor: DefaultEditor::new().ok()? })
    }

    /// Asks; an empty answer is `standing`, which is shown.
    ///
    /// # Errors
    /// [`Left`].
    pub fn ask(&mut self, question: &str, standing: &str) -> Result<String, Left> {
        let shown = if standing.is_empty() { String::new() } else { format!(" [{standing}]") };
        match self.editor.readline(&format!("{question}{shown}: ")) {
            Ok(line) if line.trim().is_empty() => Ok(standing.to_owned()),
            Ok(line) => Ok(line.trim().to_owned()),
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => Err(Left),
            Err(error) => {
                tracing::debug!(%error, "the terminal is gone");
                Err(Left)
            }
        }
    }

    /// Asks for yes or no; anything else is asked again.
    ///
    /// # Errors
    /// [`Left`].
    pub fn agrees(&mut self, question: &str, standing: bool) -> Result<bool, Left> {
        loop {
            let answer = self.ask(question, if standing { "yes" } else { "no" })?;
            match answer.to_ascii_lowercase().as_str() {
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                // A terminal that is gone is seen at the next question.
                _ => drop(writeln!(io::stdout(), "Answer yes or no.")),
            }
        }
    }

    /// Asks for what nobody may see; no key is shown.
    ///
    /// # Errors
    /// [`Left`].
    pub fn hidden(&mut self, question: &str) -> Result<SecretString, Left> {
        let mut out = io::stdout();
        let typed = {
            // Before anybody sees that it is time to type.
            let _quiet = Quiet::stdin().ok_or(Left)?;
            // A terminal that is gone is seen when it is read.
            let _ = write!(out, "{question} (not shown): ").and_then(|()| out.flush());
            typed(|| {
                let mut byte = [0];
                // One by one, so that nothing is taken that is meant for the next question.
                matches!(rustix::io::read(io::stdin(), &mut byte), Ok(1)).then_some(byte[0])
            })
        };
        let _ = writeln!(out);
        typed
    }
}

/// Reads keys up to Enter. Ctrl-U takes everything back, and what a key sends that is no character
/// is left out.
fn typed(mut next: impl FnMut() -> Option<u8>) -> Result<SecretString, Left> {
    let mut line: Vec<u8> = Vec::new();
    loop {
        match next().ok_or(Left)? {
            b'\r' | b'\n' => break,
            0x03 => return Err(Left),
            0x04 if line.is_empty() => return Err(Left),
            0x08 | 0x7f => drop(line.pop()),
            0x15 => line.clear(),
            0x1b => {
                // A sequence ends with a letter or `~`.
                if next().ok_or(Left)? == b'[' {
                    while !(0x40..=0x7e).contains(&next().ok_or(Left)?) {}
                }
            }
            byte if byte < 0x20 || line.len() >= HIDDEN => {}
            byte => line.push(byte),
        }
    }
    Ok(String::from_utf8_lossy(&line).trim().to_owned().into())
}

/// The terminal shows no key and sends each as it is, until this is dropped.
struct Quiet(Termios);

impl Quiet {
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

impl Drop for Quiet {
    fn drop(&mut self) {
        // A terminal that is gone has no mode.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn of(keys: &str) -> Result<String, Left> {
        let mut keys = keys.bytes();
        typed(|| keys.next()).map(|line| line.expose_secret().to_owned())
    }

    #[test]
    fn a_hidden_line_is_what_was_typed_without_keys_that_are_no_characters() {
        assert_eq!(of("a.b\x7fc\rnext"), Ok("a.c".to_owned()));
        assert_eq!(of("wrong\x15right\n"), Ok("right".to_owned()));
        assert_eq!(of("a\x1b[Ab\x1b[200~c\x01\r"), Ok("abc".to_owned()));
        assert_eq!(of("\r"), Ok(String::new()));
        for left in ["abc\x03", "\x04", "", "abc", "\x1b"] {
            assert_eq!(of(left), Err(Left), "{left:?}");
        }
    }
}
