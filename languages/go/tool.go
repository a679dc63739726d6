package export_aetheel_backend_backend

import (
	"cmp"
	"strings"

	t "wit_component/aetheel_backend_types"

	w "wit_component/wit/types"
)

// titleBytes is the maximum length of a tool's title.
const titleBytes = 160

// kinds has the unified kinds of the tools of Gemini CLI 0.61.0.
var kinds = map[string]string{
	"Bash": "bash", "run_shell_command": "bash", "list_background_processes": "bash", "read_background_output": "bash",
	"read_file": "file_read", "read_many_files": "file_read", "write_file": "file_write", "replace": "file_edit",
	"glob": "file_search", "list_directory": "file_search", "grep_search": "content_search",
	"search_file_content": "content_search", "google_web_search": "web_search", "web_fetch": "web_fetch",
	"invoke_agent": "agent_spawn", "write_todos": "todo", "ask_user": "ask_user", "activate_skill": "skill",
}

// targets has the input fields with the target of a tool use. The first existing one is used.
var targets = map[string][]string{
	"bash": {"command"}, "content_search": {"pattern", "path", "dir_path"}, "file_search": {"pattern", "path", "dir_path"},
	"web_search": {"query"}, "web_fetch": {"url", "prompt"}, "agent_spawn": {"description", "agent_name"},
}

var paths = []string{"file_path", "path", "absolute_path"}

func kindOf(name string) string {
	if kind, ok := kinds[name]; ok {
		return kind
	}
	if strings.HasPrefix(name, "mcp_") || strings.Contains(name, "___") {
		return "mcp"
	}
	return "other"
}

func target(input object, kind string) (string, bool) {
	fields, ok := targets[kind]
	if !ok {
		fields = paths
	}
	for _, field := range fields {
		if input.has(field) {
			return input.text(field), true
		}
	}
	return "", false
}

// title returns the first non-empty line for users, with an ellipsis if it was shortened.
func title(said, name string) string {
	found := lines(said)
	if len(found) == 0 {
		return name
	}
	short := strings.TrimSpace(head(found[0], titleBytes))
	if len(found) > 1 || len(short) < len(found[0]) {
		return short + " …"
	}
	return short
}

// toolUse reports the use of a tool from a `tool_use` line, and the plan if it has one.
func toolUse(message object, out *emitter) {
	name := message.text("tool_name")
	kind := kindOf(name)
	input := message.object("parameters")
	about, known := target(input, kind)
	said := about
	if kind == "bash" && input.has("description") {
		said = input.text("description")
	}
	shown := "{}"
	if message["parameters"] != nil {
		shown = write(message["parameters"])
	}
	out.event(t.MakeEventKindToolStart(t.ToolStart{
		Id: message.text("tool_id"), Parent: w.None[string](), Kind: kind, NativeName: name, Title: cmp.Or(title(said, name), name),
		Target: some(about, known), Input: shown,
	}))
	if name == "write_todos" {
		out.event(t.MakeEventKindPlan(plan(input)))
	}
}

func plan(input object) []t.PlanEntry {
	todos, _ := input["todos"].([]any)
	entries := make([]t.PlanEntry, 0, len(todos))
	for _, todo := range todos {
		fields, _ := todo.(object)
		status := t.PlanStatus(t.PlanStatus_Pending)
		switch fields.text("status") {
		case "in_progress":
			status = t.PlanStatus_Active
		case "completed", "cancelled":
			status = t.PlanStatus_Done
		}
		entries = append(entries, t.PlanEntry{Text: fields.text("description"), Status: status})
	}
	return entries
}

// toolResult reports the end of a tool use from a `tool_result` line.
func toolResult(message object, out *emitter) {
	status := t.ToolStatus(t.ToolStatus_Unknown)
	switch message.text("status") {
	case "success":
		status = t.ToolStatus_Ok
	case "error":
		status = t.ToolStatus_Failed
	}
	output := some(message.text("output"), message.has("output"))
	if fault := message.object("error"); output.IsNone() {
		output = some(fault.text("message"), fault.has("message"))
	}
	out.event(t.MakeEventKindToolEnd(t.ToolEnd{Id: message.text("tool_id"), Status: status, Output: output, ExitCode: w.None[uint32]()}))
}
