//! What tools are called, what they are about, and how their uses ended.

use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{FileDiff, PlanEntry, PlanStatus, ToolEnd, ToolStart, ToolStatus};

/// Bytes of a tool's title.
const TITLE: usize = 160;

/// The tools of Droid 0.225.2 by unified kind; the descriptor says the same.
const TOOLS: [(&str, &[&str]); 13] = [
    ("bash", &["Execute", "Script", "WaitForScript"]),
    ("file_read", &["Read"]),
    ("file_write", &["Create"]),
    ("file_edit", &["Edit", "ApplyPatch"]),
    ("file_search", &["Glob", "LS"]),
    ("content_search", &["Grep"]),
    ("web_search", &["WebSearch"]),
    ("web_fetch", &["FetchUrl"]),
    ("agent_spawn", &["Task", "TaskOutput", "TaskStop"]),
    ("todo", &["TodoWrite"]),
    ("ask_user", &["AskUser"]),
    ("skill", &["Skill"]),
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
    ),
];

/// Returns the unified kind of a tool.
pub(crate) fn kind(name: &str) -> &'static str {
    match TOOLS.iter().find(|(_, names)| names.contains(&name)) {
        Some((kind, _)) => kind,
        None if name.contains("___") => "mcp",
        None => "other",
    }
}

/// Whether Droid 0.225.2 may have a tool of this name.
pub(crate) fn is_known(name: &str) -> bool {
    TOOLS.iter().any(|(_, names)| names.contains(&name)) || kind(name) == "mcp"
}

/// Returns the start of a tool use; the input is empty while it is still being written.
pub(crate) fn start(id: &str, name: &str, input: &Value) -> ToolStart {
    let kind = kind(name);
    let about: &[&str] = match kind {
        "bash" => &["command"],
        "file_read" | "file_write" | "file_edit" => &["file_path"],
        "file_search" => &["patterns", "directory_path", "folder"],
        "content_search" => &["pattern"],
        "web_search" => &["query"],
        "web_fetch" => &["url"],
        "agent_spawn" => &["description"],
        "skill" => &["skill"],
        _ => &[],
    };
    let target = about.iter().find_map(|field| match input.get(field)? {
        Value::Array(all) => Some(all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        one => one.as_str().map(str::to_owned),
    });
    let title = target.as_deref().map(|target| one_line(target, TITLE)).filter(|title| !title.is_empty());
    ToolStart {
        id: id.to_owned(),
        parent: None,
        kind: kind.to_owned(),
        native_name: name.to_owned(),
        title: title.unwrap_or_else(|| name.to_owned()),
        target,
        input: if input.is_null() { "{}".to_owned() } else { input.to_string() },
    }
}

/// What the input of a tool says it will write, to be told when it has.
pub(crate) fn writes(name: &str, input: &Value) -> Option<FileDiff> {
    let path = input.text("file_path")?.to_owned();
    (name == "Create").then(|| FileDiff { path, old_text: None, new_text: input.text("content").map(str::to_owned), unified: None })
}

/// The text of a result: a string, or blocks of which some are text.
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

/// Returns the end of a tool use. `writes` is what its input said; `refused` whether a person refused it.
pub(crate) fn end(id: &str, is_error: bool, output: String, writes: Option<FileDiff>, refused: bool) -> ToolEnd {
    let status = match () {
        () if !is_error => ToolStatus::Ok,
        () if output.contains("not permitted in this exec session") || output.contains("insufficient permission") => ToolStatus::Denied,
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
    let exit_code = output.rsplit_once("[Process exited with code ").and_then(|(_, code)| code.trim_end().strip_suffix(']')?.parse().ok());
    let diffs = if status == ToolStatus::Ok { diff(&output).or(writes).into_iter().collect() } else { Vec::new() };
    ToolEnd { id: id.to_owned(), status, output: Some(output), exit_code, diffs }
}

/// What `Edit` says it changed: lines with their numbers before and after.
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
    Some(FileDiff { path: result.text("file_path")?.to_owned(), old_text: None, new_text: None, unified: Some(unified) })
}

/// Returns the plan a `TodoWrite` writes: lines like `1. [in_progress] do it`.
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
    use aetheel_backend_sdk::json;

    use super::*;

    #[test]
    fn the_descriptor_names_every_tool_that_is_known_under_its_kind_and_no_other() {
        let descriptor = json::parse(include_str!("descriptor.json")).expect("JSON");
        let described = descriptor["tools"].as_object().expect("an object");
        assert_eq!(described.values().count(), TOOLS.len());
        for (of_kind, names) in TOOLS {
            let listed: Vec<&str> = descriptor["tools"].list(of_kind).iter().filter_map(Value::as_str).collect();
            assert_eq!(listed, names, "{of_kind}");
            assert!(names.iter().all(|name| kind(name) == of_kind), "{of_kind}: a name stands under two kinds");
        }
    }
}
