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
        let Value::Object(mut object) = self.0 else {
            return Err(Error::custom(format!("{name} is not an object")));
        };
        let known = fields
            .iter()
            .filter_map(|field| object.remove(&kebab(field)).map(|value| (*field, Kebab(value))));
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
    use crate::actions_json::json;
    use crate::fixture::{line, start};
    use crate::wit::{Answer, Command, Decision, Exit, Exited, Input, Pipe};

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
}
