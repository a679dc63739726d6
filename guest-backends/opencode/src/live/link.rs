//! Requests to the server, their purposes, and timers.

use std::collections::BTreeMap;

use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{Action, Chunk, HttpRequest, SetTimer, TurnRef};

/// Timeout of a request in milliseconds. The first request for a directory starts an instance for
/// it.
const PATIENCE: u32 = 60_000;
/// Timeout in milliseconds for a compaction, which calls the model.
pub(crate) const LONG_PATIENCE: u32 = 600_000;

/// The purpose of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Purpose {
    /// Checks the server's health before any other request.
    Greeting,
    /// Creates or copies a session.
    Open {
        session: u32,
        copy: bool,
    },
    /// Sets the permissions of a session, which also checks whether it exists.
    Permit {
        session: u32,
    },
    /// Adds the host's MCP server for a session.
    Serve {
        session: u32,
    },
    /// Removes the host's MCP server of a closed session.
    Unserve,
    Prompt(TurnRef),
    Steer {
        turn: TurnRef,
        message: u32,
    },
    Abort(TurnRef),
    /// Asks for the state of a turn after events were missed, and then for its messages.
    Status(TurnRef),
    Messages {
        turn: TurnRef,
        idle: bool,
    },
    /// Asks for the open questions of a turn. `kind` is the event of a single question.
    Asks {
        turn: TurnRef,
        kind: &'static str,
    },
    /// Answers a question of the agent.
    Reply,
    Query {
        query: u32,
        asked: Asked,
    },
}

/// A query of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Health,
    Sessions,
    /// Compacts a session.
    Compact {
        session: u32,
    },
}

/// The purpose of a turn's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Ends an interrupted turn regardless of the agent.
    Grace,
    /// Ends a turn although the session's second idle event did not arrive.
    Settle,
    /// Ends a turn after an error without an idle event.
    Error,
    /// Ends a turn although a message was not answered.
    Unanswered,
}

impl Wait {
    fn after_ms(self) -> u32 {
        match self {
            Self::Grace => 4000,
            Self::Settle => 500,
            Self::Error | Self::Unanswered => 1500,
        }
    }
}

/// Open requests and timers.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// The last used key, which is shared by all kinds of keys. It includes timers, because the SDK
    /// sets no timers for an agent that is stopped at once.
    pub(crate) last: u32,
    requests: BTreeMap<u32, Purpose>,
    timers: BTreeMap<u32, (TurnRef, Wait)>,
}

impl Link {
    /// Returns an unused key.
    pub(crate) fn key(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// Sends a request. `directory` selects the server's instance.
    pub(crate) fn http(
        &mut self,
        request: (&str, &str),
        directory: Option<&str>,
        body: Vec<Chunk>,
        purpose: Purpose,
        context: &mut LinkContext,
    ) {
        let Some(proc) = context.process() else { return };
        let (method, path) = request;
        let path = match directory {
            Some(directory) => format!("{path}?directory={}", percent(directory)),
            None => path.to_owned(),
        };
        let timeout_ms = if matches!(purpose, Purpose::Query { asked: Asked::Compact { .. }, .. }) {
            LONG_PATIENCE
        } else {
            PATIENCE
        };
        let request = self.key();
        self.requests.insert(request, purpose);
        let body = (!body.is_empty()).then_some(body);
        context.action(Action::Http(HttpRequest {
            request,
            proc,
            method: method.to_owned(),
            path,
            body,
            timeout_ms,
        }));
    }

    /// Removes an answered request, and returns its purpose.
    pub(crate) fn answered(&mut self, request: u32) -> Option<Purpose> {
        self.requests.remove(&request)
    }

    /// Removes all requests after the server exited, and returns their purposes.
    pub(crate) fn forget(&mut self) -> Vec<Purpose> {
        std::mem::take(&mut self.requests).into_values().collect()
    }

    /// Returns whether there are no open requests or timers.
    pub(crate) fn is_quiet(&self) -> bool {
        self.requests.is_empty() && self.timers.is_empty()
    }

    /// Sets a timer, unless the turn has one for the same purpose.
    pub(crate) fn wait(&mut self, turn: TurnRef, wait: Wait, out: &mut Vec<Action>) {
        if self.timers.values().any(|(other, why)| *other == turn && *why == wait) {
            return;
        }
        let timer = self.key();
        self.timers.insert(timer, (turn, wait));
        out.push(Action::SetTimer(SetTimer { timer, after_ms: wait.after_ms() }));
    }

    /// Cancels the timers of a turn: those for one purpose, or all of them.
    pub(crate) fn cancel(&mut self, turn: TurnRef, wait: Option<Wait>, out: &mut Vec<Action>) {
        self.timers.retain(|timer, (other, why)| {
            let gone = *other == turn && wait.is_none_or(|wait| wait == *why);
            if gone {
                out.push(Action::CancelTimer(*timer));
            }
            !gone
        });
    }

    /// Removes an expired timer, and returns its turn and purpose.
    pub(crate) fn elapsed(&mut self, timer: u32) -> Option<(TurnRef, Wait)> {
        self.timers.remove(&timer)
    }
}

/// Returns a body that consists of text.
pub(crate) fn text(body: impl ToString) -> Vec<Chunk> {
    vec![Chunk::Text(body.to_string())]
}

fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_percent_encoded() {
        assert_eq!(
            percent("/srv/my proj/ü&a=b?#%"),
            "%2Fsrv%2Fmy%20proj%2F%C3%BC%26a%3Db%3F%23%25"
        );
    }
}
