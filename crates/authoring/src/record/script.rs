//! Passes typed input to the recorded agent: unchanged, or line by line if one process serves
//! several turns. In that case, lines that begin with `/turn`, `/interrupt` and `/answer` are
//! commands.

use std::collections::VecDeque;

use aetheel_model::agent::{AskAnswer, AskDecision};

/// Starts the next turn of a live agent; the rest of the line is its prompt.
const TURN_COMMAND: &str = "/turn";
/// Records that a person interrupted the turn. The next lines are what the backend would write.
const INTERRUPT_COMMAND: &str = "/interrupt";
/// Records a person's answer: the number of the question, counted from 1, and the decision.
const ANSWER_COMMAND: &str = "/answer";

#[derive(Debug, PartialEq)]
pub(super) enum StdinStep {
    /// Write these bytes to the agent's stdin.
    Write(Vec<u8>),
    /// End the turn, and start one with this prompt.
    Turn(String),
    /// Record an interruption of the turn.
    Interrupt,
    Answer(AskAnswer),
    Close,
}

/// Converts typed lines to steps.
#[derive(Debug)]
pub(super) struct StdinScript {
    live: bool,
    /// Text that marks the end of a turn when a line of the agent contains it.
    until: Option<String>,
    pending: VecDeque<StdinStep>,
    partial_line: Vec<u8>,
    /// Whether a turn is running, according to the agent's lines.
    running: bool,
}

impl StdinScript {
    pub(super) fn new(live: bool, until: Option<String>) -> Self {
        Self { live, until, pending: VecDeque::new(), partial_line: Vec::new(), running: true }
    }

    /// Adds typed bytes.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        if !self.live {
            return self.pending.push_back(StdinStep::Write(piece.to_vec()));
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.partial_line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial_line);
                self.pending.push_back(parse_line(line));
            }
        }
    }

    pub(super) fn end(&mut self) {
        if !self.partial_line.is_empty() {
            let mut line = std::mem::take(&mut self.partial_line);
            // Without a newline, the agent would wait for the rest of the line forever.
            line.push(b'\n');
            self.pending.push_back(parse_line(line));
        }
        self.pending.push_back(StdinStep::Close);
    }

    /// Looks for the end of the turn in a line that the agent printed.
    pub(super) fn observe_output(&mut self, line: &str) {
        if self.until.as_ref().is_some_and(|until| line.contains(until.as_str())) {
            self.running = false;
        }
    }

    /// Returns the text for which the next turn or the end of the input waits.
    pub(super) fn awaited(&self) -> Option<&str> {
        let is_held = matches!(self.pending.front(), Some(StdinStep::Turn(_) | StdinStep::Close));
        self.until.as_deref().filter(|_| self.running && is_held)
    }

    /// Returns the next step that can be taken now. If `until` is set, the next turn and the end of
    /// the input wait until the current turn has ended.
    pub(super) fn next(&mut self) -> Option<StdinStep> {
        if self.awaited().is_some() {
            return None;
        }
        let next = self.pending.pop_front()?;
        self.running |= matches!(next, StdinStep::Turn(_));
        Some(next)
    }
}

fn parse_line(line: Vec<u8>) -> StdinStep {
    let text = String::from_utf8_lossy(&line);
    if text.trim_end() == INTERRUPT_COMMAND {
        return StdinStep::Interrupt;
    }
    if let Some(answer) = text.strip_prefix(ANSWER_COMMAND).and_then(parse_answer) {
        return StdinStep::Answer(answer);
    }
    match text.strip_prefix(TURN_COMMAND).map(str::trim) {
        Some(prompt)
            if text[TURN_COMMAND.len()..].starts_with(char::is_whitespace)
                && !prompt.is_empty() =>
        {
            StdinStep::Turn(prompt.to_owned())
        }
        _ => StdinStep::Write(line),
    }
}

/// Parses ` NUMBER DECISION`.
fn parse_answer(text: &str) -> Option<AskAnswer> {
    let mut words = text.strip_prefix(' ')?.split_whitespace();
    let ask = words.next()?.parse().ok()?;
    let decision = match words.next()? {
        "allow" => AskDecision::AllowOnce,
        "always" => AskDecision::AllowAlways,
        "deny" => AskDecision::Deny(None),
        "dismiss" => AskDecision::Dismissed,
        _ => return None,
    };
    words.next().is_none().then_some(AskAnswer { ask, decision })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(script: &mut StdinScript) -> Vec<StdinStep> {
        std::iter::from_fn(|| script.next()).collect()
    }

    #[test]
    fn an_agent_for_one_turn_gets_all_input_unchanged() {
        let mut script = StdinScript::new(false, None);
        script.feed(b"/turn a");
        script.feed(b"\nb");
        script.end();
        assert_eq!(
            all(&mut script),
            [
                StdinStep::Write(b"/turn a".to_vec()),
                StdinStep::Write(b"\nb".to_vec()),
                StdinStep::Close
            ]
        );
    }

    #[test]
    fn a_turn_line_waits_for_the_end_of_the_current_turn() {
        let mut script = StdinScript::new(true, Some("done".to_owned()));
        script.feed(b"one\n/tu");
        script.feed(b"rn  Go on \n/turning\ntw");
        script.end();
        assert_eq!(all(&mut script), [StdinStep::Write(b"one\n".to_vec())]);
        script.observe_output("working");
        assert_eq!(all(&mut script), []);
        script.observe_output("it is done");
        let second = [
            StdinStep::Turn("Go on".to_owned()),
            StdinStep::Write(b"/turning\n".to_vec()),
            StdinStep::Write(b"tw\n".to_vec()),
        ];
        assert_eq!(all(&mut script), second, "the end of the input waits for the end of the turn");
        script.observe_output("done");
        assert_eq!(all(&mut script), [StdinStep::Close]);
    }

    #[test]
    fn without_until_a_turn_line_starts_the_next_turn_at_once() {
        let mut script = StdinScript::new(true, None);
        script.feed(b"/turn two\n/turn\n");
        assert_eq!(
            all(&mut script),
            [StdinStep::Turn("two".to_owned()), StdinStep::Write(b"/turn\n".to_vec())]
        );
    }
}
