//! Writes replies to the connection. This part is common to the four APIs.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::Response;
use futures_util::stream;
use serde_json::Value;

use super::gate::Gate;
use super::intent::{Call, Input};
use super::reply::{Block, Break, Fault, Piece, Reply, Step, What};

/// The input tokens that every reply reports.
pub const TOKENS_IN: u32 = 11;
/// The output tokens that every reply reports.
pub const TOKENS_OUT: u32 = 7;

/// A block of a reply without its pauses.
pub(super) enum Part {
    Text(String),
    Thinking(String),
    Call(String, Call),
}

/// The events of an API. Every value becomes one server-sent event.
pub(super) trait Voice: Send {
    /// Returns the events before the first block.
    fn begin(&mut self) -> Vec<Value>;
    /// Returns the events that begin a text block.
    fn open_text(&mut self) -> Vec<Value> {
        vec![]
    }
    /// Returns the event of a piece of the open text block.
    fn text(&mut self, piece: &str) -> Value;
    /// Returns the events that end the open text block, whose whole text is given.
    fn close_text(&mut self, _whole: &str) -> Vec<Value> {
        vec![]
    }
    /// Returns the events of a whole thought.
    fn thinking(&mut self, thought: &str) -> Vec<Value>;
    /// Returns the events of a whole tool call.
    fn call(&mut self, id: &str, call: &Call) -> Vec<Value>;
    /// Returns the events after the last block.
    fn end(&mut self, calls_tools: bool) -> Vec<Value>;
    /// Returns the error event inside a stream.
    fn broken(&self, fault: &Fault) -> Value;
    /// Returns the text after the last event.
    fn trailer(&self) -> &'static str {
        ""
    }
    /// Returns the whole reply in one value, for a request without streaming.
    fn whole(&self, parts: &[Part], calls_tools: bool) -> Value;
    /// Returns the body of an HTTP error.
    fn failure(&self, fault: &Fault) -> Value;
}

enum Frame {
    Bytes(Bytes),
    Gate(Gate),
    /// The last bytes, after which the transfer ends normally.
    End(Bytes),
    Cut,
}

impl Reply {
    /// Waits at the first gate, then returns the reply. Its body may wait at more gates.
    pub(super) async fn into_response(
        self,
        streaming: bool,
        offered: &[String],
        voice: &mut dyn Voice,
    ) -> Response {
        if let Some(gate) = &self.held {
            gate.pass().await;
        }
        if let Some(failure) = &self.failure {
            let mut response = Response::builder()
                .status(StatusCode::from_u16(failure.fault.status).expect("a status"));
            if let Some(seconds) = failure.retry_after {
                response = response.header(header::RETRY_AFTER, seconds);
            }
            return respond(
                response,
                "application/json",
                Body::from(voice.failure(&failure.fault).to_string()),
            );
        }
        let frames =
            if streaming { self.events(offered, voice) } else { self.message(offered, voice) };
        let kind = if streaming { "text/event-stream" } else { "application/json" };
        respond(Response::builder(), kind, frames_to_body(frames))
    }

    fn events(&self, offered: &[String], voice: &mut dyn Voice) -> Vec<Frame> {
        let mut frames = Vec::new();
        let say = |frames: &mut Vec<Frame>, events: Vec<Value>| {
            frames.extend(events.iter().map(|event| Frame::Bytes(bytes(event))))
        };
        say(&mut frames, voice.begin());
        for step in &self.steps {
            match step {
                Step::Block(Block::Text(pieces)) => {
                    say(&mut frames, voice.open_text());
                    let mut whole = String::new();
                    for piece in pieces {
                        match piece {
                            Piece::Text(text) => {
                                whole.push_str(text);
                                say(&mut frames, vec![voice.text(text)]);
                            }
                            Piece::Gate(gate) => frames.push(Frame::Gate(gate.clone())),
                            Piece::Break(broken) => frames.push(broken.frame(voice)),
                        }
                    }
                    say(&mut frames, voice.close_text(&whole));
                }
                Step::Block(Block::Thinking(thought)) => say(&mut frames, voice.thinking(thought)),
                Step::Block(Block::Tool { id, what }) => {
                    say(&mut frames, voice.call(id, &what.call(offered)))
                }
                Step::Break(broken) => frames.push(broken.frame(voice)),
            }
        }
        say(&mut frames, voice.end(self.calls_tools()));
        frames.push(Frame::Bytes(voice.trailer().into()));
        frames
    }

    fn message(&self, offered: &[String], voice: &dyn Voice) -> Vec<Frame> {
        let mut parts = Vec::new();
        let mut frames = Vec::new();
        for step in &self.steps {
            match step {
                Step::Block(Block::Text(pieces)) => {
                    let mut whole = String::new();
                    for piece in pieces {
                        match piece {
                            Piece::Text(text) => whole.push_str(text),
                            Piece::Gate(gate) => frames.push(Frame::Gate(gate.clone())),
                            Piece::Break(broken) => frames.push(broken.frame(voice)),
                        }
                    }
                    parts.push(Part::Text(whole));
                }
                Step::Block(Block::Thinking(thought)) => {
                    parts.push(Part::Thinking(thought.clone()))
                }
                Step::Block(Block::Tool { id, what }) => {
                    parts.push(Part::Call(id.clone(), what.call(offered)))
                }
                Step::Break(broken) => frames.push(broken.frame(voice)),
            }
        }
        frames.push(Frame::Bytes(voice.whole(&parts, self.calls_tools()).to_string().into()));
        frames
    }
}

impl What {
    fn call(&self, offered: &[String]) -> Call {
        match self {
            Self::Named(name, input) => {
                Call { name: name.clone(), namespace: None, input: Input::Json(input.clone()) }
            }
            Self::Meant(intent) => intent.call(offered),
        }
    }
}

impl Break {
    fn frame(&self, voice: &dyn Voice) -> Frame {
        match self {
            Self::Error(fault) => Frame::End(bytes(&voice.broken(fault))),
            Self::Cut => Frame::Cut,
        }
    }
}

/// APIs whose events have a name repeat it before the data.
fn bytes(event: &Value) -> Bytes {
    match event["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {event}\n\n").into(),
        None => format!("data: {event}\n\n").into(),
    }
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
                    // The server sends its buffered bytes whenever the body is pending.
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
