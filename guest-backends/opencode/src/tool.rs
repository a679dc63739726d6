//! Tool calls: names, targets, changed files and results.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::tool::{Tools, title};
use aetheel_backend_sdk::wit::{FileDiff, ToolEnd, ToolStart, ToolStatus};

use crate::tool_server;

/// The tools of OpenCode 1.18.33 by unified kind. The descriptor has the same list.
const TOOLS: Tools = Tools::new(&[
    ("bash", &["bash"], &["command"]),
    ("file_read", &["read"], &["filePath", "path"]),
    ("file_write", &["write"], &["filePath", "path"]),
    ("file_edit", &["edit", "multiedit", "apply_patch", "patch"], &["filePath", "path"]),
    ("file_search", &["glob", "list"], &["pattern", "query", "path"]),
    ("content_search", &["grep", "codesearch", "lsp"], &["pattern", "query", "path"]),
    ("web_search", &["websearch"], &["query"]),
    ("web_fetch", &["webfetch"], &["url"]),
    ("agent_spawn", &["task"], &["description"]),
    ("todo", &["todowrite", "todoread"], &[]),
    ("ask_user", &["question"], &[]),
    ("skill", &["skill"], &["name"]),
    ("other", &["batch", "plan_enter", "plan_exit"], &[]),
])
// Tools of MCP servers are named `server_tool`. Except for those listed above, OpenCode's own tools
// have no underscore.
.with_mcp(|name| name.contains('_') && !NO_TOOLS.contains(&name));

/// Names that are reported like tools but are not tools. For `invalid`, the field `tool` of the
/// input has the requested name; the others are permissions.
const NO_TOOLS: [&str; 3] = ["invalid", "external_directory", "doom_loop"];

/// Returns the unified kind of a tool or of a permission.
pub(crate) fn kind(name: &str) -> &'static str {
    TOOLS.kind(name)
}

/// Returns the start of a tool use. The input is an empty object while it is being written.
pub(crate) fn start(id: &str, name: &str, parent: Option<&str>, input: &Value) -> ToolStart {
    let native = if name == "invalid" { input.text("tool").unwrap_or(name) } else { name };
    let native = tool_server::without_server(native);
    let start = TOOLS.start(id, name, input);
    let asked = input.list("questions").first().and_then(|question| question.text("question"));
    let title = match asked.filter(|_| start.kind == "ask_user") {
        Some(question) => title(question, native),
        None if start.title == name => native.to_owned(),
        None => start.title,
    };
    ToolStart { parent: parent.map(str::to_owned), native_name: native.to_owned(), title, ..start }
}

/// Returns the end of a tool use from its state, or `None` if it has not ended.
pub(crate) fn end(id: &str, name: &str, state: &Value) -> Option<ToolEnd> {
    let metadata = &state["metadata"];
    let (status, output) = match state.text("status") {
        Some("completed") => {
            let output = state.text("output").unwrap_or_default();
            let status = match metadata.get("exit") {
                Some(Value::Null) => ToolStatus::Cancelled,
                Some(_) if metadata.count("exit") != Some(0) => ToolStatus::Failed,
                // OpenCode reports the failure to the model as output.
                _ if name == "invalid" => ToolStatus::Failed,
                _ => ToolStatus::Ok,
            };
            (status, output)
        }
        Some("error") => {
            let error = state.text("error").unwrap_or_default();
            (unhappy(error, metadata.is_true("interrupted")), error)
        }
        _ => return None,
    };
    let diffs =
        if status == ToolStatus::Ok { diffs(name, &state["input"], metadata) } else { Vec::new() };
    Some(ToolEnd {
        id: id.to_owned(),
        status,
        output: Some(output.to_owned()),
        exit_code: metadata.count("exit"),
        diffs,
    })
}

fn unhappy(error: &str, interrupted: bool) -> ToolStatus {
    let begins = |words: &[&str]| words.iter().any(|word| error.starts_with(word));
    if interrupted || begins(&["Tool execution aborted", "Task cancelled"]) {
        ToolStatus::Cancelled
    } else if begins(&[
        "The user rejected permission",
        "The user has specified a rule",
        "The user dismissed this question",
    ]) {
        ToolStatus::Denied
    } else {
        ToolStatus::Failed
    }
}

/// Returns the changes that a permission request is about, from its metadata.
pub(crate) fn proposed(metadata: &Value) -> Vec<FileDiff> {
    let listed: Vec<FileDiff> = metadata.list("files").iter().filter_map(diff).collect();
    if listed.is_empty() { diff(metadata).into_iter().collect() } else { listed }
}

/// Reads the change of one file.
fn diff(file: &Value) -> Option<FileDiff> {
    let path =
        ["filePath", "file", "filepath", "relativePath"].iter().find_map(|key| file.text(key))?;
    let unified = ["patch", "diff"]
        .iter()
        .find_map(|key| file.text(key))
        .filter(|patch| !patch.is_empty())?;
    Some(FileDiff {
        path: path.to_owned(),
        unified: Some(unified.to_owned()),
        ..FileDiff::default()
    })
}

/// Returns the changes that tools report for files.
fn diffs(name: &str, input: &Value, metadata: &Value) -> Vec<FileDiff> {
    let found: Vec<FileDiff> = match &metadata["filediff"] {
        Value::Null => metadata.list("files").iter().filter_map(diff).collect(),
        file => diff(file).into_iter().collect(),
    };
    if found.is_empty()
        && kind(name) == "file_write"
        && let (Some(path), Some(content)) = (input.text("filePath"), input.text("content"))
    {
        return vec![FileDiff {
            path: path.to_owned(),
            new_text: Some(content.to_owned()),
            ..FileDiff::default()
        }];
    }
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_descriptor_lists_the_same_tools() {
        super::TOOLS.check(include_str!("descriptor.json"));
    }

    #[test]
    fn the_tools_of_the_host_have_their_own_names() {
        let input = super::Value::default();
        for (name, shown) in [
            ("aetheel-11_aetheel_ask", "aetheel_ask"),
            ("aetheel_aetheel_ask", "aetheel_ask"),
            ("aetheel_ask", "aetheel_ask"),
            ("notes_search", "notes_search"),
        ] {
            let start = super::start("1", name, None, &input);
            assert_eq!((start.native_name.as_str(), start.title.as_str()), (shown, shown));
            assert_eq!(start.kind, "mcp");
        }
    }
}
