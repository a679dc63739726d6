//! The input of a tool: its schema for the model, its parser and its limits.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ToolError, ToolInput};
use aetheel_model::agent::HostTool;
use aetheel_model::host_tool::HostToolKind;

/// Maximum length of a prompt or reason, in characters.
const MAX_TEXT_CHARS: usize = 4_000;
/// Maximum length of a time, a name or an expression, in characters.
const MAX_WORD_CHARS: usize = 100;

/// The input of a tool.
///
/// Agents get the comments of the type and its fields: that of the type as the description of the
/// tool, and those of the fields in its schema.
pub(super) trait HostToolInput: DeserializeOwned + JsonSchema + 'static {
    /// Parses the input of a call.
    ///
    /// # Errors
    /// Returns the error of the parser.
    fn parse(input: &str) -> serde_json::Result<Self> {
        // Some agents send nothing for an object without fields. The error then names the missing one.
        serde_json::from_str(if input.trim().is_empty() { "{}" } else { input })
    }

    /// Checks the limits.
    ///
    /// # Errors
    /// Returns the limit that is violated.
    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }
}

/// Parses and checks the input of a call.
type ParseInput = dyn Fn(&str) -> Result<ToolInput, ToolError>;

/// A tool with the type of its input.
pub(super) struct Tool {
    schema: fn() -> Schema,
    parse: Box<ParseInput>,
}

impl Tool {
    /// Returns a tool. `wrap` makes the parsed input of a call.
    pub(super) fn new<T: HostToolInput>(wrap: impl Fn(T) -> ToolInput + 'static) -> Self {
        let parse = move |input: &str| {
            let input = T::parse(input)?;
            input.check().map_err(ToolError::Limit)?;
            Ok(wrap(input))
        };
        Self { schema: schema::<T>, parse: Box::new(parse) }
    }

    /// Returns the description of the tool for the model.
    pub(super) fn describe(&self, kind: HostToolKind) -> HostTool {
        let mut schema = (self.schema)();
        let description = schema.remove("description");
        let description = description.as_ref().and_then(Value::as_str).unwrap_or_default();
        HostTool {
            name: kind.name().to_owned(),
            description: description.to_owned(),
            input_schema: schema.to_value().to_string(),
        }
    }

    /// Parses and checks the input of a call.
    ///
    /// # Errors
    /// [`ToolError::Input`] or [`ToolError::Limit`].
    pub(super) fn parse(&self, input: &str) -> Result<ToolInput, ToolError> {
        (self.parse)(input)
    }
}

/// Returns the schema of an input, with the description of its tool.
fn schema<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::default().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let settings = settings.with_transform(RecursiveTransform(simplify));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("additionalProperties".to_owned(), false.into());
    schema.ensure_object().entry("properties").or_insert_with(|| json!({}));
    schema
}

/// Removes the properties of a derived schema that say nothing to a model.
fn simplify(schema: &mut Schema) {
    for name in ["title", "format", "default"] {
        schema.remove(name);
    }
    if schema.get("minimum") == Some(&json!(0)) {
        schema.remove("minimum");
    }
    // The first type of an optional field is that of its value, and the second one is null.
    if let Some(kind) = schema.get("type").and_then(|kinds| kinds.get(0)).cloned() {
        schema.insert("type".to_owned(), kind);
    }
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
}

/// Checks a prompt or reason.
pub(super) fn check_text(text: &str) -> Result<(), &'static str> {
    if text.trim().is_empty() {
        Err("`text` is empty")
    } else if text.chars().count() > MAX_TEXT_CHARS {
        Err("`text` has more than 4000 characters")
    } else {
        Ok(())
    }
}

/// Checks times, names and expressions.
pub(super) fn check_words<'a>(
    words: impl IntoIterator<Item = &'a String>,
) -> Result<(), &'static str> {
    match words.into_iter().any(|word| word.chars().count() > MAX_WORD_CHARS) {
        true => Err("a value has more than 100 characters"),
        false => Ok(()),
    }
}

/// Checks the time and the text of one turn.
pub(super) fn check_later_turn(
    at: Option<&String>,
    after: Option<&String>,
    text: &str,
) -> Result<(), &'static str> {
    if at.is_some() == after.is_some() {
        return Err("give either `at` or `in`");
    }
    check_text(text)?;
    check_words(at.into_iter().chain(after))
}
