//! The typing to an agent that is recorded: handed on as it comes, or, where one process serves
//! many turns, line by line, with lines that begin the next turn.

use std::collections::VecDeque;

/// Begins the next turn of an agent that lives on; what follows is its prompt.
const TURN: &str = "/turn";

/// The next step towards the agent's stdin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The agent gets this.
    Write(Vec<u8>),
    /// The turn is over, and another begins with this prompt.
    Turn(String),
    /// Nothing more will be typed.
    Close,
}

/// The lines typed so far, and the steps they lead to.
#[derive(Debug)]
pub(super) struct Script {
    live: bool,
    /// A text: when a line of the agent contains it, a turn is over.
    until: Option<String>,
    waiting: VecDeque<Next>,
    /// A line that has no end yet.
    rest: Vec<u8>,
    /// A turn is under way, as far as the agent's lines tell.
    running: bool,
}

impl Script {
    pub(super) fn new(live: bool, until: Option<String>) -> Self {
        Self { live, until, waiting: VecDeque::new(), rest: Vec::new(), running: true }
    }

    /// Takes what was typed.
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

    /// There is no more.
    pub(super) fn ended(&mut self) {
        if !self.rest.is_empty() {
            let mut line = std::mem::take(&mut self.rest);
            // The agent would wait for the end of the line, and the end of the input for the agent.
            line.push(b'\n');
            self.waiting.push_back(read(line));
        }
        self.waiting.push_back(Next::Close);
    }

    /// The agent printed a line.
    pub(super) fn heard(&mut self, line: &str) {
        if self.until.as_ref().is_some_and(|until| line.contains(until.as_str())) {
            self.running = false;
        }
    }

    /// Returns what can be done now. A turn that is known to be under way is not disturbed by the
    /// next one, nor by the end.
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
    fn an_agent_of_one_turn_gets_whatever_is_typed() {
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
    fn a_line_begins_a_turn_once_the_one_before_is_over() {
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
        assert_eq!(all(&mut script), second, "its end waits for that of the turn");
        script.heard("done");
        assert_eq!(all(&mut script), [Next::Close]);
    }

    #[test]
    fn without_a_word_for_the_end_whoever_types_says_when_the_next_turn_begins() {
        let mut script = Script::new(true, None);
        script.typed(b"/turn two\n/turn\n");
        assert_eq!(
            all(&mut script),
            [Next::Turn("two".to_owned()), Next::Write(b"/turn\n".to_vec())]
        );
    }
}
