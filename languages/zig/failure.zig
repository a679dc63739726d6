//! Classifies failures of Gemini CLI from its result or stderr.
const std = @import("std");
const actions = @import("actions.zig");
const json = @import("json.zig");
const c = actions.c;

const context_full = c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_CONTEXT_FULL;
const authentication = c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_AUTHENTICATION;
const rate_limited = c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_RATE_LIMITED;
const quota = c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_QUOTA;
const overloaded = c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_OVERLOADED;
const network = c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_NETWORK;
const model_not_found = c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_MODEL_NOT_FOUND;
const bad_request = c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_BAD_REQUEST;
const other = c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_OTHER;

/// Prefixes of irrelevant lines on stderr (Gemini CLI 0.61.0).
const noise = [_][]const u8{
    "Warning: 256-color support not detected", "YOLO mode is enabled", "Ripgrep is not available", "[STARTUP]",
    "Security Warning: Skipping system",       "at ",                  "Loaded cached credentials",
};

/// Phrases of failures; the first match counts. Only the first row precedes an HTTP status.
const rows = [_]struct { kind: c_int, words: []const []const u8 }{
    .{ .kind = context_full, .words = &.{ "context window", "context length", "context limit", "prompt is too long", "token count exceeds" } },
    .{ .kind = authentication, .words = &.{ "unauthorized", "not logged in", "please sign in", "please log in", "api key", "authentication" } },
    .{ .kind = quota, .words = &.{ "quota", "usage limit", "credit balance" } },
    .{ .kind = rate_limited, .words = &.{ "rate limit", "rate_limit", "too many requests" } },
    .{ .kind = overloaded, .words = &.{ "overloaded", "unavailable", "internal server error", "stream disconnected" } },
    .{ .kind = network, .words = &.{ "fetch failed", "connection", "econnrefused", "enotfound" } },
    .{ .kind = model_not_found, .words = &.{ "model not found", "unknown model", "model_not_found" } },
    .{ .kind = bad_request, .words = &.{ "invalid_request_error", "bad request" } },
};

fn has(text: []const u8, words: []const u8) bool {
    return std.mem.indexOf(u8, text, words) != null;
}

/// Returns the HTTP status in the first six words, as in `API Error: 429 slow down`.
fn statusOf(text: []const u8) ?u32 {
    var words: usize = 0;
    var rest = text;
    while (words < 6 and rest.len > 0) {
        var end: usize = 0;
        while (end < rest.len and std.ascii.isAlphanumeric(rest[end])) end += 1;
        words += @intFromBool(end > 0);
        if (end == 3) {
            if (std.fmt.parseInt(u32, rest[0..3], 10)) |status| {
                if (status >= 400 and status < 600) return status;
            } else |_| {}
        }
        rest = rest[@min(end + 1, rest.len)..];
    }
    return null;
}

pub fn kindOf(text: []const u8) c_int {
    const status = statusOf(text);
    for (rows) |row| {
        for (row.words) |words| {
            if (std.ascii.findIgnoreCase(text, words) != null) return row.kind;
        }
        if (status != null) break;
    }
    return switch (status orelse return other) {
        401, 403 => authentication,
        404 => model_not_found,
        429 => rate_limited,
        500...599 => overloaded,
        else => bad_request,
    };
}

/// Extracts the message from texts such as `400 {"error":{"message":"…"}}`.
fn forPeople(arena: std.mem.Allocator, text: []const u8) actions.Error![]const u8 {
    const trimmed = std.mem.trim(u8, text, &std.ascii.whitespace);
    const at = std.mem.indexOfScalar(u8, trimmed, '{') orelse return trimmed;
    const told = try json.parse(arena, trimmed[at..]) orelse return trimmed;
    const message = json.text(json.field(told, "error"), "message") orelse json.text(told, "message") orelse return trimmed;
    return std.mem.concat(arena, u8, &.{ trimmed[0..at], message });
}

/// Returns the failure for a message of the model provider.
pub fn ofMessage(arena: std.mem.Allocator, message: []const u8) actions.Error!actions.Failure {
    const trimmed = std.mem.trim(u8, message, &std.ascii.whitespace);
    var inner = trimmed;
    // [API Error: {"error":{"code":400,"message":"…"}}] which is followed by advice for some errors
    const opening = "[API Error: ";
    if (std.mem.startsWith(u8, trimmed, opening)) {
        inner = trimmed[opening.len..];
        if (std.mem.lastIndexOfScalar(u8, inner, ']')) |end| inner = inner[0..end];
    }
    var kind = kindOf(inner);
    // A 429 without a status in its message can only be recognised by the advice.
    if (kind == other and has(trimmed, "To increase your limits")) kind = rate_limited;
    return actions.failed(kind, try forPeople(arena, inner));
}

/// Returns why a process ended without a result, from the end of its stderr.
pub fn atExit(arena: std.mem.Allocator, stderr: []const u8) actions.Error!actions.Failure {
    var message: std.ArrayList(u8) = .empty;
    var lines = std.mem.splitScalar(u8, stderr, '\n');
    next: while (lines.next()) |untrimmed| {
        const line = std.mem.trim(u8, untrimmed, &std.ascii.whitespace);
        if (line.len == 0) continue;
        for (noise) |beginning| {
            if (std.mem.startsWith(u8, line, beginning)) continue :next;
        }
        if (message.items.len > 0) try message.append(arena, '\n');
        try message.appendSlice(arena, line);
    }
    const said = if (message.items.len > 0) message.items else "the agent ended without a result";
    const kind = if (has(said, "Invalid session identifier") or has(said, "No previous sessions found"))
        c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_SESSION_UNKNOWN
    else if (has(said, "auth method") or has(said, "Auth method"))
        authentication
    else if (has(said, "not running in a trusted directory"))
        c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_UNSUPPORTED
    else if (has(said, "No input provided"))
        bad_request
    else
        kindOfMessage(said);
    return actions.failed(kind, said);
}

fn kindOfMessage(said: []const u8) c_int {
    const kind = kindOf(said);
    return if (kind == other and has(said, "To increase your limits")) rate_limited else kind;
}
