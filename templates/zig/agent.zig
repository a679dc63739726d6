//! Parses the output of {{name}}, for both ways to run it.
const std = @import("std");
const actions = @import("actions.zig");
const json = @import("json.zig");
const c = actions.c;
const gpa = actions.gpa;

/// The agent's tools: their names, unified kinds (see wit/types.wit), and the input field with the
/// target of a call.
const tools = [_]struct { name: []const u8, kind: []const u8, target: []const u8 }{
    .{ .name = "shell", .kind = "bash", .target = "command" },
    .{ .name = "read", .kind = "file_read", .target = "path" },
    .{ .name = "edit", .kind = "file_edit", .target = "path" },
};

/// The end of a turn. Owns its data until it is passed to the host.
pub const Result = struct {
    outcome: c.aetheel_backend_types_outcome_t,
    usage: c.aetheel_backend_types_option_usage_t = .{},

    pub fn of(tag: c_int) Result {
        return .{ .outcome = .{ .tag = @intCast(tag) } };
    }

    pub fn failed(kind: c_int, message: []const u8) actions.Error!Result {
        const why = try actions.failed(kind, message);
        return .{ .outcome = .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_OUTCOME_FAILED), .val = .{ .failed = why } } };
    }

    pub fn lost(kind: c_int, message: []const u8) actions.Error!Result {
        const why = try actions.failed(kind, message);
        return .{ .outcome = .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_OUTCOME_LOST), .val = .{ .lost = why } } };
    }

    pub fn add(self: Result, turn: actions.TurnRef, out: *actions.Actions) actions.Error!void {
        (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_TURN_DONE)).val.turn_done = .{
            .session = turn.session,
            .turn = turn.turn,
            .outcome = self.outcome,
            .usage = self.usage,
        };
    }
};

/// Handles a line of output. Returns the end of the turn if the line has it.
pub fn line(arena: std.mem.Allocator, told: *const c.aetheel_backend_types_line_t, out: *actions.Actions) actions.Error!?Result {
    const raw = std.mem.trim(u8, actions.borrowed(told.text), &std.ascii.whitespace);
    if (told.pipe == c.AETHEEL_BACKEND_TYPES_PIPE_STDERR or raw.len == 0) return null;
    const said = try json.parse(arena, raw) orelse json.Value.null;
    if (said != .object) {
        const what = if (told.truncated) "line longer than the limit" else "line that is not a JSON object";
        try out.unrecognised(try actions.copied(what), null, raw);
        return null;
    }
    try reportMissing(said, raw, out);
    const kind = json.text(said, "type") orelse "";
    const Kind = enum { session, text, tool, @"tool-result", done, @"error" };
    switch (std.meta.stringToEnum(Kind, kind) orelse {
        // Unknown output is reported, because it shows that the agent changed.
        try out.unrecognised(try actions.printed("line type {f}", .{actions.Quoted{ .text = kind }}), "type", raw);
        return null;
    }) {
        .session => {
            const told_id = json.text(said, "id") orelse "";
            if (!isNativeId(told_id)) {
                try out.unrecognised(try actions.copied("session line without a valid id"), "id", raw);
                return null;
            }
            const id = try actions.copied(told_id);
            (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_SESSION_READY)).val.session_ready = .{ .session = out.turn.session, .native_id = id };
        },
        .text => try out.text(0, json.text(said, "text") orelse "", false),
        .tool => try toolUse(arena, said, out),
        .@"tool-result" => {
            const good = json.field(said, "ok") == .bool and json.field(said, "ok").bool;
            const end: c.aetheel_backend_types_tool_end_t = .{
                .id = try actions.copied(json.text(said, "id") orelse ""),
                .status = @intCast(if (good) c.AETHEEL_BACKEND_TYPES_TOOL_STATUS_OK else c.AETHEEL_BACKEND_TYPES_TOOL_STATUS_FAILED),
                .output = try actions.copiedOption(json.text(said, "output")),
            };
            (try out.event(c.AETHEEL_BACKEND_TYPES_EVENT_KIND_TOOL_END)).val.tool_end = end;
        },
        .done => {
            const stopped = json.field(said, "stopped") == .bool and json.field(said, "stopped").bool;
            var result: Result = .of(if (stopped) c.AETHEEL_BACKEND_TYPES_OUTCOME_INTERRUPTED else c.AETHEEL_BACKEND_TYPES_OUTCOME_COMPLETED);
            const usage = json.field(said, "usage");
            if (json.count(usage, "input")) |input| {
                result.usage = .{ .is_some = true, .val = .{ .input = input, .output = json.count(usage, "output") orelse 0 } };
            }
            return result;
        },
        .@"error" => return try Result.failed(c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_OTHER, json.text(said, "message") orelse ""),
    }
    return null;
}

/// The fields that each type of line always has.
const fields = [_]struct { kind: []const u8, field: []const u8, is_object: bool = false }{
    .{ .kind = "session", .field = "id" },
    .{ .kind = "text", .field = "text" },
    .{ .kind = "error", .field = "message" },
    .{ .kind = "done", .field = "usage", .is_object = true },
    .{ .kind = "tool", .field = "id" },
    .{ .kind = "tool", .field = "name" },
    .{ .kind = "tool", .field = "input", .is_object = true },
    .{ .kind = "tool-result", .field = "id" },
    .{ .kind = "tool-result", .field = "output" },
};

/// Reports the fields that a line lacks. Without a report, their loss would go unnoticed.
fn reportMissing(said: json.Value, raw: []const u8, out: *actions.Actions) actions.Error!void {
    const kind = json.text(said, "type") orelse "";
    for (fields) |needed| {
        if (!std.mem.eql(u8, needed.kind, kind)) continue;
        const value = json.field(said, needed.field);
        const there = if (needed.is_object) value == .object else value == .string;
        if (!there) try lacks(kind, needed.field, value, raw, out);
    }
    const input = json.field(said, "input");
    if (!std.mem.eql(u8, kind, "tool") or input != .object) return;
    for (tools) |known| {
        const target = json.field(input, known.target);
        if (json.is(said, "name", known.name) and target != .string) try lacks(kind, known.target, target, raw, out);
    }
}

fn lacks(kind: []const u8, path: []const u8, value: json.Value, raw: []const u8, out: *actions.Actions) actions.Error!void {
    const what = try actions.printed("no `{s}` in a line of type {f}", .{ path, actions.Quoted{ .text = kind } });
    try out.unrecognised(what, path, raw);
    const difference = if (value == .null) c.AETHEEL_BACKEND_TYPES_DIFFERENCE_MISSING else c.AETHEEL_BACKEND_TYPES_DIFFERENCE_CHANGED;
    out.list.items[out.list.items.len - 1].val.event.kind.val.unrecognised.difference = @intCast(difference);
}

/// Returns whether a text can be the id of a session, see `session-ready` in wit/types.wit.
fn isNativeId(id: []const u8) bool {
    for (id) |byte| {
        if (!std.ascii.isAlphanumeric(byte) and std.mem.indexOfScalar(u8, "_.:-", byte) == null) return false;
    }
    return id.len > 0 and id.len <= 128 and id[0] != '-';
}

fn toolUse(arena: std.mem.Allocator, said: json.Value, out: *actions.Actions) actions.Error!void {
    const name = json.text(said, "name") orelse "";
    const input = json.field(said, "input");
    var kind: []const u8 = "other";
    var target: ?[]const u8 = null;
    for (tools) |known| {
        if (!std.mem.eql(u8, known.name, name)) continue;
        kind = known.kind;
        target = json.text(input, known.target);
    }
    var about = std.mem.tokenizeAny(u8, target orelse "", "\r\n");
    const start: c.aetheel_backend_types_tool_start_t = .{
        .id = try actions.copied(json.text(said, "id") orelse ""),
        .kind = try actions.copied(kind),
        .native_name = try actions.copied(name),
        .title = try actions.copied(actions.head(about.next() orelse name, 160)),
        .target = try actions.copiedOption(target),
        .input = try actions.copied(if (input == .null) "{}" else try json.write(arena, input)),
    };
    (try out.event(c.AETHEEL_BACKEND_TYPES_EVENT_KIND_TOOL_START)).val.tool_start = start;
}

/// Returns the texts of a prompt, and the paths of its files.
pub fn prompt(arena: std.mem.Allocator, parts: c.aetheel_backend_types_list_part_t) actions.Error![]const u8 {
    var all: std.ArrayList(u8) = .empty;
    for (0..parts.len) |at| {
        const part = parts.ptr[at];
        if (at > 0) try all.appendSlice(arena, "\n\n");
        switch (part.tag) {
            c.AETHEEL_BACKEND_TYPES_PART_TEXT => try all.appendSlice(arena, actions.borrowed(part.val.text)),
            c.AETHEEL_BACKEND_TYPES_PART_IMAGE => try all.print(arena, "Attached file: {s}", .{actions.borrowed(part.val.image.path)}),
            else => try all.print(arena, "Attached file: {s}", .{actions.borrowed(part.val.file.path)}),
        }
    }
    return all.items;
}

/// Starts {{name}}. The host refuses flags that are not in descriptor.json.
pub fn spawn(start: *const c.aetheel_backend_types_start_turn_t, proc: u32, flag: []const u8, out: *actions.Actions) actions.Error!*c.aetheel_backend_types_spawn_t {
    var words: [3][]const u8 = .{ flag, "--resume", "" };
    if (start.native_id.is_some) words[2] = actions.borrowed(start.native_id.val);
    const arguments = try gpa.alloc(c.aetheel_backend_types_value_t, if (start.native_id.is_some) 3 else 1);
    for (arguments, words[0..arguments.len]) |*argument, word| {
        argument.* = .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_VALUE_TEXT), .val = .{ .text = try actions.copied(word) } };
    }
    const program = try actions.copied("{{name}}");
    const action = try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_SPAWN);
    action.val.spawn = .{
        .proc = proc,
        .program = program,
        .arguments = actions.given(c.aetheel_backend_types_list_value_t, arguments),
        .session = .{ .is_some = true, .val = start.session },
        .turn = .{ .is_some = true, .val = start.turn },
    };
    return &action.val.spawn;
}

/// Returns a text as data for stdin.
pub fn chunk(text: []const u8) actions.Error!c.aetheel_backend_types_list_chunk_t {
    const chunks = try gpa.alloc(c.aetheel_backend_types_chunk_t, 1);
    chunks[0] = .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_CHUNK_TEXT), .val = .{ .text = try actions.copied(text) } };
    return actions.given(c.aetheel_backend_types_list_chunk_t, chunks);
}

/// Answers commands that do not belong to a turn.
pub fn aside(told: *const c.aetheel_backend_types_command_t, out: *actions.Actions) actions.Error!void {
    switch (told.tag) {
        c.AETHEEL_BACKEND_TYPES_COMMAND_STEER => {
            const outcome: u8 = @intCast(c.AETHEEL_BACKEND_TYPES_STEER_OUTCOME_NOT_NOW);
            (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_STEERED)).val.steered = .{ .message = told.val.steer.message, .outcome = outcome };
        },
        c.AETHEEL_BACKEND_TYPES_COMMAND_QUERY => {
            const why = try actions.failed(c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_UNSUPPORTED, "this backend does not support queries");
            (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_QUERY_ANSWER)).val.query_answer = .{
                .query = told.val.query.query,
                .answer = .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_QUERY_RESULT_FAILED), .val = .{ .failed = why } },
            };
        },
        else => {},
    }
}
