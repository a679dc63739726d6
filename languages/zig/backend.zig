//! The four exports, and the only turn of a link: it ends exactly once, whatever the agent does.
//!
//! A turn ends when its process has exited, because an agent may print a second, better result, and
//! an earlier end could interrupt the writing of its session.
const std = @import("std");
const actions = @import("actions.zig");
const failure = @import("failure.zig");
const gemini = @import("gemini.zig");
const c = actions.c;

const proc = 1;
const linger = 1;
/// How long an agent may take to exit after its result. Then the turn ends anyway.
const linger_ms = 2000;
/// How long after an interrupt the agent's processes are killed.
const interrupt_grace_ms = 3000;

/// Each link has its own instance, which serves one turn.
const Link = struct {
    state: enum { idle, running, over } = .idle,
    turn: actions.TurnRef = .{},
    interrupted: bool = false,
    result: ?gemini.Result = null,
    agent: gemini.Gemini = .{},

    fn take(self: *Link, arena: std.mem.Allocator, input: *const c.aetheel_backend_types_input_t, out: *actions.Actions) actions.Error!void {
        if (input.tag == c.AETHEEL_BACKEND_TYPES_INPUT_COMMAND) return self.command(arena, &input.val.command, out);
        if (self.state != .running) return;
        switch (input.tag) {
            c.AETHEEL_BACKEND_TYPES_INPUT_LINE => if (input.val.line.proc == proc) {
                const result = try self.agent.line(arena, &input.val.line, out) orelse return;
                if (self.result) |*old| {
                    old.free();
                } else {
                    (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_SET_TIMER)).val.set_timer = .{ .timer = linger, .after_ms = linger_ms };
                }
                self.result = result;
            },
            c.AETHEEL_BACKEND_TYPES_INPUT_EXITED => if (input.val.exited.proc == proc) {
                if (self.result) |result| return self.end(result, out);
                const interrupted: gemini.Result = .{ .outcome = .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_OUTCOME_INTERRUPTED) } };
                return self.end(if (self.interrupted) interrupted else try withoutResult(arena, &input.val.exited), out);
            },
            c.AETHEEL_BACKEND_TYPES_INPUT_SPAWN_FAILED => {
                const told = &input.val.spawn_failed;
                const kind = if (told.not_found) c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_NOT_FOUND else c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_OTHER;
                return self.end(failedWith(try actions.failed(kind, actions.borrowed(told.message))), out);
            },
            c.AETHEEL_BACKEND_TYPES_INPUT_TIMER => if (input.val.timer == linger) {
                if (self.result) |result| return self.end(result, out);
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
                if (self.state != .idle and turn.turn == self.turn.turn) return;
                if (self.state != .idle) {
                    const why = try actions.failed(c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_UNSUPPORTED, "one link serves one turn");
                    return done(turn, failedWith(why), out);
                }
                self.state = .running;
                self.turn = turn;
                out.turn = turn;
                switch (try self.agent.plan(arena, start, proc, out)) {
                    .spawn => {},
                    .refused => |why| return self.end(failedWith(why), out),
                }
            },
            c.AETHEEL_BACKEND_TYPES_COMMAND_INTERRUPT => if (self.state == .running and told.val.interrupt.turn == self.turn.turn) {
                self.interrupted = true;
                try stop(c.AETHEEL_BACKEND_TYPES_SIGNAL_INTERRUPT, out);
            },
            c.AETHEEL_BACKEND_TYPES_COMMAND_SHUTDOWN => if (self.state == .running) {
                try stop(c.AETHEEL_BACKEND_TYPES_SIGNAL_TERMINATE, out);
            },
            c.AETHEEL_BACKEND_TYPES_COMMAND_STEER => {
                const outcome: u8 = @intCast(c.AETHEEL_BACKEND_TYPES_STEER_OUTCOME_NOT_NOW);
                (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_STEERED)).val.steered = .{ .message = told.val.steer.message, .outcome = outcome };
            },
            c.AETHEEL_BACKEND_TYPES_COMMAND_QUERY => {
                const words = "this agent runs only for a turn and does not answer queries";
                const why = try actions.failed(c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_UNSUPPORTED, words);
                (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_QUERY_ANSWER)).val.query_answer = .{
                    .query = told.val.query.query,
                    .answer = .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_QUERY_RESULT_FAILED), .val = .{ .failed = why } },
                };
            },
            else => {},
        }
    }

    fn end(self: *Link, told: gemini.Result, out: *actions.Actions) actions.Error!void {
        var result = told;
        // An interrupted agent may report the interruption as a failure.
        if (self.interrupted and result.outcome.tag == c.AETHEEL_BACKEND_TYPES_OUTCOME_FAILED) {
            c.aetheel_backend_types_outcome_free(&result.outcome);
            result.outcome = .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_OUTCOME_INTERRUPTED) };
        }
        self.state = .over;
        return done(self.turn, result, out);
    }
};

var link: Link = .{};

fn done(turn: actions.TurnRef, result: gemini.Result, out: *actions.Actions) actions.Error!void {
    (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_TURN_DONE)).val.turn_done = .{
        .session = turn.session,
        .turn = turn.turn,
        .outcome = result.outcome,
        .text = result.text,
        .usage = result.usage,
    };
}

fn stop(signal: c_int, out: *actions.Actions) actions.Error!void {
    (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_STOP)).val.stop = .{ .proc = proc, .signal = @intCast(signal), .grace_ms = interrupt_grace_ms };
}

fn failedWith(why: actions.Failure) gemini.Result {
    return .{ .outcome = .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_OUTCOME_FAILED), .val = .{ .failed = why } } };
}

fn lost(arena: std.mem.Allocator, kind: c_int, how: []const u8, said: []const u8) actions.Error!gemini.Result {
    const message = try std.mem.concat(arena, u8, &.{ how, if (said.len > 0) ": " else "", said });
    const why = try actions.failed(kind, message);
    return .{ .outcome = .{ .tag = @intCast(c.AETHEEL_BACKEND_TYPES_OUTCOME_LOST), .val = .{ .lost = why } } };
}

fn withoutResult(arena: std.mem.Allocator, exited: *const c.aetheel_backend_types_exited_t) actions.Error!gemini.Result {
    const said = try summary(arena, actions.borrowed(exited.stderr_tail));
    const signal: ?u32 = switch (exited.how.tag) {
        c.AETHEEL_BACKEND_TYPES_EXIT_SIGNAL => exited.how.val.signal,
        // Shells and agents report a fatal signal as the exit code 128 plus its number.
        c.AETHEEL_BACKEND_TYPES_EXIT_CODE => switch (exited.how.val.code) {
            0 => null,
            129...159 => |code| code - 128,
            else => return failedWith(try failure.atExit(arena, said)),
        },
        else => null,
    };
    if (signal) |number| {
        const how = try std.fmt.allocPrint(arena, "the agent was ended by signal {d}", .{number});
        return lost(arena, c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_CRASHED, how, said);
    }
    return lost(arena, c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_PROTOCOL, "the agent ended without a result", said);
}

/// Returns the last five non-empty lines of stderr, at most 1 KiB.
fn summary(arena: std.mem.Allocator, tail: []const u8) actions.Error![]const u8 {
    var lines: std.ArrayList([]const u8) = .empty;
    var all = std.mem.splitScalar(u8, tail, '\n');
    while (all.next()) |untrimmed| {
        const line = std.mem.trim(u8, untrimmed, &std.ascii.whitespace);
        if (line.len > 0) try lines.append(arena, line);
    }
    const said = try std.mem.join(arena, "\n", lines.items[lines.items.len -| 5..]);
    var start = said.len -| 1024;
    while (start < said.len and said[start] & 0xC0 == 0x80) start += 1;
    return said[start..];
}

export fn exports_aetheel_backend_backend_describe(ret: *actions.String) void {
    ret.* = actions.copied(@embedFile("gemini.json")) catch @trap();
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
    const words = "this backend saves no state and cannot load that of version {s}";
    err.* = actions.printed(words, .{actions.borrowed(saved_by.*)}) catch .{};
    return false;
}
