//! Checks requests against Discord's OpenAPI description.
//!
//! The document is `tests/fixtures/discord-openapi.json`. Two things are read as Discord means
//! them: `oneOf` as `anyOf` (see its `x-discord-union`), and permissions may be strings, as the
//! text says. Unknown fields are also reported, because the program should send nothing that
//! Discord ignores.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let mut document: Value =
        serde_json::from_str(include_str!("../../fixtures/discord-openapi.json"))
            .expect("the fixture is JSON");
    unite(&mut document);
    document
});
static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

fn unite(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(alternatives) = map.remove("oneOf") {
                map.insert("anyOf".to_owned(), alternatives);
            }
            if let Some(Value::Array(types)) =
                map.get_mut("default_member_permissions").and_then(|schema| schema.get_mut("type"))
            {
                types.push(json!("string"));
            }
            map.values_mut().for_each(unite);
        }
        Value::Array(items) => items.iter_mut().for_each(unite),
        _ => {}
    }
}

/// Returns the violations of a request. `segments` is the path after `/api/v10`.
pub fn faults(method: &str, segments: &[&str], body: Option<&Value>) -> Vec<String> {
    let Some(template) = template(segments) else {
        return vec![format!("not a path of Discord: /{}", segments.join("/"))];
    };
    let operation = &DOCUMENT["paths"][&template][method.to_lowercase()];
    if operation.is_null() {
        return vec![format!("Discord has no {method} {template}")];
    }
    let content = &operation["requestBody"]["content"]["application/json"]["schema"];
    let Some(body) = body else {
        let required = operation["requestBody"]["required"].as_bool().unwrap_or(false);
        return if required {
            vec![format!("{method} {template} needs a body")]
        } else {
            Vec::new()
        };
    };
    if content.is_null() {
        return vec![format!("{method} {template} takes no body")];
    }
    let validator = validator(&format!("{method} {template}"), content);
    let mut found: Vec<String> = validator
        .iter_errors(body)
        .map(|error| format!("{method} {template}{}: {error}", error.instance_path()))
        .collect();
    let mut known = BTreeSet::new();
    fields(content, &mut known);
    if let (Some(body), false) = (body.as_object(), known.is_empty()) {
        found.extend(
            body.keys()
                .filter(|key| !known.contains(*key))
                .map(|key| format!("{method} {template}: unknown field `{key}`")),
        );
    }
    found
}

fn template(segments: &[&str]) -> Option<String> {
    let paths = DOCUMENT["paths"].as_object().expect("paths");
    // A fixed segment such as `@me` is preferred to a parameter.
    paths
        .keys()
        .filter(|path| {
            let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
            parts.len() == segments.len()
                && parts
                    .iter()
                    .zip(segments)
                    .all(|(part, segment)| part.starts_with('{') || part == segment)
        })
        .min_by_key(|path| path.matches('{').count())
        .cloned()
}

fn validator(name: &str, content: &Value) -> Arc<Validator> {
    let mut validators = VALIDATORS.lock().expect("no panic under this lock");
    Arc::clone(validators.entry(name.to_owned()).or_insert_with(|| {
        let schema = json!({"allOf": [content], "components": DOCUMENT["components"]});
        Arc::new(jsonschema::validator_for(&schema).expect("the document's schemas compile"))
    }))
}

fn fields(schema: &Value, known: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|reference| reference.strip_prefix("#/components/schemas/"))
    {
        return fields(&DOCUMENT["components"]["schemas"][name], known);
    }
    known.extend(schema["properties"].as_object().into_iter().flat_map(|map| map.keys().cloned()));
    for alternative in schema["anyOf"].as_array().into_iter().flatten() {
        fields(alternative, known);
    }
}
