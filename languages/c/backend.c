// The four exports, and the only turn of a link: it ends exactly once, whatever the agent does.
//
// A turn ends when its process has exited, because an agent may print a second, better result, and
// an earlier end could interrupt the writing of its session.
#include <stdlib.h>

#include "failure.h"
#include "gemini.h"

#define INPUT(name) AETHEEL_BACKEND_TYPES_INPUT_##name
#define COMMAND(name) AETHEEL_BACKEND_TYPES_COMMAND_##name
#define ACTION(name) AETHEEL_BACKEND_TYPES_ACTION_##name
#define OUTCOME(name) AETHEEL_BACKEND_TYPES_OUTCOME_##name
#define KIND(name) AETHEEL_BACKEND_TYPES_FAILURE_KIND_##name

// LINGER_MS: how long an agent may take to exit after its result. Then the turn ends anyway.
// INTERRUPT_GRACE_MS: how long after an interrupt the agent's processes are killed.
enum { PROC = 1, LINGER = 1, LINGER_MS = 2000, INTERRUPT_GRACE_MS = 3000, SUMMARY_LINES = 5, SUMMARY_BYTES = 1024 };

static const char DESCRIPTOR[] = {
#embed "gemini.json"
};

// Each link has its own instance, which serves one turn.
static struct {
    enum { IDLE, RUNNING, OVER } state;
    turn_ref turn;
    bool interrupted, has_result;
    struct result result;
    struct gemini gemini;
} link;

static struct text borrowed(string string) { return (struct text){(const char *)string.ptr, string.len}; }

static void drop(struct result *result) {
    aetheel_backend_types_outcome_free(&result->outcome);
    agent_backend_option_string_free(&result->text);
}

static struct result unfinished(uint8_t outcome, failure why) {
    return (struct result){.outcome = {.tag = outcome, .val.failed = why}};
}

static void add_end(struct actions *out, turn_ref turn, struct result result) {
    aetheel_backend_types_turn_done_t *done = &add(out, ACTION(TURN_DONE))->val.turn_done;
    done->session = turn.session;
    done->turn = turn.turn;
    done->outcome = result.outcome;
    done->text = result.text;
    done->usage = result.usage;
}

static void end(struct result result, struct actions *out) {
    // An interrupted agent may report the interruption as a failure.
    if (link.interrupted && result.outcome.tag == OUTCOME(FAILED)) {
        aetheel_backend_types_outcome_free(&result.outcome);
        result.outcome = (aetheel_backend_types_outcome_t){.tag = OUTCOME(INTERRUPTED)};
    }
    link.state = OVER;
    add_end(out, link.turn, result);
}

static void add_stop(struct actions *out, uint8_t signal) {
    aetheel_backend_types_stop_t *stop = &add(out, ACTION(STOP))->val.stop;
    stop->proc = PROC;
    stop->signal = signal;
    stop->grace_ms = INTERRUPT_GRACE_MS;
}

static void start(const aetheel_backend_types_start_turn_t *start, struct actions *out) {
    failure why;
    turn_ref turn = {start->session, start->turn};
    // The command was repeated.
    if (link.state != IDLE && turn.turn == link.turn.turn) return;
    if (link.state != IDLE) {
        why = failed(KIND(UNSUPPORTED), copied(TEXT("one link serves one turn")));
        add_end(out, turn, unfinished(OUTCOME(FAILED), why));
        return;
    }
    link.state = RUNNING;
    link.turn = out->turn = turn;
    if (!gemini_plan(&link.gemini, start, PROC, out, &why)) end(unfinished(OUTCOME(FAILED), why), out);
}

static void command(const aetheel_backend_types_command_t *command, struct actions *out) {
    switch (command->tag) {
    case COMMAND(START_TURN): start(&command->val.start_turn, out); break;
    case COMMAND(INTERRUPT):
        if (link.state == RUNNING && command->val.interrupt.turn == link.turn.turn) {
            link.interrupted = true;
            add_stop(out, AETHEEL_BACKEND_TYPES_SIGNAL_INTERRUPT);
        }
        break;
    case COMMAND(SHUTDOWN):
        if (link.state == RUNNING) add_stop(out, AETHEEL_BACKEND_TYPES_SIGNAL_TERMINATE);
        break;
    case COMMAND(STEER): {
        aetheel_backend_types_steered_t *steered = &add(out, ACTION(STEERED))->val.steered;
        steered->message = command->val.steer.message;
        steered->outcome = AETHEEL_BACKEND_TYPES_STEER_OUTCOME_NOT_NOW;
        break;
    }
    case COMMAND(QUERY): {
        aetheel_backend_types_query_answer_t *answer = &add(out, ACTION(QUERY_ANSWER))->val.query_answer;
        answer->query = command->val.query.query;
        answer->answer.tag = AETHEEL_BACKEND_TYPES_QUERY_RESULT_FAILED;
        answer->answer.val.failed = failed(KIND(UNSUPPORTED), copied(TEXT("this agent runs only for a turn and does not answer queries")));
        break;
    }
    default: break;
    }
}

// Returns the last non-empty lines of stderr.
static struct text summary(struct text tail, struct buffer *out) {
    struct text line, rest = tail;
    size_t lines = 0;
    while (text_line(&rest, &line)) lines += text_trim(line).length > 0;
    while (text_line(&tail, &line)) {
        line = text_trim(line);
        if (!line.length || lines-- > SUMMARY_LINES) continue;
        if (out->length) buffer_add(out, TEXT("\n"));
        buffer_add(out, line);
    }
    struct text said = buffer_text(out);
    if (said.length <= SUMMARY_BYTES) return said;
    said = text_from(said, said.length - SUMMARY_BYTES);
    while (said.length && ((unsigned char)said.at[0] & 0xC0) == 0x80) said = text_from(said, 1);
    return said;
}

static struct result lost(failure_kind kind, const char *how, unsigned long signal, struct text said) {
    struct buffer message = {0};
    buffer_add(&message, text_of(how));
    if (kind == KIND(CRASHED)) buffer_number(&message, signal);
    if (said.length) buffer_add(&message, TEXT(": "));
    buffer_add(&message, said);
    return unfinished(OUTCOME(LOST), failed(kind, given(&message)));
}

static struct result without_result(const aetheel_backend_types_exited_t *exited) {
    struct buffer lines = {0};
    struct text said = summary(borrowed(exited->stderr_tail), &lines);
    uint32_t code = exited->how.val.code;
    struct result result;
    if (exited->how.tag == AETHEEL_BACKEND_TYPES_EXIT_SIGNAL) {
        result = lost(KIND(CRASHED), "the agent was ended by signal ", exited->how.val.signal, said);
    } else if (exited->how.tag != AETHEEL_BACKEND_TYPES_EXIT_CODE || code == 0) {
        result = lost(KIND(PROTOCOL), "the agent ended without a result", 0, said);
    } else if (code > 128 && code < 160) {
        // Shells and agents report a fatal signal as the exit code 128 plus its number.
        result = lost(KIND(CRASHED), "the agent was ended by signal ", code - 128, said);
    } else {
        result = unfinished(OUTCOME(FAILED), failure_at_exit(said));
    }
    buffer_clear(&lines);
    return result;
}

static void exited(const aetheel_backend_types_exited_t *exited, struct actions *out) {
    if (link.has_result) {
        end(link.result, out);
    } else if (link.interrupted) {
        end((struct result){.outcome.tag = OUTCOME(INTERRUPTED)}, out);
    } else {
        end(without_result(exited), out);
    }
}

static void line(const aetheel_backend_types_line_t *line, struct actions *out) {
    struct result result;
    if (!gemini_line(&link.gemini, line, out, &result)) return;
    if (link.has_result) {
        drop(&link.result);
    } else {
        add(out, ACTION(SET_TIMER))->val.set_timer = (aetheel_backend_types_set_timer_t){LINGER, LINGER_MS};
    }
    link.has_result = true;
    link.result = result;
}

static void spawn_failed(const aetheel_backend_types_spawn_failed_t *why, struct actions *out) {
    failure_kind kind = why->not_found ? KIND(NOT_FOUND) : KIND(OTHER);
    end(unfinished(OUTCOME(FAILED), failed(kind, copied(borrowed(why->message)))), out);
}

static void take(const aetheel_backend_types_input_t *input, struct actions *out) {
    if (input->tag == INPUT(COMMAND)) {
        command(&input->val.command, out);
    } else if (link.state != RUNNING) {
        return;
    } else if (input->tag == INPUT(LINE) && input->val.line.proc == PROC) {
        line(&input->val.line, out);
    } else if (input->tag == INPUT(EXITED) && input->val.exited.proc == PROC) {
        exited(&input->val.exited, out);
    } else if (input->tag == INPUT(SPAWN_FAILED)) {
        spawn_failed(&input->val.spawn_failed, out);
    } else if (input->tag == INPUT(TIMER) && input->val.timer == LINGER && link.has_result) {
        end(link.result, out);
    }
}

void exports_aetheel_backend_backend_describe(string *ret) { *ret = copied((struct text){DESCRIPTOR, sizeof DESCRIPTOR}); }

bool exports_aetheel_backend_backend_handle(exports_aetheel_backend_backend_list_timed_input_t *inputs,
                                            exports_aetheel_backend_backend_list_action_t *ret, string *err) {
    (void)err; // parsing never fails
    struct actions out = {.turn = link.turn};
    for (size_t at = 0; at < inputs->len; at++) take(&inputs->ptr[at].input, &out);
    exports_aetheel_backend_backend_list_timed_input_free(inputs);
    ret->ptr = out.at;
    ret->len = out.count;
    return true;
}

bool exports_aetheel_backend_backend_save(string *ret) {
    (void)ret;
    return false;
}

bool exports_aetheel_backend_backend_load(string *state, string *saved_by, string *err) {
    struct buffer why = {0};
    buffer_add(&why, TEXT("this backend saves no state and cannot load that of version "));
    buffer_add(&why, borrowed(*saved_by));
    *err = given(&why);
    agent_backend_string_free(state);
    agent_backend_string_free(saved_by);
    return false;
}
