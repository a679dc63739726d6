//! Extracts the part of a backend's actions that users see, and compares two such parts.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

/// Longest value that [`Loss`] displays, in characters.
const MAX_SHOWN: usize = 80;

/// Something that users no longer see and that is not reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The path in [`visible`], for example `turns.1/1.texts[0]`.
    pub field: String,
    /// The value for the unchanged recording.
    pub before: String,
    /// The value for the changed recording.
    pub after: String,
    /// Whether text of an answer is lost, which is worse than any other difference.
    pub of_answer: bool,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` was {}, now {}", self.field, self.before, self.after)
    }
}

/// Compares the actions for a recording with those for a changed copy. Returns the first difference
/// that users would see. Differences do not count if the backend reports unreadable output or if a
/// successful turn now fails, because users see both.
#[must_use]
pub fn silent_loss(before: &[Value], after: &[Value]) -> Option<Loss> {
    if reports(after) > reports(before) {
        return None;
    }
    let (before, after) = (visible(before), visible(after));
    if fails_now(&before, &after) {
        return None;
    }
    lost_text(&before, &after).or_else(|| difference(&before, &after, ""))
}

/// Returns a text that was shown and is no longer shown anywhere in the same turn.
fn lost_text(before: &Value, after: &Value) -> Option<Loss> {
    let turns = before["turns"].as_object()?;
    turns.iter().find_map(|(turn, before)| {
        let after = texts(&after["turns"][turn]);
        let shown_after = after.concat();
        let lost = texts(before).into_iter().find(|text| !shown_after.contains(text))?;
        Some(Loss {
            field: format!("turns.{turn}.texts"),
            before: shown(&lost.into()),
            after: shown(&after.first().copied().map_or(Value::Null, Value::from)),
            of_answer: true,
        })
    })
}

/// Returns the texts of a turn, including those that its end repeats.
fn texts(turn: &Value) -> Vec<&str> {
    let parts = turn["texts"].as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().chain(turn.get("text")).filter_map(Value::as_str).collect()
}

/// Counts the actions that report unreadable output: `unrecognised` events, and warnings in the
/// operator's log for output outside a turn.
#[must_use]
pub fn reports(actions: &[Value]) -> usize {
    let is_report = |action: &&Value| {
        action.pointer("/event/kind/unrecognised").is_some()
            || action
                .pointer("/diagnostic/text")
                .and_then(Value::as_str)
                .is_some_and(|text| text.starts_with("unrecognised"))
    };
    actions.iter().filter(is_report).count()
}

/// Returns what users see of a list of actions: texts joined, tools in order, keys omitted.
#[must_use]
pub fn visible(actions: &[Value]) -> Value {
    let mut seen = Seen::default();
    actions.iter().for_each(|action| seen.action(action));
    seen.into_json()
}

/// Returns whether a turn that had succeeded now fails, is lost, or no longer ends.
fn fails_now(before: &Value, after: &Value) -> bool {
    let outcomes = |seen: &Value| -> Vec<(String, bool)> {
        let turns = seen["turns"].as_object().cloned().unwrap_or_default();
        turns
            .into_iter()
            .map(|(turn, seen)| {
                let outcome = &seen["outcome"];
                let failed = outcome.get("failed").or(outcome.get("lost")).is_some();
                (turn, failed)
            })
            .collect()
    };
    let after = outcomes(after);
    outcomes(before).into_iter().any(|(turn, failed)| {
        !failed && after.iter().any(|(other, failed)| *other == turn && *failed)
    })
}

#[derive(Default)]
struct Seen {
    turns: BTreeMap<String, Turn>,
    rest: Vec<Value>,
}

/// One turn. Parts and tools are kept in order of appearance; their keys only distinguish them.
#[derive(Default)]
struct Turn {
    texts: Vec<(String, String)>,
    thoughts: Vec<(String, String)>,
    tools: Vec<(String, Map<String, Value>)>,
    last: Map<String, Value>,
    list: Vec<Value>,
}

impl Seen {
    fn turn(&mut self, of: &Value) -> &mut Turn {
        self.turns.entry(format!("{}/{}", of["session"], of["turn"])).or_default()
    }

    fn action(&mut self, action: &Value) {
        let Some((name, body)) = action.as_object().and_then(|map| map.iter().next()) else {
            return;
        };
        match name.as_str() {
            "event" => {
                let Some((name, body)) = body["kind"].as_object().and_then(|map| map.iter().next())
                else {
                    return;
                };
                self.turn(&action["event"]).event(name, body);
            }
            "ask" => self.turn(body).list.push(ask(body)),
            "turn-done" => {
                let turn = self.turn(body);
                for field in ["outcome", "text"] {
                    turn.last.insert(field.to_owned(), body[field].clone());
                }
                if !body["usage"].is_null() {
                    turn.last.insert("usage".to_owned(), body["usage"].clone());
                }
            }
            "session-ready" => {
                let mut ready = body.clone();
                if let Some(fields) = ready.as_object_mut() {
                    fields.remove("tools");
                }
                self.rest.push(json!({ name: ready }));
            }
            "steered" | "query-answer" => self.rest.push(action.clone()),
            _ => {}
        }
    }

    fn into_json(self) -> Value {
        let turns: Map<String, Value> =
            self.turns.into_iter().map(|(key, turn)| (key, turn.into_json())).collect();
        json!({ "turns": turns, "rest": self.rest })
    }
}

impl Turn {
    fn event(&mut self, name: &str, body: &Value) {
        match name {
            "text" => join(&mut self.texts, body),
            "thinking" => join(&mut self.thoughts, body),
            "tool-start" => {
                let tool = self.tool(body);
                for field in ["title", "target", "kind", "native-name"] {
                    tool.insert(field.to_owned(), body[field].clone());
                }
                tool.insert("has-input".to_owned(), has_input(body).into());
                tool.insert("of-sub-agent".to_owned(), body["parent"].is_string().into());
            }
            "tool-output" => {
                let tool = self.tool(body);
                let before = match body["replace"] == true {
                    true => "",
                    false => text(&tool.get("said")),
                };
                let output = format!("{before}{}", text(&body.get("text")));
                tool.insert("said".to_owned(), output.into());
            }
            "tool-end" => {
                let tool = self.tool(body);
                for field in ["status", "output", "exit-code", "diffs"] {
                    tool.insert(field.to_owned(), body[field].clone());
                }
            }
            "unrecognised" => {}
            "plan" | "usage" | "quota" | "title" | "mode" => {
                self.last.insert(name.to_owned(), body.clone());
            }
            "task" => {
                let (title, status) = (&body["title"], &body["status"]);
                let task = json!({ "title": title, "status": status, "summary": body["summary"] });
                self.list.push(json!({ name: task }));
            }
            _ => self.list.push(json!({ name: body })),
        }
    }

    fn tool(&mut self, body: &Value) -> &mut Map<String, Value> {
        let id = text(&body.get("id")).to_owned();
        let at = self.tools.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
            self.tools.push((id, Map::new()));
            self.tools.len() - 1
        });
        &mut self.tools[at].1
    }

    fn into_json(self) -> Value {
        let joined = |parts: Vec<(String, String)>| -> Vec<String> {
            parts.into_iter().map(|(_, text)| text).filter(|text| !text.is_empty()).collect()
        };
        let mut turn = self.last;
        turn.insert("texts".to_owned(), joined(self.texts).into());
        turn.insert("thoughts".to_owned(), joined(self.thoughts).into());
        turn.insert("tools".to_owned(), self.tools.into_iter().map(|(_, tool)| tool).collect());
        turn.insert("list".to_owned(), self.list.into());
        Value::Object(turn)
    }
}

fn join(parts: &mut Vec<(String, String)>, body: &Value) {
    let key = format!("{} {}", text(&body.get("parent")), body["part"]);
    let text = text(&body.get("text"));
    match parts.iter_mut().find(|(known, _)| *known == key) {
        Some((_, joined)) if body["replace"] == true => text.clone_into(joined),
        Some((_, joined)) => joined.push_str(text),
        None => parts.push((key, text.to_owned())),
    }
}

/// Returns the text of a question. Omits keys and full inputs, which change with the agent's output
/// without a loss.
fn ask(body: &Value) -> Value {
    let mut ask = body.clone();
    if let Some(tool) = ask.pointer_mut("/kind/permission").and_then(Value::as_object_mut) {
        let input = has_input(&Value::Object(tool.clone()));
        tool.insert("input".to_owned(), input.into());
        tool.remove("id");
    }
    ask
}

fn has_input(tool: &Value) -> bool {
    !matches!(text(&tool.get("input")), "" | "{}" | "null")
}

fn text<'v>(value: &Option<&'v Value>) -> &'v str {
    value.and_then(Value::as_str).unwrap_or_default()
}

fn difference(before: &Value, after: &Value, path: &str) -> Option<Loss> {
    let missing = &Value::Null;
    match (before, after) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: std::collections::BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            keys.into_iter().find_map(|key| {
                let dot = if path.is_empty() { "" } else { "." };
                let (x, y) = (x.get(key).unwrap_or(missing), y.get(key).unwrap_or(missing));
                difference(x, y, &format!("{path}{dot}{key}"))
            })
        }
        (Value::Array(x), Value::Array(y)) => (0..x.len().max(y.len())).find_map(|at| {
            let (x, y) = (x.get(at).unwrap_or(missing), y.get(at).unwrap_or(missing));
            difference(x, y, &format!("{path}[{at}]"))
        }),
        _ => (before != after).then(|| Loss {
            field: path.to_owned(),
            before: shown(before),
            after: shown(after),
            of_answer: false,
        }),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        other => {
            let text = other.to_string();
            match text.char_indices().nth(MAX_SHOWN) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Value) -> Value {
        json!({"event": {"session": 1, "turn": 1, "kind": kind}})
    }

    fn text_event(part: u32, text: &str) -> Value {
        event(json!({"text": {"part": part, "text": text, "replace": false}}))
    }

    fn done(outcome: Value) -> Value {
        json!({"turn-done": {"session": 1, "turn": 1, "outcome": outcome, "text": null, "usage": null}})
    }

    #[test]
    fn texts_are_joined_before_they_are_compared() {
        let before = [text_event(0, "a"), text_event(0, "b"), done(json!("completed"))];
        let after = [text_event(7, "ab"), done(json!("completed"))];
        assert_eq!(silent_loss(&before, &after), None);
    }

    #[test]
    fn a_missing_text_is_a_loss_unless_it_is_reported_or_the_turn_fails() {
        let before = [text_event(0, "a"), done(json!("completed"))];
        let loss = silent_loss(&before, &[done(json!("completed"))]).expect("it is a loss");
        assert_eq!(loss.to_string(), r#"`turns.1/1.texts` was "a", now nothing"#);
        let report = event(json!({"unrecognised": {"what": "x", "path": null, "sample": ""}}));
        assert_eq!(silent_loss(&before, &[report, done(json!("completed"))]), None);
        let failed = done(json!({"failed": {"kind": "other", "message": "x"}}));
        assert_eq!(silent_loss(&before, &[failed]), None);
        assert!(silent_loss(&before, &[]).is_some(), "a turn that never ends is a loss");
    }

    #[test]
    fn tools_are_compared_by_order() {
        let tool = |id: &str, input: &str| {
            [
                event(json!({"tool-start": {"id": id, "title": "Bash", "input": input}})),
                event(json!({"tool-end": {"id": id, "status": "ok", "output": "x"}})),
            ]
        };
        assert_eq!(silent_loss(&tool("a", r#"{"x":1}"#), &tool("b", r#"{"y":1}"#)), None);
        assert!(silent_loss(&tool("a", r#"{"x":1}"#), &tool("a", "{}")).is_some());
    }
}
