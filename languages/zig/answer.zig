//! Which text belongs to which part of the answer: a part ends where a tool begins.
const std = @import("std");
const actions = @import("actions.zig");
const gpa = actions.gpa;

/// Least pause before Gemini CLI 0.61.0 asks the model again: it waits a second, then two, then four.
const retry_pause_ms = 900;
/// Bytes that must be alike before a piece is taken for a second beginning.
const alike = 8;

pub const Answer = struct {
    parts: u32 = 0,
    /// More text goes on with the last part.
    open: bool = false,
    /// What was said since the last tool use: its text, the first piece of it, the parts it stands in, and when a piece came.
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

    /// A piece of text is about to come. Where it begins the answer a second time after a pause, what was said is withdrawn.
    ///
    /// Gemini CLI 0.61.0 asks the model again when the connection breaks and tells the new answer without a word about the old one.
    /// A new answer that begins in other words cannot be told from more of the old.
    pub fn again(self: *Answer, at_ms: f64, text: []const u8, out: *actions.Actions) actions.Error!void {
        const pause = at_ms - self.at_ms;
        self.at_ms = at_ms;
        const least = @min(text.len, self.first.items.len);
        if (self.tail.items.len == 0 or pause < retry_pause_ms or least < alike) return;
        if (!std.mem.eql(u8, text[0..least], self.first.items[0..least])) return;
        for (self.shown.items) |part| try out.text(part, "", true);
        self.tool();
    }

    /// A tool use began: what was said before it is no part of the final answer.
    pub fn tool(self: *Answer) void {
        self.open = false;
        self.tail.clearRetainingCapacity();
        self.shown.clearRetainingCapacity();
    }

    /// Takes the final answer; none: the parts in order.
    pub fn finish(self: *Answer) actions.Error!actions.OptionString {
        defer self.tail.clearRetainingCapacity();
        return actions.copiedOption(if (self.tail.items.len > 0) self.tail.items else null);
    }
};
