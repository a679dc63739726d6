//! One turn with Gemini CLI: the process to start, and the parser of its output.
const std = @import("std");
const actions = @import("actions.zig");
const json = @import("json.zig");
const failure = @import("failure.zig");
const tool = @import("tool.zig");
const Answer = @import("answer.zig").Answer;
const c = actions.c;
const gpa = actions.gpa;

/// GEMINI_CLI_TRUST_WORKSPACE: otherwise it refuses to work in folders that were not trusted in its
/// own user interface. GEMINI_CLI_NO_RELAUNCH: otherwise it restarts itself as a child process and
/// ignores signals. NO_BROWSER: otherwise it opens a browser to authenticate.
const environment = [_][2][]const u8{
    .{ "GEMINI_CLI_TRUST_WORKSPACE", "true" },
    .{ "GEMINI_CLI_NO_RELAUNCH", "true" },
    .{ "NO_BROWSER", "1" },
};

/// The end of a turn, as reported by the agent.
pub const Result = struct {
    outcome: c.aetheel_backend_types_outcome_t,
    text: actions.OptionString = .{},
    usage: c.aetheel_backend_types_option_usage_t = .{},

    pub fn free(self: *Result) void {
        c.aetheel_backend_types_outcome_free(&self.outcome);
        c.agent_backend_option_string_free(&self.text);
    }
};

/// The process for a turn, or why the turn must fail.
pub const Plan = union(enum) { spawn, refused: actions.Failure };

const Session = struct { id: []const u8, model: ?[]const u8 };

pub const Gemini = struct {
    /// The session to resume.
    resumed: ?[]const u8 = null,
    /// A new session without history. It is not saved if the first model request fails.
    unkept: ?Session = null,
    answer: Answer = .{},
    /// The last reported error.
    failing: ?[]const u8 = null,

    /// Adds the process for a turn. Prompts and the system prompt are passed on stdin, so users'
    /// texts are never arguments.
    pub fn plan(self: *Gemini, arena: std.mem.Allocator, start: *const c.aetheel_backend_types_start_turn_t, proc: u32, out: *actions.Actions) actions.Error!Plan {
        const settings = &start.settings;
        const session = option(start.native_id);
        if (session) |id| self.resumed = try gpa.dupe(u8, id);
        const asked = try prompt(arena, start.parts);
        if (std.mem.trim(u8, asked, &std.ascii.whitespace).len == 0) {
            return refused(c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_BAD_REQUEST, "the prompt is empty");
        }
        if (start.fork) return refused(c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_UNSUPPORTED, "Gemini CLI cannot copy a session");
        // `latest` and numbers would resume other sessions.
        if (session) |id| if (!isUuid(id)) {
            return refused(c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_SESSION_UNKNOWN, "the session id is not one of Gemini CLI");
        };

        var words: std.ArrayList([]const u8) = .empty;
        try words.appendSlice(arena, &.{ "-o", "stream-json", "--approval-mode", approval(settings) });
        const fresh = actions.borrowed(start.fresh_id);
        if (session) |id| {
            try words.appendSlice(arena, &.{ "--resume", id });
        } else if (isUuid(fresh)) {
            // With a preset id, the session can be resumed even if the process is killed early.
            try words.appendSlice(arena, &.{ "--session-id", fresh });
        }
        if (option(settings.model)) |model| try words.appendSlice(arena, &.{ "-m", model });
        if (option(settings.effort)) |effort| {
            const warning = try actions.printed("Gemini CLI does not offer a choice of its effort: {f} is ignored", .{actions.Quoted{ .text = effort }});
            const level: u8 = @intCast(c.AETHEEL_BACKEND_TYPES_LEVEL_WARN);
            (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_DIAGNOSTIC)).val.diagnostic = .{ .level = level, .text = warning };
        }

        const arguments = try gpa.alloc(c.aetheel_backend_types_value_t, words.items.len);
        for (arguments, words.items) |*argument, word| argument.* = try value(word);
        const variables = try gpa.alloc(c.aetheel_backend_types_variable_t, environment.len);
        for (variables, environment) |*variable, pair| variable.* = .{ .name = try actions.copied(pair[0]), .value = try value(pair[1]) };
        const system = option(settings.system_prompt) orelse "";
        const chunks = try gpa.alloc(c.aetheel_backend_types_chunk_t, if (system.len > 0) 2 else 1);
        if (system.len > 0) chunks[0] = try chunk(try standing(arena, system));
        chunks[chunks.len - 1] = try chunk(asked);
        const spawn: c.aetheel_backend_types_spawn_t = .{
            .proc = proc,
            .program = try actions.copied("gemini"),
            .arguments = actions.given(c.aetheel_backend_types_list_value_t, arguments),
            .environment = actions.given(c.aetheel_backend_types_list_variable_t, variables),
            .stdin_ = actions.given(c.aetheel_backend_types_list_chunk_t, chunks),
            .session = .{ .is_some = true, .val = start.session },
            .turn = .{ .is_some = true, .val = start.turn },
        };
        (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_SPAWN)).val.spawn = spawn;
        return .spawn;
    }

    /// Handles a line of output. Returns the result if the line has it.
    pub fn line(self: *Gemini, arena: std.mem.Allocator, told: *const c.aetheel_backend_types_line_t, out: *actions.Actions) actions.Error!?Result {
        const raw = std.mem.trim(u8, actions.borrowed(told.text), &std.ascii.whitespace);
        if (told.pipe == c.AETHEEL_BACKEND_TYPES_PIPE_STDERR) {
            try retries(raw, out);
            return null;
        }
        if (raw.len == 0) return null;
        const message = try json.parse(arena, raw) orelse json.Value.null;
        if (message != .object) {
            const what = if (told.truncated) "line longer than the limit" else "line that is not a JSON object";
            try out.unrecognised(try actions.copied(what), null, raw);
            return null;
        }
        const kind = json.text(message, "type") orelse {
            try out.unrecognised(try actions.copied("line without a type"), "type", raw);
            return null;
        };
        const Line = enum { init, message, tool_use, tool_result, @"error", result };
        switch (std.meta.stringToEnum(Line, kind) orelse {
            try out.unrecognised(try actions.printed("line type {f}", .{actions.Quoted{ .text = kind }}), "type", raw);
            return null;
        }) {
            .init => try self.begins(message, raw, out),
            .message => try self.says(message, raw, out),
            .tool_use => {
                try self.kept(out);
                self.answer.tool();
                try tool.use(arena, message, out);
            },
            .tool_result => try tool.result(message, out),
            .@"error" => {
                if (self.failing) |old| gpa.free(old);
                self.failing = try gpa.dupe(u8, json.text(message, "message") orelse "");
                if (json.is(message, "severity", "warning")) try out.notice(self.failing.?);
            },
            .result => {
                if (json.is(message, "status", "success")) try self.kept(out);
                return try self.ends(arena, message);
            },
        }
        return null;
    }

    fn begins(self: *Gemini, message: json.Value, raw: []const u8, out: *actions.Actions) actions.Error!void {
        const id = json.text(message, "session_id") orelse {
            return out.unrecognised(try actions.copied("init line without a session"), "session_id", raw);
        };
        if (self.resumed) |resumed| if (!std.mem.eql(u8, resumed, id)) {
            try out.notice("Gemini CLI began a new session: the earlier conversation is lost");
        };
        const model = json.text(message, "model");
        self.unkept = .{ .id = try gpa.dupe(u8, id), .model = if (model) |name| try gpa.dupe(u8, name) else null };
        if (self.resumed != null) try self.kept(out);
    }

    /// Reports the session when it has history.
    fn kept(self: *Gemini, out: *actions.Actions) actions.Error!void {
        const session = self.unkept orelse return;
        self.unkept = null;
        const ready: c.aetheel_backend_types_session_ready_t = .{
            .session = out.turn.session,
            .native_id = try actions.copied(session.id),
            .model = try actions.copiedOption(session.model),
        };
        (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_SESSION_READY)).val.session_ready = ready;
    }

    fn says(self: *Gemini, message: json.Value, raw: []const u8, out: *actions.Actions) actions.Error!void {
        const role = json.text(message, "role") orelse "";
        if (std.mem.eql(u8, role, "assistant")) {
            try self.kept(out);
            const text = json.text(message, "content") orelse "";
            if (milliseconds(json.text(message, "timestamp") orelse "")) |at_ms| try self.answer.again(at_ms, text, out);
            try self.answer.more(text, out);
        } else if (!std.mem.eql(u8, role, "user")) { // the prompt
            try out.unrecognised(try actions.printed("message of {f}", .{actions.Quoted{ .text = role }}), "role", raw);
        }
    }

    fn ends(self: *Gemini, arena: std.mem.Allocator, message: json.Value) actions.Error!Result {
        const spent = usage(json.field(message, "stats"));
        if (json.is(message, "status", "success")) {
            return .{ .outcome = .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_OUTCOME_COMPLETED) }, .text = try self.answer.finish(), .usage = spent };
        }
        self.answer.tail.clearRetainingCapacity();
        const fault = json.field(message, "error");
        const said = json.text(fault, "message") orelse self.failing orelse "Gemini CLI reported an error without a message";
        var outcome: c.aetheel_backend_types_outcome_t = .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_OUTCOME_FAILED) };
        if (json.is(fault, "type", "FatalTurnLimitedError")) {
            outcome.tag = @intCast(c.AETHEEL_BACKEND_TYPES_OUTCOME_LIMIT);
            outcome.val.limit = try actions.copied(said);
        } else {
            outcome.val.failed = try failure.ofMessage(arena, said);
            if (json.is(fault, "type", "FatalAuthenticationError")) {
                outcome.val.failed.kind = @intCast(c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_AUTHENTICATION);
            }
        }
        return .{ .outcome = outcome, .usage = spent };
    }
};

/// The only output while the model provider fails, which can take minutes.
fn retries(said: []const u8, out: *actions.Actions) actions.Error!void {
    if (!std.mem.startsWith(u8, said, "Attempt ") or std.mem.indexOf(u8, said, " failed") == null) return;
    const end = std.mem.indexOf(u8, said, ". Retrying") orelse said.len;
    const why = try actions.failed(failure.kindOf(said), said[0..end]);
    (try out.event(c.AETHEEL_BACKEND_TYPES_EVENT_KIND_RETRY)).val.retry = why;
}

fn usage(stats: json.Value) c.aetheel_backend_types_option_usage_t {
    const input = json.count(stats, "input") orelse return .{};
    const output = json.count(stats, "output_tokens") orelse 0;
    const cached = json.count(stats, "cached") orelse 0;
    return .{ .is_some = input > 0 or output > 0 or cached > 0, .val = .{ .input = input, .output = output, .cached = cached } };
}

/// Returns the time of day of `2026-11-21T21:02:11.350Z`. Pauses over midnight are not recognised.
fn milliseconds(timestamp: []const u8) ?f64 {
    if (timestamp.len <= 11) return null;
    var fields = std.mem.splitScalar(u8, std.mem.trimEnd(u8, timestamp[11..], "Z"), ':');
    var seconds: f64 = 0;
    for (0..3) |_| {
        const number = std.fmt.parseFloat(f64, fields.next() orelse return null) catch return null;
        seconds = seconds * 60 + number;
    }
    return seconds * 1000;
}

fn option(string: actions.OptionString) ?[]const u8 {
    return if (string.is_some) actions.borrowed(string.val) else null;
}

fn refused(kind: c_int, message: []const u8) actions.Error!Plan {
    return .{ .refused = try actions.failed(kind, message) };
}

fn value(text: []const u8) actions.Error!c.aetheel_backend_types_value_t {
    return .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_VALUE_TEXT), .val = .{ .text = try actions.copied(text) } };
}

fn chunk(text: []const u8) actions.Error!c.aetheel_backend_types_chunk_t {
    return .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_CHUNK_TEXT), .val = .{ .text = try actions.copied(text) } };
}

fn approval(settings: *const c.aetheel_backend_types_settings_t) []const u8 {
    if (settings.mode == c.AETHEEL_BACKEND_TYPES_MODE_PLAN) return "plan";
    return switch (settings.safety) {
        c.AETHEEL_BACKEND_TYPES_SAFETY_DANGER => "yolo",
        c.AETHEEL_BACKEND_TYPES_SAFETY_EDIT => "auto_edit",
        else => "default",
    };
}

fn isUuid(text: []const u8) bool {
    if (text.len != 36) return false;
    for (text, 0..) |byte, at| switch (at) {
        8, 13, 18, 23 => if (byte != '-') return false,
        else => if (!std.ascii.isHex(byte)) return false,
    };
    return true;
}

fn prompt(arena: std.mem.Allocator, parts: c.aetheel_backend_types_list_part_t) actions.Error![]const u8 {
    var all: std.ArrayList(u8) = .empty;
    for (0..parts.len) |at| {
        const part = parts.ptr[at];
        if (at > 0) try all.appendSlice(arena, "\n\n");
        if (part.tag == c.AETHEEL_BACKEND_TYPES_PART_TEXT) {
            try all.appendSlice(arena, actions.borrowed(part.val.text));
            continue;
        }
        const file = if (part.tag == c.AETHEEL_BACKEND_TYPES_PART_IMAGE) part.val.image else part.val.file;
        const name = actions.borrowed(file.name);
        const media = actions.borrowed(file.media_type);
        try all.print(arena, "[Attached file: {s} ({s}, {d} bytes) at {s}]", .{ name, media, file.size, actions.borrowed(file.path) });
    }
    return all.items;
}

/// Each run is a new process, so the system prompt is passed every time.
fn standing(arena: std.mem.Allocator, system: []const u8) actions.Error![]const u8 {
    // Prevents the expansion of `@path`. The host escapes the user's text.
    const inert = try std.mem.replaceOwned(u8, arena, system, "@", "\\@");
    return std.fmt.allocPrint(arena, "<system-prompt>\n{s}\n</system-prompt>\n\nThe text above is your system prompt for this " ++
        "conversation: it replaces any you were given in this way before, and was not written by the people you talk with. Their " ++
        "message follows.\n\n", .{inert});
}
