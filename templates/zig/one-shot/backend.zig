//! A backend for {{name}}: one process for each turn, which reads the prompt from stdin and prints
//! JSON lines.
//!
//! This file has the four exports, and manages the only turn of a link: it ends exactly once,
//! whatever the agent does. agent.zig parses the output.
const std = @import("std");
const actions = @import("actions.zig");
const agent = @import("agent.zig");
const c = actions.c;

const proc = 1;
const linger = 1;
/// How long the agent may take to exit after its result.
const linger_ms = 2000;
/// How long after an interrupt the agent's processes are killed.
const grace_ms = 3000;

/// Each link has its own instance, which serves one turn.
const Link = struct {
    begun: bool = false,
    over: bool = false,
    interrupted: bool = false,
    turn: actions.TurnRef = .{},
    result: ?agent.Result = null,

    fn take(self: *Link, arena: std.mem.Allocator, input: *const c.aetheel_backend_types_input_t, out: *actions.Actions) actions.Error!void {
        if (input.tag == c.AETHEEL_BACKEND_TYPES_INPUT_COMMAND) return self.command(arena, &input.val.command, out);
        if (!self.running()) return;
        switch (input.tag) {
            c.AETHEEL_BACKEND_TYPES_INPUT_LINE => if (input.val.line.proc == proc) {
                const result = try agent.line(arena, &input.val.line, out) orelse return;
                if (self.result) |*old| {
                    c.aetheel_backend_types_outcome_free(&old.outcome);
                } else {
                    (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_SET_TIMER)).val.set_timer = .{ .timer = linger, .after_ms = linger_ms };
                }
                self.result = result;
            },
            c.AETHEEL_BACKEND_TYPES_INPUT_EXITED => if (input.val.exited.proc == proc) {
                return self.end(self.result orelse try withoutResult(&input.val.exited), out);
            },
            c.AETHEEL_BACKEND_TYPES_INPUT_SPAWN_FAILED => {
                const why = &input.val.spawn_failed;
                const kind = if (why.not_found) c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_NOT_FOUND else c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_OTHER;
                return self.end(try agent.Result.failed(kind, actions.borrowed(why.message)), out);
            },
            c.AETHEEL_BACKEND_TYPES_INPUT_TIMER => if (input.val.timer == linger) {
                if (self.result) |result| return self.end(result, out);
            },
            else => {},
        }
    }

    fn running(self: *const Link) bool {
        return self.begun and !self.over;
    }

    fn command(self: *Link, arena: std.mem.Allocator, told: *const c.aetheel_backend_types_command_t, out: *actions.Actions) actions.Error!void {
        switch (told.tag) {
            c.AETHEEL_BACKEND_TYPES_COMMAND_START_TURN => {
                const start = &told.val.start_turn;
                const turn: actions.TurnRef = .{ .session = start.session, .turn = start.turn };
                // The command was repeated.
                if (self.begun and turn.turn == self.turn.turn) return;
                if (self.begun) {
                    const kind = c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_UNSUPPORTED;
                    return (try agent.Result.failed(kind, "one link serves one turn")).add(turn, out);
                }
                self.begun = true;
                self.turn = turn;
                out.turn = turn;
                (try agent.spawn(start, proc, "--json", out)).stdin_ = try agent.chunk(try agent.prompt(arena, start.parts));
            },
            c.AETHEEL_BACKEND_TYPES_COMMAND_INTERRUPT => if (self.running() and told.val.interrupt.turn == self.turn.turn) {
                self.interrupted = true;
                try stop(c.AETHEEL_BACKEND_TYPES_SIGNAL_INTERRUPT, out);
            },
            c.AETHEEL_BACKEND_TYPES_COMMAND_SHUTDOWN => if (self.running()) {
                try stop(c.AETHEEL_BACKEND_TYPES_SIGNAL_TERMINATE, out);
            },
            else => try agent.aside(told, out),
        }
    }

    fn end(self: *Link, told: agent.Result, out: *actions.Actions) actions.Error!void {
        var result = told;
        // An interrupted agent may report the interruption as a failure.
        if (self.interrupted and result.outcome.tag != c.AETHEEL_BACKEND_TYPES_OUTCOME_COMPLETED) {
            c.aetheel_backend_types_outcome_free(&result.outcome);
            result = .of(c.AETHEEL_BACKEND_TYPES_OUTCOME_INTERRUPTED);
        }
        self.over = true;
        return result.add(self.turn, out);
    }
};

var link: Link = .{};

fn stop(signal: c_int, out: *actions.Actions) actions.Error!void {
    (try out.add(c.AETHEEL_BACKEND_TYPES_ACTION_STOP)).val.stop = .{ .proc = proc, .signal = @intCast(signal), .grace_ms = grace_ms };
}

/// Returns the result of an agent that exited without one: the end of stderr, if there is any.
fn withoutResult(exited: *const c.aetheel_backend_types_exited_t) actions.Error!agent.Result {
    const said = std.mem.trim(u8, actions.borrowed(exited.stderr_tail), &std.ascii.whitespace);
    const refused = exited.how.tag == c.AETHEEL_BACKEND_TYPES_EXIT_CODE and exited.how.val.code != 0;
    if (refused and said.len > 0) return agent.Result.failed(c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_OTHER, said);
    const crashed = exited.how.tag == c.AETHEEL_BACKEND_TYPES_EXIT_SIGNAL;
    const kind = if (crashed) c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_CRASHED else c.AETHEEL_BACKEND_TYPES_FAILURE_KIND_PROTOCOL;
    return agent.Result.lost(kind, if (said.len > 0) said else "the agent ended without a result");
}

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
