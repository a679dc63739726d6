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
