// A backend for {{name}}: one process for each turn, which reads the prompt from stdin and prints
// JSON lines.
//
// This file has the four exports, and manages the only turn of a link: it ends exactly once,
// whatever the agent does. agent.cpp parses the output.
#include "agent.hpp"
#include "json.hpp"

#define INPUT(name) AETHEEL_BACKEND_TYPES_INPUT_##name
#define COMMAND(name) AETHEEL_BACKEND_TYPES_COMMAND_##name
#define ACTION(name) AETHEEL_BACKEND_TYPES_ACTION_##name
#define OUTCOME(name) AETHEEL_BACKEND_TYPES_OUTCOME_##name
#define FAILURE(name) AETHEEL_BACKEND_TYPES_FAILURE_KIND_##name

namespace {

constexpr std::uint32_t proc = 1, linger = 1;
// How long the agent may take to exit after its result.
constexpr std::uint32_t linger_ms = 2000;
// How long after an interrupt the agent's processes are killed.
constexpr std::uint32_t grace_ms = 3000;

constexpr char descriptor[] = {
#embed "descriptor.json"
};

// Returns the result of an agent that exited without one: the end of stderr, if there is any.
Result without_result(const aetheel_backend_types_exited_t &exited) {
    auto said = trim(borrowed(exited.stderr_tail));
    bool refused = exited.how.tag == AETHEEL_BACKEND_TYPES_EXIT_CODE && exited.how.val.code != 0;
    if (refused && !said.empty()) return Result::failed(FAILURE(OTHER), said);
    bool crashed = exited.how.tag == AETHEEL_BACKEND_TYPES_EXIT_SIGNAL;
    return Result::lost(crashed ? FAILURE(CRASHED) : FAILURE(PROTOCOL), said.empty() ? "the agent ended without a result" : said);
}

// Each link has its own instance, which serves one turn.
class Link {
  public:
    TurnRef turn{};

    void take(const aetheel_backend_types_input_t &input, Actions &out) {
        if (input.tag == INPUT(COMMAND)) {
            command(input.val.command, out);
        } else if (!running()) {
            return;
        } else if (input.tag == INPUT(LINE) && input.val.line.proc == proc) {
            line(input.val.line, out);
        } else if (input.tag == INPUT(EXITED) && input.val.exited.proc == proc) {
            end(result_ ? *result_ : without_result(input.val.exited), out);
        } else if (input.tag == INPUT(SPAWN_FAILED)) {
            const auto &why = input.val.spawn_failed;
            end(Result::failed(why.not_found ? FAILURE(NOT_FOUND) : FAILURE(OTHER), borrowed(why.message)), out);
        } else if (input.tag == INPUT(TIMER) && input.val.timer == linger && result_) {
            end(*result_, out);
        }
    }

  private:
    bool running() const { return begun_ && !over_; }

    void command(const aetheel_backend_types_command_t &command, Actions &out) {
        if (command.tag == COMMAND(START_TURN)) {
            start(command.val.start_turn, out);
        } else if (command.tag == COMMAND(INTERRUPT)) {
            if (!running() || command.val.interrupt.turn != turn.turn) return;
            interrupted_ = true;
            stop(AETHEEL_BACKEND_TYPES_SIGNAL_INTERRUPT, out);
        } else if (command.tag == COMMAND(SHUTDOWN)) {
            if (running()) stop(AETHEEL_BACKEND_TYPES_SIGNAL_TERMINATE, out);
        } else {
            aside(command, out);
        }
    }

    void start(const aetheel_backend_types_start_turn_t &start, Actions &out) {
        TurnRef asked = {start.session, start.turn};
        // The command was repeated.
        if (begun_ && asked.turn == turn.turn) return;
        if (begun_) {
            Result::failed(FAILURE(UNSUPPORTED), "one link serves one turn").add(asked, out);
            return;
        }
        begun_ = true;
        turn = out.turn = asked;
        add_spawn(start, proc, "--json", out).stdin_ = chunk(prompt_of(start.parts));
    }

    void stop(int signal, Actions &out) {
        out.add(ACTION(STOP)).val.stop = {proc, static_cast<aetheel_backend_types_signal_t>(signal), grace_ms};
    }

    void line(const aetheel_backend_types_line_t &line, Actions &out) {
        auto result = agent_line(line, out);
        if (!result) return;
        if (result_) {
            aetheel_backend_types_outcome_free(&result_->outcome);
        } else {
            out.add(ACTION(SET_TIMER)).val.set_timer = {linger, linger_ms};
        }
        result_ = result;
    }

    void end(Result result, Actions &out) {
        // An interrupted agent may report the interruption as a failure.
        if (interrupted_ && result.outcome.tag != OUTCOME(COMPLETED)) {
            aetheel_backend_types_outcome_free(&result.outcome);
            result = Result::of(OUTCOME(INTERRUPTED));
        }
        over_ = true;
        result.add(turn, out);
    }

    bool begun_ = false, over_ = false, interrupted_ = false;
    std::optional<Result> result_;
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
