//! The requests to the host, and their purposes: keys, requests to the server, timers.

use std::collections::BTreeMap;

use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{Action, Chunk, HttpRequest, SetTimer, TurnRef};

/// Milliseconds the server may take to answer. The first request for a directory makes it start
/// there.
const PATIENCE: u32 = 60_000;
/// Milliseconds it may take to shorten a conversation, for which it asks the model.
pub(crate) const LONG_PATIENCE: u32 = 600_000;

/// The purpose of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Purpose {
    /// Whether the server is well, before anything else is asked of it.
    Greeting,
    /// To make a session, or a copy of one.
    Open {
        session: u32,
        copy: bool,
    },
    /// To set the permissions of a session, which also tells whether it exists.
    Permit {
        session: u32,
    },
    Prompt(TurnRef),
    Steer {
        turn: TurnRef,
        message: u32,
    },
    Abort(TurnRef),
    /// The fate of a turn while no events came: whether it runs, then what was said.
    Status(TurnRef),
    Messages {
        turn: TurnRef,
        idle: bool,
    },
    /// The questions of a turn that were asked meanwhile, by the event that tells one.
    Asks {
        turn: TurnRef,
        kind: &'static str,
    },
    /// An answer to a question of the agent.
    Reply,
    Query {
        query: u32,
        asked: Asked,
    },
}

/// A question of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Health,
    Sessions,
    /// To do something to a session.
    Deed,
    /// To shorten a session's history.
    Compact {
        session: u32,
    },
}

/// Why a timer was set, all of them for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// An interrupted turn ends now, whatever the agent says.
    Grace,
    /// No second word that the session is idle came.
    Settle,
    /// An error came, and no word that the session is idle.
    Error,
    /// The session is idle, but a message was not answered.
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

/// Keys, requests and timers that are open.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// The last key used; one count for all kinds of keys. Timers among them: the SDK sets none for
    /// an agent that is stopped at once.
    pub(crate) last: u32,
    requests: BTreeMap<u32, Purpose>,
    timers: BTreeMap<u32, (TurnRef, Wait)>,
}

impl Link {
    /// Returns a key that was never used.
    pub(crate) fn key(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// Sends a request. `directory` decides which of the server's instances takes it.
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

    /// Takes a request that was answered.
    pub(crate) fn answered(&mut self, request: u32) -> Option<Purpose> {
        self.requests.remove(&request)
    }

    /// Forgets all requests, as when the server has gone, and returns what they were for.
    pub(crate) fn forget(&mut self) -> Vec<Purpose> {
        std::mem::take(&mut self.requests).into_values().collect()
    }

    /// Whether nothing is asked or waited for.
    pub(crate) fn is_quiet(&self) -> bool {
        self.requests.is_empty() && self.timers.is_empty()
    }

    /// Sets a timer, unless there is one for that.
    pub(crate) fn wait(&mut self, turn: TurnRef, wait: Wait, out: &mut Vec<Action>) {
        if self.timers.values().any(|(other, why)| *other == turn && *why == wait) {
            return;
        }
        let timer = self.key();
        self.timers.insert(timer, (turn, wait));
        out.push(Action::SetTimer(SetTimer { timer, after_ms: wait.after_ms() }));
    }

    /// Stops waiting; none: for anything.
    pub(crate) fn cancel(&mut self, turn: TurnRef, wait: Option<Wait>, out: &mut Vec<Action>) {
        self.timers.retain(|timer, (other, why)| {
            let gone = *other == turn && wait.is_none_or(|wait| wait == *why);
            if gone {
                out.push(Action::CancelTimer(*timer));
            }
            !gone
        });
    }

    /// Takes a timer that ran out.
    pub(crate) fn elapsed(&mut self, timer: u32) -> Option<(TurnRef, Wait)> {
        self.timers.remove(&timer)
    }
}

/// A body of text alone.
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
    fn any_directory_is_one_value_of_the_query() {
        assert_eq!(
            percent("/srv/my proj/ü&a=b?#%"),
            "%2Fsrv%2Fmy%20proj%2F%C3%BC%26a%3Db%3F%23%25"
        );
    }
}
