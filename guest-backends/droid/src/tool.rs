//! Tool calls: names, targets and results.

use aetheel_backend_sdk::TOOL_SERVER;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::tool::Tools;
use aetheel_backend_sdk::wit::{FileDiff, HostTool, PlanEntry, PlanStatus, ToolEnd, ToolStatus};

/// The tools of Droid 0.225.2 by unified kind. The descriptor has the same list.
pub(crate) const TOOLS: Tools = Tools::new(&[
    ("bash", &["Execute", "Script", "WaitForScript"], &["command"]),
    ("file_read", &["Read"], &["file_path"]),
    ("file_write", &["Create"], &["file_path"]),
    ("file_edit", &["Edit", "ApplyPatch"], &["file_path"]),
    ("file_search", &["Glob", "LS"], &["patterns", "directory_path", "folder"]),
    ("content_search", &["Grep"], &["pattern"]),
    ("web_search", &["WebSearch"], &["query"]),
    ("web_fetch", &["FetchUrl"], &["url"]),
    ("agent_spawn", &["Task", "TaskOutput", "TaskStop"], &["description"]),
    ("todo", &["TodoWrite"], &[]),
    ("ask_user", &["AskUser"], &[]),
    ("skill", &["Skill"], &["skill"]),
    (
        "other",
        &[
            "ConnectorSearch",
            "DismissHandoffItems",
            "EndFeatureRun",
            "ExitMissionPlanning",
            "ExitSpecMode",
            "GenerateDroid",
            "GenerateImage",
            "Loop",
            "ProposeMission",
            "RecommendMission",
            "StageSettingsChanges",
            "StartMissionRun",
            "ToolSearch",
            "UpgradeSessionModel",
            "get_agent_effectiveness_usage",
            "render_agent_effectiveness_report",
            "slack_archive_code_channel",
            "slack_create_or_update_code_channel",
            "slack_list_channels",
            "slack_post_file",
            "slack_post_message",
            "store_agent_readiness_report",
        ],
        &[],
    ),
])
.with_mcp(|name| name.contains("___"));

/// Returns Droid's names of tools of the host.
pub(crate) fn of_host(tools: &[HostTool]) -> impl Iterator<Item = String> {
    tools.iter().map(|tool| format!("{TOOL_SERVER}___{}", tool.name))
}

/// Returns the file that a tool use will write, from its input. It is reported with the end of the
/// use.
pub(crate) fn writes(name: &str, input: &Value) -> Option<FileDiff> {
    let path = input.text("file_path")?.to_owned();
    (name == "Create").then(|| FileDiff {
        path,
        new_text: input.text("content").map(str::to_owned),
        ..FileDiff::default()
    })
}

/// Returns the change that a tool use would make to a file, from its input.
pub(crate) fn proposed(name: &str, path: &str, input: &Value) -> Option<FileDiff> {
    let text = |key: &str| input.text(key).map(str::to_owned);
    let (old_text, new_text, unified) = match name {
        "Create" => (None, Some(text("content")?), None),
        "Edit" => (text("old_str"), Some(text("new_str")?), None),
        "ApplyPatch" => (None, None, Some(text("input").or_else(|| text("patch"))?)),
        _ => return None,
    };
    Some(FileDiff { path: path.to_owned(), old_text, new_text, unified, ..FileDiff::default() })
}

/// Returns the text of a result, which is a string or a list of blocks.
pub(crate) fn text(content: &Value) -> String {
    match content {
        Value::Null => String::new(),
        Value::String(text) => text.to_string(),
        Value::Array(blocks) => {
            let block = |block: &Value| match block.text("text") {
                Some(text) => text.to_owned(),
                None => format!("[{}]", block.text("type").unwrap_or("output")),
            };
            blocks.iter().map(block).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

/// Returns the end of a tool use. `writes` is the file from its input, and `refused` is true if the
/// user refused the use.
pub(crate) fn end(
    id: &str,
    is_error: bool,
    output: String,
    writes: Option<FileDiff>,
    refused: bool,
) -> ToolEnd {
    let status = match () {
        () if !is_error => ToolStatus::Ok,
        () if output.contains("not permitted in this exec session")
            || output.contains("insufficient permission") =>
        {
            ToolStatus::Denied
        }
        () if output.contains("Plan not approved") => ToolStatus::Denied,
        () if output.contains("Tool execution cancelled") => {
            if refused {
                ToolStatus::Denied
            } else {
                ToolStatus::Cancelled
            }
        }
        () => ToolStatus::Failed,
    };
    let exit_code = output
        .rsplit_once("[Process exited with code ")
        .and_then(|(_, code)| code.trim_end().strip_suffix(']')?.parse().ok());
    let diffs = if status == ToolStatus::Ok {
        diff(&output).or(writes).into_iter().collect()
    } else {
        Vec::new()
    };
    ToolEnd { id: id.to_owned(), status, output: Some(output), exit_code, diffs }
}

/// Reads the changes that `Edit` reports as lines with their old and new numbers.
fn diff(output: &str) -> Option<FileDiff> {
    let result = json::parse(output).ok()?;
    let lines = result.list("diffLines");
    let first = lines.first()?;
    let number = |side| first["lineNumber"].count(side).unwrap_or(1);
    let (mut old, mut new, mut body) = (0, 0, String::new());
    for line in lines {
        let mark = match line.text("type") {
            Some("removed") => '-',
            Some("added") => '+',
            _ => ' ',
        };
        old += u32::from(mark != '+');
        new += u32::from(mark != '-');
        body.push(mark);
        body += line.text("content").unwrap_or_default();
        body.push('\n');
    }
    let unified = format!("@@ -{},{old} +{},{new} @@\n{body}", number("old"), number("new"));
    Some(FileDiff {
        path: result.text("file_path")?.to_owned(),
        unified: Some(unified),
        ..FileDiff::default()
    })
}

/// Returns the plan in a `TodoWrite`, with lines such as `1. [in_progress] do it`.
pub(crate) fn todos(name: &str, input: &Value) -> Option<Vec<PlanEntry>> {
    let todos = input.text("todos").filter(|_| name == "TodoWrite")?;
    let entry = |line: &str| {
        let (status, text) = line.split_once('[')?.1.split_once(']')?;
        let status = match status {
            "completed" => PlanStatus::Done,
            "in_progress" => PlanStatus::Active,
            _ => PlanStatus::Pending,
        };
        Some(PlanEntry { text: text.trim().to_owned(), status })
    };
    Some(todos.lines().filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_descriptor_lists_the_same_tools() {
        super::TOOLS.check(include_str!("descriptor.json"));
    }
}
