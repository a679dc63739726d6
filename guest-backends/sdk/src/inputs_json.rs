//! Reads inputs from JSON in the form of recordings, the inverse of `actions_json`, with a
//! deserializer that renames keys.

use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

use crate::actions_json::kebab;

/// Reads an input, or any other type of the contract, from the form of recordings.
pub(crate) fn read<T: DeserializeOwned>(json: Value) -> Result<T, Error> {
    T::deserialize(Kebab(json))
}

/// Fields that contract 0.1 did not have and that are not optional, with the value that old
/// recordings mean. A missing optional field reads as `None` without this list.
fn default_of(record: &str, field: &str) -> Option<Value> {
    Some(match (record, field) {
        ("StartTurn" | "SessionReady", "tools")
        | ("Usage", "models")
        | ("Question", "preset")
        | ("Ask", "options" | "diffs") => Value::Array(Vec::new()),
        ("ToolOutput", "replace")
        | ("FileDiff", "binary")
        | ("Question", "optional" | "single_line" | "secret")
        | ("Ask", "changeable") => Value::Bool(false),
        ("Usage", "cache_write") => Value::from(0),
        ("Unrecognised", "difference") => Value::from("unknown"),
        ("FileDiff", "change") => Value::from("edited"),
        ("Question", "form") => Value::from("text"),
        _ => return None,
    })
}

struct Kebab(Value);

impl<'de> IntoDeserializer<'de, Error> for Kebab {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Kebab {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(items) => {
                visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Kebab)))
            }
            plain => plain.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut object = match self.0 {
            Value::Object(object) => object,
            // Before contract 0.3 a notice was only a text.
            Value::String(text) if name == "Notice" => {
                let fields = [("level", Value::from("info")), ("text", Value::from(text))];
                fields.map(|(field, value)| (field.to_owned(), value)).into_iter().collect()
            }
            _ => return Err(Error::custom(format!("{name} is not an object"))),
        };
        let known = fields.iter().filter_map(|field| {
            let value = object.remove(&kebab(field)).or_else(|| default_of(name, field))?;
            Some((*field, Kebab(value)))
        });
        visitor.visit_map(MapDeserializer::new(known.collect::<Vec<_>>().into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let variant = |case: &str| {
            let found = variants.iter().find(|variant| kebab(variant) == case);
            found.copied().ok_or_else(|| Error::custom(format!("{name} has no case `{case}`")))
        };
        match self.0 {
            Value::String(case) => visitor.visit_enum(variant(&case)?.into_deserializer()),
            Value::Object(object) if object.len() == 1 => {
                let (variant_name, value) = object.into_iter().next().expect("there is one");
                let case =
                    MapDeserializer::new(std::iter::once((variant(&variant_name)?, Kebab(value))));
                visitor.visit_enum(MapAccessDeserializer::new(case))
            }
            other => Err(Error::custom(format!("{name} is {other}"))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Emit;
    use crate::actions_json::json;
    use crate::fixture::{line, start};
    use crate::wit::{
        Action, Answer, Command, Decision, EventKind, Exit, Exited, HostTool, Input, Level, Pipe,
        StartTurn, ToolResult, TurnRef,
    };

    #[test]
    fn an_input_survives_a_round_trip() {
        let answers = Decision::Answers(vec![(
            "colour".to_owned(),
            vec!["red".to_owned(), "blue".to_owned()],
        )]);
        let inputs = [
            Input::Command(Command::StartTurn(start("hello"))),
            Input::Command(Command::Answer(Answer { ask: 3, decision: answers })),
            Input::Command(Command::Shutdown),
            line(Pipe::Stderr, "a line"),
            Input::Exited(Exited {
                proc: 1,
                how: Exit::Signal(9),
                stderr_tail: "killed".to_owned(),
            }),
            Input::Timer(7),
        ];
        for input in inputs {
            assert_eq!(read::<Input>(json(&input)).expect("it was written in this form"), input);
        }
        let error =
            read::<Input>(serde_json::json!({"gone": {}})).expect_err("no such input").to_string();
        assert_eq!(error, "Input has no case `gone`");
    }
    #[test]
    fn fields_of_contract_0_3_are_written_only_with_another_value_than_the_default() {
        let old = json(&Input::Command(Command::StartTurn(start("hello"))));
        let old_fields = old["command"]["start-turn"].as_object().expect("a record");
        assert!(!old_fields.contains_key("tools") && !old_fields.contains_key("agent-version"));
        let tool = HostTool {
            name: "memory".to_owned(),
            description: "Remembers".to_owned(),
            input_schema: "{}".to_owned(),
        };
        let version = Some("2.1.330".to_owned());
        let turn = StartTurn { agent_version: version, tools: vec![tool], ..start("hello") };
        let result = ToolResult { call: 1, text: "done".to_owned(), failed: false };
        for input in [Input::Command(Command::StartTurn(turn)), Input::ToolResult(result)] {
            assert_eq!(read::<Input>(json(&input)).expect("it was written in this form"), input);
        }
        let mut out = Vec::new();
        let mut emit = Emit::new(TurnRef { session: 1, turn: 1 }, &mut out);
        emit.notice("plain");
        emit.notice_with(Level::Info, Some("mcp"), "replaced");
        emit.notice_with(Level::Warn, None, "important");
        emit.tool_output("t", "more");
        emit.whole_tool_output("t", "all");
        emit.compaction(true, None, Some(9));
        let kinds: Vec<String> =
            out.iter().map(|action| json(action)["event"]["kind"].to_string()).collect();
        let expected = [
            r#"{"notice":"plain"}"#,
            r#"{"notice":{"key":"mcp","level":"info","text":"replaced"}}"#,
            r#"{"notice":{"level":"warn","text":"important"}}"#,
            r#"{"tool-output":{"id":"t","text":"more"}}"#,
            r#"{"tool-output":{"id":"t","replace":true,"text":"all"}}"#,
            r#"{"compaction":{"done":true,"tokens-after":9}}"#,
        ];
        assert_eq!(kinds, expected);
        for action in &out {
            let Action::Event(event) = action else { panic!("not an event") };
            let again = read::<EventKind>(json(&event.kind)).expect("it was written in this form");
            assert_eq!(again, event.kind);
        }
    }
}
