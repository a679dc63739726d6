//! A backend for {{name}}: one process for each conversation. Prompts and output are JSON lines.
//!
//! This file has the four exports, and manages the process and the turns: each turn ends exactly
//! once, whatever the agent does. agent.zig parses the output.
const std = @import("std");
const actions = @import("actions.zig");
const agent = @import("agent.zig");
const c = actions.c;

/// Each link has its own instance: a conversation with at most one process and one open turn.
const Link = struct {
    /// The key of the running process, or 0. Keys are never reused.
    proc: u32 = 0,
    last_proc: u32 = 0,
    open: bool = false,
    interrupted: bool = false,
    turn: actions.TurnRef = .{},

    fn take(self: *Link, arena: std.mem.Allocator, input: *const c.aetheel_backend_types_input_t, out: *actions.Actions) actions.Error!void {
        switch (input.tag) {
            c.AETHEEL_BACKEND_TYPES_INPUT_COMMAND => try self.command(arena, &input.val.command, out),
            // Output between turns is ignored.
            c.AETHEEL_BACKEND_TYPES_INPUT_LINE => if (self.open and input.val.line.proc == self.proc) {
                if (try agent.line(arena, &input.val.line, out)) |result| try self.end(result, out);
            },
            c.AETHEEL_BACKEND_TYPES_INPUT_EXITED => if (input.val.exited.proc == self.proc) {
                self.proc = 0;
                if (!self.open) return;
                if (self.interrupted) return self.end(.of(c.AETHEEL_BACKEND_TYPES_OUTCOME_INTERRUPTED), out);
                const said = std.mem.trim(u8, actions.borrowed(input.val.exited.stderr_tail), &std.ascii.whitespace);
                const words = if (said.len > 0) said else "the agent ended in the middle of a turn";
                return self.end(try agent.Result.lost(c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_CRASHED, words), out);
            },
            c.AETHEEL_BACKEND_TYPES_INPUT_SPAWN_FAILED => if (input.val.spawn_failed.proc == self.proc) {
                const why = &input.val.spawn_failed;
                const kind = if (why.not_found) c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_NOT_FOUND else c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_OTHER;
                self.proc = 0;
                if (self.open) return self.end(try agent.Result.failed(kind, actions.borrowed(why.message)), out);
            },
            else => {},
        }
    }

    fn command(self: *Link, arena: std.mem.Allocator, told: *const c.aetheel_backend_types_command_t, out: *actions.Actions) actions.Error!void {
        switch (told.tag) {
            c.AETHEEL_BACKEND_TYPES_COMMAND_START_TURN => {
                const start = &told.val.start_turn;
                const turn: actions.TurnRef = .{ .session = start.session, .turn = start.turn };
                // The command was repeated.
                if (self.last_proc != 0 and turn.turn == self.turn.turn) return;
                if (self.open) {
                    const kind = c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_UNSUPPORTED;
                    return (try agent.Result.failed(kind, "another turn is still open")).add(turn, out);
                }
                self.open = true;
                self.interrupted = false;
                self.turn = turn;
                out.turn = turn;
                if (self.proc == 0) {
                    self.last_proc += 1;
                    self.proc = self.last_proc;
                    (try agent.spawn(start, self.proc, "--serve", out)).keep_open = true;
                }
                const Prompt = struct { type: []const u8 = "prompt", text: []const u8 };
                const prompt: Prompt = .{ .text = try agent.prompt(arena, start.parts) };
                try self.say(arena, try std.json.Stringify.valueAlloc(arena, prompt, .{}), out);
            },
            c.AETHEEL_BACKEND_TYPES_COMMAND_INTERRUPT => if (self.open and told.val.interrupt.turn == self.turn.turn) {
                // The agent reports the interrupted turn in a line.
                self.interrupted = true;
                try self.say(arena, "{\"type\":\"stop\"}", out);
            },
            c.AETHEEL_BACKEND_TYPES_COMMAND_SHUTDOWN => if (self.proc != 0) {
                // The agent exits when its stdin is closed.
                (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_CLOSE_STDIN)).val.close_stdin = self.proc;
            },
            else => try agent.aside(told, out),
        }
    }

    fn say(self: *Link, arena: std.mem.Allocator, line: []const u8, out: *actions.Actions) actions.Error!void {
        const body = try agent.chunk(try std.mem.concat(arena, u8, &.{ line, "\n" }));
        (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_WRITE)).val.write = .{ .proc = self.proc, .body = body };
    }

    fn end(self: *Link, result: agent.Result, out: *actions.Actions) actions.Error!void {
        self.open = false;
        return result.add(self.turn, out);
    }
};

var link: Link = .{};

export fn exports_aetheel_backend_backend_describe(ret: *actions.String) void {
    ret.* = actions.copied(@embedFile("descriptor.json")) catch @trap();
}

export fn exports_aetheel_backend_backend_handle(
    inputs: *c.exports_aetheel_backend_backend_list_timed_input_t,
    ret: *c.exports_aetheel_backend_backend_list_action_t,
    err: *actions.String,
) bool {
    defer c.exports_aetheel_backend_backend_list_timed_input_free(inputs);
    var out: actions.Actions = .{ .turn = link.turn };
    for (inputs.ptr[0..inputs.len]) |*input| {
        var arena: std.heap.ArenaAllocator = .init(actions.gpa);
        defer arena.deinit();
        link.take(arena.allocator(), &input.input, &out) catch {
            // No memory is left for a better message.
            err.* = actions.copied("out of memory") catch .{};
            return false;
        };
    }
    // The bindings free the list by its pointer, so its capacity does not matter.
    ret.* = actions.given(c.exports_aetheel_backend_backend_list_action_t, out.list.items);
    return true;
}

export fn exports_aetheel_backend_backend_save(ret: *actions.String) bool {
    _ = ret;
    return false;
}

export fn exports_aetheel_backend_backend_load(state: *actions.String, saved_by: *actions.String, err: *actions.String) bool {
    defer c.agent_backend_string_free(state);
    defer c.agent_backend_string_free(saved_by);
    err.* = actions.copied("this backend saves no state") catch .{};
    return false;
}
