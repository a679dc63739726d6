//! A backend's own options: the operator's values, checked against the schema in the descriptor.
//! Pure.
//!
//! Supports the part of JSON Schema that descriptors need. A schema that uses anything else is
//! refused, because it would be enforced only in part. Valid options reach the guest in
//! `settings.options`.

use serde_json::{Map, Value};

use crate::plain::counted;

/// Keywords of a schema that do not restrict values.
const REMARKS: [&str; 8] =
    ["description", "title", "default", "examples", "deprecated", "$comment", "$schema", "$id"];

/// The reason why an option or its value is refused, in words that follow the name of the option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The backend has no such option. Contains the names of those that it has.
    #[error("is not an option of this backend; {}", listed(.0))]
    UnknownOption(Vec<String>),
    /// The schema allows no value here.
    #[error("may not be there")]
    Excluded,
    /// The value is not as the schema requires. Contains the requirement.
    #[error("must be {0}")]
    Requirement(String),
    /// The value lacks a member.
    #[error("must have `{0}`")]
    MemberMissing(String),
    /// An item of the value is invalid.
    #[error("has an item that {0}")]
    Item(#[source] Box<Self>),
    /// A member of the value is invalid.
    #[error("has `{name}`, which {source}")]
    Member {
        /// The name of the member.
        name: String,
        /// The defect of the member.
        source: Box<Self>,
    },
    /// The schema is neither an object nor a truth value.
    #[error("is declared in a way this host does not understand")]
    InvalidSchema,
    /// A keyword of the schema has an invalid value.
    #[error("is declared with `{0}` in a way this host does not understand")]
    InvalidKeyword(String),
    /// The schema has a keyword that is not supported.
    #[error("is declared with `{0}`, which this host does not understand")]
    UnknownKeyword(String),
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "it has no options".to_owned();
    }
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("it has {}", names.join(", "))
}

/// Parses the value that an operator wrote for an option. `schema` describes all options of the
/// backend.
///
/// # Errors
/// [`OptionError`] if the backend has no such option or the value is invalid.
pub fn option(schema: &Value, name: &str, text: &str) -> Result<Value, OptionError> {
    let properties = schema["properties"].as_object();
    let Some(property) = properties.and_then(|properties| properties.get(name)) else {
        let known = properties.into_iter().flat_map(Map::keys).cloned().collect();
        return Err(OptionError::UnknownOption(known));
    };
    let value = written(property, text);
    check(property, &value)?;
    Ok(value)
}

/// Returns the text as a string if the schema requires one, and as JSON otherwise.
fn written(schema: &Value, text: &str) -> Value {
    let as_text = || Value::String(text.to_owned());
    let json = serde_json::from_str(text).ok();
    let texts = schema["type"] == "string"
        || schema["enum"].as_array().is_some_and(|all| all.contains(&as_text()));
    match json {
        Some(value @ Value::String(_)) => value,
        Some(value) if !texts => value,
        _ => as_text(),
    }
}

/// Checks a value against a schema.
///
/// # Errors
/// [`OptionError`] if the value is invalid or the schema is not supported.
pub fn check(schema: &Value, value: &Value) -> Result<(), OptionError> {
    let schema = match schema {
        Value::Object(schema) => schema,
        Value::Bool(true) => return Ok(()),
        Value::Bool(false) => return Err(OptionError::Excluded),
        _ => return Err(OptionError::InvalidSchema),
    };
    for (word, says) in schema {
        keyword(schema, word, says, value)?;
    }
    Ok(())
}

fn keyword(
    schema: &Map<String, Value>,
    word: &str,
    says: &Value,
    value: &Value,
) -> Result<(), OptionError> {
    let ensure = |holds: bool, wanted: String| {
        if holds { Ok(()) } else { Err(OptionError::Requirement(wanted)) }
    };
    let odd = || OptionError::InvalidKeyword(word.to_owned());
    let member = |name: &str, source| OptionError::Member {
        name: name.to_owned(),
        source: Box::new(source),
    };
    match word {
        word if REMARKS.contains(&word) => Ok(()),
        "type" => {
            let is = match says.as_str().ok_or_else(odd)? {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "number" => value.is_number(),
                "integer" => value.is_i64() || value.is_u64(),
                _ => return Err(odd()),
            };
            ensure(is, format!("of type {}", says.as_str().unwrap_or_default()))
        }
        "enum" => {
            let all = says.as_array().ok_or_else(odd)?;
            let names: Vec<String> = all
                .iter()
                .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
                .collect();
            ensure(all.contains(value), format!("one of {}", names.join(", ")))
        }
        "const" => ensure(says == value, says.to_string()),
        "minLength" | "maxLength" => {
            let (bound, Some(text)) = (says.as_u64().ok_or_else(odd)?, value.as_str()) else {
                return Ok(());
            };
            let length = text.chars().count() as u64;
            let holds = if word == "minLength" { length >= bound } else { length <= bound };
            ensure(
                holds,
                format!(
                    "of {} {}",
                    if word == "minLength" { "at least" } else { "at most" },
                    counted(bound, "character")
                ),
            )
        }
        "minItems" | "maxItems" => {
            let (bound, Some(items)) = (says.as_u64().ok_or_else(odd)?, value.as_array()) else {
                return Ok(());
            };
            let holds = if word == "minItems" {
                items.len() as u64 >= bound
            } else {
                items.len() as u64 <= bound
            };
            ensure(
                holds,
                format!(
                    "of {} {}",
                    if word == "minItems" { "at least" } else { "at most" },
                    counted(bound, "item")
                ),
            )
        }
        "minimum" | "maximum" => {
            let (bound, Some(number)) = (says.as_f64().ok_or_else(odd)?, value.as_f64()) else {
                return Ok(());
            };
            let holds = if word == "minimum" { number >= bound } else { number <= bound };
            ensure(
                holds,
                format!("{} {bound}", if word == "minimum" { "at least" } else { "at most" }),
            )
        }
        "items" => {
            let mut items = value.as_array().into_iter().flatten();
            items.try_for_each(|item| {
                check(says, item).map_err(|error| OptionError::Item(Box::new(error)))
            })
        }
        "required" => {
            let names = says.as_array().ok_or_else(odd)?;
            let Some(object) = value.as_object() else { return Ok(()) };
            let missing =
                names.iter().filter_map(Value::as_str).find(|name| !object.contains_key(*name));
            missing.map_or(Ok(()), |name| Err(OptionError::MemberMissing(name.to_owned())))
        }
        "properties" => {
            let properties = says.as_object().ok_or_else(odd)?;
            let Some(object) = value.as_object() else { return Ok(()) };
            let mut both = properties
                .iter()
                .filter_map(|(name, schema)| Some((name, schema, object.get(name)?)));
            both.try_for_each(|(name, schema, value)| {
                check(schema, value).map_err(|error| member(name, error))
            })
        }
        "additionalProperties" => {
            let known = schema.get("properties").and_then(Value::as_object);
            let Some(object) = value.as_object() else { return Ok(()) };
            let mut more = object
                .iter()
                .filter(|(name, _)| !known.is_some_and(|known| known.contains_key(*name)));
            more.try_for_each(|(name, value)| {
                check(says, value).map_err(|error| member(name, error))
            })
        }
        _ => Err(OptionError::UnknownKeyword(word.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({ "type": "object", "additionalProperties": false, "properties": {
            "words": { "type": "string", "minLength": 2 }, "level": { "enum": ["low", "high", 3] }, "on": { "type": "boolean" },
            "count": { "type": "integer", "minimum": 1, "maximum": 9 }, "names": { "type": "array", "items": { "type": "string" }, "maxItems": 2 },
            "deep": { "type": "object", "required": ["a"], "additionalProperties": { "type": "string" }, "properties": { "a": { "type": "boolean" } } },
            "odd": { "type": "string", "pattern": "^a" }
        } })
    }

    #[test]
    fn an_option_has_the_type_of_its_schema() {
        for (name, text, value) in [
            ("words", "two words", json!("two words")),
            ("words", "12", json!("12")),
            ("words", "\"quoted\"", json!("quoted")),
            ("level", "high", json!("high")),
            ("level", "3", json!(3)),
            ("on", "true", json!(true)),
            ("count", "9", json!(9)),
            ("names", r#"["a", "b"]"#, json!(["a", "b"])),
            ("deep", r#"{"a": true, "b": "c"}"#, json!({ "a": true, "b": "c" })),
        ] {
            assert_eq!(option(&schema(), name, text), Ok(value), "{name} = {text}");
        }
    }

    #[test]
    fn faults_of_an_option_are_described() {
        for (name, text, fault) in [
            ("words", "x", "must be of at least 2 characters"),
            ("level", "medium", "must be one of low, high, 3"),
            ("on", "yes", "must be of type boolean"),
            ("count", "10", "must be at most 9"),
            ("count", "1.5", "must be of type integer"),
            ("names", "[1]", "has an item that must be of type string"),
            ("names", r#"["a","b","c"]"#, "must be of at most 2 items"),
            ("deep", "{}", "must have `a`"),
            ("deep", r#"{"a": 1}"#, "has `a`, which must be of type boolean"),
            ("deep", r#"{"a": true, "b": 1}"#, "has `b`, which must be of type string"),
            ("odd", "abc", "is declared with `pattern`, which this host does not understand"),
            (
                "nothing",
                "1",
                "is not an option of this backend; it has `count`, `deep`, `level`, `names`, `odd`, `on`, `words`",
            ),
        ] {
            let found = option(&schema(), name, text).expect_err(name).to_string();
            assert_eq!(found, fault, "{name} = {text}");
        }
        assert_eq!(
            option(&Value::Null, "x", "1").expect_err("unknown").to_string(),
            "is not an option of this backend; it has no options"
        );
    }

    #[test]
    fn valid_options_are_valid_for_a_complete_schema_checker_too() {
        let full = jsonschema::validator_for(&schema()).expect("a schema");
        let values = [
            json!("x"),
            json!("xy"),
            json!(3),
            json!(true),
            json!([]),
            json!(["a", 1]),
            json!({ "a": true }),
            json!({ "b": 2 }),
            json!(null),
        ];
        for name in ["words", "level", "on", "count", "names", "deep"] {
            for value in &values {
                let (ours, theirs) = (
                    check(&schema()["properties"][name], value).is_ok(),
                    full.is_valid(&json!({ name: value })),
                );
                assert_eq!(ours, theirs, "{name}: {value}");
            }
        }
    }
}
