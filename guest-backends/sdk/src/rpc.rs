//! JSON-RPC over lines, as long-lived agents speak it, in both directions.
//!
//! Numbers our requests and remembers what each was for. Ids are kept as JSON text, because agents
//! use numbers, strings and UUIDs, and count their own requests separately. Dialects without
//! `"jsonrpc":"2.0"` (Codex) or with more fields (Droid) differ only in the envelope, see
//! [`Calls::new`].

use std::collections::BTreeMap;

use serde_json::json;

use crate::json::Value;
use crate::wit::{Action, Chunk, Write};

/// Our requests that are not answered yet. A `K` records what each was for.
#[derive(Debug)]
pub struct Calls<K> {
    envelope: &'static str,
    ids: Ids,
    next: u64,
    open: BTreeMap<String, K>,
}

/// The form of the ids of our requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Numbers, such as `1`.
    Numbers,
    /// Strings of digits, such as `"1"`.
    Strings,
}

/// The meaning of a line of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Message<'a, K> {
    /// The response to one of our requests; the error is the `error` object.
    Response(K, Result<&'a Value<'a>, &'a Value<'a>>),
    /// A response without a matching open request.
    Stray(&'a Value<'a>),
    /// A request of the agent: id, method and parameters. Answer it with [`Calls::result`] or
    /// [`Calls::error`] and this id.
    Request(String, &'a str, &'a Value<'a>),
    /// A notification of the agent: method and parameters. It is not answered.
    Notification(&'a str, &'a Value<'a>),
    /// The line is not a JSON-RPC message.
    Other,
}

impl<K> Calls<K> {
    /// Starts numbering at 1. `envelope` is the text of fields that every message carries, for
    /// example `"jsonrpc":"2.0"`; it may be empty.
    #[must_use]
    pub fn new(envelope: &'static str, ids: Ids) -> Self {
        Self { envelope, ids, next: 1, open: BTreeMap::new() }
    }

    /// Returns the number of our last request, or 0 before the first one.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.next - 1
    }

    /// Continues after the last number that another instance used.
    #[must_use]
    pub fn counting_from(self, last: u64) -> Self {
        Self { next: last.saturating_add(1), ..self }
    }

    /// Sends a request to the agent; `params` is JSON text.
    pub fn request(
        &mut self,
        proc: u32,
        method: &str,
        params: &str,
        what: K,
        out: &mut Vec<Action>,
    ) {
        let id = match self.ids {
            Ids::Numbers => self.next.to_string(),
            Ids::Strings => format!("\"{}\"", self.next),
        };
        self.next += 1;
        let line = self
            .line("request", &format!(r#""id":{id},"method":{},"params":{params}"#, json!(method)));
        self.open.insert(id, what);
        out.push(write(proc, line));
    }

    /// Sends a notification to the agent; `params` is JSON text.
    pub fn notify(&self, proc: u32, method: &str, params: &str, out: &mut Vec<Action>) {
        out.push(write(
            proc,
            self.line("notification", &format!(r#""method":{},"params":{params}"#, json!(method))),
        ));
    }

    /// Answers a request of the agent; `result` is JSON text.
    pub fn result(&self, proc: u32, id: &str, result: &str, out: &mut Vec<Action>) {
        out.push(write(proc, self.line("response", &format!(r#""id":{id},"result":{result}"#))));
    }

    /// Answers a request of the agent with an error, for example -32601 for an unknown method.
    pub fn error(&self, proc: u32, id: &str, code: i32, message: &str, out: &mut Vec<Action>) {
        out.push(write(
            proc,
            self.line(
                "response",
                &format!(r#""id":{id},"error":{{"code":{code},"message":{}}}"#, json!(message)),
            ),
        ));
    }

    /// Classifies a line. A response closes its request.
    pub fn sort<'a>(&mut self, line: &'a Value<'a>) -> Message<'a, K> {
        let id = line.get("id").filter(|id| !id.is_null()).map(ToString::to_string);
        match (line.text("method"), id) {
            (Some(method), Some(id)) => Message::Request(id, method, &line["params"]),
            (Some(method), None) => Message::Notification(method, &line["params"]),
            (None, Some(id)) => match self.open.remove(&id) {
                Some(what) => Message::Response(
                    what,
                    line.get("error")
                        .filter(|error| !error.is_null())
                        .map_or_else(|| Ok(&line["result"]), Err),
                ),
                None => Message::Stray(line),
            },
            (None, None) if line.get("error").is_some() => Message::Stray(line),
            (None, None) => Message::Other,
        }
    }

    /// Closes all requests, for example because the agent exited, and returns what they were for.
    pub fn clear(&mut self) -> Vec<K> {
        std::mem::take(&mut self.open).into_values().collect()
    }

    /// Returns what the open requests are for.
    pub fn open(&self) -> impl Iterator<Item = &K> {
        self.open.values()
    }

    fn line(&self, kind: &str, fields: &str) -> String {
        // Line readers of Node.js also end a line at these characters. JSON contains them only
        // inside strings.
        let fields = fields.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
        match self.envelope {
            "" => format!("{{{fields}}}\n"),
            envelope => format!("{{{},{fields}}}\n", envelope.replace("$kind", kind)),
        }
    }
}

/// Returns an action that writes text to the agent's stdin.
pub fn write(proc: u32, text: String) -> Action {
    Action::Write(Write { proc, body: vec![Chunk::Text(text)] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn written(out: &[Action]) -> String {
        out.iter()
            .map(|action| match action {
                Action::Write(Write { body, .. }) => match &body[..] {
                    [Chunk::Text(text)] => text.clone(),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_response_closes_only_its_request() {
        let mut calls = Calls::new(r#""jsonrpc":"2.0""#, Ids::Numbers);
        let mut out = Vec::new();
        calls.request(1, "a", "{}", 'a', &mut out);
        calls.request(1, "b", "[]", 'b', &mut out);
        assert_eq!(
            written(&out),
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"b\",\"params\":[]}\n"
        );
        let line = json::parse(r#"{"id":2,"result":{"x":1}}"#).expect("JSON");
        assert!(matches!(calls.sort(&line), Message::Response('b', Ok(_))));
        assert!(matches!(calls.sort(&line), Message::Stray(_)), "a second answer");
        let other_space = json::parse(r#"{"id":"1","result":{}}"#).expect("JSON");
        assert!(matches!(calls.sort(&other_space), Message::Stray(_)), "a string is not a number");
        assert_eq!(calls.clear(), ['a']);
    }

    #[test]
    fn requests_of_the_agent_are_answered_with_its_ids() {
        let mut calls: Calls<()> = Calls::new(r#""jsonrpc":"2.0","type":"$kind""#, Ids::Strings);
        let line = json::parse(r#"{"id":"7f-\"x","method":"ask","params":{"q":1}}"#).expect("JSON");
        let Message::Request(id, "ask", params) = calls.sort(&line) else { panic!("no request") };
        assert_eq!(params.count("q"), Some(1));
        let mut out = Vec::new();
        calls.result(1, &id, "true", &mut out);
        calls.error(1, &id, -32601, "no such \"method\"", &mut out);
        calls.notify(1, "n", "{}", &mut out);
        for line in written(&out).lines() {
            json::parse(line).expect("JSON");
        }
        let mut split = Vec::new();
        calls.request(1, "say", "\"one\u{2028}two\u{2029}\"", (), &mut split);
        assert!(
            written(&split).contains(r#""one\u2028two\u2029""#),
            "a single line for every reader: {}",
            written(&split)
        );
        assert!(
            written(&out).starts_with(
                "{\"jsonrpc\":\"2.0\",\"type\":\"response\",\"id\":\"7f-\\\"x\",\"result\":true}\n"
            ),
            "{}",
            written(&out)
        );
        assert!(
            written(&out).ends_with("\"type\":\"notification\",\"method\":\"n\",\"params\":{}}\n"),
            "{}",
            written(&out)
        );
    }

    #[test]
    fn params_results_and_ids_may_be_any_json() {
        let mut calls = Calls::new("", Ids::Strings);
        let mut out = Vec::new();
        for params in ["[1,\"a\"]", "\"text\"", "null", "true"] {
            calls.request(1, "m", params, params, &mut out);
        }
        assert_eq!(
            written(&out).lines().next(),
            Some(r#"{"id":"1","method":"m","params":[1,"a"]}"#)
        );
        for (id, result) in [(1, "[{}]"), (2, "\"done\""), (3, "null"), (4, "-0.5")] {
            let line = format!(r#"{{"id":"{id}","result":{result}}}"#);
            let line = json::parse(&line).expect("JSON");
            let Message::Response(_, Ok(answer)) = calls.sort(&line) else {
                panic!("no answer: {line}")
            };
            assert_eq!(answer.to_string(), result);
        }
        let line = json::parse(r#"{"id":"x-1","method":"ask","params":["a",2]}"#).expect("JSON");
        let Message::Request(id, "ask", params) = calls.sort(&line) else { panic!("no request") };
        assert_eq!((id.as_str(), params.to_string().as_str()), ("\"x-1\"", r#"["a",2]"#));
        calls.request(1, "m", "[]", "[]", &mut out);
        let line = json::parse(r#"{"id":"5","error":"no"}"#).expect("JSON");
        assert!(
            matches!(calls.sort(&line), Message::Response("[]", Err(error)) if error.as_str() == Some("no"))
        );
    }

    #[test]
    fn numbering_continues_in_another_instance() {
        let mut calls = Calls::new("", Ids::Numbers).counting_from(41);
        let mut out = Vec::new();
        calls.request(1, "m", "{}", (), &mut out);
        assert_eq!(
            (written(&out).as_str(), calls.last()),
            ("{\"id\":42,\"method\":\"m\",\"params\":{}}\n", 42)
        );
    }
}
