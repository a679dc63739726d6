//! Names, targets and results of tools.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::tool::Tools;
use aetheel_backend_sdk::wit::{FileChange, FileDiff, ToolEnd, ToolStart, ToolStatus};

/// The tools of Claude Code 2.1.197 (and earlier names of them) by unified kind, as in the
/// descriptor. `Agent` is listed as `Task`.
const TOOLS: Tools = Tools::new(&[
    ("bash", &["Bash", "BashOutput", "KillBash", "KillShell"], &["command"]),
    ("file_read", &["Read", "NotebookRead"], &["file_path", "notebook_path"]),
    ("file_write", &["Write"], &["file_path", "notebook_path"]),
    ("file_edit", &["Edit", "MultiEdit", "NotebookEdit"], &["file_path", "notebook_path"]),
    ("file_search", &["Glob", "LS"], &["pattern", "path"]),
    ("content_search", &["Grep"], &["pattern", "path"]),
    ("web_search", &["WebSearch"], &["query"]),
    ("web_fetch", &["WebFetch"], &["url"]),
    ("agent_spawn", &["Agent", "Task"], &["description"]),
    (
        "todo",
        &["TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "TodoWrite"],
        &["subject", "taskId"],
    ),
    ("ask_user", &["AskUserQuestion"], &[]),
    ("skill", &["Skill", "SlashCommand"], &["skill", "command"]),
    (
        "other",
        &[
            "CronCreate",
            "CronDelete",
            "CronList",
            "EnterPlanMode",
            "EnterWorktree",
            "ExitPlanMode",
            "ExitWorktree",
            "ReportFindings",
            "ScheduleWakeup",
            "SendMessage",
            "TaskOutput",
            "TaskStop",
            "Workflow",
        ],
        &[],
    ),
])
.with_mcp(|name| name.starts_with("mcp__"));

/// Returns the start of a tool use; `input` is null while the model writes it.
pub(crate) fn start(id: &str, name: &str, parent: Option<&str>, input: &Value) -> ToolStart {
    ToolStart { parent: parent.map(str::to_owned), ..TOOLS.start(id, name, input) }
}

/// Returns the end of a tool use from its result block, the text of the block, and the details that
/// Claude Code adds to the line (or null).
pub(crate) fn end(id: &str, block: &Value, output: String, details: &Value) -> ToolEnd {
    let output = match output
        .strip_prefix("<tool_use_error>")
        .and_then(|inner| inner.strip_suffix("</tool_use_error>"))
    {
        Some(inner) => inner.to_owned(),
        None => output,
    };
    let status =
        if !block.is_true("is_error") { ToolStatus::Ok } else { unhappy(&output, details) };
    let exit_code = (status == ToolStatus::Failed)
        .then(|| output.strip_prefix("Exit code ")?.lines().next()?.trim().parse().ok())
        .flatten();
    let diffs =
        if status == ToolStatus::Ok { diff(details).into_iter().collect() } else { Vec::new() };
    ToolEnd { id: id.to_owned(), status, output: Some(output), exit_code, diffs }
}

fn unhappy(output: &str, details: &Value) -> ToolStatus {
    // Without a terminal, users cannot reject a tool, so this is an interrupt.
    if details.as_str() == Some("User rejected tool use")
        || output.starts_with("The user doesn't want to proceed with this tool use")
    {
        ToolStatus::Cancelled
    } else if output.starts_with("Claude requested permissions to ")
        || output.starts_with("Permission to use ")
    {
        ToolStatus::Denied
    } else {
        ToolStatus::Failed
    }
}

/// Returns the changes that a use of `Write` or `Edit` would make. It is unknown whether `Write`
/// would replace an existing file.
pub(crate) fn proposed(name: &str, input: &Value) -> Vec<FileDiff> {
    let Some(path) = input.text("file_path") else { return Vec::new() };
    let text = |from: &Value, key| from.text(key).map(str::to_owned);
    let of = |edit: &Value| FileDiff {
        path: path.to_owned(),
        old_text: text(edit, "old_string"),
        new_text: text(edit, "new_string"),
        ..FileDiff::default()
    };
    match name {
        "Write" => vec![FileDiff {
            path: path.to_owned(),
            new_text: text(input, "content"),
            ..FileDiff::default()
        }],
        "Edit" => vec![of(input)],
        "MultiEdit" => input.list("edits").iter().map(of).collect(),
        _ => Vec::new(),
    }
}

/// Reads the changes that `Write` and `Edit` report.
fn diff(details: &Value) -> Option<FileDiff> {
    let path = details.text("filePath")?.to_owned();
    let hunks = details.list("structuredPatch");
    let new_text = details
        .text("content")
        .filter(|_| details.text("type") == Some("create"))
        .map(str::to_owned);
    if hunks.is_empty() && new_text.is_none() {
        return None;
    }
    let mut unified = String::new();
    for hunk in hunks {
        let count = |key| hunk.count(key).unwrap_or_default();
        let (old, new) =
            ((count("oldStart"), count("oldLines")), (count("newStart"), count("newLines")));
        unified += &format!("@@ -{},{} +{},{} @@\n", old.0, old.1, new.0, new.1);
        for line in hunk.list("lines").iter().filter_map(Value::as_str) {
            unified += line;
            unified.push('\n');
        }
    }
    let change = if new_text.is_some() { FileChange::Added } else { FileChange::Edited };
    Some(FileDiff {
        path,
        change,
        new_text,
        unified: Some(unified).filter(|unified| !unified.is_empty()),
        ..FileDiff::default()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_descriptor_lists_the_same_tools() {
        super::TOOLS.check(include_str!("descriptor.json"));
    }
}
