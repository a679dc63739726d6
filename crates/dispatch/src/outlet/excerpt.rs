//! Shows what a tool would do before people decide about it: its command, or its changes. Pure.

use serde_json::Value;

use aetheel_model::agent::{FileChange, FileDiff, ToolStart};

/// A text that is shown in a code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The language of the code block.
    pub language: &'static str,
    /// The lines inside the code block, without the fence.
    pub text: String,
}

/// Returns the changes that the agent proposes.
pub(super) fn of_diffs(diffs: &[FileDiff]) -> Option<Excerpt> {
    let changes: Vec<String> = diffs.iter().map(change).collect();
    (!changes.is_empty()).then(|| Excerpt { language: "diff", text: changes.join("\n") })
}

/// Formats a change of a file.
fn change(diff: &FileDiff) -> String {
    let signed = |sign: char, text: &str| {
        text.lines().map(|line| format!("{sign}{line}")).collect::<Vec<_>>()
    };
    let mut lines = vec![match (diff.change, &diff.old_path) {
        (FileChange::Renamed, Some(from)) => format!("{from} → {}", diff.path),
        (FileChange::Added, _) => format!("{} (new)", diff.path),
        (FileChange::Deleted, _) => format!("{} (deleted)", diff.path),
        _ => diff.path.clone(),
    }];
    if diff.binary {
        lines.push("(no text)".to_owned());
    } else if let Some(unified) = &diff.unified {
        lines.push(unified.trim_end().to_owned());
    } else {
        lines.extend(diff.old_text.iter().flat_map(|text| signed('-', text)));
        lines.extend(diff.new_text.iter().flat_map(|text| signed('+', text)));
    }
    lines.join("\n")
}

/// Returns the effect of a tool, as far as its target and its input show it. Fields of the input
/// have no meaning here, because every agent has its own: a component that knows them reports the
/// command as the target, and the changes of files as the changes of its question.
pub(super) fn of_tool(tool: &ToolStart) -> Option<Excerpt> {
    let input: Value = serde_json::from_str(&tool.input).unwrap_or_default();
    let text =
        |language, text: String| (!text.trim().is_empty()).then_some(Excerpt { language, text });
    let target = tool.target.clone().unwrap_or_default();
    let has_target = !target.trim().is_empty();
    match tool.kind.as_str() {
        "bash" if has_target => text("sh", target),
        "bash" => match &input {
            // A single text is the command.
            Value::Object(fields) if fields.len() == 1 && fields.values().all(Value::is_string) => {
                text("sh", fields.values().filter_map(Value::as_str).collect())
            }
            _ => text("", fields(&input, "")),
        },
        "file_write" | "file_edit" => {
            let parts = [target.clone(), fields(&input, &target)];
            let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
            text("", parts.collect::<Vec<_>>().join("\n"))
        }
        _ if has_target => text("", target),
        _ => match &input {
            Value::Object(fields) if !fields.is_empty() => {
                text("json", serde_json::to_string_pretty(&input).unwrap_or_default())
            }
            _ => None,
        },
    }
}

/// Formats the fields of an input, one after the other, without those that equal the target. Texts
/// of several lines begin on a line of their own.
fn fields(input: &Value, target: &str) -> String {
    let Value::Object(fields) = input else {
        return match input {
            Value::Null => String::new(),
            other => serde_json::to_string_pretty(other).unwrap_or_default(),
        };
    };
    let shown = |(name, value): (&String, &Value)| match value {
        Value::Null => None,
        Value::String(text) if text == target => None,
        Value::String(text) if text.contains('\n') => Some(format!("{name}:\n{}", text.trim_end())),
        Value::String(text) => Some(format!("{name}: {text}")),
        Value::Object(_) | Value::Array(_) => {
            Some(format!("{name}:\n{}", serde_json::to_string_pretty(value).unwrap_or_default()))
        }
        other => Some(format!("{name}: {other}")),
    };
    fields.iter().filter_map(shown).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn tool(kind: &str, target: Option<&str>, input: &Value) -> ToolStart {
        ToolStart {
            id: "t".to_owned(),
            parent: None,
            kind: kind.to_owned(),
            native_name: "Tool".to_owned(),
            title: String::new(),
            target: target.map(str::to_owned),
            input: input.to_string(),
        }
    }

    fn shown(kind: &str, target: Option<&str>, input: &Value) -> String {
        of_tool(&tool(kind, target, input)).map(|excerpt| excerpt.text).unwrap_or_default()
    }

    #[test]
    fn a_command_is_shown_completely_from_target_or_input() {
        assert_eq!(shown("bash", Some("ls\nrm x"), &json!({})), "ls\nrm x");
        assert_eq!(shown("bash", None, &json!({"line": "make"})), "make");
        assert_eq!(
            shown("bash", None, &json!({"line": "make", "timeout": 5})),
            "line: make\ntimeout: 5"
        );
        assert_eq!(
            shown("web_fetch", Some("https://example.com"), &json!({"prompt": "p"})),
            "https://example.com"
        );
        assert_eq!(shown("mcp", None, &json!({"a": 1})), "{\n  \"a\": 1\n}");
        assert_eq!(shown("mcp", None, &json!({})), "");
    }

    #[test]
    fn a_change_without_diffs_shows_every_field_of_any_agents_input() {
        for (input, expected) in [
            (
                json!({"where": "a.rs", "was": "one\ntwo", "becomes": "three"}),
                "a.rs\nbecomes: three\nwas:\none\ntwo",
            ),
            (json!({"all": "x", "none": null, "mode": 1}), "a.rs\nall: x\nmode: 1"),
            (json!({"edits": [{"to": "y"}]}), "a.rs\nedits:\n[\n  {\n    \"to\": \"y\"\n  }\n]"),
            (json!({}), "a.rs"),
            (json!(null), "a.rs"),
        ] {
            assert_eq!(shown("file_edit", Some("a.rs"), &input), expected);
        }
        assert_eq!(shown("file_write", None, &json!([1])), "[\n  1\n]");
    }

    #[test]
    fn a_change_shows_renames_additions_and_deletions() {
        let diff =
            |path: &str, change| FileDiff { path: path.to_owned(), change, ..FileDiff::default() };
        let diffs = [
            FileDiff {
                old_text: Some("x".to_owned()),
                new_text: Some("y".to_owned()),
                ..diff("a.rs", FileChange::Edited)
            },
            FileDiff {
                old_path: Some("b.rs".to_owned()),
                unified: Some("@@ -1 +1 @@\n".to_owned()),
                ..diff("c.rs", FileChange::Renamed)
            },
            FileDiff { binary: true, ..diff("d.png", FileChange::Added) },
            diff("e.rs", FileChange::Deleted),
        ];
        let shown = of_diffs(&diffs).map(|excerpt| excerpt.text).unwrap_or_default();
        assert_eq!(
            shown,
            "a.rs\n-x\n+y\nb.rs → c.rs\n@@ -1 +1 @@\nd.png (new)\n(no text)\ne.rs (deleted)"
        );
        assert_eq!(of_diffs(&[]), None);
    }
}
