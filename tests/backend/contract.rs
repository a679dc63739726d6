//! Tests that the descriptor's schema and its Rust type agree.

use aetheel_model::agent::Descriptor;
use serde_json::{Value, json};

fn schema() -> Value {
    serde_json::from_str(include_str!("../../wit/descriptor.schema.json"))
        .expect("the schema is JSON")
}

fn both(sample: &Value) -> (bool, bool) {
    let by_schema = jsonschema::validator_for(&schema()).expect("a valid schema").is_valid(sample);
    (by_schema, Descriptor::parse(&sample.to_string()).is_ok())
}

fn small(changes: &Value) -> Value {
    let mut sample = json!({ "name": "mini", "version": "1", "programs": [{ "name": "mini" }] });
    for (key, value) in changes.as_object().unwrap() {
        sample[key] = value.clone();
    }
    sample
}

/// Returns a descriptor that uses every field.
fn full() -> Value {
    json!({
        "name": "claude", "label": "Claude Code", "version": "1.0.0", "sharing": "turn",
        "programs": [{
            "name": "claude", "version-arguments": ["--version"], "words": ["exec", "-"],
            "flags": [
                { "name": "--resume", "value": "one" },
                { "name": "--tools", "value": "many", "values": ["Read", "Edit"], "safety": "edit" },
                { "name": "--dangerously-skip-permissions", "safety": "danger" },
            ],
        }],
        "understands": [">=2.0, <3"],
        "environment": { "set": ["CLAUDE_CODE_X"], "pass": ["HTTPS_PROXY"], "paths": ["HTTPS_PROXY"] },
        "credentials": [{ "variable": "ANTHROPIC_API_KEY" }, { "file": "~/.claude/.credentials.json" }],
        "state": [
            { "path": "~/.claude/", "moved-by": "HTTPS_PROXY", "below": "a/.b" },
            { "path": "~/.claude.json", "access": "read" },
        ],
        "own-sandbox": true,
        "root": { "refused-from": "danger", "unless-variable": "IS_SANDBOX" },
        "features": ["resume", "fork", "streaming", "thinking", "system-prompt", "model", "effort", "max-turns", "allowed-tools",
            "plan", "permissions", "questions", "interrupt", "steer", "images", "files", "usage", "cost", "compact", "models", "sessions"],
        "expands": ["at-path", "slash-command", "bang", "leading-dash"],
        "efforts": [{ "id": "high", "label": "High" }],
        "models": [{ "id": "opus", "label": "Opus" }],
        "write-tools": ["Write"],
        "rank": 10, "own-command": true, "profiles": false,
        "stderr-noise": { "contains": ["the cache is warm"], "starts-with": ["[boot]"] },
        "options": { "type": "object" },
        "line-limit": 1048576,
    })
}

#[test]
fn the_host_accepts_descriptors_that_the_schema_accepts() {
    assert!(jsonschema::draft202012::meta::is_valid(&schema()), "the schema itself is valid");
    for sample in [
        full(),
        small(&json!({})),
        small(&json!({ "features": ["resume", "teleport"], "colour": "blue" })),
        small(&json!({ "options": null, "line-limit": null, "root": null })),
        small(&json!({ "sharing": "session" })),
        small(&json!({ "tool-aliases": { "file_search": ["Locate"] } })),
        small(&json!({ "rank": null, "profiles": null, "environment": { "paths": null } })),
        small(&json!({ "stderr-noise": {} })),
    ] {
        assert_eq!(both(&sample), (true, true), "{sample}");
    }
}

#[test]
fn the_host_refuses_descriptors_that_the_schema_refuses() {
    let flag = |flag: Value| small(&json!({ "programs": [{ "name": "mini", "flags": [flag] }] }));
    for sample in [
        json!([]),
        json!({ "version": "1", "programs": [{ "name": "mini" }] }),
        json!({ "name": "mini", "programs": [{ "name": "mini" }] }),
        json!({ "name": "mini", "version": "1" }),
        small(&json!({ "name": "Bad Name" })),
        small(&json!({ "name": "-x" })),
        small(&json!({ "name": "a".repeat(33) })),
        small(&json!({ "version": "" })),
        small(&json!({ "version": "9".repeat(65) })),
        small(&json!({ "programs": [] })),
        small(&json!({ "programs": [{}] })),
        small(&json!({ "programs": [{ "name": "/bin/sh" }] })),
        small(&json!({ "state": [{ "path": "~/" }] })),
        small(&json!({ "state": [{ "path": "/etc/" }] })),
        small(&json!({ "state": [{ "path": "~/a/../../b" }] })),
        small(&json!({ "state": [{ "path": "~/.x/", "access": "all" }] })),
        small(&json!({ "state": [{ "path": "~/.x/", "moved-by": "LD_PRELOAD", "below": "" }] })),
        small(&json!({ "programs": [{ "name": "-sh" }] })),
        small(&json!({ "programs": [{ "name": "" }] })),
        small(&json!({ "programs": [{ "name": "mini", "words": ["--oops"] }] })),
        flag(json!({ "name": "resume" })),
        flag(json!({ "name": "-" })),
        flag(json!({ "name": "--a=b" })),
        flag(json!({ "name": "--a b" })),
        flag(json!({ "name": "--a", "value": "two" })),
        flag(json!({ "name": "--a", "safety": "yolo" })),
        small(&json!({ "sharing": "everybody" })),
        small(&json!({ "environment": { "set": ["LD_PRELOAD"] } })),
        small(&json!({ "environment": { "pass": ["PATH"] } })),
        small(&json!({ "environment": { "pass": ["A B"] } })),
        small(&json!({ "environment": { "set": ["1A"] } })),
        small(&json!({ "credentials": [{ "variable": "DISCORD_BOT_TOKEN" }] })),
        small(&json!({ "credentials": [{ "keychain": "x" }] })),
        small(&json!({ "credentials": ["KEY"] })),
        small(&json!({ "root": { "refused-from": "danger" } })),
        small(&json!({ "expands": ["backticks"] })),
        small(&json!({ "efforts": [{ "id": "high" }] })),
        small(&json!({ "models": ["opus"] })),
        small(&json!({ "write-tools": "Write" })),
        small(&json!({ "rank": -1 })),
        small(&json!({ "own-command": "yes" })),
        small(&json!({ "profiles": "yes" })),
        small(&json!({ "tool-aliases": { "file_search": "Locate" } })),
        small(&json!({ "stderr-noise": { "contains": ["e"] } })),
        small(&json!({ "stderr-noise": { "starts-with": ["     "] } })),
        small(&json!({ "stderr-noise": { "contains": vec!["long enough"; 33] } })),
        small(&json!({ "line-limit": -1 })),
        small(&json!({ "line-limit": 4294967296_u64 })),
    ] {
        assert_eq!(both(&sample), (false, false), "{sample}");
    }
}

#[test]
fn every_field_of_the_rust_type_is_in_the_schema_with_a_description() {
    fn check(path: &str, sample: &Value, schema: &Value, root: &Value) {
        let schema = match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => {
                root.pointer(reference.trim_start_matches('#')).expect("a known reference")
            }
            None => schema,
        };
        match sample {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let found = schema.pointer(&format!("/properties/{key}"));
                    // `options` is itself a schema, so it may contain anything.
                    if path == "/options" {
                        continue;
                    }
                    let field = found
                        .or_else(|| {
                            let choices = schema.get("oneOf")?.as_array()?;
                            choices
                                .iter()
                                .find_map(|choice| choice.pointer(&format!("/properties/{key}")))
                        })
                        .unwrap_or_else(|| panic!("{path}/{key} is not in the schema"));
                    assert!(field.get("description").is_some(), "{path}/{key} has no description");
                    check(&format!("{path}/{key}"), value, field, root);
                }
            }
            Value::Array(items) => {
                items.iter().for_each(|item| check(path, item, &schema["items"], root))
            }
            _ => {}
        }
    }
    // The serialised type contains every field, whatever the sample omits.
    let descriptor = Descriptor::parse(&full().to_string()).unwrap();
    check("", &serde_json::to_value(descriptor).unwrap(), &schema(), &schema());
}
