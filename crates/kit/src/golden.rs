//! Compares the meaning of a replay's actions with the expected ones. Reports the first difference
//! with the line and the field of the input that caused it, and a diff of both lists.

use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use super::case::Case;
use super::cause;
use super::check::entry_of;
use super::{brief, shortened};
use aetheel_model::agent::Action;
use aetheel_recording::replay::{Batches, ReplayResult, replay};
use aetheel_recording::{Backend, GuestFailure};

/// Maximum number of characters of a value that are shown.
const MAX_SHOWN: usize = 300;

/// The first difference of two lists of actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FirstDifference {
    /// The number of the action, from 1.
    pub(super) number: usize,
    /// The field of the action; `None` if an action is missing or has another type.
    pub(super) path: Option<String>,
    pub(super) expected: Option<String>,
    pub(super) got: Option<String>,
}

/// The difference between the actual and the expected actions of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GoldenDifference {
    /// The number of the first different action, from 1.
    pub action: usize,
    /// The line of the recording that caused the action, or should have.
    pub line: Option<usize>,
    /// The input on that line.
    pub input: String,
    /// The field of the input that contains the value, if it was found.
    pub field: Option<String>,
    /// The field of the action that differs.
    pub path: Option<String>,
    /// The expected value; `None` if the field or action is not expected.
    pub expected: Option<String>,
    /// The actual value; `None` if it is missing.
    pub got: Option<String>,
    /// A unified diff of both lists.
    pub diff: String,
}

/// The result of a case.
#[derive(Clone, Debug)]
pub enum CaseVerdict {
    /// The actions are the expected ones.
    Same,
    /// The actions are different.
    Differs(Box<GoldenDifference>),
    /// The guest failed at this entry (index).
    Failed(usize, GuestFailure),
    /// The actions depend on how the inputs are batched. The string describes the batching.
    Batching(String),
    /// The case has no expected actions.
    Unknown,
}

/// Replays a case and compares its actions with the expected ones. Also returns the actions.
///
/// # Errors
/// Returns the failure if no guest can be opened.
pub async fn judge(
    backend: &dyn Backend,
    case: &Case,
) -> Result<(CaseVerdict, Vec<Action>), GuestFailure> {
    let replayed = replay(backend, &case.tape.entries, Batches::Single).await?;
    let actions: Vec<Action> = replayed.actions().cloned().collect();
    if let Some((at, failure)) = &replayed.failure {
        return Ok((CaseVerdict::Failed(*at, failure.clone()), actions));
    }
    for (how, batches) in
        [("7 inputs per call", Batches::Of(7)), ("all inputs in one call", Batches::Whole)]
    {
        let other = replay(backend, &case.tape.entries, batches).await?;
        if !other.actions().eq(replayed.actions()) {
            return Ok((CaseVerdict::Batching(how.to_owned()), actions));
        }
    }
    let verdict = match &case.actions {
        None => CaseVerdict::Unknown,
        Some(expected) => difference(case, &replayed, expected)
            .map_or(CaseVerdict::Same, |found| CaseVerdict::Differs(Box::new(found))),
    };
    Ok((verdict, actions))
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

/// Compares the actions of a replay (with one input per call) with the expected ones.
pub(super) fn difference(
    case: &Case,
    replayed: &ReplayResult,
    expected: &[Action],
) -> Option<GoldenDifference> {
    let got: Vec<Action> = replayed.actions().cloned().collect();
    if meaning(expected) == meaning(&got) {
        return None;
    }
    let differ = actions_differ(expected, &got)?;
    let wanted: Vec<String> = [expected.get(differ.number - 1), got.get(differ.number - 1)]
        .into_iter()
        .flatten()
        .flat_map(cause::texts)
        .collect();
    let (entry, field) = match (got.get(differ.number - 1), expected.get(differ.number - 1)) {
        // An action is missing. The line that should have caused it is between those of its
        // neighbours.
        (_, Some(_)) if differ.path.is_none() => {
            let after = if differ.number == 1 {
                0
            } else {
                entry_of(replayed, differ.number - 1).unwrap_or(0)
            };
            let until = got
                .get(differ.number - 1)
                .and_then(|_| entry_of(replayed, differ.number))
                .unwrap_or(case.tape.entries.len() - 1);
            cause::among(&case.tape.entries, after..=until, &wanted)
                .map_or((Some(until), None), |(at, field)| (Some(at), Some(field)))
        }
        _ => {
            let at = entry_of(replayed, differ.number);
            let values: Vec<String> =
                [&differ.expected, &differ.got].into_iter().flatten().cloned().collect();
            let field = at
                .and_then(|at| cause::among(&case.tape.entries, at..=at, &values))
                .map(|(_, field)| field);
            (at, field)
        }
    };
    let input = entry.and_then(|at| case.tape.entries.get(at)?.input());
    Some(GoldenDifference {
        action: differ.number,
        line: entry.and_then(|at| case.tape.lines.get(at)).copied(),
        input: input.map(brief).unwrap_or_default(),
        field,
        path: differ.path,
        expected: differ.expected.map(|text| shortened(&text, MAX_SHOWN)),
        got: differ.got.map(|text| shortened(&text, MAX_SHOWN)),
        diff: unified(&to_jsonl(expected), &to_jsonl(&got)),
    })
}

/// Formats actions as in `NAME.actions.jsonl`.
#[must_use]
pub fn to_jsonl(actions: &[Action]) -> String {
    actions
        .iter()
        .filter_map(|action| serde_json::to_string(action).ok())
        .map(|line| line + "\n")
        .collect()
}

fn unified(expected: &str, got: &str) -> String {
    let diff = TextDiff::from_lines(expected, got);
    diff.unified_diff().context_radius(2).header("expected", "got").to_string()
}

/// Returns the first difference of two lists.
pub(super) fn actions_differ(expected: &[Action], got: &[Action]) -> Option<FirstDifference> {
    let at = (0..expected.len().max(got.len())).find(|at| expected.get(*at) != got.get(*at))?;
    let value =
        |action: Option<&Action>| action.and_then(|action| serde_json::to_value(action).ok());
    let (wanted, is) = (value(expected.get(at)), value(got.get(at)));
    let number = at + 1;
    if let (Some(wanted), Some(is)) = (&wanted, &is)
        && let Some((path, wanted, is)) = first_difference(wanted, is, String::new())
        // Actions of different types have no fields in common.
        && path.contains('.')
    {
        return Some(FirstDifference {
            number,
            path: Some(path),
            expected: Some(value_text(wanted)),
            got: Some(value_text(is)),
        });
    }
    let whole = |value: Option<Value>| value.map(|value| value.to_string());
    Some(FirstDifference { number, path: None, expected: whole(wanted), got: whole(is) })
}

fn first_difference<'a>(
    a: &'a Value,
    b: &'a Value,
    path: String,
) -> Option<(String, &'a Value, &'a Value)> {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) if x.keys().eq(y.keys()) => {
            let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
            x.iter()
                .zip(y.values())
                .find_map(|((key, a), b)| first_difference(a, b, format!("{prefix}{key}")))
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => x
            .iter()
            .zip(y)
            .enumerate()
            .find_map(|(index, (a, b))| first_difference(a, b, format!("{path}[{index}]"))),
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
    use aetheel_model::agent::{AgentEvent, AgentEventKind, Chunk, TextEvent, Write};

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

    #[test]
    fn the_first_difference_names_action_and_field() {
        let differ = actions_differ(&[text("a"), text("b")], &[text("a"), text("c")]).unwrap();
        assert_eq!((differ.number, differ.path.as_deref()), (2, Some("event.kind.text.text")));
        assert_eq!((differ.expected.as_deref(), differ.got.as_deref()), (Some("b"), Some("c")));
        let fewer = actions_differ(&[text("a"), text("b")], &[text("a")]).unwrap();
        assert!(fewer.number == 2 && fewer.path.is_none() && fewer.got.is_none());
        let other = actions_differ(&[Action::CloseStdin(1)], &[text("a")]).unwrap();
        assert_eq!((other.path, other.expected.as_deref()), (None, Some("{\"close-stdin\":1}")));
        assert_eq!(actions_differ(&[text("a")], &[text("a")]), None);
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
}
