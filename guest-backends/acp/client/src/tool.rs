//! Tool calls: names, targets and results.
//!
//! The protocol reports only a coarse kind (`edit`, `execute`, …). The tool's own name is more
//! precise, but each agent reports it in a different place or not at all.

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::tool::title;
use aetheel_backend_sdk::wit::{FileDiff, ToolEnd, ToolStart, ToolStatus};

/// Returns the unified kind of a tool by the agent's name for it, or `None` for an unknown name.
///
/// The names are from Claude Code 2.1.197, Codex 0.169.0, Gemini CLI 0.61.0, OpenCode 1.18.33,
/// Factory Droid 0.225.2, Copilot CLI 1.0.102 and Qwen Code 0.24.4.
#[must_use]
pub fn kind_of_name(name: &str) -> Option<&'static str> {
    Some(match name {
        "Bash"
        | "bash"
        | "Execute"
        | "exec_command"
        | "shell"
        | "write_stdin"
        | "run_shell_command"
        | "list_background_processes"
        | "read_background_output" => "bash",
        "Read" | "read" | "view" | "view_image" | "read_file" | "read_many_files" => "file_read",
        "Write" | "write" | "Create" | "create" | "write_file" => "file_write",
        "Edit" | "edit" | "MultiEdit" | "NotebookEdit" | "notebook_edit" | "ApplyPatch"
        | "apply_patch" | "replace" => "file_edit",
        "Glob" | "glob" | "LS" | "list_directory" => "file_search",
        "Grep" | "grep" | "grep_search" | "search_file_content" => "content_search",
        "WebSearch" | "websearch" | "web_search" | "google_web_search" => "web_search",
        "WebFetch" | "webfetch" | "web_fetch" | "FetchUrl" => "web_fetch",
        "Agent" | "Task" | "task" | "agent" | "invoke_agent" | "spawn_agent" => "agent_spawn",
        "TodoWrite" | "todowrite" | "todo_write" | "write_todos" | "update_plan" | "TaskCreate"
        | "TaskUpdate" | "TaskList" | "TaskGet" => "todo",
        "AskUserQuestion" | "AskUser" | "ask_user" | "ask_user_question" | "question"
        | "request_user_input" => "ask_user",
        "Skill" | "skill" | "activate_skill" => "skill",
        _ if name.starts_with("mcp__") || name.starts_with("mcp_") || name.contains("___") => "mcp",
        _ => return None,
    })
}

fn kind_of_protocol(kind: &str) -> &'static str {
    match kind {
        "read" => "file_read",
        "edit" | "delete" | "move" => "file_edit",
        "search" => "content_search",
        "execute" => "bash",
        "fetch" => "web_fetch",
        _ => "other",
    }
}

/// A use of a tool within a turn.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) start: ToolStart,
    /// The name in a field of claude-agent-acp, which its permission requests lack (0.49.0).
    pub(crate) claude_name: Option<String>,
    /// The output that was reported so far.
    output: String,
    /// Whether the agent reports more output instead of repeating the whole.
    streams: bool,
    pub(crate) diffs: Vec<FileDiff>,
    /// Whether the agent reported that it runs.
    pub(crate) runs: bool,
    pub(crate) denied: bool,
    pub(crate) ended: bool,
}

impl Tool {
    /// Creates a tool use of which only the id is known.
    pub(crate) fn new(id: &str) -> Self {
        let start = ToolStart {
            id: id.to_owned(),
            parent: None,
            kind: "other".to_owned(),
            native_name: "other".to_owned(),
            title: String::new(),
            target: None,
            input: "{}".to_owned(),
        };
        Self {
            start,
            claude_name: None,
            output: String::new(),
            streams: false,
            diffs: Vec::new(),
            runs: false,
            denied: false,
            ended: false,
        }
    }

    /// Updates the description of the use from a `tool_call`, its update, or a permission request.
    /// Returns whether the description changed.
    pub(crate) fn learn(&mut self, update: &Value) -> bool {
        let was = self.start.clone();
        self.runs |= update.text("status") == Some("in_progress");
        if let Some(name) = update["_meta"]["claudeCode"].text("toolName") {
            self.claude_name = Some(name.to_owned());
        }
        let new_title = update.text("title").filter(|title| !title.is_empty());
        let name = update
            .text("name")
            .or_else(|| update["_meta"]["claudeCode"].text("toolName"))
            // Gemini CLI 0.61.0: write_file__call_8baac53350b04980adca
            .or_else(|| {
                was.id
                    .rsplit_once("__")
                    .map(|(name, _)| name)
                    .filter(|name| kind_of_name(name).is_some())
            })
            // OpenCode 1.18.33 uses the tool's name as the title until it has a better one.
            .or_else(|| new_title.filter(|title| kind_of_name(title).is_some()));
        if let Some(name) = name {
            name.clone_into(&mut self.start.native_name);
        } else if let Some(kind) =
            update.text("kind").filter(|_| kind_of_name(&was.native_name).is_none())
        {
            kind.clone_into(&mut self.start.native_name);
        }
        match (kind_of_name(&self.start.native_name), update.text("kind")) {
            (Some(kind), _) => kind.clone_into(&mut self.start.kind),
            (None, Some(kind)) => kind_of_protocol(kind).clone_into(&mut self.start.kind),
            (None, None) => {}
        }
        let parent = update["_meta"]["claudeCode"]
            .text("parentToolUseId")
            .or_else(|| update["_meta"].text("parentToolCallId"));
        if let Some(parent) = parent {
            self.start.parent = Some(parent.to_owned());
        }
        let input = &update["rawInput"];
        if input.as_object().is_some_and(|fields| !fields.is_empty()) {
            self.start.input = input.to_string();
        } else if let Some(input) = arguments(update).filter(|_| input.is_null()) {
            self.start.input = input;
        }
        if let Some(target) =
            target(input, &self.start.kind).or_else(|| place(update, &self.start.kind, new_title))
        {
            self.start.target = Some(target);
        }
        if let Some(new_title) = new_title {
            self.start.title = title(new_title, &self.start.native_name);
        } else if self.start.title.is_empty() {
            self.start.title.clone_from(&self.start.native_name);
        }
        let diffs = diffs(update);
        if !diffs.is_empty() {
            self.diffs = diffs;
        }
        self.start != was
    }

    /// Handles output of a running tool.
    pub(crate) fn run(&mut self, update: &Value, emit: &mut Emit) {
        // codex-acp 2.6.0
        if let Some(more) =
            update["_meta"]["terminal_output_delta"].text("data").filter(|more| !more.is_empty())
        {
            self.streams = true;
            self.output.push_str(more);
            emit.tool_output(&self.start.id, more);
        }
        // OpenCode 1.18.33 repeats the whole output in each update. Other agents use this field for
        // a description before the tool runs.
        let running = update.text("sessionUpdate") == Some("tool_call_update")
            && update.text("status") == Some("in_progress");
        if running && self.start.kind == "bash" {
            let whole = content_text(update);
            if !self.streams && !whole.is_empty() && whole != self.output {
                match whole.strip_prefix(self.output.as_str()) {
                    Some(more) => emit.tool_output(&self.start.id, more),
                    None => emit.whole_tool_output(&self.start.id, &whole),
                }
                self.output = whole;
            }
        }
    }

    /// Handles the end of the use. Returns `None` if the update is not its end. `stopping` is true
    /// if the turn was interrupted.
    pub(crate) fn end(&mut self, update: &Value, stopping: bool) -> Option<ToolEnd> {
        let raw = &update["rawOutput"];
        let status = match update.text("status")? {
            "completed" => ToolStatus::Ok,
            "failed" | "cancelled" if self.denied => ToolStatus::Denied,
            "failed" if !stopping => ToolStatus::Failed,
            "failed" | "cancelled" => ToolStatus::Cancelled,
            _ => return None,
        };
        self.ended = true;
        let reported_exit = Some(content_text(update))
            .filter(|_| self.start.kind == "bash" && status == ToolStatus::Ok)
            .and_then(|text| exit_code_in(&text));
        let status = if reported_exit.is_some() { ToolStatus::Failed } else { status };
        let exit = update["_meta"]["terminal_exit"]
            .get("exit_code")
            .or_else(|| raw.get("exit_code"))
            .or_else(|| raw["metadata"].get("exit"));
        let exit_code = exit.and_then(|code| code.to_string().parse().ok()).or(reported_exit);
        let text = raw.as_str().or_else(|| {
            ["output", "aggregated_output", "text", "error"]
                .iter()
                .find_map(|field| raw.text(field))
        });
        let text = text.map_or_else(|| unfenced(&content_text(update)).to_owned(), str::to_owned);
        // Output that was already streamed is not repeated.
        let output = Some(text).filter(|text| !text.is_empty() && *text != self.output);
        let diffs =
            if status == ToolStatus::Ok { std::mem::take(&mut self.diffs) } else { Vec::new() };
        Some(ToolEnd { id: self.start.id.clone(), status, output, exit_code, diffs })
    }
}

/// Returns the target of a tool use from the tool's input.
#[must_use]
pub fn target(input: &Value, kind: &str) -> Option<String> {
    if let Some(words) = input["command"].as_array() {
        // codex-acp 0.16.0: ["/bin/bash", "-lc", "ls"]
        return words.last().and_then(Value::as_str).map(str::to_owned);
    }
    let fields: &[&str] = match kind {
        "bash" => &["command"],
        "content_search" | "file_search" => &["pattern", "path", "dir_path"],
        "web_search" => &["query"],
        "web_fetch" => &["url", "prompt"],
        "agent_spawn" => &["description", "agent_name"],
        _ => &["file_path", "filePath", "path", "absolute_path", "notebook_path"],
    };
    fields.iter().find_map(|field| input.text(field)).map(str::to_owned)
}

/// Returns the target of a tool use without an input (Gemini CLI 0.61.0): the title of a command,
/// or the first location of another tool.
fn place(update: &Value, kind: &str, title: Option<&str>) -> Option<String> {
    let place = || update.list("locations").first().and_then(|at| at.text("path"));
    let place =
        if kind == "bash" { title.filter(|_| update["rawInput"].is_null()) } else { place() };
    place.map(str::to_owned)
}

/// Returns the exit code of a command that wrote nothing. Gemini CLI 0.61.0 reports such a use as
/// successful, with the exit code as its text. If a command wrote output, only the output is
/// reported.
fn exit_code_in(text: &str) -> Option<u32> {
    text.trim().strip_prefix("Command exited with code: ")?.parse().ok().filter(|code| *code != 0)
}

/// Returns the arguments of a tool use that waits for permission, if they are sent as text. Gemini
/// CLI 0.61.0 does that for tools of MCP servers.
fn arguments(update: &Value) -> Option<String> {
    let text = Some(content_text(update)).filter(|_| update.text("status") == Some("pending"))?;
    json::parse(text.trim())
        .ok()
        .filter(|text| text.as_object().is_some_and(|fields| !fields.is_empty()))
        .map(|text| text.to_string())
}

fn content_text(update: &Value) -> String {
    let pieces =
        update.list("content").iter().filter(|piece| piece.text("type") == Some("content"));
    pieces.filter_map(|piece| piece["content"].text("text")).collect::<Vec<_>>().join("\n")
}

/// Removes a code fence around the whole text.
fn unfenced(text: &str) -> &str {
    let inner = text
        .trim()
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|rest| rest.split_once('\n'));
    match inner {
        Some((_, inner)) if !inner.contains("```") => inner.strip_suffix('\n').unwrap_or(inner),
        _ => text,
    }
}

fn diffs(update: &Value) -> Vec<FileDiff> {
    let read = |piece: &Value| {
        Some(FileDiff {
            path: piece.text("path")?.to_owned(),
            old_text: piece.text("oldText").map(str::to_owned),
            new_text: piece.text("newText").map(str::to_owned),
            ..FileDiff::default()
        })
    };
    update
        .list("content")
        .iter()
        .filter(|piece| piece.text("type") == Some("diff"))
        .filter_map(read)
        .collect()
}
