//! Forms that ask people for values: a restricted JSON Schema, the same in MCP (elicitation,
//! 2025-11-25) and in the Agent Client Protocol (`elicitation/create`, schema v1 of its SDK 2.4.0).

use serde_json::{Map, json};

use crate::json::{self, Value};
use crate::wit::{AnswerForm, Choice, Question};

/// The types of a form's fields by their ids, to convert answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form(Vec<(String, String)>);

impl Form {
    /// Reads a schema. Returns the form and a question for each of its fields, in order.
    #[must_use]
    pub fn read(schema: &Value) -> (Self, Vec<Question>) {
        let required = texts(schema.list("required"));
        let fields = || schema["properties"].as_object().into_iter().flat_map(json::Object::fields);
        let kinds = fields()
            .map(|(id, field)| (id.to_owned(), field.text("type").unwrap_or("string").to_owned()));
        let questions =
            fields().map(|(id, field)| question(id, field, required.iter().any(|it| it == id)));
        (Self(kinds.collect()), questions.collect())
    }

    /// Returns the content of an accepted form. Answers to unknown fields are left out.
    #[must_use]
    pub fn content(&self, answers: Vec<(String, Vec<String>)>) -> Map<String, serde_json::Value> {
        let value = |(id, texts): (String, Vec<String>)| {
            let (_, kind) = self.0.iter().find(|(field, _)| *field == id)?;
            Some((id, typed(kind, texts)))
        };
        answers.into_iter().filter_map(value).collect()
    }
}

fn question(id: &str, field: &Value, required: bool) -> Question {
    let many = field.text("type") == Some("array");
    let options = choices(if many { &field["items"] } else { field });
    let form = match field.text("type") {
        Some("boolean") => AnswerForm::YesNo,
        Some("integer") => AnswerForm::Whole,
        Some("number") => AnswerForm::Number,
        _ => AnswerForm::Text,
    };
    let (title, description) = (field.text("title"), field.text("description"));
    Question {
        id: id.to_owned(),
        text: title.or(description).unwrap_or(id).to_owned(),
        description: title.and(description).map(str::to_owned),
        form,
        free_text: options.is_empty() && form != AnswerForm::YesNo,
        options,
        many,
        optional: !required,
        preset: preset(&field["default"]),
        ..Question::default()
    }
}

/// Reads choices: plain values, values with a list of names, or values with titles.
fn choices(schema: &Value) -> Vec<Choice> {
    let names = schema.list("enumNames");
    let bare = schema.list("enum").iter().enumerate().filter_map(|(at, value)| {
        let value = value.as_str()?;
        Some(Choice {
            id: value.to_owned(),
            ..Choice::plain(names.get(at).and_then(Value::as_str).unwrap_or(value))
        })
    });
    let titled = schema.list("oneOf").iter().chain(schema.list("anyOf")).filter_map(|value| {
        let id = value.text("const")?;
        let title = value.text("title").unwrap_or(id);
        // claude-agent-acp 0.49.0 writes the description into the title.
        let (label, description) =
            match title.strip_prefix(id).and_then(|rest| rest.strip_prefix(" — ")) {
                Some(description) => (id, Some(description)),
                None => (title, value.text("description")),
            };
        Some(Choice {
            id: id.to_owned(),
            description: description.map(str::to_owned),
            ..Choice::plain(label)
        })
    });
    bare.chain(titled).collect()
}

/// Converts a default value to an answer.
fn preset(value: &Value) -> Vec<String> {
    match value {
        Value::Array(all) => texts(all),
        value if value.is_null() => Vec::new(),
        value => match (value.as_bool(), value.as_str()) {
            (Some(yes), _) => vec![if yes { "yes" } else { "no" }.to_owned()],
            (_, Some(text)) => vec![text.to_owned()],
            _ => vec![value.to_string()],
        },
    }
}

fn typed(kind: &str, mut texts: Vec<String>) -> serde_json::Value {
    if kind == "array" {
        return json!(texts);
    }
    let text = texts.pop().unwrap_or_default();
    match kind {
        "boolean" => json!(matches!(text.as_str(), "yes" | "true")),
        "number" | "integer" => {
            json::parse(&text).map_or_else(|_| json!(text), |number| json!(number))
        }
        _ => json!(text),
    }
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_questions_in_order_and_answers_get_their_types() {
        let schema = json::parse(
            r#"{"properties":{"n":{"type":"integer","title":"How many"},"ok":{"type":"boolean"},
            "c":{"type":"string","default":"red","enum":["red","blue"],"enumNames":["red","the blue one"]},
            "d":{"type":"array","items":{"anyOf":[{"const":"A","title":"A — first"},{"const":"B","title":"The B"}]}}},
            "required":["c"]}"#,
        )
        .expect("JSON");
        let (form, questions) = Form::read(&schema);
        let seen: Vec<_> = questions
            .iter()
            .map(|it| (it.id.as_str(), it.form, it.options.len(), it.free_text, it.optional))
            .collect();
        assert_eq!(
            seen,
            [
                ("n", AnswerForm::Whole, 0, true, true),
                ("ok", AnswerForm::YesNo, 0, false, true),
                ("c", AnswerForm::Text, 2, false, false),
                ("d", AnswerForm::Text, 2, false, true),
            ]
        );
        assert_eq!(
            (&questions[2].preset[..], questions[2].options[1].label.as_str()),
            (&["red".to_owned()][..], "the blue one")
        );
        let options = &questions[3].options;
        assert_eq!((options[0].label.as_str(), options[1].label.as_str()), ("A", "The B"));
        assert_eq!(options[0].description.as_deref(), Some("first"));
        let answers = [("n", "3"), ("ok", "yes"), ("d", "A"), ("stray", "x")]
            .map(|(id, text)| (id.to_owned(), vec![text.to_owned()]));
        let content = serde_json::Value::Object(form.content(answers.to_vec()));
        assert_eq!(content, json!({"n": 3, "ok": true, "d": ["A"]}));
    }
}
