//! The server's life: started with the first turn or question, healthy before anything is asked of it, listened to, lost.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::text::{one_line, stderr_summary};
use aetheel_backend_sdk::wit::{
    Action, BasicAuth, Diagnostic, Exit, Exited, Failure, FailureKind, Level, Line, OpenStream, Outcome, Pipe, Signal, Spawn, SpawnFailed,
    Stop, Value as Argument, Variable,
};

use super::link::Purpose;
use super::{Live, queries};
use crate::{failure, safety};

/// What its server says on stdout when it can be asked.
const READY: &str = "opencode server listening on ";
const PASSWORD: &str = "server-password";
/// Milliseconds the server may take to leave. It goes at once when told to (1.18.33).
const LEAVE_MS: u32 = 3000;

/// Where the server is in its life. Its process is known to the link.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Server {
    #[default]
    Down,
    /// It was started, or asked how it is.
    Starting,
    /// The first stream of events is asked for.
    Connecting { stream: u32 },
    Up {
        stream: u32,
        /// Something was heard since the stream was opened.
        heard: bool,
    },
    /// The stream broke and is asked for again.
    Again { stream: u32 },
    /// It was told to leave.
    Leaving,
}

impl Server {
    /// Whether events of a stream count.
    pub(crate) fn hears(&mut self, from: u32) -> bool {
        match self {
            Self::Up { stream, heard } if *stream == from => {
                *heard = true;
                true
            }
            _ => false,
        }
    }
}

impl Live {
    /// Whether the server can be asked; starts it where there is none.
    pub(super) fn ready(&mut self, out: &mut Vec<Action>) -> bool {
        if self.server == Server::Down {
            self.launch(out);
        }
        matches!(self.server, Server::Up { .. } | Server::Again { .. })
    }

    fn launch(&mut self, out: &mut Vec<Action>) {
        let proc = self.link.key();
        self.link.proc = Some(proc);
        self.server = Server::Starting;
        let text = |text: &str| Argument::Text(text.to_owned());
        let variable = |name: &str, value| Variable { name: name.to_owned(), value };
        out.push(Action::Spawn(Spawn {
            proc,
            program: "opencode".to_owned(),
            arguments: vec![text("serve"), text("--hostname"), text("127.0.0.1"), text("--port"), Argument::Port],
            environment: vec![
                variable("OPENCODE_SERVER_PASSWORD", Argument::Secret(PASSWORD.to_owned())),
                variable("OPENCODE_DISABLE_AUTOUPDATE", text("1")),
                variable("OPENCODE_ENABLE_QUESTION_TOOL", text("1")),
                variable("OPENCODE_PERMISSION", Argument::Text(safety::of_server())),
            ],
            stdin: Vec::new(),
            keep_open: false,
            listens: true,
            basic_auth: Some(BasicAuth { user: "opencode".to_owned(), secret: PASSWORD.to_owned() }),
            session: None,
            turn: None,
        }));
    }

    pub(super) fn line(&mut self, line: &Line, out: &mut Vec<Action>) {
        if self.listings.contains_key(&line.proc) {
            self.listed(line);
        } else if Some(line.proc) == self.link.proc && line.pipe == Pipe::Stdout {
            if line.text.starts_with(READY) && self.server == Server::Starting {
                self.link.http(("GET", "/global/health"), None, Vec::new(), Purpose::Greeting, out);
            } else if !line.text.trim().is_empty() {
                out.push(Action::Diagnostic(Diagnostic { level: Level::Debug, text: one_line(&line.text, 300) }));
            }
        }
    }

    pub(super) fn greeted(&mut self, body: &Value, out: &mut Vec<Action>) {
        if self.server != Server::Starting {
            return;
        }
        // `/health` would answer 200 with a page of the web application.
        if !body.is_true("healthy") {
            self.unfit(&failure::of(FailureKind::Protocol, "OpenCode's server does not say that it is healthy"), out);
            return;
        }
        let stream = self.listen(out);
        self.server = Server::Connecting { stream };
    }

    pub(super) fn stream_opened(&mut self, stream: u32, status: u32, out: &mut Vec<Action>) {
        let again = match self.server {
            Server::Connecting { stream: asked } if asked == stream => false,
            Server::Again { stream: asked } if asked == stream => true,
            _ => return,
        };
        if status != 200 {
            self.unfit(&failure::of_answer("the events of OpenCode's server", status, ""), out);
            return;
        }
        self.server = Server::Up { stream, heard: false };
        if again {
            self.catch_up(out);
            return;
        }
        for query in std::mem::take(&mut self.queries) {
            self.query(query, out);
        }
        for session in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.advance(session, out);
        }
    }

    pub(super) fn stream_closed(&mut self, stream: u32, message: Option<String>, out: &mut Vec<Action>) {
        match self.server {
            Server::Up { stream: open, heard: true } if open == stream => {
                let stream = self.listen(out);
                self.server = Server::Again { stream };
            }
            Server::Up { stream: open, .. } | Server::Connecting { stream: open } | Server::Again { stream: open } if open == stream => {
                let why = message.unwrap_or_else(|| "it was closed".to_owned());
                self.unfit(&failure::of(FailureKind::Protocol, format!("the events of OpenCode's server were lost: {why}")), out);
            }
            _ => {}
        }
    }

    pub(super) fn spawn_failed(&mut self, failed: &SpawnFailed, out: &mut Vec<Action>) {
        let kind = if failed.not_found { FailureKind::NotFound } else { FailureKind::Other };
        let failure = failure::of(kind, failed.message.clone());
        if let Some(listing) = self.listings.remove(&failed.proc) {
            out.push(queries::failed(listing.query, failure));
        } else if Some(failed.proc) == self.link.proc {
            self.gone(&Outcome::Failed(failure), out);
        }
    }

    pub(super) fn exited(&mut self, exited: &Exited, out: &mut Vec<Action>) {
        if let Some(listing) = self.listings.remove(&exited.proc) {
            out.push(listing.answer(exited));
        } else if Some(exited.proc) == self.link.proc {
            let how = match exited.how {
                Exit::Code(code) => format!("OpenCode's server ended with exit code {code}"),
                Exit::Signal(signal) => format!("OpenCode's server was ended by signal {signal}"),
                Exit::Unknown => "OpenCode's server ended".to_owned(),
            };
            let said = stderr_summary(&exited.stderr_tail, 5);
            let message = if said.is_empty() { how } else { format!("{how}: {said}") };
            let leaving = self.server == Server::Leaving;
            self.gone(&Outcome::Lost(failure::of(FailureKind::Crashed, message)), out);
            // A turn that came while the last server was leaving.
            if leaving && (self.sessions.values().any(|session| session.turn.is_some()) || !self.queries.is_empty()) {
                self.launch(out);
            }
        }
    }

    /// The server is of no use: everything that waits for it fails, and it is stopped.
    pub(super) fn unfit(&mut self, failure: &Failure, out: &mut Vec<Action>) {
        self.abandon(&Outcome::Lost(failure.clone()), out);
        self.leave(out);
    }

    pub(super) fn shutdown(&mut self, out: &mut Vec<Action>) {
        for proc in self.listings.keys() {
            out.push(stop(*proc));
        }
        if !matches!(self.server, Server::Down | Server::Leaving) {
            self.leave(out);
        }
    }

    fn leave(&mut self, out: &mut Vec<Action>) {
        if let Some(proc) = self.link.proc {
            self.server = Server::Leaving;
            out.push(stop(proc));
        }
    }

    fn listen(&mut self, out: &mut Vec<Action>) -> u32 {
        let stream = self.link.key();
        if let Some(proc) = self.link.proc {
            out.push(Action::OpenStream(OpenStream { stream, proc, path: "/global/event".to_owned() }));
        }
        stream
    }

    /// The process is not there any more.
    fn gone(&mut self, outcome: &Outcome, out: &mut Vec<Action>) {
        if self.server != Server::Leaving {
            self.abandon(outcome, out);
        }
        self.link.proc = None;
        self.server = Server::Down;
    }

    fn abandon(&mut self, outcome: &Outcome, out: &mut Vec<Action>) {
        let (Outcome::Lost(failure) | Outcome::Failed(failure)) = outcome else { return };
        for purpose in self.link.forget() {
            match purpose {
                Purpose::Query { query, .. } => out.push(queries::failed(query, failure.clone())),
                Purpose::Steer { message, .. } => out.push(super::steered(message, aetheel_backend_sdk::wit::SteerOutcome::Dropped)),
                _ => {}
            }
        }
        for query in std::mem::take(&mut self.queries) {
            out.push(queries::failed(query.query, failure.clone()));
        }
        for session in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.end_as(session, outcome.clone(), out);
            if let Some(known) = self.sessions.get_mut(&session) {
                known.orphaned();
            }
        }
    }
}

fn stop(proc: u32) -> Action {
    Action::Stop(Stop { proc, signal: Signal::Terminate, grace_ms: LEAVE_MS })
}
