//! JSON-RPC over lines, as long-lived agents speak it: who asked what, in both directions.
//!
//! Owns the numbers of our requests and what each was for. Ids are kept as the text of their JSON,
//! because agents use numbers, strings and UUIDs, and count in spaces of their own. Dialects
//! without `"jsonrpc":"2.0"` (Codex) or with more fields (Droid) differ only in the envelope, see
//! [`Calls::new`].

use std::collections::BTreeMap;

use serde_json::json;

use crate::json::Value;
use crate::wit::{Action, Chunk, Write};

/// Our requests that are not answered yet. `K` says what each was for.
#[derive(Debug)]
pub struct Calls<K> {
    envelope: &'static str,
    ids: Ids,
    next: u64,
    open: BTreeMap<String, K>,
}

/// The form of our requests' ids.
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
    /// The answer to a request of ours; the error is the `error` object.
    Response(K, Result<&'a Value<'a>, &'a Value<'a>>),
    /// An answer to nothing we asked, or a second one.
    Stray(&'a Value<'a>),
    /// The agent asks; answer with [`Calls::result`] or [`Calls::error`] and this id.
    Request(String, &'a str, &'a Value<'a>),
    /// A notification, by method and parameters: the agent wants no answer.
    Notification(&'a str, &'a Value<'a>),
    /// The line is no message of JSON-RPC.
    Other,
}

impl<K> Calls<K> {
    /// Begins counting at 1. The envelope is fields that every message carries, for example
    /// `"jsonrpc":"2.0"`; empty for none.
    #[must_use]
    pub fn new(envelope: &'static str, ids: Ids) -> Self {
        Self { envelope, ids, next: 1, open: BTreeMap::new() }
    }

    /// The number of our last request; 0: there was none.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.next - 1
    }

    /// Counts on from the number another instance came to.
    #[must_use]
    pub fn counting_from(self, last: u64) -> Self {
        Self { next: last.saturating_add(1), ..self }
    }

    /// Asks the agent; `params` is JSON text.
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

    /// Tells the agent something; `params` is JSON text.
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

    /// Refuses a request of the agent. -32601 says that there is no such method.
    pub fn error(&self, proc: u32, id: &str, code: i32, message: &str, out: &mut Vec<Action>) {
        out.push(write(
            proc,
            self.line(
                "response",
                &format!(r#""id":{id},"error":{{"code":{code},"message":{}}}"#, json!(message)),
            ),
        ));
    }

    /// Says what a line is; of an answer, the request is closed.
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

    /// Closes all requests, as when the agent has gone, and returns what they were for.
    pub fn clear(&mut self) -> Vec<K> {
        std::mem::take(&mut self.open).into_values().collect()
    }

    /// Returns the requests that are not answered.
    pub fn open(&self) -> impl Iterator<Item = &K> {
        self.open.values()
    }

    fn line(&self, kind: &str, fields: &str) -> String {
        // Line readers of Node.js end a line at these as well; in JSON they only stand within
        // strings.
        let fields = fields.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
        match self.envelope {
            "" => format!("{{{fields}}}\n"),
            envelope => format!("{{{},{fields}}}\n", envelope.replace("$kind", kind)),
        }
    }
}

/// Writes text to the agent's stdin.
pub fn write(proc: u32, text: String) -> Action {
    Action::Write(Write { proc, body: vec![Chunk::Text(text)] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn said(out: &[Action]) -> String {
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
    fn an_answer_closes_its_request_and_no_other() {
        let mut calls = Calls::new(r#""jsonrpc":"2.0""#, Ids::Numbers);
        let mut out = Vec::new();
        calls.request(1, "a", "{}", 'a', &mut out);
        calls.request(1, "b", "[]", 'b', &mut out);
        assert_eq!(
            said(&out),
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"b\",\"params\":[]}\n"
        );
        let line = json::parse(r#"{"id":2,"result":{"x":1}}"#).expect("JSON");
        assert!(matches!(calls.sort(&line), Message::Response('b', Ok(_))));
        assert!(matches!(calls.sort(&line), Message::Stray(_)), "a second answer");
        let other_space = json::parse(r#"{"id":"1","result":{}}"#).expect("JSON");
        assert!(matches!(calls.sort(&other_space), Message::Stray(_)), "a string is no number");
        assert_eq!(calls.clear(), ['a']);
    }

    #[test]
    fn the_agents_requests_are_answered_in_its_own_ids() {
        let mut calls: Calls<()> = Calls::new(r#""jsonrpc":"2.0","type":"$kind""#, Ids::Strings);
        let line = json::parse(r#"{"id":"7f-\"x","method":"ask","params":{"q":1}}"#).expect("JSON");
        let Message::Request(id, "ask", params) = calls.sort(&line) else { panic!("no request") };
        assert_eq!(params.count("q"), Some(1));
        let mut out = Vec::new();
        calls.result(1, &id, "true", &mut out);
        calls.error(1, &id, -32601, "no such \"method\"", &mut out);
        calls.notify(1, "n", "{}", &mut out);
        for line in said(&out).lines() {
            json::parse(line).expect("JSON");
        }
        let mut split = Vec::new();
        calls.request(1, "say", "\"one\u{2028}two\u{2029}\"", (), &mut split);
        assert!(
            said(&split).contains(r#""one\u2028two\u2029""#),
            "a line for every reader: {}",
            said(&split)
        );
        assert!(
            said(&out).starts_with(
                "{\"jsonrpc\":\"2.0\",\"type\":\"response\",\"id\":\"7f-\\\"x\",\"result\":true}\n"
            ),
            "{}",
            said(&out)
        );
        assert!(
            said(&out).ends_with("\"type\":\"notification\",\"method\":\"n\",\"params\":{}}\n"),
            "{}",
            said(&out)
        );
    }

    #[test]
    fn params_results_and_ids_may_be_any_json() {
        let mut calls = Calls::new("", Ids::Strings);
        let mut out = Vec::new();
        for params in ["[1,\"a\"]", "\"text\"", "null", "true"] {
            calls.request(1, "m", params, params, &mut out);
        }
        assert_eq!(said(&out).lines().next(), Some(r#"{"id":"1","method":"m","params":[1,"a"]}"#));
        for (id, result) in [(1, "[{}]"), (2, "\"done\""), (3, "null"), (4, "-0.5")] {
            let line = format!(r#"{{"id":"{id}","result":{result}}}"#);
            let line = json::parse(&line).expect("JSON");
            let Message::Response(_, Ok(told)) = calls.sort(&line) else {
                panic!("no answer: {line}")
            };
            assert_eq!(told.to_string(), result);
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
    fn requests_are_counted_on_in_another_instance() {
        let mut calls = Calls::new("", Ids::Numbers).counting_from(41);
        let mut out = Vec::new();
        calls.request(1, "m", "{}", (), &mut out);
        assert_eq!(
            (said(&out).as_str(), calls.last()),
            ("{\"id\":42,\"method\":\"m\",\"params\":{}}\n", 42)
        );
    }
}
