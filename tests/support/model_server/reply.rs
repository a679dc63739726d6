//! The model's replies: a list of steps, independent of the API.

use std::time::SystemTime;

use serde_json::Value;

use super::gate::Gate;
use super::intent::Intent;
use super::limit::{Allowance, UsageLimit};

/// One reply of the model, built step by step.
#[derive(Clone, Default)]
pub struct Reply {
    pub(super) held: Option<Gate>,
    pub(super) steps: Vec<Step>,
    pub(super) failure: Option<Failure>,
    pub(super) limit: Option<UsageLimit>,
}

#[derive(Clone)]
pub(super) enum Step {
    Block(Block),
    Break(Break),
}

/// How a reply is interrupted. No step follows it.
#[derive(Clone)]
pub(super) enum Break {
    /// An error event in the stream.
    Error(Fault),
    Cut,
}

/// A part of a reply, with the pieces in which it is streamed.
#[derive(Clone)]
pub(super) enum Block {
    Text(Vec<Piece>),
    Thinking(String),
    Tool { id: String, what: What },
}

#[derive(Clone)]
pub(super) enum Piece {
    Text(String),
    Gate(Gate),
    Break(Break),
}

#[derive(Clone)]
pub(super) enum What {
    /// A tool by the agent's own name.
    Named(String, Value),
    /// The tool that the agent has for this intent.
    Meant(Intent),
}

/// An error of the service.
#[derive(Clone)]
pub(super) struct Fault {
    /// The HTTP status, or for an error inside a stream, the corresponding one.
    pub(super) status: u16,
    /// The error type of the Messages API.
    pub(super) kind: String,
    pub(super) message: String,
}

#[derive(Clone)]
pub(super) struct Failure {
    pub(super) fault: Fault,
    pub(super) retry_after: Option<u32>,
}

impl Reply {
    /// A reply with one text block in one piece.
    pub fn text(text: &str) -> Self {
        Self::default().then_text(text)
    }

    /// A reply with one text block in several pieces, which reach the CLI as separate events.
    pub fn pieces<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Self {
        Self::default().then(Block::Text(
            pieces.into_iter().map(|piece| Piece::Text(piece.to_owned())).collect(),
        ))
    }

    /// A reply that begins with thinking.
    pub fn thinking(thought: &str) -> Self {
        Self::default().then(Block::Thinking(thought.to_owned()))
    }

    /// A call of a tool by the agent's own name. The CLI runs it and sends another request with the
    /// result under the same id.
    pub fn tool(id: &str, name: &str, input: Value) -> Self {
        Self::default().then_tool(id, name, input)
    }

    /// A call of the tool that the agent has for this intent.
    pub fn does(id: &str, intent: Intent) -> Self {
        Self::default().then_does(id, intent)
    }

    /// An HTTP error instead of a reply, with the usual error type of its status.
    pub fn refusing(status: u16, message: &str) -> Self {
        let kind = match status {
            400 => "invalid_request_error",
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        };
        Self::error(status, kind, message)
    }

    /// An HTTP error instead of a reply. `kind` is the error type of the Messages API, such as
    /// `rate_limit_error`.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        Self {
            failure: Some(Failure { fault: Fault::new(status, kind, message), retry_after: None }),
            ..Self::default()
        }
    }

    /// The provider's refusal of a request because an allowance is used up, which is renewed at this
    /// time.
    pub fn limited(allowance: Allowance, until: SystemTime) -> Self {
        Self { limit: Some(UsageLimit { allowance, until }), ..Self::default() }
    }

    /// Adds a `retry-after` header, in seconds, to an HTTP error.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        if let Some(failure) = &mut self.failure {
            failure.retry_after = Some(seconds);
        }
        self
    }

    /// Sends nothing, not even a status, until the gate opens.
    pub fn held_by(mut self, gate: &Gate) -> Self {
        self.held = Some(gate.clone());
        self
    }

    /// Adds a text block.
    pub fn then_text(self, text: &str) -> Self {
        self.then(Block::Text(vec![Piece::Text(text.to_owned())]))
    }

    /// Adds a piece to the last block, which must be text.
    pub fn then_piece(mut self, text: &str) -> Self {
        self.last_text().push(Piece::Text(text.to_owned()));
        self
    }

    /// Waits at a gate inside the last block, which must be text.
    pub fn then_pause_in_text(mut self, gate: &Gate) -> Self {
        self.last_text().push(Piece::Gate(gate.clone()));
        self
    }

    /// Adds a call of a tool by the agent's own name.
    pub fn then_tool(self, id: &str, name: &str, input: Value) -> Self {
        self.then(Block::Tool { id: id.to_owned(), what: What::Named(name.to_owned(), input) })
    }

    /// Adds a call of the tool that the agent has for this intent.
    pub fn then_does(self, id: &str, intent: Intent) -> Self {
        self.then(Block::Tool { id: id.to_owned(), what: What::Meant(intent) })
    }

    /// Ends the stream with an error event after the last block. See [`Reply::error`] for `kind`.
    pub fn then_error(mut self, kind: &str, message: &str) -> Self {
        self.steps.push(Step::Break(Break::Error(Fault::new(500, kind, message))));
        self
    }

    /// Ends the stream with an error event inside the last block, which must be text.
    pub fn then_error_in_text(mut self, kind: &str, message: &str) -> Self {
        self.last_text().push(Piece::Break(Break::Error(Fault::new(500, kind, message))));
        self
    }

    /// Cuts the connection after the last block.
    pub fn then_cut(mut self) -> Self {
        self.steps.push(Step::Break(Break::Cut));
        self
    }

    /// Cuts the connection inside the last block, which must be text.
    pub fn then_cut_in_text(mut self) -> Self {
        self.last_text().push(Piece::Break(Break::Cut));
        self
    }

    fn then(mut self, block: Block) -> Self {
        self.steps.push(Step::Block(block));
        self
    }

    fn last_text(&mut self) -> &mut Vec<Piece> {
        match self.steps.last_mut() {
            Some(Step::Block(Block::Text(pieces))) => pieces,
            _ => panic!("the last step of the reply is not text"),
        }
    }

    pub(super) fn calls_tools(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Block(Block::Tool { .. })))
    }
}

impl Fault {
    fn new(status: u16, kind: &str, message: &str) -> Self {
        Self { status, kind: kind.to_owned(), message: message.to_owned() }
    }
}
