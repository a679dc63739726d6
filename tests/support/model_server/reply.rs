//! What the model says: a list of steps, written as server-sent events or as one JSON message.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::Response;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::PATIENCE;

/// Holds a reply back until the test opens it. Clones are the same gate; it lets one reply pass.
#[derive(Clone)]
pub struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self { reached: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    /// Waits until a reply stands before the gate: everything before it was handed to the connection.
    pub async fn reached(&self) {
        let seen = tokio::time::timeout(PATIENCE, self.reached.acquire()).await;
        seen.expect("no reply came to the gate").expect("gates are never closed for good").forget();
    }

    /// Lets the reply go on.
    pub fn open(&self) {
        self.open.add_permits(1);
    }

    async fn pass(&self) {
        self.reached.add_permits(1);
        self.open.acquire().await.expect("gates are never closed for good").forget();
    }
}

/// One answer of the model, built step by step.
#[derive(Clone, Default)]
pub struct Reply {
    held: Option<Gate>,
    steps: Vec<Step>,
    failure: Option<Failure>,
}

#[derive(Clone)]
enum Step {
    Block(Block),
    Break(Break),
}

/// Nothing follows it.
#[derive(Clone)]
enum Break {
    /// An error event in the stream.
    Error(Value),
    Cut,
}

/// A content block with the pieces it is streamed in.
#[derive(Clone)]
enum Block {
    Text(Vec<Piece>),
    Thinking(String),
    Tool { id: String, name: String, input: Value },
}

#[derive(Clone)]
enum Piece {
    Text(String),
    Gate(Gate),
    Break(Break),
}

#[derive(Clone)]
struct Failure {
    status: u16,
    retry_after: Option<u32>,
    body: Value,
}

impl Reply {
    /// An answer of one text block in one piece.
    pub fn text(text: &str) -> Self {
        Self::default().then_text(text)
    }

    /// An answer of one text block in several pieces; they reach the CLI as separate events.
    pub fn pieces<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Self {
        Self::default().then(Block::Text(pieces.into_iter().map(|piece| Piece::Text(piece.to_owned())).collect()))
    }

    /// An answer that thinks first.
    pub fn thinking(thought: &str) -> Self {
        Self::default().then(Block::Thinking(thought.to_owned()))
    }

    /// A call of a tool. The CLI runs it and asks again with the result under the same id.
    pub fn tool(id: &str, name: &str, input: Value) -> Self {
        Self::default().then_tool(id, name, input)
    }

    /// An HTTP error instead of an answer; `kind` is the API's word for it, such as `rate_limit_error`.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        Self { failure: Some(Failure { status, retry_after: None, body: error(kind, message) }), ..Self::default() }
    }

    /// Adds a `retry-after` header, in seconds, to an HTTP error.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        if let Some(failure) = &mut self.failure {
            failure.retry_after = Some(seconds);
        }
        self
    }

    /// Says nothing, not even a status, until the gate opens.
    pub fn held_by(mut self, gate: &Gate) -> Self {
        self.held = Some(gate.clone());
        self
    }

    /// Adds a text block.
    pub fn then_text(self, text: &str) -> Self {
        self.then(Block::Text(vec![Piece::Text(text.to_owned())]))
    }

    /// Adds a piece of text to the block that stands last, which must be text.
    pub fn then_piece(mut self, text: &str) -> Self {
        self.last_text().push(Piece::Text(text.to_owned()));
        self
    }

    /// Waits inside the text block that stands last, between two of its pieces.
    pub fn then_pause_in_text(mut self, gate: &Gate) -> Self {
        self.last_text().push(Piece::Gate(gate.clone()));
        self
    }

    /// Adds a call of a tool.
    pub fn then_tool(self, id: &str, name: &str, input: Value) -> Self {
        self.then(Block::Tool { id: id.to_owned(), name: name.to_owned(), input })
    }

    /// Ends the stream with an error event after the last block; `kind` as for [`Reply::error`].
    pub fn then_error(mut self, kind: &str, message: &str) -> Self {
        self.steps.push(Step::Break(Break::Error(error(kind, message))));
        self
    }

    /// Ends the stream with an error event inside the text block that stands last.
    pub fn then_error_in_text(mut self, kind: &str, message: &str) -> Self {
        self.last_text().push(Piece::Break(Break::Error(error(kind, message))));
        self
    }

    /// Cuts the connection after the last block.
    pub fn then_cut(mut self) -> Self {
        self.steps.push(Step::Break(Break::Cut));
        self
    }

    /// Cuts the connection inside the text block that stands last.
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
            _ => panic!("the last step of the reply is no text"),
        }
    }

    /// Waits at the first gate, then returns the answer, whose body may wait at further gates.
    pub async fn into_response(self, streaming: bool, model: &str) -> Response {
        if let Some(gate) = &self.held {
            gate.pass().await;
        }
        if let Some(failure) = self.failure {
            let mut response = Response::builder().status(StatusCode::from_u16(failure.status).expect("a status"));
            if let Some(seconds) = failure.retry_after {
                response = response.header(header::RETRY_AFTER, seconds);
            }
            return respond(response, "application/json", Body::from(failure.body.to_string()));
        }
        let frames = if streaming { self.events(model) } else { self.message(model) };
        let kind = if streaming { "text/event-stream" } else { "application/json" };
        respond(Response::builder(), kind, frames_to_body(frames))
    }

    fn stop_reason(&self) -> &'static str {
        let calls_tool = self.steps.iter().any(|step| matches!(step, Step::Block(Block::Tool { .. })));
        if calls_tool { "tool_use" } else { "end_turn" }
    }

    fn events(&self, model: &str) -> Vec<Frame> {
        let mut frames = vec![
            event(
                json!({"type": "message_start", "message": {"id": "msg_scripted", "type": "message", "role": "assistant", "model": model,
                "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage(1)}}),
            ),
            event(json!({"type": "ping"})),
        ];
        let mut index = 0;
        for step in &self.steps {
            match step {
                Step::Block(block) => {
                    block.events(index, &mut frames);
                    index += 1;
                }
                Step::Break(broken) => frames.push(broken.frame()),
            }
        }
        frames.push(event(json!({"type": "message_delta", "delta": {"stop_reason": self.stop_reason(), "stop_sequence": null},
            "usage": {"output_tokens": 7}})));
        frames.push(event(json!({"type": "message_stop"})));
        frames
    }

    fn message(&self, model: &str) -> Vec<Frame> {
        let mut content = Vec::new();
        let mut frames = Vec::new();
        for step in &self.steps {
            match step {
                Step::Block(block) => content.push(block.whole(&mut frames)),
                Step::Break(broken) => frames.push(broken.frame()),
            }
        }
        let message = json!({"id": "msg_scripted", "type": "message", "role": "assistant", "model": model, "content": content,
            "stop_reason": self.stop_reason(), "stop_sequence": null, "usage": usage(7)});
        frames.push(Frame::Bytes(message.to_string().into()));
        frames
    }
}

impl Block {
    fn events(&self, index: usize, frames: &mut Vec<Frame>) {
        let mut start = |block: Value| frames.push(event(json!({"type": "content_block_start", "index": index, "content_block": block})));
        let delta = |delta: Value| event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        match self {
            Self::Text(pieces) => {
                start(json!({"type": "text", "text": ""}));
                frames.extend(pieces.iter().map(|piece| match piece {
                    Piece::Text(text) => delta(json!({"type": "text_delta", "text": text})),
                    Piece::Gate(gate) => Frame::Gate(gate.clone()),
                    Piece::Break(broken) => broken.frame(),
                }));
            }
            Self::Thinking(thought) => {
                start(json!({"type": "thinking", "thinking": "", "signature": ""}));
                frames.push(delta(json!({"type": "thinking_delta", "thinking": thought})));
                frames.push(delta(json!({"type": "signature_delta", "signature": SIGNATURE})));
            }
            Self::Tool { id, name, input } => {
                start(json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
                frames.push(delta(json!({"type": "input_json_delta", "partial_json": input.to_string()})));
            }
        }
        frames.push(event(json!({"type": "content_block_stop", "index": index})));
    }

    fn whole(&self, frames: &mut Vec<Frame>) -> Value {
        match self {
            Self::Text(pieces) => {
                let mut whole = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => whole.push_str(text),
                        Piece::Gate(gate) => frames.push(Frame::Gate(gate.clone())),
                        Piece::Break(broken) => frames.push(broken.frame()),
                    }
                }
                json!({"type": "text", "text": whole})
            }
            Self::Thinking(thought) => json!({"type": "thinking", "thinking": thought, "signature": SIGNATURE}),
            Self::Tool { id, name, input } => json!({"type": "tool_use", "id": id, "name": name, "input": input}),
        }
    }
}

impl Break {
    fn frame(&self) -> Frame {
        match self {
            Self::Error(body) => Frame::End(event_bytes(body)),
            Self::Cut => Frame::Cut,
        }
    }
}

/// Any base64 text; the CLI keeps it and sends it back.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

fn usage(output: u32) -> Value {
    json!({"input_tokens": 11, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": output})
}

fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

enum Frame {
    Bytes(Bytes),
    Gate(Gate),
    /// The last bytes; the transfer then ends as it should.
    End(Bytes),
    Cut,
}

fn event(data: Value) -> Frame {
    Frame::Bytes(event_bytes(&data))
}

fn event_bytes(data: &Value) -> Bytes {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().expect("every event has a type")).into()
}

/// A body that fails makes the server drop the connection without ending the transfer.
fn frames_to_body(frames: Vec<Frame>) -> Body {
    Body::from_stream(stream::unfold(frames.into_iter(), async |mut frames| {
        loop {
            match frames.next()? {
                Frame::Bytes(bytes) => return Some((Ok(bytes), frames)),
                Frame::Gate(gate) => gate.pass().await,
                Frame::End(bytes) => return Some((Ok(bytes), Vec::new().into_iter())),
                Frame::Cut => {
                    // The server writes what it has whenever the body has nothing more to give just now.
                    tokio::task::yield_now().await;
                    return Some((Err(io::Error::other("cut by the script")), frames));
                }
            }
        }
    }))
}

fn respond(response: axum::http::response::Builder, kind: &str, body: Body) -> Response {
    response.header(header::CONTENT_TYPE, kind).body(body).expect("status and headers are valid")
}
