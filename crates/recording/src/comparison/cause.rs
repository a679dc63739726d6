//! Finds the input line and the field that a value of an action comes from. It compares texts, so
//! the result is a guess, good enough for a hint. Pure.

use std::ops::RangeInclusive;

use serde_json::Value;

use crate::RecordingEntry;
use aetheel_model::agent::{Action, Input};

/// Minimum length of a text in bytes. Shorter texts would match everywhere.
const MIN_LENGTH: usize = 3;

/// Returns the texts of an action that are worth searching for, longest first.
pub(super) fn texts(action: &Action) -> Vec<String> {
    let Ok(value) = serde_json::to_value(action) else { return Vec::new() };
    let places = pointers(&value);
    let mut texts: Vec<String> = places
        .iter()
        .filter_map(|place| value.pointer(place)?.as_str())
        .filter(|text| text.len() >= MIN_LENGTH)
        .map(str::to_owned)
        .collect();
    texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    texts
}

/// Returns the entry, and the field in it, that contains one of these values. Earlier values have
/// priority.
pub(super) fn among(
    entries: &[RecordingEntry],
    range: RangeInclusive<usize>,
    values: &[String],
) -> Option<(usize, String)> {
    let inputs = || range.clone().filter_map(|at| Some((at, entries.get(at)?.input()?)));
    values
        .iter()
        .find_map(|value| inputs().find_map(|(at, input)| Some((at, holder(input, value)?))))
}

/// Returns the field of an input that contains a value.
fn holder(input: &Input, value: &str) -> Option<String> {
    match input {
        // The fields of the agent's output are searched one by one.
        Input::Line(line) => match serde_json::from_str::<Value>(&line.text) {
            Ok(said) => inside(&said, value),
            Err(_) => line.text.contains(value).then(|| "the line itself".to_owned()),
        },
        Input::HttpResponse(response) => inside(&serde_json::from_str(&response.body).ok()?, value)
            .map(|field| format!("body: {field}")),
        Input::StreamEvent(event) => inside(&serde_json::from_str(&event.data).ok()?, value)
            .map(|field| format!("data: {field}")),
        other => inside(&serde_json::to_value(other).ok()?, value),
    }
}

fn inside(said: &Value, value: &str) -> Option<String> {
    let places = pointers(said);
    let text = |place: &String| match said.pointer(place)? {
        Value::String(text) => Some(text.clone()),
        Value::Object(_) | Value::Array(_) | Value::Null => None,
        other => Some(other.to_string()),
    };
    let equal = places.iter().find(|place| text(place).is_some_and(|text| text == value));
    let similar = || {
        let near = |text: &str| {
            text.len() >= MIN_LENGTH
                && value.len() >= MIN_LENGTH
                && (text.contains(value) || value.contains(text))
        };
        places.iter().find(|place| text(place).is_some_and(|text| near(&text)))
    };
    equal.or_else(similar).map(|place| field_name(place))
}

/// Formats a JSON pointer for people, for example `message.content[0].text`.
#[must_use]
pub fn field_name(pointer: &str) -> String {
    let mut name = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if part.bytes().all(|b| b.is_ascii_digit()) && !part.is_empty() {
            name.push_str(&format!("[{part}]"));
        } else {
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(&part);
        }
    }
    name
}

/// Returns the JSON pointers of everything inside a value. Long lists are represented by their first
/// items.
#[must_use]
pub fn pointers(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect_pointers(value, &mut String::new(), &mut found);
    found
}

fn collect_pointers(value: &Value, at: &mut String, found: &mut Vec<String>) {
    let length = at.len();
    let mut visit = |key: String, value: &Value, at: &mut String| {
        at.push('/');
        at.push_str(&key);
        found.push(at.clone());
        collect_pointers(value, at, found);
        at.truncate(length);
    };
    match value {
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| visit(key.replace('~', "~0").replace('/', "~1"), value, at)),
        Value::Array(list) => list
            .iter()
            .take(8)
            .enumerate()
            .for_each(|(index, value)| visit(index.to_string(), value, at)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EntryKind;
    use aetheel_model::agent::{AgentLine, Pipe};

    #[test]
    fn a_value_is_found_in_the_line_and_field_that_contains_it() {
        let entry = |text: &str| {
            let (text, pipe) = (text.to_owned(), Pipe::Stdout);
            let line = AgentLine { proc: 1, pipe, text, truncated: false };
            RecordingEntry { t: 0.0, kind: EntryKind::In(Input::Line(line)) }
        };
        let entries = [
            entry(r#"{"type":"init"}"#),
            entry(r#"{"message":{"content":[{"text":"Hello there"}],"n":42}}"#),
            entry("plain Hello"),
        ];
        let find = |value: &str| among(&entries, 0..=2, &[value.to_owned()]);
        assert_eq!(find("Hello there"), Some((1, "message.content[0].text".to_owned())));
        assert_eq!(find("Hello there, and more"), Some((1, "message.content[0].text".to_owned())));
        assert_eq!(find("42"), Some((1, "message.n".to_owned())));
        assert_eq!(find("plain"), Some((2, "the line itself".to_owned())));
        assert_eq!(find("nowhere"), None);
    }
}
