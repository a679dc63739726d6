//! The demo agent as one that mends: it changes the demo backend so that the text of an answer may
//! be in another field, for `aetheel backend mend demo --with demo`.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

/// The source that reads the text of lines, and the statement in it.
const SOURCE: &str = "source/demo/src/report.rs";
const STATEMENT: &str = r#"    let text = emit.required_text(fields, "text", line);"#;

/// Changes the sources in the folder of a task. Returns what it did.
pub(super) fn mend(folder: &Path) -> io::Result<String> {
    let Some(field) = new_field(&folder.join("lost"))? else {
        return Ok("I found no text in another field.".to_owned());
    };
    let path = folder.join(SOURCE);
    let source = fs::read_to_string(&path)?;
    if !source.contains(STATEMENT) {
        return Ok(format!("I do not know how to change `{SOURCE}`."));
    }
    let reading = format!(
        r#"    let text = match fields.text("{field}") {{
        Some(text) => text,
        None => emit.required_text(fields, "text", line),
    }};"#
    );
    fs::write(&path, source.replacen(STATEMENT, &reading, 1))?;
    Ok(format!("The text is in the field `{field}` now; I read both."))
}

/// Finds a text line without the field `text`, and returns the field that it has instead.
fn new_field(lost: &Path) -> io::Result<Option<String>> {
    for entry in fs::read_dir(lost)? {
        for line in fs::read_to_string(entry?.path())?.lines() {
            let recorded: Value = serde_json::from_str(line).unwrap_or_default();
            let output = recorded.pointer("/in/line/text").and_then(Value::as_str);
            let document: Option<Value> = output.and_then(|text| serde_json::from_str(text).ok());
            let Some(Value::Object(fields)) = document else { continue };
            if fields.get("type").and_then(Value::as_str) != Some("text") {
                continue;
            }
            let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            let other = fields.iter().find(|(name, value)| {
                *name != "type" && *name != "text" && value.is_string() && is_name(name)
            });
            if let (Some((name, _)), false) = (other, fields.contains_key("text")) {
                return Ok(Some(name.clone()));
            }
        }
    }
    Ok(None)
}
