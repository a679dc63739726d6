//! Values of items, without what may differ between versions.

use aetheel_model::agent::Chunk;
use serde_json::Value;

/// Stands for the version of the backend, which it tells its agent.
const OWN_VERSION: &str = "<version>";

/// Returns whether `now` contains everything in `before`, unchanged. Objects and lists may contain
/// more.
pub(super) fn covers(now: &Value, before: &Value) -> bool {
    match (now, before) {
        (_, Value::Null) => true,
        (Value::Object(now), Value::Object(before)) => {
            before.iter().all(|(key, value)| covers(now.get(key).unwrap_or(&Value::Null), value))
        }
        (Value::Array(now), Value::Array(before)) => {
            let mut rest = now.iter();
            before.iter().all(|value| rest.any(|now| covers(now, value)))
        }
        _ => now == before,
    }
}

/// Replaces the backend's own version in all texts. Versions without a dot are too common as text.
pub(super) fn without_version(value: &mut Value, version: &str) {
    if !version.contains('.') {
        return;
    }
    match value {
        Value::String(text) if text.contains(version) => {
            *text = text.replace(version, OWN_VERSION);
        }
        Value::Array(values) => values.iter_mut().for_each(|it| without_version(it, version)),
        Value::Object(fields) => fields.values_mut().for_each(|it| without_version(it, version)),
        _ => {}
    }
}

/// Removes the fields that two values have in common.
pub(super) fn without_common(first: &mut Value, second: &mut Value) {
    let (Value::Object(one), Value::Object(other)) = (first, second) else { return };
    let keys: Vec<String> = one.keys().filter(|key| other.contains_key(*key)).cloned().collect();
    for key in keys {
        if one[&key] == other[&key] {
            one.remove(&key);
            other.remove(&key);
        } else if let (Some(one), Some(other)) = (one.get_mut(&key), other.get_mut(&key)) {
            without_common(one, other);
        }
    }
}

/// Returns a value as text for people: the names of fields and their values, without empty ones.
pub(super) fn in_words(value: &Value) -> String {
    let list = |parts: Vec<String>| {
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(", ")
    };
    match value {
        Value::Null | Value::Bool(false) => String::new(),
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner) if inner.is_object() => in_words(&inner),
            _ => text.clone(),
        },
        Value::Array(items) => list(items.iter().map(in_words).collect()),
        // The variant of an event.
        Value::Object(fields) if fields.len() == 1 && fields.values().all(Value::is_object) => {
            list(fields.values().map(in_words).collect())
        }
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| match (value, in_words(value)) {
                (Value::Bool(true), _) => key.replace('-', " "),
                (_, words) if words.is_empty() => String::new(),
                (_, words) => format!("{} {words}", key.replace('-', " ")),
            };
            list(fields.iter().map(field).collect())
        }
        other => other.to_string(),
    }
}

/// Returns the content of a message. JSON is parsed, so that only its meaning counts.
pub(super) fn body(chunks: &[Chunk]) -> Value {
    let text: String = chunks
        .iter()
        .map(|chunk| match chunk {
            Chunk::Text(text) => text.clone(),
            other => serde_json::to_string(other).unwrap_or_default(),
        })
        .collect();
    let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
    match (serde_json::from_str(&text), lines) {
        (Ok(value), _) => value,
        (Err(_), Ok(lines)) if !lines.is_empty() => lines.into(),
        _ => text.into(),
    }
}
