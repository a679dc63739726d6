//! Reads fields of JSON whose shape may have changed: wrong types and missing fields are `None`,
//! never an error.
//!
//! Agents print duplicate keys, fractions in place of whole numbers, and new fields. Output is
//! therefore parsed into a [`Value`] first (the last duplicate wins), and fields are looked up in
//! it. Strings without escapes borrow from the line, because many small allocations are the largest
//! cost in a sandbox.

use std::borrow::Cow;
use std::fmt;
use std::ops::Index;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess};
use serde::ser::{Serialize, Serializer};
use serde_json::Number;

use crate::wit::{Line, Pipe};

/// Parses a line.
///
/// # Errors
/// Fails if the line is not JSON or is nested more than 128 levels deep.
pub fn parse(line: &str) -> Result<Value<'_>, serde_json::Error> {
    serde_json::from_str(line)
}

/// Parses a line of stdout that is a JSON object. Skips blank lines and lines of stderr. Calls
/// `unrecognised` with a description and the text of any other line.
pub fn object<'l>(
    line: &'l Line,
    unrecognised: impl FnOnce(&'static str, &'l str),
) -> Option<Value<'l>> {
    let text = line.text.trim();
    if text.is_empty() || line.pipe == Pipe::Stderr {
        return None;
    }
    match parse(text) {
        Ok(object @ Value::Object(_)) => Some(object),
        _ => {
            unrecognised(
                if line.truncated {
                    "line longer than the limit"
                } else {
                    "line that is not a JSON object"
                },
                text,
            );
            None
        }
    }
}

/// A JSON value that may borrow from the text it was parsed from. Displays as JSON with sorted
/// keys.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "as in JSON")]
pub enum Value<'a> {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    Object(Object<'a>),
}

/// The fields of an object, in the order they were printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

impl<'a> Object<'a> {
    /// Returns a field; the last one of duplicates.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns all fields, including duplicates.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value<'a>)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns all values, including those of duplicates.
    pub fn values(&self) -> impl Iterator<Item = &Value<'a>> {
        self.0.iter().map(|(_, value)| value)
    }

    /// Returns whether there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Value<'a> {
    /// Returns a field of an object; the last one of duplicates.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    /// Returns the text, if the value is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// Returns the value, if it is `true` or `false`.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// Returns the elements of a list.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(values) = self { Some(values) } else { None }
    }

    /// Returns the fields of an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object<'a>> {
        if let Self::Object(fields) = self { Some(fields) } else { None }
    }

    /// Returns whether the value is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns a copy that borrows nothing.
    #[must_use]
    pub fn to_static(&self) -> Value<'static> {
        let text = |text: &Cow<'_, str>| Cow::Owned(text.clone().into_owned());
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => Value::Number(number.clone()),
            Self::String(string) => Value::String(text(string)),
            Self::Array(values) => Value::Array(values.iter().map(Self::to_static).collect()),
            Self::Object(Object(fields)) => Value::Object(Object(
                fields.iter().map(|(name, value)| (text(name), value.to_static())).collect(),
            )),
        }
    }

    /// Returns the text of a field that is a string.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// Returns the text of a field as an owned string, or an empty one if the field is not a
    /// string.
    #[must_use]
    pub fn string(&self, key: &str) -> String {
        self.text(key).unwrap_or_default().to_owned()
    }

    /// Returns whether a field is `true`.
    #[must_use]
    pub fn is_true(&self, key: &str) -> bool {
        self.get(key).and_then(Self::as_bool).unwrap_or(false)
    }

    /// Returns a numeric field as a count: fractions are rounded, negative numbers become 0, large
    /// ones `u32::MAX`.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates as intended"
    )]
    pub fn count(&self, key: &str) -> Option<u32> {
        let Self::Number(number) = self.get(key)? else { return None };
        match number.as_u64() {
            Some(whole) => Some(u32::try_from(whole).unwrap_or(u32::MAX)),
            None => number.as_f64().map(|fraction| fraction.round() as u32),
        }
    }

    /// Returns a numeric field.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<f64> {
        if let Self::Number(number) = self.get(key)? { number.as_f64() } else { None }
    }

    /// Returns the elements of a field that is a list, or no elements if it is not.
    #[must_use]
    pub fn list(&self, key: &str) -> &[Self] {
        self.get(key).and_then(Self::as_array).unwrap_or_default()
    }
}

impl<'a> Index<&str> for Value<'a> {
    type Output = Value<'a>;

    /// Returns a field, or null if it does not exist.
    fn index(&self, key: &str) -> &Value<'a> {
        self.get(key).unwrap_or(&Value::Null)
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(values) => serializer.collect_seq(values),
            // The last duplicate wins.
            Self::Object(Object(fields)) => {
                let sorted: std::collections::BTreeMap<&str, &Value<'_>> =
                    fields.iter().map(|(name, value)| (&**name, value)).collect();
                serializer.collect_map(sorted)
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> de::Visitor<'de> for Reader {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value<'de>, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value<'de>, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value<'de>, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value<'de>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = elements.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value<'de>, A::Error> {
        // Reserves room for most objects: growing from 1 field would move the fields three times.
        let mut fields = Vec::with_capacity(8);
        while let Some((Key(name), value)) = entries.next_entry()? {
            fields.push((name, value));
        }
        Ok(Value::Object(Object(fields)))
    }
}

struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_str(Reader)? {
            Value::String(text) => Ok(Self(text)),
            _ => Err(de::Error::custom("the key is not a string")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_types_and_missing_fields_are_not_errors() {
        let value = parse(r#"{"n":551.86,"m":-3,"big":1e12,"s":7,"id":"a","id":"b","l":{}}"#)
            .expect("JSON");
        assert_eq!(value.count("n"), Some(552));
        assert_eq!(value.count("m"), Some(0));
        assert_eq!(value.count("big"), Some(u32::MAX));
        assert_eq!(value.text("s"), None);
        assert_eq!(value.text("id"), Some("b"));
        assert!(value.list("l").is_empty());
        assert!(!value.is_true("gone"));
        assert!(value["gone"]["deeper"].is_null());
    }

    #[test]
    fn a_value_is_displayed_as_serde_json_displays_it() {
        let text = r#"{"b":[1,-2,2.5,null,true,"q\"\n\u00e9",{}],"a":{"k":"1","k":"2"},"\u006b":"escaped key"}"#;
        let value = parse(text).expect("JSON");
        let theirs: serde_json::Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(value.to_string(), theirs.to_string());
        assert_eq!(value.to_static(), value);
    }

    #[test]
    fn only_strings_with_escapes_are_copied() {
        let value = parse(r#"{"plain":"text","escaped":"a\nb"}"#).expect("JSON");
        assert!(matches!(value.get("plain"), Some(Value::String(Cow::Borrowed("text")))));
        assert!(
            matches!(value.get("escaped"), Some(Value::String(Cow::Owned(text))) if text == "a\nb")
        );
    }
}
