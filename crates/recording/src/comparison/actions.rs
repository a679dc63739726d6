//! Compares two lists of actions.

use serde_json::Value;

use aetheel_model::agent::{Action, AgentEventKind};

/// The actions that count in a comparison, and their form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// Every action, as it is.
    Exact,
    /// Every action by its meaning: consecutive pieces of a text are one text, and JSON in a string
    /// counts as the value that it is.
    Meaning,
    /// Texts, questions and effects on an agent, as they are: people or the agent would notice if
    /// one of them was performed twice or not at all. Other reports about the same output may
    /// differ.
    Effects,
}

impl Projection {
    /// Returns whether an action counts.
    #[must_use]
    pub fn counts(self, action: &Action) -> bool {
        match action {
            _ if self != Self::Effects => true,
            Action::Event(event) => matches!(event.kind, AgentEventKind::Text(_)),
            Action::Diagnostic(_) => false,
            _ => true,
        }
    }
}

/// The first difference of two lists of actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionDifference {
    /// The number of the action among those that count, from 1.
    pub number: usize,
    /// The field of the action. `None` if an action is missing or has another type.
    pub path: Option<String>,
    /// The value in the first list. `None` if it has no further action.
    pub expected: Option<String>,
    /// The value in the second list. `None` if it has no further action.
    pub got: Option<String>,
}

/// Returns the first difference of two lists, or `None` if they are the same in a projection.
#[must_use]
pub fn first_difference(
    expected: &[Action],
    got: &[Action],
    projection: Projection,
) -> Option<ActionDifference> {
    if projection == Projection::Meaning && meaning(expected) == meaning(got) {
        return None;
    }
    let (mut expected, mut got) = [expected, got]
        .map(|actions| actions.iter().filter(|action| projection.counts(action)))
        .into();
    let mut number = 1;
    let (wanted, is) = loop {
        match (expected.next(), got.next()) {
            (None, None) => return None,
            (wanted, is) if wanted != is => break (wanted, is),
            _ => number += 1,
        }
    };
    let [wanted, is] =
        [wanted, is].map(|action| action.and_then(|action| serde_json::to_value(action).ok()));
    if let (Some(wanted), Some(is)) = (&wanted, &is)
        && let Some((path, wanted, is)) = first_field(wanted, is, String::new())
        // Actions of different types have no fields in common.
        && path.contains('.')
    {
        let (expected, got) = (Some(value_text(wanted)), Some(value_text(is)));
        return Some(ActionDifference { number, path: Some(path), expected, got });
    }
    let whole = |value: Option<Value>| value.map(|value| value.to_string());
    Some(ActionDifference { number, path: None, expected: whole(wanted), got: whole(is) })
}

/// Returns the meaning of actions, each with its text for people: consecutive pieces of a text are
/// one text, and JSON in a string counts as the value that it is.
fn meaning(actions: &[Action]) -> Vec<(Value, String)> {
    let mut meant: Vec<(Value, String)> = Vec::new();
    for action in actions {
        let mut value = serde_json::to_value(action).unwrap_or_default();
        let kind = ["/event/kind/text", "/event/kind/thinking"]
            .into_iter()
            .find(|kind| value.pointer(kind).is_some_and(|text| text["replace"] == false));
        let text = kind.and_then(|kind| value.pointer_mut(kind)?.get_mut("text"));
        let piece = match text.map(Value::take) {
            Some(Value::String(piece)) => piece,
            _ => String::new(),
        };
        let value = parsed(value);
        match meant.last_mut() {
            Some((last, text)) if kind.is_some() && *last == value => text.push_str(&piece),
            _ => meant.push((value, piece)),
        }
    }
    meant
}

/// Replaces every string that contains a JSON object or list by its value.
fn parsed(value: Value) -> Value {
    match value {
        Value::String(text) if text.starts_with(['{', '[']) => {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        }
        Value::Array(list) => list.into_iter().map(parsed).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, parsed(value))).collect(),
        other => other,
    }
}

fn first_field<'a>(
    a: &'a Value,
    b: &'a Value,
    path: String,
) -> Option<(String, &'a Value, &'a Value)> {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) if x.keys().eq(y.keys()) => {
            let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
            x.iter()
                .zip(y.values())
                .find_map(|((key, a), b)| first_field(a, b, format!("{prefix}{key}")))
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => x
            .iter()
            .zip(y)
            .enumerate()
            .find_map(|(index, (a, b))| first_field(a, b, format!("{path}[{index}]"))),
        _ => (a != b).then_some((path, a, b)),
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::{AgentEvent, Chunk, TextEvent, Write};

    fn text(text: &str) -> Action {
        Action::Event(AgentEvent {
            session: 1,
            turn: 1,
            kind: AgentEventKind::Text(TextEvent {
                part: 0,
                text: text.into(),
                replace: false,
                parent: None,
            }),
        })
    }

    fn exactly(expected: &[Action], got: &[Action]) -> Option<ActionDifference> {
        first_difference(expected, got, Projection::Exact)
    }

    #[test]
    fn the_first_difference_names_action_and_field() {
        let differ = exactly(&[text("a"), text("b")], &[text("a"), text("c")]).unwrap();
        assert_eq!((differ.number, differ.path.as_deref()), (2, Some("event.kind.text.text")));
        assert_eq!((differ.expected.as_deref(), differ.got.as_deref()), (Some("b"), Some("c")));
        let fewer = exactly(&[text("a"), text("b")], &[text("a")]).unwrap();
        assert!(fewer.number == 2 && fewer.path.is_none() && fewer.got.is_none());
        let other = exactly(&[Action::CloseStdin(1)], &[text("a")]).unwrap();
        assert_eq!((other.path, other.expected.as_deref()), (None, Some("{\"close-stdin\":1}")));
        assert_eq!(exactly(&[text("a")], &[text("a")]), None);
    }

    #[test]
    fn pieces_of_a_text_and_the_format_of_json_have_no_meaning() {
        let write = |text: &str| {
            let body = vec![Chunk::Text(text.into())];
            Action::Write(Write { proc: 1, body })
        };
        let whole = [text("{\"a\" or b"), write("{\"a\":1,\"b\":[]}\n"), text("c")];
        let pieces = [text("{\"a\""), text(" or b"), write("{\"b\": [], \"a\": 1}"), text("c")];
        assert_eq!(meaning(&whole), meaning(&pieces));
        assert_ne!(meaning(&whole), meaning(&pieces[1..]));
        let others = [text("{\"a\""), write("{\"a\":1,\"b\":[]}\n"), text(" or b"), text("c")];
        assert_ne!(meaning(&whole), meaning(&others));
        assert_ne!(meaning(&[text("[1]")]), meaning(&[text("[2]")]), "an answer is not parsed");
    }

    #[test]
    fn reports_have_no_effects() {
        let notice = |text: &str| {
            let kind = AgentEventKind::Notice(text.into());
            Action::Event(AgentEvent { session: 1, turn: 1, kind })
        };
        let effects = |expected: &[Action], got: &[Action]| {
            first_difference(expected, got, Projection::Effects).map(|found| found.number)
        };
        assert_eq!(effects(&[notice("a"), text("a")], &[text("a"), notice("b")]), None);
        assert_eq!(effects(&[notice("a"), text("a")], &[text("b")]), Some(1));
        assert_eq!(effects(&[text("a")], &[text("a"), Action::CloseStdin(1)]), Some(2));
    }
}
