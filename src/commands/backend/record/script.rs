//! Passes typed input to the recorded agent: unchanged, or line by line if one process serves
//! several turns. In that case a line `/turn PROMPT` starts the next turn.

use std::collections::VecDeque;

/// Starts the next turn of a live agent; the rest of the line is its prompt.
const TURN: &str = "/turn";

/// The next step of the script.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Write these bytes to the agent's stdin.
    Write(Vec<u8>),
    /// End the turn, and start one with this prompt.
    Turn(String),
    /// Close the agent's stdin.
    Close,
}

/// Converts typed lines to steps.
#[derive(Debug)]
pub(super) struct Script {
    live: bool,
    /// Text that marks the end of a turn when a line of the agent contains it.
    until: Option<String>,
    waiting: VecDeque<Next>,
    /// The incomplete last line.
    rest: Vec<u8>,
    /// Whether a turn is running, according to the agent's lines.
    running: bool,
}

impl Script {
    pub(super) fn new(live: bool, until: Option<String>) -> Self {
        Self { live, until, waiting: VecDeque::new(), rest: Vec::new(), running: true }
    }

    /// Adds typed bytes.
    pub(super) fn typed(&mut self, piece: &[u8]) {
        if !self.live {
            return self.waiting.push_back(Next::Write(piece.to_vec()));
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                self.waiting.push_back(read(line));
            }
        }
    }

    /// Ends the input.
    pub(super) fn ended(&mut self) {
        if !self.rest.is_empty() {
            let mut line = std::mem::take(&mut self.rest);
            // Without a newline, the agent would wait for the rest of the line forever.
            line.push(b'\n');
            self.waiting.push_back(read(line));
        }
        self.waiting.push_back(Next::Close);
    }

    /// Looks for the end of the turn in a line that the agent printed.
    pub(super) fn heard(&mut self, line: &str) {
        if self.until.as_ref().is_some_and(|until| line.contains(until.as_str())) {
            self.running = false;
        }
    }

    /// Returns the next step that can be taken now. If `until` is set, the next turn and the end of
    /// the input wait until the current turn has ended.
    pub(super) fn next(&mut self) -> Option<Next> {
        let held = self.running && self.until.is_some();
        if held && matches!(self.waiting.front(), Some(Next::Turn(_) | Next::Close)) {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.running |= matches!(next, Next::Turn(_));
        Some(next)
    }
}

fn read(line: Vec<u8>) -> Next {
    let text = String::from_utf8_lossy(&line);
    match text.strip_prefix(TURN).map(str::trim) {
        Some(prompt)
            if text[TURN.len()..].starts_with(char::is_whitespace) && !prompt.is_empty() =>
        {
            Next::Turn(prompt.to_owned())
        }
        _ => Next::Write(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(script: &mut Script) -> Vec<Next> {
        std::iter::from_fn(|| script.next()).collect()
    }

    #[test]
    fn an_agent_for_one_turn_gets_all_input_unchanged() {
        let mut script = Script::new(false, None);
        script.typed(b"/turn a");
        script.typed(b"\nb");
        script.ended();
        assert_eq!(
            all(&mut script),
            [Next::Write(b"/turn a".to_vec()), Next::Write(b"\nb".to_vec()), Next::Close]
        );
    }

    #[test]
    fn a_turn_line_waits_for_the_end_of_the_current_turn() {
        let mut script = Script::new(true, Some("done".to_owned()));
        script.typed(b"one\n/tu");
        script.typed(b"rn  Go on \n/turning\ntw");
        script.ended();
        assert_eq!(all(&mut script), [Next::Write(b"one\n".to_vec())]);
        script.heard("working");
        assert_eq!(all(&mut script), []);
        script.heard("it is done");
        let second = [
            Next::Turn("Go on".to_owned()),
            Next::Write(b"/turning\n".to_vec()),
            Next::Write(b"tw\n".to_vec()),
        ];
        assert_eq!(all(&mut script), second, "the end of the input waits for the end of the turn");
        script.heard("done");
        assert_eq!(all(&mut script), [Next::Close]);
    }

    #[test]
    fn without_until_a_turn_line_starts_the_next_turn_at_once() {
        let mut script = Script::new(true, None);
        script.typed(b"/turn two\n/turn\n");
        assert_eq!(
            all(&mut script),
            [Next::Turn("two".to_owned()), Next::Write(b"/turn\n".to_vec())]
        );
    }
}
