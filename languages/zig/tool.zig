//! Tool calls: names, targets and results.
const std = @import("std");
const actions = @import("actions.zig");
const json = @import("json.zig");
const c = actions.c;

const title_bytes = 160;

/// The tools of Gemini CLI 0.61.0 and their unified kinds.
const kinds = std.StaticStringMap([]const u8).initComptime(.{
    .{ "Bash", "bash" },                     .{ "run_shell_command", "bash" },
    .{ "list_background_processes", "bash" }, .{ "read_background_output", "bash" },
    .{ "read_file", "file_read" },           .{ "read_many_files", "file_read" },
    .{ "write_file", "file_write" },         .{ "replace", "file_edit" },
    .{ "glob", "file_search" },              .{ "list_directory", "file_search" },
    .{ "grep_search", "content_search" },    .{ "search_file_content", "content_search" },
    .{ "google_web_search", "web_search" },  .{ "web_fetch", "web_fetch" },
    .{ "invoke_agent", "agent_spawn" },      .{ "write_todos", "todo" },
    .{ "ask_user", "ask_user" },             .{ "activate_skill", "skill" },
});

/// The input fields with the target of a tool use. The first existing one is used.
const targets = std.StaticStringMap([]const []const u8).initComptime(.{
    .{ "bash", &[_][]const u8{"command"} },
    .{ "content_search", &[_][]const u8{ "pattern", "path", "dir_path" } },
    .{ "file_search", &[_][]const u8{ "pattern", "path", "dir_path" } },
    .{ "web_search", &[_][]const u8{"query"} },
    .{ "web_fetch", &[_][]const u8{ "url", "prompt" } },
    .{ "agent_spawn", &[_][]const u8{ "description", "agent_name" } },
});
const paths = [_][]const u8{ "file_path", "path", "absolute_path" };

fn kindOf(name: []const u8) []const u8 {
    if (kinds.get(name)) |kind| return kind;
    return if (std.mem.startsWith(u8, name, "mcp_") or std.mem.indexOf(u8, name, "___") != null) "mcp" else "other";
}

fn target(input: json.Value, kind: []const u8) ?[]const u8 {
    for (targets.get(kind) orelse &paths) |field| {
        if (json.text(input, field)) |found| return found;
    }
    return null;
}

/// Returns the first non-empty line for users, with an ellipsis if it was shortened.
fn title(said: []const u8, name: []const u8) actions.Error!actions.String {
    var first: []const u8 = "";
    var shortened = false;
    var lines = std.mem.splitScalar(u8, said, '\n');
    while (lines.next()) |next| {
        const line = std.mem.trim(u8, next, &std.ascii.whitespace);
        if (line.len == 0) continue;
        shortened = first.len > 0;
        if (shortened) break;
        first = line;
    }
    const short = std.mem.trim(u8, actions.head(first, title_bytes), &std.ascii.whitespace);
    if (shortened or short.len < first.len) return actions.printed("{s} …", .{short});
    return actions.copied(if (short.len > 0) short else name);
}

/// Reports the use of a tool from a `tool_use` line, and the plan if it has one.
pub fn use(arena: std.mem.Allocator, message: json.Value, out: *actions.Actions) actions.Error!void {
    const name = json.text(message, "tool_name") orelse "";
    const kind = kindOf(name);
    const input = json.field(message, "parameters");
    const about = target(input, kind);
    const described = if (std.mem.eql(u8, kind, "bash")) json.text(input, "description") else null;
    const start: c.aetheel_backend_types_tool_start_t = .{
        .id = try actions.copied(json.text(message, "tool_id") orelse ""),
        .kind = try actions.copied(kind),
        .native_name = try actions.copied(name),
        .title = try title(described orelse about orelse "", name),
        .target = try actions.copiedOption(about),
        .input = try actions.copied(if (input == .null) "{}" else try json.write(arena, input)),
    };
    (try out.event(c.AETHEEL_BACKEND_TYPES_EVENT_KIND_TOOL_START)).val.tool_start = start;
    if (std.mem.eql(u8, name, "write_todos")) try plan(json.list(input, "todos"), out);
}

fn plan(todos: []const json.Value, out: *actions.Actions) actions.Error!void {
    const entries = try actions.gpa.alloc(c.aetheel_backend_types_plan_entry_t, todos.len);
    for (entries, todos) |*entry, todo| entry.* = .{
        .text = try actions.copied(json.text(todo, "description") orelse ""),
        .status = @intCast(if (json.is(todo, "status", "in_progress"))
            c.AETHEEL_BACKEND_TYPES_PLAN_STATUS_ACTIVE
        else if (json.is(todo, "status", "completed") or json.is(todo, "status", "cancelled"))
            c.AETHEEL_BACKEND_TYPES_PLAN_STATUS_DONE
        else
            c.AETHEEL_BACKEND_TYPES_PLAN_STATUS_PENDING),
    };
    (try out.event(c.AETHEEL_BACKEND_TYPES_EVENT_KIND_PLAN)).val.plan = actions.given(c.aetheel_backend_types_list_plan_entry_t, entries);
}

/// Reports the end of a tool use from a `tool_result` line.
pub fn result(message: json.Value, out: *actions.Actions) actions.Error!void {
    const end: c.aetheel_backend_types_tool_end_t = .{
        .id = try actions.copied(json.text(message, "tool_id") orelse ""),
        .status = @intCast(if (json.is(message, "status", "success"))
            c.AETHEEL_BACKEND_TYPES_TOOL_STATUS_OK
        else if (json.is(message, "status", "error"))
            c.AETHEEL_BACKEND_TYPES_TOOL_STATUS_FAILED
        else
            c.AETHEEL_BACKEND_TYPES_TOOL_STATUS_UNKNOWN),
        .output = try actions.copiedOption(json.text(message, "output") orelse json.text(json.field(message, "error"), "message")),
    };
    (try out.event(c.AETHEEL_BACKEND_TYPES_EVENT_KIND_TOOL_END)).val.tool_end = end;
}
