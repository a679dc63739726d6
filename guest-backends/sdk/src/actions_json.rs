//! Writes actions and inputs as JSON in the form of recordings: kebab-case, one key per variant.
//!
//! A serializer renames the generated names. If the contract grows, only the lists of fields that
//! are omitted change.

use std::fmt::Display;

use serde::ser::{self, Impossible, Serialize, SerializeSeq, SerializeStruct, SerializeTuple};
use serde_json::{Error, Map, Value};

/// Returns an action or input in the form of recordings.
pub(crate) fn json(word: &impl Serialize) -> Value {
    word.serialize(Kebab).expect("the contract has no type that JSON lacks")
}

pub(crate) fn kebab(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter == '_' || (letter.is_ascii_uppercase() && !out.is_empty()) {
            out.push('-');
        }
        if letter != '_' {
            out.push(letter.to_ascii_lowercase());
        }
    }
    out
}

fn unsupported<T>(what: impl Display) -> Result<T, Error> {
    Err(ser::Error::custom(format!("the contract has no {what}")))
}

struct Kebab;
struct List(Vec<Value>);
struct Record(&'static str, Map<String, Value>);

/// Fields that contract 0.1 did not have. They are omitted if they have their default value, so
/// that old recordings stay unchanged.
const LATER: [(&str, &[&str]); 11] = [
    ("Text", &["parent"]),
    ("FileDiff", &["change", "old_path", "binary"]),
    ("Usage", &["cache_write", "models"]),
    (
        "Question",
        &["description", "form", "optional", "preset", "placeholder", "single_line", "secret"],
    ),
    ("Ask", &["options", "diffs", "changeable", "parent", "deadline_ms"]),
    ("StartTurn", &["agent_version", "tools"]),
    ("SessionReady", &["tools"]),
    ("ToolOutput", &["replace"]),
    ("Unrecognised", &["difference"]),
    ("Notice", &["key"]),
    ("Compaction", &["tokens_before", "tokens_after"]),
];

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::String(word) => matches!(word.as_str(), "edited" | "text" | "unknown"),
        other => *other == 0,
    }
}

macro_rules! plain {
    ($($method:ident: $type:ty),*) => {
        $(fn $method(self, value: $type) -> Result<Value, Error> {
            Ok(Value::from(value))
        })*
    };
}

impl ser::Serializer for Kebab {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = List;
    type SerializeTuple = List;
    type SerializeTupleStruct = Impossible<Value, Error>;
    type SerializeTupleVariant = Impossible<Value, Error>;
    type SerializeMap = Impossible<Value, Error>;
    type SerializeStruct = Record;
    type SerializeStructVariant = Impossible<Value, Error>;

    plain!(serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32,
        serialize_i64: i64, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32,
        serialize_u64: u64, serialize_f32: f32, serialize_f64: f64, serialize_str: &str);

    fn serialize_char(self, value: char) -> Result<Value, Error> {
        Ok(Value::from(value.to_string()))
    }
    fn serialize_bytes(self, _: &[u8]) -> Result<Value, Error> {
        unsupported("bytes")
    }
    fn serialize_none(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }
    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<Value, Error> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }
    fn serialize_unit_struct(self, name: &'static str) -> Result<Value, Error> {
        unsupported(name)
    }
    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Value, Error> {
        Ok(Value::from(kebab(variant)))
    }
    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        name: &'static str,
        _: &T,
    ) -> Result<Value, Error> {
        unsupported(name)
    }
    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        Ok(Value::Object(Map::from_iter([(kebab(variant), value.serialize(self)?)])))
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<List, Error> {
        Ok(List(Vec::new()))
    }
    fn serialize_tuple(self, _: usize) -> Result<List, Error> {
        Ok(List(Vec::new()))
    }
    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Error> {
        unsupported(name)
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        unsupported(variant)
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Error> {
        unsupported("maps")
    }
    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Record, Error> {
        Ok(Record(name, Map::new()))
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        unsupported(variant)
    }
}

impl SerializeSeq for List {
    type Ok = Value;
    type Error = Error;
    fn serialize_element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        self.0.push(value.serialize(Kebab)?);
        Ok(())
    }
    fn end(self) -> Result<Value, Error> {
        Ok(Value::Array(self.0))
    }
}

impl SerializeTuple for List {
    type Ok = Value;
    type Error = Error;
    fn serialize_element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        SerializeSeq::serialize_element(self, value)
    }
    fn end(self) -> Result<Value, Error> {
        SerializeSeq::end(self)
    }
}

impl SerializeStruct for Record {
    type Ok = Value;
    type Error = Error;
    fn serialize_field<T: ?Sized + Serialize>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let value = value.serialize(Kebab)?;
        if !(LATER.iter().any(|(record, fields)| *record == self.0 && fields.contains(&key))
            && says_nothing(&value))
        {
            self.1.insert(kebab(key), value);
        }
        Ok(())
    }
    fn end(mut self) -> Result<Value, Error> {
        // Before contract 0.3 a notice was only a text.
        if self.0 == "Notice" && self.1.len() == 2 && self.1["level"] == "info" {
            return Ok(self.1.remove("text").unwrap_or_default());
        }
        Ok(Value::Object(self.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wit::{Action, Signal, Stop, ToolEnd, ToolStatus};

    #[test]
    fn an_action_has_the_form_of_recordings() {
        let stop = Action::Stop(Stop { proc: 1, signal: Signal::Interrupt, grace_ms: 3 });
        assert_eq!(
            json(&stop).to_string(),
            r#"{"stop":{"grace-ms":3,"proc":1,"signal":"interrupt"}}"#
        );
        let end = ToolEnd {
            id: "A_b".into(),
            status: ToolStatus::Ok,
            output: None,
            exit_code: Some(3),
            diffs: Vec::new(),
        };
        let mut out = Vec::new();
        crate::Emit::new(crate::wit::TurnRef { session: 1, turn: 2 }, &mut out).tool_end(end);
        let expected = r#"{"event":{"kind":{"tool-end":{"diffs":[],"exit-code":3,"id":"A_b","output":null,"status":"ok"}},"session":1,"turn":2}}"#;
        assert_eq!(json(&out[0]).to_string(), expected);
    }
}
