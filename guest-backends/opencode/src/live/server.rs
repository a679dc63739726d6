//! The start of the server and its event stream: the health check precedes all other requests.

use aetheel_backend_sdk::failure;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::one_shot;
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{
    Action, BasicAuth, Diagnostic, FailureKind, Level, Line, OpenStream, Pipe, Spawn,
    Value as Argument, Variable,
};

use super::OpenCode;
use super::link::Purpose;
use crate::{failure, safety};

/// The beginning of the line that the server prints when it accepts requests.
const READY: &str = "opencode server listening on ";
const PASSWORD: &str = "server-password";

/// The server's event stream. It is opened again after it breaks, if it delivered any events.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) key: u32,
    pub(crate) open: bool,
    pub(crate) delivered: bool,
}

/// Returns the process for `opencode serve`.
pub(crate) fn plan() -> Spawn {
    let text = |text: &str| Argument::Text(text.to_owned());
    let variable = |name: &str, value| Variable { name: name.to_owned(), value };
    Spawn {
        environment: vec![
            variable("OPENCODE_SERVER_PASSWORD", Argument::Secret(PASSWORD.to_owned())),
            variable("OPENCODE_DISABLE_AUTOUPDATE", text("1")),
            variable("OPENCODE_ENABLE_QUESTION_TOOL", text("1")),
            variable("OPENCODE_PERMISSION", Argument::Text(safety::of_server())),
        ],
        listens: true,
        basic_auth: Some(BasicAuth { user: "opencode".to_owned(), secret: PASSWORD.to_owned() }),
        ..one_shot::spawn(
            "opencode",
            [text("serve"), text("--hostname"), text("127.0.0.1"), text("--port"), Argument::Port],
            Vec::new(),
        )
    }
}

impl OpenCode {
    pub(super) fn said(&mut self, line: &Line, context: &mut LinkContext) {
        if line.pipe != Pipe::Stdout {
            return;
        }
        if line.text.starts_with(READY) && self.stream.is_none() && !context.is_leaving() {
            self.link.http(("GET", "/global/health"), None, Vec::new(), Purpose::Greeting, context);
        } else if !line.text.trim().is_empty() {
            context.action(Action::Diagnostic(Diagnostic {
                level: Level::Debug,
                text: one_line(&line.text, 300),
            }));
        }
    }

    pub(super) fn greeted(&mut self, body: &Value, context: &mut LinkContext) {
        if self.stream.is_some() {
            return;
        }
        // `/health` is not the health check: it returns 200 with a page of the web application.
        if body.is_true("healthy") {
            self.listen(context);
        } else {
            context.give_up(failure(FailureKind::Protocol, "OpenCode's server is not healthy"));
        }
    }

    fn listen(&mut self, context: &mut LinkContext) {
        let key = self.link.key();
        self.stream = Some(Stream { key, open: false, delivered: false });
        context.action(Action::OpenStream(OpenStream {
            stream: key,
            proc: context.proc(),
            path: "/global/event".to_owned(),
        }));
    }

    pub(super) fn stream_opened(&mut self, key: u32, status: u32, context: &mut LinkContext) {
        let Some(stream) = self.stream.as_mut().filter(|stream| stream.key == key && !stream.open)
        else {
            return;
        };
        if status != 200 {
            return context.give_up(failure::of_answer(
                "the events of OpenCode's server",
                status,
                "",
            ));
        }
        stream.open = true;
        if context.is_ready() {
            self.catch_up(context);
        } else {
            context.ready();
        }
    }

    /// Returns whether an event of a stream must be handled, and records that the stream delivered
    /// it.
    pub(super) fn accepts_event(&mut self, key: u32) -> bool {
        let stream = self.stream.as_mut().filter(|stream| stream.key == key && stream.open);
        stream.map(|stream| stream.delivered = true).is_some()
    }

    pub(super) fn stream_closed(
        &mut self,
        key: u32,
        message: Option<String>,
        context: &mut LinkContext,
    ) {
        let Some(stream) = self.stream.take_if(|stream| stream.key == key) else { return };
        if stream.delivered && !context.is_leaving() {
            return self.listen(context);
        }
        let why = message.unwrap_or_else(|| "the stream was closed".to_owned());
        // The stream broke without delivering events, so the server is unreachable.
        context.give_up(failure(
            FailureKind::Crashed,
            format!("the events of OpenCode's server were lost: {why}"),
        ));
    }
}
