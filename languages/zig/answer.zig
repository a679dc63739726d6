//! Splits an answer into parts. A part ends where a tool use begins.
const std = @import("std");
const actions = @import("actions.zig");
const gpa = actions.gpa;

/// Minimum pause before a retry, in milliseconds: Gemini CLI 0.61.0 waits 1 s, then 2 s, then 4 s.
const retry_pause_ms = 900;
/// Minimum length in bytes of the common beginning of a repeated answer.
const alike = 8;

pub const Answer = struct {
    parts: u32 = 0,
    /// Whether more text belongs to the last part.
    open: bool = false,
    /// The text since the last tool use, its first piece, its parts, and the time of its last
    /// piece.
    tail: std.ArrayList(u8) = .empty,
    first: std.ArrayList(u8) = .empty,
    shown: std.ArrayList(u32) = .empty,
    at_ms: f64 = 0,

    pub fn more(self: *Answer, text: []const u8, out: *actions.Actions) actions.Error!void {
        if (text.len == 0) return;
        if (!self.open) self.parts += 1;
        self.open = true;
        const part = self.parts - 1;
        if (self.tail.items.len == 0) {
            self.first.clearRetainingCapacity();
            try self.first.appendSlice(gpa, text);
        }
        const shown = self.shown.items;
        if (shown.len == 0 or shown[shown.len - 1] != part) try self.shown.append(gpa, part);
        try self.tail.appendSlice(gpa, text);
        try out.text(part, text, false);
    }

    /// Called before a piece of text. If it repeats the answer after a pause, the old text is
    /// withdrawn.
    ///
    /// After a connection error, Gemini CLI 0.61.0 asks the model again, and sends the new answer
    /// without withdrawing the old one. If the new answer begins with other words, it cannot be
    /// distinguished from a continuation.
    pub fn again(self: *Answer, at_ms: f64, text: []const u8, out: *actions.Actions) actions.Error!void {
        const pause = at_ms - self.at_ms;
        self.at_ms = at_ms;
        const least = @min(text.len, self.first.items.len);
        if (self.tail.items.len == 0 or pause < retry_pause_ms or least < alike) return;
        if (!std.mem.eql(u8, text[0..least], self.first.items[0..least])) return;
        for (self.shown.items) |part| try out.text(part, "", true);
        self.tool();
    }

    /// Starts a tool use. Text before a tool use is not part of the final answer.
    pub fn tool(self: *Answer) void {
        self.open = false;
        self.tail.clearRetainingCapacity();
        self.shown.clearRetainingCapacity();
    }

    /// Returns the final answer, or none if it consists of the parts in order.
    pub fn finish(self: *Answer) actions.Error!actions.OptionString {
        defer self.tail.clearRetainingCapacity();
        return actions.copiedOption(if (self.tail.items.len > 0) self.tail.items else null);
    }
};
