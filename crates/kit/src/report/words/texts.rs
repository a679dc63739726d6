//! Finds the words in the texts of an entry, and replaces them.

use serde_json::{Map, Number, Value};

use aetheel_recording::RecordingEntry;

/// Fields of the contract whose strings name a variant of an enumeration.
const VARIANTS: [&str; 7] = ["pipe", "safety", "mode", "kind", "decision", "how", "command"];
/// Keys whose values name the kind of an object in the agent's output.
const KINDS: [&str; 4] = ["type", "subtype", "method", "sessionUpdate"];
/// Longest text that can be an identifier, in bytes.
const MAX_IDENTIFIER: usize = 64;
/// Most digits of a word that may be kept. Ids and keys have more.
pub(super) const MAX_KEPT_DIGITS: usize = 3;
/// Numbers with fewer digits are not replaced: they are codes, versions and counters.
const MIN_NUMBER_DIGITS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum WordContext {
    /// A name of a field, type or method, such as `item/completed`.
    Identifier,
    /// One of [`KINDS`], or its value.
    Kind,
    /// Any other text: prose, a path, an id.
    Text,
    /// A number in JSON.
    Number,
}

/// Returns whether the value of a key names the kind of an object.
pub(in super::super) fn is_kind(key: &str) -> bool {
    KINDS.contains(&key)
}

pub(super) fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Calls `map` with each word of an entry, and returns the entry with the results in their place.
/// Returns `None` if the result is not an entry.
pub(super) fn map_entry(
    entry: &RecordingEntry,
    map: &mut impl FnMut(&str, WordContext) -> String,
) -> Option<RecordingEntry> {
    let mut value = serde_json::to_value(entry).ok()?;
    map_contract(&mut value, "", map);
    serde_json::from_value(value).ok()
}

/// Maps the texts in a value of the contract, whose field names stay.
pub(super) fn map_contract(
    value: &mut Value,
    field: &str,
    map: &mut impl FnMut(&str, WordContext) -> String,
) {
    match value {
        Value::String(text) if !VARIANTS.contains(&field) => *text = map_text(text, map),
        Value::Array(list) => list.iter_mut().for_each(|item| map_contract(item, field, map)),
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(field, value)| map_contract(value, field, map));
        }
        _ => {}
    }
}

/// Maps the words of a text, which may be JSON.
fn map_text(text: &str, map: &mut impl FnMut(&str, WordContext) -> String) -> String {
    let parsed = serde_json::from_str::<Value>(text);
    let structure = parsed.ok().filter(|value| value.is_object() || value.is_array());
    // In another notation, the words are replaced without looking at the structure.
    let written = structure.as_ref().map(Value::to_string);
    match structure {
        Some(value) if written.as_deref() == Some(text) => map_json(value, map).to_string(),
        _ => map_words(text, context_of(text), map),
    }
}

fn map_json(value: Value, map: &mut impl FnMut(&str, WordContext) -> String) -> Value {
    match value {
        Value::String(text) => map_text(&text, map).into(),
        Value::Array(list) => list.into_iter().map(|item| map_json(item, map)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, item)| {
                let item = match item {
                    Value::String(text)
                        if is_kind(&key) && context_of(&text) == WordContext::Identifier =>
                    {
                        map_words(&text, WordContext::Kind, map).into()
                    }
                    item => map_json(item, map),
                };
                let context = if is_kind(&key) { WordContext::Kind } else { context_of(&key) };
                (map_words(&key, context, map), item)
            });
            Value::Object(fields.collect::<Map<String, Value>>())
        }
        Value::Number(number) => Value::Number(map_number(number, map)),
        other => other,
    }
}

fn map_number(number: Number, map: &mut impl FnMut(&str, WordContext) -> String) -> Number {
    let text = number.to_string();
    if text.bytes().filter(u8::is_ascii_digit).count() < MIN_NUMBER_DIGITS {
        return number;
    }
    let mapped = map(&text, WordContext::Number);
    if mapped == text {
        return number;
    }
    // The placeholder of a fraction is not a number.
    mapped.parse::<i64>().map_or_else(|_| Number::from(12_345), Number::from)
}

pub(super) fn map_words(
    text: &str,
    context: WordContext,
    map: &mut impl FnMut(&str, WordContext) -> String,
) -> String {
    let (mut mapped, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find(is_word_part) {
        mapped.push_str(&rest[..start]);
        let word = &rest[start..];
        let end = word.find(|c| !is_word_part(c)).unwrap_or(word.len());
        mapped.push_str(&map(&word[..end], context));
        rest = &word[end..];
    }
    mapped + rest
}

/// Returns whether a text is a name or anything else.
fn context_of(text: &str) -> WordContext {
    let mut before = '/';
    let is_separator = |c: char| matches!(c, '/' | '.' | ':' | '-');
    let fits = text.chars().all(|c| {
        let fits =
            c.is_ascii_alphanumeric() || c == '_' || (is_separator(c) && !is_separator(before));
        before = c;
        fits
    });
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    if fits && !text.is_empty() && text.len() <= MAX_IDENTIFIER && digits <= MAX_KEPT_DIGITS {
        WordContext::Identifier
    } else {
        WordContext::Text
    }
}

/// Returns the kind of text in which `wanted` occurs.
pub(super) fn context_in(entries: &[RecordingEntry], wanted: &str) -> WordContext {
    fn is_whole(value: &Value, wanted: &str) -> bool {
        match value {
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(inner) if inner.is_object() || inner.is_array() => is_whole(&inner, wanted),
                _ => text.contains(wanted) && context_of(text) == WordContext::Identifier,
            },
            Value::Array(list) => list.iter().any(|item| is_whole(item, wanted)),
            Value::Object(fields) => fields.values().any(|item| is_whole(item, wanted)),
            _ => false,
        }
    }
    let found = |entry: &RecordingEntry| {
        serde_json::to_value(entry).is_ok_and(|value| is_whole(&value, wanted))
    };
    match entries.iter().any(found) {
        true => WordContext::Identifier,
        false => WordContext::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_from_paths_ids_and_prose() {
        for name in ["type", "item/agentMessage/delta", "session_id", "gpt-5.5", "v1:done"] {
            assert_eq!(context_of(name), WordContext::Identifier, "{name}");
        }
        for text in [
            "/home/alice/x",
            "alice@example.com",
            "https://host/x",
            "two words",
            "b5ee77a5-1b14-4ffd-b18a-e29518414451",
            "sk-live-83920184",
            "",
        ] {
            assert_eq!(context_of(text), WordContext::Text, "{text}");
        }
    }

    #[test]
    fn words_are_replaced_in_json_inside_json_and_in_keys() {
        let mut seen = Vec::new();
        let text = r#"{"a b":"{\"key\":\"x y\"}","n":123456,"small":12}"#;
        let mapped = map_text(text, &mut |word, context| {
            seen.push((word.to_owned(), context));
            word.to_uppercase()
        });
        assert_eq!(mapped, r#"{"A B":"{\"KEY\":\"X Y\"}","N":123456,"SMALL":12}"#);
        assert!(seen.contains(&("key".to_owned(), WordContext::Identifier)));
        assert!(seen.contains(&("y".to_owned(), WordContext::Text)));
        assert!(seen.contains(&("123456".to_owned(), WordContext::Number)));
        let plain = "broken {\"say\": \"Bob";
        let mapped = map_text(plain, &mut |word, _| "x".repeat(word.len()));
        assert_eq!(mapped, "xxxxxx {\"xxx\": \"xxx");
    }
}
