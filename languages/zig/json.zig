//! Reads JSON fields that may be missing or have another type, which is never an error.
const std = @import("std");
pub const Value = std.json.Value;

/// Deeper than the output of any agent, but safe for the stack.
const most_deep = 127;

/// Parses a line. Returns null if it is invalid or nested too deeply.
pub fn parse(arena: std.mem.Allocator, line: []const u8) error{OutOfMemory}!?Value {
    if (depth(line) > most_deep) return null;
    // Numbers stay source text, so that tool inputs are shown unchanged.
    const options: std.json.ParseOptions = .{ .duplicate_field_behavior = .use_last, .parse_numbers = false };
    return std.json.parseFromSliceLeaky(Value, arena, line, options) catch |fault| switch (fault) {
        error.OutOfMemory => error.OutOfMemory,
        else => null,
    };
}

fn depth(line: []const u8) usize {
    var now: usize = 0;
    var most: usize = 0;
    var quoted = false;
    var at: usize = 0;
    while (at < line.len) : (at += 1) switch (line[at]) {
        '"' => quoted = !quoted,
        '\\' => at += @intFromBool(quoted),
        '[', '{' => if (!quoted) {
            now += 1;
            most = @max(most, now);
        },
        ']', '}' => if (!quoted) {
            now -|= 1;
        },
        else => {},
    };
    return most;
}

pub fn field(value: Value, key: []const u8) Value {
    return switch (value) {
        .object => |fields| fields.get(key) orelse .null,
        else => .null,
    };
}

pub fn text(value: Value, key: []const u8) ?[]const u8 {
    return switch (field(value, key)) {
        .string => |string| string,
        else => null,
    };
}

pub fn is(value: Value, key: []const u8, expected: []const u8) bool {
    return std.mem.eql(u8, text(value, key) orelse return false, expected);
}

pub fn list(value: Value, key: []const u8) []const Value {
    return switch (field(value, key)) {
        .array => |elements| elements.items,
        else => &.{},
    };
}

/// Returns a number as a count, rounded and limited to its range.
pub fn count(value: Value, key: []const u8) ?u32 {
    const digits = switch (field(value, key)) {
        .number_string => |digits| digits,
        else => return null,
    };
    const number = std.fmt.parseFloat(f64, digits) catch return null;
    return std.math.lossyCast(u32, @round(number));
}

/// Writes a value in canonical form: without whitespace and with sorted keys.
pub fn write(arena: std.mem.Allocator, value: Value) error{OutOfMemory}![]const u8 {
    var sorted = value;
    sort(&sorted);
    return std.json.Stringify.valueAlloc(arena, sorted, .{});
}

fn sort(value: *Value) void {
    switch (value.*) {
        .array => |elements| for (elements.items) |*element| sort(element),
        .object => |*fields| {
            const ByKey = struct {
                keys: []const []const u8,

                pub fn lessThan(self: @This(), a: usize, b: usize) bool {
                    return std.mem.lessThan(u8, self.keys[a], self.keys[b]);
                }
            };
            fields.sortUnstable(ByKey{ .keys = fields.keys() });
            for (fields.values()) |*inner| sort(inner);
        },
        else => {},
    }
}
