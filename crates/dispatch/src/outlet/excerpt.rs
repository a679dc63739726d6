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

/// Returns the effect of a tool, as far as its input shows it.
pub(super) fn of_tool(tool: &ToolStart) -> Option<Excerpt> {
    let input: Value = serde_json::from_str(&tool.input).unwrap_or_default();
    let text =
        |language, text: String| (!text.trim().is_empty()).then_some(Excerpt { language, text });
    let target = tool.target.clone().unwrap_or_default();
    match tool.kind.as_str() {
        "bash" => {
            let command = if target.trim().is_empty() {
                first_string(&input, &["command", "cmd", "script"]).unwrap_or_default()
            } else {
                target
            };
            text("sh", command)
        }
        "file_write" | "file_edit" => {
            let mut changes = Vec::new();
            collect_changes(&input, 0, &mut changes);
            let path = if changes.iter().any(|change| change.contains(&target)) {
                String::new()
            } else {
                target
            };
            let whole = std::iter::once(path)
                .chain(changes)
                .filter(|part| !part.trim().is_empty())
                .collect::<Vec<_>>()
                .join("\n");
            text("diff", whole)
        }
        _ if !target.trim().is_empty() => text("", target),
        _ => match &input {
            Value::Object(fields) if !fields.is_empty() => {
                text("json", serde_json::to_string_pretty(&input).unwrap_or_default())
            }
            _ => None,
        },
    }
}

/// Returns the first of these fields that is a string.
fn first_string(input: &Value, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| input[*name].as_str()).map(str::to_owned)
}

/// Collects the file changes in a tool's input. Agents write them in different forms: as a unified
/// diff, as the text before and after, or as the whole new file.
fn collect_changes(input: &Value, depth: u8, found: &mut Vec<String>) {
    let signed = |sign: char, text: &str| {
        text.lines().map(|line| format!("{sign}{line}")).collect::<Vec<_>>().join("\n")
    };
    if let Value::Object(fields) = input {
        if let Some(diff) = first_string(input, &["diff", "unified_diff", "unified", "patch"]) {
            return found.push(diff.trim_end().to_owned());
        }
        let old =
            first_string(input, &["old_string", "old_text", "oldText", "old_str", "oldString"]);
        let new = first_string(
            input,
            &["new_string", "new_text", "newText", "new_str", "newString", "content"],
        );
        if let Some(new) = new {
            let path = first_string(input, &["path", "file_path", "filePath"]).unwrap_or_default();
            let parts = [path, signed('-', &old.unwrap_or_default()), signed('+', &new)];
            return found.push(
                parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n"),
            );
        }
        if depth < 4 {
            for (name, value) in fields {
                // An object may have paths as its keys.
                let at = found.len();
                collect_changes(value, depth + 1, found);
                if found.len() > at
                    && name.contains(['/', '.'])
                    && !found[at].contains(name.as_str())
                {
                    found[at] = format!("{name}\n{}", found[at]);
                }
            }
        }
    } else if let Value::Array(items) = input
        && depth < 4
    {
        items.iter().for_each(|item| collect_changes(item, depth + 1, found));
    }
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
        assert_eq!(shown("bash", None, &json!({"command": "make"})), "make");
        assert_eq!(
            shown("web_fetch", Some("https://example.com"), &json!({"prompt": "p"})),
            "https://example.com"
        );
        assert_eq!(shown("mcp", None, &json!({"a": 1})), "{\n  \"a\": 1\n}");
        assert_eq!(shown("mcp", None, &json!({})), "");
    }

    #[test]
    fn changes_are_found_in_every_input_format() {
        for (input, expected) in [
            (
                json!({"file_path": "a.rs", "old_string": "one\ntwo", "new_string": "three"}),
                "a.rs\n-one\n-two\n+three",
            ),
            (json!({"file_path": "a.rs", "content": "all"}), "a.rs\n+all"),
            (
                json!({"changes": {"src/a.rs": {"update": {"unified_diff": "@@ -1 +1 @@\n-x\n+y\n"}}}}),
                "a.rs\nsrc/a.rs\n@@ -1 +1 @@\n-x\n+y",
            ),
            (
                json!({"content": [{"type": "diff", "path": "/a.rs", "oldText": null, "newText": "y"}]}),
                "/a.rs\n+y",
            ),
            (
                json!({"edits": [{"old_str": "x", "new_str": "y"}, {"old_str": "p", "new_str": "q"}]}),
                "a.rs\n-x\n+y\n-p\n+q",
            ),
            (json!({}), "a.rs"),
        ] {
            assert_eq!(
                shown("file_edit", Some("a.rs"), &input).replace("a.rs\nsrc/a.rs", "src/a.rs"),
                expected.replace("a.rs\nsrc/a.rs", "src/a.rs")
            );
        }
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
