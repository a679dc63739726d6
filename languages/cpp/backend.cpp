// The four exports, and the only turn of a link: it ends exactly once, whatever the agent does.
//
// A turn ends when its process has exited, because an agent may print a second, better result, and
// an earlier end could interrupt the writing of its session.
#include "gemini.hpp"

#define INPUT(name) AETHEEL_BACKEND_TYPES_INPUT_##name
#define COMMAND(name) AETHEEL_BACKEND_TYPES_COMMAND_##name
#define ACTION(name) AETHEEL_BACKEND_TYPES_ACTION_##name
#define OUTCOME(name) AETHEEL_BACKEND_TYPES_OUTCOME_##name
#define KIND(name) AETHEEL_BACKEND_TYPES_FAILURE_KIND_##name

namespace {

constexpr std::uint32_t proc = 1, linger = 1;
// How long an agent may take to exit after its result. Then the turn ends anyway.
constexpr std::uint32_t linger_ms = 2000;
// How long after an interrupt the agent's processes are killed.
constexpr std::uint32_t interrupt_grace_ms = 3000;

constexpr char descriptor[] = {
#embed "gemini.json"
};

void add_end(TurnRef turn, const Result &result, Actions &out) {
    out.add(ACTION(TURN_DONE)).val.turn_done = {turn.session, turn.turn, result.outcome, result.text, result.usage};
}

void add_stop(int signal, Actions &out) {
    out.add(ACTION(STOP)).val.stop = {proc, static_cast<aetheel_backend_types_signal_t>(signal), interrupt_grace_ms};
}

// Returns the last five non-empty lines of stderr, at most 1 KiB.
std::string summary(std::string_view tail) {
    auto said = lines(tail);
    std::string text;
    for (std::size_t at = said.size() > 5 ? said.size() - 5 : 0; at < said.size(); at++) {
        if (!text.empty()) text += '\n';
        text += said[at];
    }
    std::size_t start = text.size() > 1024 ? text.size() - 1024 : 0;
    while (start < text.size() && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) start++;
    return text.substr(start);
}

Result without_result(const aetheel_backend_types_exited_t &exited) {
    std::string said = summary(borrowed(exited.stderr_tail)), how = "the agent ended without a result";
    FailureKind kind = KIND(PROTOCOL);
    std::optional<std::uint32_t> signal;
    if (exited.how.tag == AETHEEL_BACKEND_TYPES_EXIT_SIGNAL) {
        signal = exited.how.val.signal;
    } else if (exited.how.tag == AETHEEL_BACKEND_TYPES_EXIT_CODE) {
        std::uint32_t code = exited.how.val.code;
        // Shells and agents report a fatal signal as the exit code 128 plus its number.
        if (code > 128 && code < 160) {
            signal = code - 128;
        } else if (code != 0) {
            return Result::failed(failure_at_exit(said));
        }
    }
    if (signal) {
        kind = KIND(CRASHED);
        how = "the agent was ended by signal " + std::to_string(*signal);
    }
    if (!said.empty()) how += ": " + said;
    Result result;
    result.outcome.tag = OUTCOME(LOST);
    result.outcome.val.lost = failed(kind, how);
    return result;
}

// Each link has its own instance, which serves one turn.
class Link {
  public:
    TurnRef turn{};

    void take(const aetheel_backend_types_input_t &input, Actions &out) {
        if (input.tag == INPUT(COMMAND)) {
            command(input.val.command, out);
        } else if (state_ != State::running) {
            return;
        } else if (input.tag == INPUT(LINE) && input.val.line.proc == proc) {
            line(input.val.line, out);
        } else if (input.tag == INPUT(EXITED) && input.val.exited.proc == proc) {
            exited(input.val.exited, out);
        } else if (input.tag == INPUT(SPAWN_FAILED)) {
            const auto &told = input.val.spawn_failed;
            end(Result::failed(failed(told.not_found ? KIND(NOT_FOUND) : KIND(OTHER), borrowed(told.message))), out);
        } else if (input.tag == INPUT(TIMER) && input.val.timer == linger && result_) {
            end(*result_, out);
        }
    }

  private:
    enum class State { idle, running, over };

    void command(const aetheel_backend_types_command_t &command, Actions &out) {
        switch (command.tag) {
        case COMMAND(START_TURN): start(command.val.start_turn, out); break;
        case COMMAND(INTERRUPT):
            if (state_ == State::running && command.val.interrupt.turn == turn.turn) {
                interrupted_ = true;
                add_stop(AETHEEL_BACKEND_TYPES_SIGNAL_INTERRUPT, out);
            }
            break;
        case COMMAND(SHUTDOWN):
            if (state_ == State::running) add_stop(AETHEEL_BACKEND_TYPES_SIGNAL_TERMINATE, out);
            break;
        case COMMAND(STEER):
            out.add(ACTION(STEERED)).val.steered = {command.val.steer.message, AETHEEL_BACKEND_TYPES_STEER_OUTCOME_NOT_NOW};
            break;
        case COMMAND(QUERY): {
            auto &answer = out.add(ACTION(QUERY_ANSWER)).val.query_answer;
            answer.query = command.val.query.query;
            answer.answer.tag = AETHEEL_BACKEND_TYPES_QUERY_RESULT_FAILED;
            answer.answer.val.failed = failed(KIND(UNSUPPORTED), "this agent runs only for a turn and does not answer queries");
            break;
        }
        default: break;
        }
    }

    void start(const aetheel_backend_types_start_turn_t &start, Actions &out) {
        TurnRef asked = {start.session, start.turn};
        // The command was repeated.
        if (state_ != State::idle && asked.turn == turn.turn) return;
        if (state_ != State::idle) {
            add_end(asked, Result::failed(failed(KIND(UNSUPPORTED), "one link serves one turn")), out);
            return;
        }
        state_ = State::running;
        turn = out.turn = asked;
        if (auto why = agent_.plan(start, proc, out)) end(Result::failed(*why), out);
    }

    void line(const aetheel_backend_types_line_t &line, Actions &out) {
        auto result = agent_.line(line, out);
        if (!result) return;
        if (result_) {
            result_->free();
        } else {
            out.add(ACTION(SET_TIMER)).val.set_timer = {linger, linger_ms};
        }
        result_ = result;
    }

    void exited(const aetheel_backend_types_exited_t &exited, Actions &out) {
        Result stopped;
        stopped.outcome.tag = OUTCOME(INTERRUPTED);
        end(result_ ? *result_ : interrupted_ ? stopped : without_result(exited), out);
    }

    void end(Result result, Actions &out) {
        // An interrupted agent may report the interruption as a failure.
        if (interrupted_ && result.outcome.tag == OUTCOME(FAILED)) {
            aetheel_backend_types_outcome_free(&result.outcome);
            result.outcome = {};
            result.outcome.tag = OUTCOME(INTERRUPTED);
        }
        state_ = State::over;
        add_end(turn, result, out);
    }

    State state_ = State::idle;
    bool interrupted_ = false;
    std::optional<Result> result_;
    Gemini agent_;
};

Link &link() {
    static Link link;
    return link;
}

} // namespace

void exports_aetheel_backend_backend_describe(agent_backend_string_t *ret) { *ret = copied(std::string_view(descriptor, sizeof descriptor)); }

bool exports_aetheel_backend_backend_handle(exports_aetheel_backend_backend_list_timed_input_t *inputs,
                                            exports_aetheel_backend_backend_list_action_t *ret, agent_backend_string_t *) {
    Actions out(link().turn);
    for (std::size_t at = 0; at < inputs->len; at++) link().take(inputs->ptr[at].input, out);
    exports_aetheel_backend_backend_list_timed_input_free(inputs);
    *ret = copied<exports_aetheel_backend_backend_list_action_t>(out.all());
    return true;
}

bool exports_aetheel_backend_backend_save(agent_backend_string_t *) { return false; }

bool exports_aetheel_backend_backend_load(agent_backend_string_t *state, agent_backend_string_t *saved_by, agent_backend_string_t *err) {
    *err = copied(std::string_view("this backend saves no state and cannot load that of version " + std::string(borrowed(*saved_by))));
    agent_backend_string_free(state);
    agent_backend_string_free(saved_by);
    return false;
}
