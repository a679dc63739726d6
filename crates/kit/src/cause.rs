//! Finds the input line and the field that a value of an action comes from. It compares texts, so
//! the result is a guess, good enough for a hint. Pure.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::damage::{field, nodes};
use aetheel_model::agent::{Action, Input};
use aetheel_recording::RecordingEntry;

/// Minimum length of a text in bytes. Shorter texts would match everywhere.
const MIN_LENGTH: usize = 3;

/// Returns the texts of an action that are worth searching for, longest first.
pub(super) fn texts(action: &Action) -> Vec<String> {
    let Ok(value) = serde_json::to_value(action) else { return Vec::new() };
    let mut places = Vec::new();
    nodes(&value, &mut String::new(), &mut places);
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
    let mut places = Vec::new();
    nodes(said, &mut String::new(), &mut places);
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
    equal.or_else(similar).map(|place| field(place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::stdout_line;
    use aetheel_recording::EntryKind;

    #[test]
    fn a_value_is_found_in_the_line_and_field_that_contains_it() {
        let entry =
            |text: &str| RecordingEntry { t: 0.0, kind: EntryKind::In(stdout_line(1, text)) };
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
