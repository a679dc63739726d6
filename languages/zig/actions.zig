//! The actions that the guest collects. The bindings free them with C's `free` after the host has
//! received them, so every string in them must be a copy from C's allocator.
const std = @import("std");
pub const c = @import("c.zig");

pub const gpa = std.heap.c_allocator;
pub const Error = std.mem.Allocator.Error;

pub const Action = c.aetheel_backend_types_action_t;
pub const EventKind = c.aetheel_backend_types_event_kind_t;
pub const Failure = c.aetheel_backend_types_failure_t;
pub const TurnRef = c.aetheel_backend_types_turn_ref_t;
pub const String = c.agent_backend_string_t;
pub const OptionString = c.agent_backend_option_string_t;

/// Maximum length of the output in an `unrecognised` event, in bytes, as in the contract.
const sample_bytes = 2048;

pub fn borrowed(string: String) []const u8 {
    return if (string.len == 0) "" else string.ptr[0..string.len];
}

pub fn copied(text: []const u8) Error!String {
    return given(String, try gpa.dupe(u8, text));
}

pub fn copiedOption(text: ?[]const u8) Error!OptionString {
    return if (text) |some| .{ .is_some = true, .val = try copied(some) } else .{};
}

/// Returns a list of the bindings. Empty lists also need a valid address, which Zig does not
/// allocate.
pub fn given(comptime List: type, elements: anytype) List {
    return if (elements.len > 0) .{ .ptr = elements.ptr, .len = elements.len } else .{};
}

pub fn printed(comptime format: []const u8, values: anytype) Error!String {
    return given(String, try std.fmt.allocPrint(gpa, format, values));
}

pub fn failed(kind: c_int, message: []const u8) Error!Failure {
    return .{ .kind = @intCast(kind), .message = try copied(message) };
}

/// Returns the longest beginning with at most `most` bytes that does not split a character.
pub fn head(text: []const u8, most: usize) []const u8 {
    if (text.len <= most) return text;
    var end = most;
    while (end > 0 and text[end] & 0xC0 == 0x80) end -= 1;
    return text[0..end];
}

/// Quoted text for users, without control characters.
pub const Quoted = struct {
    text: []const u8,

    pub fn format(self: Quoted, writer: *std.Io.Writer) std.Io.Writer.Error!void {
        try writer.writeByte('"');
        for (self.text) |byte| {
            if (byte == '"' or byte == '\\') try writer.writeByte('\\');
            try writer.writeByte(if (byte < 0x20 or byte == 0x7F) '?' else byte);
        }
        try writer.writeByte('"');
    }
};

pub const Actions = struct {
    list: std.ArrayList(Action) = .empty,
    /// The turn of the events.
    turn: TurnRef = .{},

    /// Adds an action, which the caller completes.
    pub fn add(self: *Actions, tag: c_int) Error!*Action {
        const action = try self.list.addOne(gpa);
        action.* = std.mem.zeroes(Action);
        action.tag = @intCast(tag);
        return action;
    }

    pub fn event(self: *Actions, tag: c_int) Error!*EventKind {
        const action = try self.add(c.AETHEEL_BACKEND_TYPES_ACTION_EVENT);
        const told = &action.val.event;
        told.session = self.turn.session;
        told.turn = self.turn.turn;
        told.kind.tag = @intCast(tag);
        return &told.kind;
    }

    pub fn text(self: *Actions, part: u32, said: []const u8, replace: bool) Error!void {
        const string = try copied(said);
        (try self.event(c.AETHEEL_BACKEND_TYPES_EVENT_KIND_TEXT)).val.text = .{ .part = part, .text = string, .replace = replace };
    }

    pub fn notice(self: *Actions, said: []const u8) Error!void {
        const string = try copied(said);
        const level: u8 = @intCast(c.AETHEEL_BACKEND_TYPES_LEVEL_INFO);
        (try self.event(c.AETHEEL_BACKEND_TYPES_EVENT_KIND_NOTICE)).val.notice = .{ .level = level, .text = string };
    }

    /// Reports unknown output: a description without values, the path of the field, and the output.
    pub fn unrecognised(self: *Actions, what: String, path: ?[]const u8, output: []const u8) Error!void {
        const where = try copiedOption(path);
        const sample = try copied(head(output, sample_bytes));
        (try self.event(c.AETHEEL_BACKEND_TYPES_EVENT_KIND_UNRECOGNISED)).val.unrecognised = .{
            .difference = @intCast(c.AETHEEL_BACKEND_TYPES_DIFFERENCE_UNKNOWN),
            .what = what,
            .path = where,
            .sample = sample,
        };
    }
};
