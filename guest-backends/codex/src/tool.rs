//! Items that are uses of tools, in `exec` (snake_case) and `app-server` (camelCase).
//!
//! Kinds are those of the contract, native names those of `exec`: `command_execution`,
//! `file_change` and so on.

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{FileChange, FileDiff, ToolEnd, ToolStart, ToolStatus};
use serde_json::json;

const TITLE_BYTES: usize = 120;

/// Returns an item's type as `exec` names it: `commandExecution` becomes `command_execution`.
pub(crate) fn name(item: &Value) -> String {
    let mut name = String::new();
    for letter in item.text("type").unwrap_or_default().chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    // The two modes use different names for these items.
    match name.as_str() {
        "collab_agent_tool_call" => "collab_tool_call".to_owned(),
        _ => name,
    }
}

/// Returns a field by its name in either mode.
fn field<'a, 'v>(item: &'a Value<'v>, exec: &str, server: &str) -> &'a Value<'v> {
    item.get(exec).unwrap_or_else(|| &item[server])
}

/// Returns the start of a tool use, or `None` for other items.
pub(crate) fn start(name: &str, item: &Value) -> Option<ToolStart> {
    let text = |key: &str| item.text(key).unwrap_or_default().to_owned();
    let (kind, native, title, target, input) = match name {
        "command_execution" => {
            let command = unwrapped(item.text("command").unwrap_or_default());
            (
                "bash",
                name.to_owned(),
                command.clone(),
                Some(command.clone()),
                json!({ "command": command }),
            )
        }
        "file_change" => {
            let changes = item.list("changes");
            let paths: Vec<&str> =
                changes.iter().filter_map(|change| change.text("path")).collect();
            let written =
                !changes.is_empty() && changes.iter().all(|change| change_kind(change) == "add");
            let kind = if written { "file_write" } else { "file_edit" };
            (
                kind,
                name.to_owned(),
                paths.join(", "),
                paths.first().map(|path| (*path).to_owned()),
                json!({ "changes": item["changes"] }),
            )
        }
        "mcp_tool_call" => {
            let called = format!("{}.{}", text("server"), text("tool"));
            ("mcp", called.clone(), called, None, json!(item["arguments"]))
        }
        "collab_tool_call" => {
            let input = json!({ "tool": item["tool"], "prompt": item["prompt"] });
            let title =
                item.text("prompt").or_else(|| item.text("tool")).unwrap_or_default().to_owned();
            ("agent_spawn", name.to_owned(), title, None, input)
        }
        "web_search" => {
            let action = &item["action"];
            let found = [item.text("query"), action.text("query"), action.text("url")];
            let query = found
                .into_iter()
                .flatten()
                .find(|text| !text.is_empty())
                .unwrap_or_default()
                .to_owned();
            (
                "web_search",
                name.to_owned(),
                query.clone(),
                Some(query).filter(|query| !query.is_empty()),
                json!({ "query": item["query"], "action": action }),
            )
        }
        "file_read" | "file_write" => (
            if name == "file_read" { "file_read" } else { "file_write" },
            name.to_owned(),
            text("path"),
            Some(text("path")).filter(|path| !path.is_empty()),
            json!({ "path": item["path"] }),
        ),
        "image_view" => (
            "file_read",
            name.to_owned(),
            text("path"),
            Some(text("path")),
            json!({ "path": item["path"] }),
        ),
        "dynamic_tool_call" => {
            ("other", text("tool"), text("tool"), None, json!(item["arguments"]))
        }
        "image_generation" => ("other", name.to_owned(), "image".to_owned(), None, json!({})),
        _ => return None,
    };
    let title =
        if title.trim().is_empty() { native.clone() } else { one_line(&title, TITLE_BYTES) };
    Some(ToolStart {
        id: text("id"),
        parent: None,
        kind: kind.to_owned(),
        native_name: native,
        title,
        target,
        input: input.to_string(),
    })
}

/// Reports required fields that an item lacks.
pub(crate) fn check(name: &str, item: &Value, completed: bool, emit: &mut Emit) {
    emit.required_id(item, "item.id", item);
    match name {
        "command_execution" => {
            emit.required_text(item, "item.command", item);
        }
        "file_change" => {
            for change in emit.required_list(item, "item.changes", item) {
                emit.required_text(change, "item.changes[].path", item);
            }
        }
        "mcp_tool_call" => {
            emit.required_id(item, "item.server", item);
            emit.required_id(item, "item.tool", item);
        }
        _ => return,
    }
    if completed {
        emit.required_text(item, "item.status", item);
    }
    if completed
        && name == "command_execution"
        && item.get("aggregated_output").or_else(|| item.get("aggregatedOutput")).is_none()
    {
        emit.required_text(item, "item.aggregated_output", item);
    }
}

/// Returns the end of a tool use.
pub(crate) fn end(name: &str, item: &Value) -> ToolEnd {
    let output = match name {
        "command_execution" => {
            field(item, "aggregated_output", "aggregatedOutput").as_str().map(str::to_owned)
        }
        "mcp_tool_call" => mcp_output(item),
        "dynamic_tool_call" => {
            let texts = item.list("contentItems").iter().filter_map(|part| part.text("text"));
            Some(texts.collect::<Vec<_>>().join("\n"))
        }
        "collab_tool_call" => agents(item),
        _ => None,
    };
    ToolEnd {
        id: item.text("id").unwrap_or_default().to_owned(),
        status: status(item),
        output: output.filter(|output| !output.is_empty()),
        exit_code: item.count("exit_code").or_else(|| item.count("exitCode")),
        diffs: if name == "file_change" {
            item.list("changes").iter().map(diff).collect()
        } else {
            Vec::new()
        },
    }
}

fn status(item: &Value) -> ToolStatus {
    match item.text("status") {
        Some("completed") | None => ToolStatus::Ok,
        Some("failed") => ToolStatus::Failed,
        Some("declined") => ToolStatus::Denied,
        Some("interrupted") => ToolStatus::Cancelled,
        Some(_) => ToolStatus::Unknown,
    }
}

/// Reads `"add"` of `exec` or `{"type":"add"}` of `app-server`.
fn change_kind<'a>(change: &'a Value) -> &'a str {
    change["kind"].as_str().or_else(|| change["kind"].text("type")).unwrap_or_default()
}

/// Returns the changes in the start of a `file_change`.
pub(crate) fn diffs(start: &ToolStart) -> Vec<FileDiff> {
    let input = json::parse(&start.input).unwrap_or(Value::Null);
    input.list("changes").iter().map(diff).collect()
}

/// Reads a change. The `diff` of a new or deleted file is its content.
fn diff(change: &Value) -> FileDiff {
    let text = change.text("diff").map(str::to_owned);
    let path = change.text("path").unwrap_or_default().to_owned();
    let none = FileDiff { path, ..FileDiff::default() };
    match change_kind(change) {
        "add" => FileDiff { change: FileChange::Added, new_text: text, ..none },
        "delete" => FileDiff { change: FileChange::Deleted, old_text: text, ..none },
        _ => match change["kind"].text("move_path").filter(|to| *to != none.path) {
            Some(to) => FileDiff {
                path: to.to_owned(),
                change: FileChange::Renamed,
                old_path: Some(none.path),
                unified: text,
                ..FileDiff::default()
            },
            None => FileDiff { unified: text, ..none },
        },
    }
}

fn mcp_output(item: &Value) -> Option<String> {
    let texts: Vec<&str> =
        item["result"].list("content").iter().filter_map(|content| content.text("text")).collect();
    let error = item["error"].text("message").or_else(|| item["error"].as_str());
    error.map(str::to_owned).or_else(|| (!texts.is_empty()).then(|| texts.join("\n")))
}

fn agents(item: &Value) -> Option<String> {
    let states = field(item, "agents_states", "agentsStates").as_object()?;
    let messages: Vec<&str> = states.values().filter_map(|state| state.text("message")).collect();
    Some(messages.join("\n"))
}

/// Returns a command without the shell around it: `/bin/bash -lc 'touch a b'` becomes `touch a b`.
fn unwrapped(command: &str) -> String {
    let Some((shell, script)) = command.split_once(" -lc ") else { return command.to_owned() };
    if shell.contains(char::is_whitespace) {
        return command.to_owned();
    }
    let mut out = String::with_capacity(script.len());
    let mut quote = None;
    let mut letters = script.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), letter) if letter == open => quote = None,
            (None | Some('"'), '\\') => out.extend(letters.next()),
            (None, letter) if letter.is_whitespace() => return command.to_owned(),
            (_, letter) => out.push(letter),
        }
    }
    if quote.is_some() { command.to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_without_its_shell() {
        for (command, shown) in [
            ("/bin/bash -lc 'touch a b'", "touch a b"),
            ("/bin/bash -lc ls", "ls"),
            (r#"/bin/bash -lc "echo \"it's\" \$HOME""#, r#"echo "it's" $HOME"#),
            (r"/bin/bash -lc 'it'\''s'", "it's"),
            ("/bin/bash -lc 'open", "/bin/bash -lc 'open"),
            ("bash -c x -lc 'y'", "bash -c x -lc 'y'"),
            ("rm -lc a b", "rm -lc a b"),
            ("", ""),
        ] {
            assert_eq!(unwrapped(command), shown);
        }
    }

    #[test]
    fn items_of_both_modes_are_the_same_tool_use() {
        let exec = r#"{"id":"i","type":"file_change","changes":[{"path":"/a","kind":"add"}],"status":"completed"}"#;
        let server = r#"{"id":"i","type":"fileChange","changes":[{"path":"/a","kind":{"type":"add"},"diff":"x\n"}],"status":"completed"}"#;
        let [exec, server] = [exec, server].map(|item| json::parse(item).expect("JSON"));
        assert_eq!(
            (name(&exec), name(&server)),
            ("file_change".to_owned(), "file_change".to_owned())
        );
        let starts = [start("file_change", &exec), start("file_change", &server)]
            .map(|start| start.expect("a tool"));
        assert_eq!(
            (&starts[0].kind, &starts[0].title, &starts[0].target),
            (&starts[1].kind, &starts[1].title, &starts[1].target)
        );
        assert_eq!(starts[0].kind, "file_write");
        let added = &end("file_change", &server).diffs[0];
        assert_eq!((added.new_text.as_deref(), added.change), (Some("x\n"), FileChange::Added));
        let moved = r#"{"id":"i","type":"fileChange","changes":[{"path":"/a","kind":{"type":"update","move_path":"/b"},"diff":""}]}"#;
        let moved =
            diffs(&start("file_change", &json::parse(moved).expect("JSON")).expect("a tool"));
        assert_eq!(
            (moved[0].path.as_str(), moved[0].old_path.as_deref(), moved[0].change),
            ("/b", Some("/a"), FileChange::Renamed)
        );
    }
}
