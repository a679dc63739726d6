//! Damaged lines of output, such as agents print after an update or when they are killed. Pure.

use serde_json::Value;

use super::seeded_rng::SeededRng;
use aetheel_recording::comparison::{field_name, pointers};

/// Lines that no agent should print, but that every parser must survive.
pub(super) const GARBAGE: &[(&str, &str)] = &[
    ("an empty line", ""),
    ("half an object", "{"),
    ("`null`", "null"),
    ("a number", "-1e999"),
    ("a text", "\"x\""),
    ("an empty list", "[]"),
    ("an empty object", "{}"),
    ("a list of objects", "[{\"type\":\"text\"},[],null]"),
    (
        "an object with a `type` of null",
        "{\"type\":null,\"id\":null,\"method\":null,\"result\":null}",
    ),
    (
        "an unknown type",
        "{\"type\":\"kit-unknown\",\"subtype\":\"kit\",\"method\":\"kit/unknown\",\"params\":{\"kit\":true}}",
    ),
    ("a `type` that is an object", "{\"type\":{\"a\":1},\"method\":[],\"params\":7,\"id\":{}}"),
    (
        "a response to a request that was never made",
        "{\"jsonrpc\":\"2.0\",\"id\":987654,\"result\":{\"kit\":[]}}",
    ),
    (
        "an error in response to a request that was never made",
        "{\"jsonrpc\":\"2.0\",\"id\":\"kit\",\"error\":{\"code\":-32603,\"message\":null,\"data\":[]}}",
    ),
    (
        "an unknown request",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"kit/unknown\",\"params\":null}",
    ),
    ("binary", "\u{0}\u{1}\u{7f}\u{fffd}PNG\u{fffd}\u{1b}[2J\u{fffe}"),
    ("a stack trace", "    at Object.<anonymous> (/usr/lib/node_modules/x/index.js:1:1)"),
    ("half a surrogate", "{\"type\":\"text\",\"text\":\"\\ud83d\"}"),
    ("a byte order mark", "\u{feff}{\"type\":\"text\"}"),
];

/// Returns nested lists, deeper than the stack of a recursive parser allows.
pub(super) fn deep() -> String {
    "[".repeat(20_000)
}

/// Damages a line of JSON in at most `limit` ways. Returns a description and the damaged line for
/// each; nothing if the line is not JSON.
pub(super) fn broken(text: &str, limit: usize, rng: &mut SeededRng) -> Vec<(String, String)> {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let places = pointers(&value);
    let picked = rng.pick(places.len(), limit);
    picked
        .into_iter()
        .filter_map(|at| {
            let pointer = &places[at];
            let mut broken = value.clone();
            let what = damage_value(&mut broken, pointer, rng)?;
            Some((format!("{what} `{}`", field_name(pointer)), broken.to_string()))
        })
        .collect()
}

/// Returns all strings in a JSON text, whole and word by word.
pub(super) fn words(json: &str) -> Vec<String> {
    let Ok(value) = serde_json::from_str::<Value>(json) else { return Vec::new() };
    let places = pointers(&value);
    let texts = places.iter().filter_map(|place| value.pointer(place)?.as_str());
    texts
        .flat_map(|text| std::iter::once(text).chain(text.split_whitespace()))
        .map(str::to_owned)
        .collect()
}

fn damage_value(value: &mut Value, pointer: &str, rng: &mut SeededRng) -> Option<&'static str> {
    let (above, name) = pointer.rsplit_once('/')?;
    let name = name.replace("~1", "/").replace("~0", "~");
    if rng.below(4) == 0
        && let Some(Value::Object(map)) = value.pointer_mut(above)
    {
        map.remove(&name);
        return Some("without");
    }
    let there = value.pointer_mut(pointer)?;
    let (what, other) = match (&*there, rng.below(4)) {
        (_, 0) => ("null in place of", Value::Null),
        (Value::String(_), 1) => ("an unknown word in", Value::from("kit-unknown")),
        (Value::String(_), 2) => ("nothing in", Value::from("")),
        (Value::String(_), _) => ("a number in place of", Value::from(7)),
        (Value::Number(_), 1) => ("a text in place of", Value::from("seven")),
        (Value::Number(_), 2) => ("a negative number in", Value::from(-1)),
        (Value::Number(_), _) => ("a number too large in", Value::from(u64::MAX)),
        (Value::Bool(_), _) => ("a text in place of", Value::from("yes")),
        (Value::Array(_), 1) => ("an empty list in", Value::Array(Vec::new())),
        (Value::Array(_), _) => ("an object in place of", serde_json::json!({"kit": 1})),
        (Value::Object(_), 1) => ("an empty object in", serde_json::json!({})),
        (Value::Object(_), _) => ("a list in place of", serde_json::json!([1, "kit", null])),
        (Value::Null, _) => ("an object in place of", serde_json::json!({"kit": {}})),
    };
    *there = other;
    Some(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_lines_are_valid_json_and_their_descriptions_name_the_field() {
        let line = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"Hi"}],"usage":{"n":3}},"a/b":true}"#;
        let broken = broken(line, 100, &mut SeededRng::new(1));
        assert_eq!(broken.len(), 9, "{broken:?}");
        for (what, text) in &broken {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_ne!(value, serde_json::from_str::<Value>(line).unwrap(), "{what}");
        }
        assert!(
            broken.iter().any(|(what, _)| what.ends_with("`message.content[0].text`")),
            "{broken:?}"
        );
        assert!(broken.iter().any(|(what, _)| what.ends_with("`a/b`")), "{broken:?}");
        assert!(super::broken("plain words", 3, &mut SeededRng::new(1)).is_empty());
    }
}
