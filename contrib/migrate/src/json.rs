//! Parses JSON5 into JSON values. Errors do not quote the file, which may contain secrets.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Deepest nesting of arrays and objects in a JSON5 file. `json5` itself has no limit, and
/// overflows the stack.
const MAX_DEPTH: usize = 64;

/// Parses JSON5 (json5.org), which includes strict JSON.
///
/// # Errors
/// Returns the parser's error.
pub(crate) fn json5(text: &str) -> Result<Value, json5::Error> {
    Ok(json5::from_str::<Limited>(text)?.0)
}

/// A value nested at most [`MAX_DEPTH`] deep.
struct Limited(Value);

impl<'de> Deserialize<'de> for Limited {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Nested(MAX_DEPTH).deserialize(from).map(Self)
    }
}

/// Deserializes a value that is nested at most this deep.
struct Nested(usize);

impl Nested {
    fn inner<E: Error>(&self) -> Result<usize, E> {
        self.0.checked_sub(1).ok_or_else(|| E::custom("it is nested too deeply"))
    }
}

impl<'de> DeserializeSeed<'de> for Nested {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nested {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = serde_json::Number::from_f64(value);
        number.map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let (inner, mut all) = (self.inner()?, Vec::new());
        while let Some(item) = items.next_element_seed(Nested(inner))? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let (inner, mut all) = (self.inner()?, Map::new());
        while let Some(name) = fields.next_key::<String>()? {
            all.insert(name, fields.next_value_seed(Nested(inner))?);
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn json5_is_read() {
        let text = "// head\n{ a: 1, 'b': [1, +2, .5, 5.,], /* x */ \"c\": 'it\\'s \"q\" // no',\n $d_1: {true: true,},\n e: 'one\\\n two', \"1234567890123456789\": 1234567890123456789, }\n";
        assert_eq!(
            json5(text),
            Ok(json!({
                "a": 1, "b": [1, 2, 0.5, 5.0], "c": "it's \"q\" // no", "$d_1": {"true": true},
                "e": "one two", "1234567890123456789": 1_234_567_890_123_456_789_u64,
            }))
        );
    }

    #[test]
    fn invalid_json5_is_refused_without_quoting_it() {
        let deep = "[".repeat(1 << 20);
        for text in
            ["", "{", "{a:}", "{a: NaN}", "[1 2]", "{\"a\": 0x}", "{} canary", "canary", &deep]
        {
            let why = json5(text).unwrap_err().to_string();
            assert!(!why.contains("canary"), "{why}");
        }
    }

    proptest! {
        #[test]
        fn json_is_json5(text in r"\PC{0,12}", number in any::<i64>(), deep in 0..5_u8) {
            let mut value = json!({text.clone(): [number, text, true, null, {}], "x": []});
            for _ in 0..deep {
                value = json!([value, {"y": value}]);
            }
            prop_assert_eq!(json5(&value.to_string()), Ok(value.clone()));
            prop_assert_eq!(json5(&serde_json::to_string_pretty(&value).unwrap()), Ok(value));
        }

        #[test]
        fn no_text_panics(text in r"(\PC|[\n\r\t '/*\\,#{}\[\]:&*-]){0,60}") {
            drop(json5(&text));
        }
    }
}
