use std::fmt::Display;

use crate::Offer;
use crate::json::{self, Value};
use crate::text::{SAMPLE_BYTES, head};
use crate::wit::{
    Action, AskKind, Compaction, Diagnostic, Difference, Event, EventKind, Failure, FailureKind,
    Level, Line, Notice, PlanEntry, SessionReady, Text, ToolEnd, ToolOutput, ToolRequest,
    ToolStart, TurnRef, Unrecognised, Usage,
};

/// Writes the events of one turn.
#[derive(Debug)]
pub struct Emit<'a> {
    turn: TurnRef,
    out: &'a mut Vec<Action>,
}

impl<'a> Emit<'a> {
    /// Creates a writer that appends events of `turn` to `out`.
    pub fn new(turn: TurnRef, out: &'a mut Vec<Action>) -> Self {
        Self { turn, out }
    }

    /// Appends an action that is not an event.
    pub fn action(&mut self, action: Action) {
        self.out.push(action);
    }

    /// Appends an event of the turn.
    pub fn event(&mut self, kind: EventKind) {
        self.out.push(Action::Event(Event {
            session: self.turn.session,
            turn: self.turn.turn,
            kind,
        }));
    }

    /// Appends text to a part of the answer.
    pub fn text(&mut self, part: u32, text: impl Into<String>) {
        self.event(EventKind::Text(Text { part, text: text.into(), replace: false, parent: None }));
    }

    /// Replaces a part of the answer; an empty text withdraws it.
    pub fn whole_text(&mut self, part: u32, text: impl Into<String>) {
        self.event(EventKind::Text(Text { part, text: text.into(), replace: true, parent: None }));
    }

    /// Appends to the text of a sub-agent, which is not part of the answer. `parent` is the id of
    /// the tool use that started the sub-agent.
    pub fn text_of(&mut self, parent: impl Into<String>, part: u32, text: impl Into<String>) {
        self.event(EventKind::Text(Text {
            part,
            text: text.into(),
            replace: false,
            parent: Some(parent.into()),
        }));
    }

    /// Appends text to a part of the thinking.
    pub fn thinking(&mut self, part: u32, text: impl Into<String>) {
        self.event(EventKind::Thinking(Text {
            part,
            text: text.into(),
            replace: false,
            parent: None,
        }));
    }

    /// Replaces a part of the thinking; an empty text withdraws it.
    pub fn whole_thinking(&mut self, part: u32, text: impl Into<String>) {
        self.event(EventKind::Thinking(Text {
            part,
            text: text.into(),
            replace: true,
            parent: None,
        }));
    }

    /// Reports the use of a tool. A second report with the same id adds details.
    pub fn tool_start(&mut self, start: ToolStart) {
        self.event(EventKind::ToolStart(start));
    }

    /// Reports more output of a running tool.
    pub fn tool_output(&mut self, id: impl Into<String>, text: impl Into<String>) {
        let (id, text) = (id.into(), text.into());
        self.event(EventKind::ToolOutput(ToolOutput { id, text, replace: false }));
    }

    /// Reports the whole output of a running tool so far, which replaces the earlier output.
    pub fn whole_tool_output(&mut self, id: impl Into<String>, text: impl Into<String>) {
        let (id, text) = (id.into(), text.into());
        self.event(EventKind::ToolOutput(ToolOutput { id, text, replace: true }));
    }

    /// Reports the end of a tool.
    pub fn tool_end(&mut self, end: ToolEnd) {
        self.event(EventKind::ToolEnd(end));
    }

    /// Reports the agent's whole plan, which replaces the one before.
    pub fn plan(&mut self, entries: Vec<PlanEntry>) {
        self.event(EventKind::Plan(entries));
    }

    /// Reports the tokens and cost of the turn so far.
    pub fn usage(&mut self, usage: Usage) {
        self.event(EventKind::Usage(usage));
    }

    /// Reports that the agent retries by itself, after `after_ms` milliseconds if known.
    pub fn retry(&mut self, kind: FailureKind, message: impl Into<String>, after_ms: Option<u32>) {
        self.event(EventKind::Retry(Failure {
            kind,
            message: message.into(),
            retry_after_ms: after_ms,
        }));
    }

    /// Shows users a line in addition to the answer.
    pub fn notice(&mut self, text: impl Into<String>) {
        self.notice_with(Level::Info, None, text);
    }

    /// Shows users a line of this importance. A later line of the turn with the same key replaces
    /// it.
    pub fn notice_with(&mut self, level: Level, key: Option<&str>, text: impl Into<String>) {
        let key = key.map(str::to_owned);
        self.event(EventKind::Notice(Notice { level, key, text: text.into() }));
    }

    /// Reports that the agent shortened the history of the session (`done`), or began to. The
    /// tokens are those of the context window before and after, if they are known.
    pub fn compaction(&mut self, done: bool, before: Option<u32>, after: Option<u32>) {
        let compaction = Compaction { done, tokens_before: before, tokens_after: after };
        self.event(EventKind::Compaction(compaction));
    }

    /// Reports output that this parser does not know: `what` names it without values, `path` is its
    /// location.
    pub fn unrecognised(&mut self, what: impl Into<String>, path: Option<String>, output: &str) {
        self.differing(Difference::Unknown, what, path, output);
    }

    /// Reports output that this parser cannot read, as [`Self::unrecognised`] does: a field that it
    /// needs is missing or has another type.
    pub fn differing(
        &mut self,
        difference: Difference,
        what: impl Into<String>,
        path: Option<String>,
        output: &str,
    ) {
        self.event(EventKind::Unrecognised(Unrecognised {
            difference,
            what: what.into(),
            path,
            sample: head(output, SAMPLE_BYTES).to_owned(),
        }));
    }

    /// Returns the text of a field that the agent always sends. If the field is missing or has
    /// another type, reports that and returns an empty text. `path` leads to the field from the
    /// root of `output`; its last key is looked up in `object`.
    pub fn required_text<'v>(
        &mut self,
        object: &'v Value,
        path: &str,
        output: impl Display,
    ) -> &'v str {
        object.text(last_key(path)).unwrap_or_else(|| {
            self.missing("text", object, path, output);
            ""
        })
    }

    /// Returns an id that the agent always sends, as [`Self::required_text`] does. Also reports an
    /// empty id.
    pub fn required_id<'v>(
        &mut self,
        object: &'v Value,
        path: &str,
        output: impl Display,
    ) -> &'v str {
        object.text(last_key(path)).filter(|id| !id.is_empty()).unwrap_or_else(|| {
            self.missing("id", object, path, output);
            ""
        })
    }

    /// Returns the elements of a list that the agent always sends; reports a missing list.
    pub fn required_list<'v, 'l>(
        &mut self,
        object: &'v Value<'l>,
        path: &str,
        output: impl Display,
    ) -> &'v [Value<'l>] {
        object.get(last_key(path)).and_then(Value::as_array).unwrap_or_else(|| {
            self.missing("list", object, path, output);
            &[]
        })
    }

    /// Returns an object that the agent always sends; reports a missing object.
    pub fn required_object<'v, 'l>(
        &mut self,
        object: &'v Value<'l>,
        path: &str,
        output: impl Display,
    ) -> &'v Value<'l> {
        object.get(last_key(path)).filter(|value| value.as_object().is_some()).unwrap_or_else(
            || {
                self.missing("object", object, path, output);
                &Value::Null
            },
        )
    }

    /// Reports the fields that a line lacks, or that have another type. `texts` and `objects` name
    /// the fields that such a line always has. A field of an inner object has a path like
    /// `input.command`; it is not looked for if the inner object is missing.
    pub fn require(
        &mut self,
        object: &Value,
        texts: &[&str],
        objects: &[&str],
        output: impl Display,
    ) {
        for path in texts {
            if let Some(parent) = parent(object, path) {
                self.required_text(parent, path, &output);
            }
        }
        for path in objects {
            if let Some(parent) = parent(object, path) {
                self.required_object(parent, path, &output);
            }
        }
    }

    fn missing(&mut self, kind: &str, object: &Value, path: &str, output: impl Display) {
        let what = format!("no {kind} in `{path}`");
        // Some agents write null for a field without a value.
        let difference = match object.get(last_key(path)) {
            None | Some(Value::Null) => Difference::Missing,
            Some(Value::String(text)) if text.is_empty() => Difference::Missing,
            Some(_) => Difference::Changed,
        };
        self.differing(difference, what, Some(path.to_owned()), &output.to_string());
    }

    /// Parses a line of output that is a JSON object. Reports other lines as unrecognised and skips
    /// blank ones.
    pub fn object<'l>(&mut self, line: &'l Line) -> Option<Value<'l>> {
        json::object(line, |what, text| self.unrecognised(what, None, text))
    }

    /// Asks the user a question. The decision arrives as an answer with the same key.
    pub fn ask(
        &mut self,
        ask: u32,
        title: impl Into<String>,
        kind: AskKind,
        offer: impl Into<Offer>,
    ) {
        self.out.push(Action::Ask(offer.into().ask(ask, self.turn, title.into(), kind)));
    }

    /// Reports the agent's session. An id that the contract does not allow cannot be resumed and is
    /// reported as unrecognised.
    pub fn session_ready(&mut self, native_id: impl Into<String>, model: Option<String>) {
        self.session_with_tools(native_id, model, Vec::new());
    }

    /// Reports the agent's session, as [`Self::session_ready`] does, with the agent's own names of
    /// the tools that it can use.
    pub fn session_with_tools(
        &mut self,
        native_id: impl Into<String>,
        model: Option<String>,
        tools: Vec<String>,
    ) {
        let native_id = native_id.into();
        let fits = |letter: u8| {
            letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'.' | b':' | b'-')
        };
        if !(1..=128).contains(&native_id.len())
            || native_id.starts_with('-')
            || !native_id.bytes().all(fits)
        {
            return self.unrecognised("invalid session id", None, &native_id);
        }
        self.out.push(Action::SessionReady(SessionReady {
            session: self.turn.session,
            native_id,
            model,
            title: None,
            tools,
        }));
    }

    /// Reports that the agent calls a tool of the host (`start-turn.tools`). `call` is a new key,
    /// with which the host replies ([`Input::ToolResult`](crate::wit::Input::ToolResult)). `input`
    /// is a JSON object.
    pub fn tool_request(&mut self, call: u32, name: impl Into<String>, input: impl Into<String>) {
        let TurnRef { session, turn } = self.turn;
        let (name, input) = (name.into(), input.into());
        self.out.push(Action::ToolRequest(ToolRequest { call, session, turn, name, input }));
    }

    /// Writes a line to the operator's log.
    pub fn diagnostic(&mut self, level: Level, text: impl Into<String>) {
        self.out.push(Action::Diagnostic(Diagnostic { level, text: text.into() }));
    }
}

/// Returns the object that has the last key of a path. `None` if it is not an object.
fn parent<'v, 'l>(object: &'v Value<'l>, path: &str) -> Option<&'v Value<'l>> {
    let Some((above, _)) = path.rsplit_once('.') else { return Some(object) };
    let inner = above.split('.').try_fold(object, |value, key| value.get(key))?;
    inner.as_object().map(|_| inner)
}

fn last_key(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Report = (Difference, String, Option<String>, String);

    fn reports(read: impl Fn(&mut Emit)) -> Vec<Report> {
        let mut out = Vec::new();
        read(&mut Emit::new(TurnRef { session: 1, turn: 1 }, &mut out));
        out.into_iter()
            .filter_map(|action| match action {
                Action::Event(Event { kind: EventKind::Unrecognised(report), .. }) => {
                    Some((report.difference, report.what, report.path, report.sample))
                }
                _ => None,
            })
            .collect()
    }

    #[test]
    fn required_fields_are_returned_or_reported_with_their_path() {
        let line = r#"{"a":{"text":"hi","id":"","list":[1],"object":{}}}"#;
        let value = json::parse(line).expect("JSON");
        let inner = &value["a"];
        assert_eq!(
            reports(|emit| {
                assert_eq!(emit.required_text(inner, "a.text", line), "hi");
                assert_eq!(emit.required_list(inner, "a.list", line).len(), 1);
                emit.required_object(inner, "a.object", line);
            }),
            []
        );
        type Read = fn(&mut Emit, &Value);
        let reads: [(Read, &str, &str, Difference); 4] = [
            (
                |emit, inner| _ = emit.required_text(inner, "a.list", "x"),
                "text",
                "a.list",
                Difference::Changed,
            ),
            (
                |emit, inner| _ = emit.required_id(inner, "a.id", "x"),
                "id",
                "a.id",
                Difference::Missing,
            ),
            (
                |emit, inner| _ = emit.required_list(inner, "a.text", "x"),
                "list",
                "a.text",
                Difference::Changed,
            ),
            (
                |emit, inner| _ = emit.required_object(inner, "a.gone", "x"),
                "object",
                "a.gone",
                Difference::Missing,
            ),
        ];
        for (read, kind, path, difference) in reads {
            let report = reports(|emit| read(emit, inner));
            let what = format!("no {kind} in `{path}`");
            assert_eq!(report, [(difference, what, Some(path.to_owned()), "x".to_owned())]);
        }
    }
}
