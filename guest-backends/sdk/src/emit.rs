use crate::Offer;
use crate::json::{self, Value};
use crate::text::{SAMPLE_BYTES, head};
use crate::wit::{
    Action, AskKind, Diagnostic, Event, EventKind, Failure, FailureKind, Level, Line, PlanEntry,
    SessionReady, Text, ToolEnd, ToolOutput, ToolStart, TurnRef, Unrecognised, Usage,
};

/// Writes the agent-events of one turn in few words.
#[derive(Debug)]
pub struct Emit<'a> {
    turn: TurnRef,
    out: &'a mut Vec<Action>,
}

impl<'a> Emit<'a> {
    /// Writes events of `turn` to the end of `out`.
    pub fn new(turn: TurnRef, out: &'a mut Vec<Action>) -> Self {
        Self { turn, out }
    }

    /// Asks the host for something that is not an event.
    pub fn action(&mut self, action: Action) {
        self.out.push(action);
    }

    /// Adds an event of the turn to the actions.
    pub fn event(&mut self, kind: EventKind) {
        self.out.push(Action::Event(Event {
            session: self.turn.session,
            turn: self.turn.turn,
            kind,
        }));
    }

    /// Adds to a part of the answer.
    pub fn text(&mut self, part: u32, text: impl Into<String>) {
        self.event(EventKind::Text(Text { part, text: text.into(), replace: false, parent: None }));
    }

    /// Tells a part of the answer whole; an empty one is withdrawn.
    pub fn whole_text(&mut self, part: u32, text: impl Into<String>) {
        self.event(EventKind::Text(Text { part, text: text.into(), replace: true, parent: None }));
    }

    /// Adds to what a sub-agent says; `parent` is the tool use that it works for. No part of the
    /// answer.
    pub fn text_of(&mut self, parent: impl Into<String>, part: u32, text: impl Into<String>) {
        self.event(EventKind::Text(Text {
            part,
            text: text.into(),
            replace: false,
            parent: Some(parent.into()),
        }));
    }

    /// Adds to a part of the thinking.
    pub fn thinking(&mut self, part: u32, text: impl Into<String>) {
        self.event(EventKind::Thinking(Text {
            part,
            text: text.into(),
            replace: false,
            parent: None,
        }));
    }

    /// Tells a part of the thinking whole; an empty one is withdrawn.
    pub fn whole_thinking(&mut self, part: u32, text: impl Into<String>) {
        self.event(EventKind::Thinking(Text {
            part,
            text: text.into(),
            replace: true,
            parent: None,
        }));
    }

    /// Reports the use of a tool; a second time with the same id tells more about it.
    pub fn tool_start(&mut self, start: ToolStart) {
        self.event(EventKind::ToolStart(start));
    }

    /// Reports more output of a running tool.
    pub fn tool_output(&mut self, id: impl Into<String>, text: impl Into<String>) {
        self.event(EventKind::ToolOutput(ToolOutput { id: id.into(), text: text.into() }));
    }

    /// Reports the end of a tool.
    pub fn tool_end(&mut self, end: ToolEnd) {
        self.event(EventKind::ToolEnd(end));
    }

    /// Reports the agent's whole plan.
    pub fn plan(&mut self, entries: Vec<PlanEntry>) {
        self.event(EventKind::Plan(entries));
    }

    /// Reports what the turn used so far.
    pub fn usage(&mut self, usage: Usage) {
        self.event(EventKind::Usage(usage));
    }

    /// Reports that the agent tries again by itself, in `after_ms` milliseconds where known.
    pub fn retry(&mut self, kind: FailureKind, message: impl Into<String>, after_ms: Option<u32>) {
        self.event(EventKind::Retry(Failure {
            kind,
            message: message.into(),
            retry_after_ms: after_ms,
        }));
    }

    /// Tells people something, in one line.
    pub fn notice(&mut self, text: impl Into<String>) {
        self.event(EventKind::Notice(text.into()));
    }

    /// Reports output this parser does not know: `what` in words without values, `path` where it
    /// was, and the output.
    pub fn unrecognised(&mut self, what: impl Into<String>, path: Option<String>, output: &str) {
        self.event(EventKind::Unrecognised(Unrecognised {
            what: what.into(),
            path,
            sample: head(output, SAMPLE_BYTES).to_owned(),
        }));
    }

    /// Returns a line of output that is a JSON object. Others are told of as unrecognised, blank
    /// ones passed over.
    pub fn object<'l>(&mut self, line: &'l Line) -> Option<Value<'l>> {
        json::object(line, |what, text| self.unrecognised(what, None, text))
    }

    /// Asks people; the decision comes as an answer with the same key.
    pub fn ask(
        &mut self,
        ask: u32,
        title: impl Into<String>,
        kind: AskKind,
        offer: impl Into<Offer>,
    ) {
        self.out.push(Action::Ask(offer.into().ask(ask, self.turn, title.into(), kind)));
    }

    /// Reports the agent's session. An id that the contract does not allow is no session that could
    /// be taken up again; it is told of as unrecognised.
    pub fn session_ready(&mut self, native_id: impl Into<String>, model: Option<String>) {
        let native_id = native_id.into();
        let fits = |letter: u8| {
            letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'.' | b':' | b'-')
        };
        if !(1..=128).contains(&native_id.len())
            || native_id.starts_with('-')
            || !native_id.bytes().all(fits)
        {
            return self.unrecognised("session id that cannot be one", None, &native_id);
        }
        let ready = SessionReady { session: self.turn.session, native_id, model, title: None };
        self.out.push(Action::SessionReady(ready));
    }

    /// Writes a line for the operator's log.
    pub fn diagnostic(&mut self, level: Level, text: impl Into<String>) {
        self.out.push(Action::Diagnostic(Diagnostic { level, text: text.into() }));
    }
}
