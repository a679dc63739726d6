// A backend for {{name}}: one process for each conversation. Prompts and output are JSON lines.
//
// This file has the four exports, and manages the process and the turns: each turn ends exactly
// once, whatever the agent does. agent.cpp parses the output.
#include "agent.hpp"
#include "json.hpp"

#define INPUT(name) AETHEEL_BACKEND_TYPES_INPUT_##name
#define COMMAND(name) AETHEEL_BACKEND_TYPES_COMMAND_##name
#define ACTION(name) AETHEEL_BACKEND_TYPES_ACTION_##name
#define OUTCOME(name) AETHEEL_BACKEND_TYPES_OUTCOME_##name
#define FAILURE(name) AETHEEL_BACKEND_TYPES_FAILURE_KIND_##name

namespace {

constexpr char descriptor[] = {
#embed "descriptor.json"
};

// Each link has its own instance: a conversation with at most one process and one open turn.
class Link {
  public:
    TurnRef turn{};

    void take(const aetheel_backend_types_input_t &input, Actions &out) {
        if (input.tag == INPUT(COMMAND)) {
            command(input.val.command, out);
        } else if (input.tag == INPUT(LINE) && input.val.line.proc == proc_) {
            // Output between turns is ignored.
            if (!open_) return;
            if (auto result = agent_line(input.val.line, out)) end(*result, out);
        } else if (input.tag == INPUT(EXITED) && input.val.exited.proc == proc_) {
            exited(trim(borrowed(input.val.exited.stderr_tail)), out);
        } else if (input.tag == INPUT(SPAWN_FAILED) && input.val.spawn_failed.proc == proc_) {
            const auto &why = input.val.spawn_failed;
            proc_ = 0;
            if (open_) end(Result::failed(why.not_found ? FAILURE(NOT_FOUND) : FAILURE(OTHER), borrowed(why.message)), out);
        }
    }

  private:
    void command(const aetheel_backend_types_command_t &command, Actions &out) {
        if (command.tag == COMMAND(START_TURN)) {
            start(command.val.start_turn, out);
        } else if (command.tag == COMMAND(INTERRUPT)) {
            if (!open_ || command.val.interrupt.turn != turn.turn) return;
            // The agent reports the interrupted turn in a line.
            interrupted_ = true;
            say(R"({"type":"stop"})", out);
        } else if (command.tag == COMMAND(SHUTDOWN)) {
            // The agent exits when its stdin is closed.
            if (proc_) out.add(ACTION(CLOSE_STDIN)).val.close_stdin = proc_;
        } else {
            aside(command, out);
        }
    }

    void start(const aetheel_backend_types_start_turn_t &start, Actions &out) {
        TurnRef asked = {start.session, start.turn};
        // The command was repeated.
        if (last_proc_ && asked.turn == turn.turn) return;
        if (open_) {
            Result::failed(FAILURE(UNSUPPORTED), "another turn is still open").add(asked, out);
            return;
        }
        open_ = true;
        interrupted_ = false;
        turn = out.turn = asked;
        if (!proc_) {
            proc_ = ++last_proc_;
            add_spawn(start, proc_, "--serve", out).keep_open = true;
        }
        std::string line = R"({"type":"prompt","text":)";
        quote(line, prompt_of(start.parts));
        say(line + '}', out);
    }

    void exited(std::string_view said, Actions &out) {
        proc_ = 0;
        if (!open_) return;
        if (interrupted_) {
            end(Result::of(OUTCOME(INTERRUPTED)), out);
        } else {
            end(Result::lost(FAILURE(CRASHED), said.empty() ? "the agent ended in the middle of a turn" : said), out);
        }
    }

    void say(const std::string &line, Actions &out) { out.add(ACTION(WRITE)).val.write = {proc_, chunk(line + '\n')}; }

    void end(const Result &result, Actions &out) {
        open_ = false;
        result.add(turn, out);
    }

    // The key of the running process, or 0. Keys are never reused.
    std::uint32_t proc_ = 0, last_proc_ = 0;
    bool open_ = false, interrupted_ = false;
};

} // namespace

void exports_aetheel_backend_backend_describe(agent_backend_string_t *ret) { *ret = copied(std::string_view(descriptor, sizeof descriptor)); }

bool exports_aetheel_backend_backend_handle(exports_aetheel_backend_backend_list_timed_input_t *inputs,
                                            exports_aetheel_backend_backend_list_action_t *ret, agent_backend_string_t *) {
    static Link link;
    Actions out(link.turn);
    for (std::size_t at = 0; at < inputs->len; at++) link.take(inputs->ptr[at].input, out);
    exports_aetheel_backend_backend_list_timed_input_free(inputs);
    *ret = copied<exports_aetheel_backend_backend_list_action_t>(out.all());
    return true;
}

bool exports_aetheel_backend_backend_save(agent_backend_string_t *) { return false; }

bool exports_aetheel_backend_backend_load(agent_backend_string_t *state, agent_backend_string_t *saved_by, agent_backend_string_t *err) {
    *err = copied(std::string_view("this backend saves no state"));
    agent_backend_string_free(state);
    agent_backend_string_free(saved_by);
    return false;
}
