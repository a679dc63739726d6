// A backend for {{name}}: one process for each turn, which reads the prompt from stdin and prints
// JSON lines.
//
// This file has the four exports, and manages the only turn of a link: it ends exactly once,
// whatever the agent does. agent.c parses the output.
#include "agent.h"

#define INPUT(name) AETHEEL_BACKEND_TYPES_INPUT_##name
#define COMMAND(name) AETHEEL_BACKEND_TYPES_COMMAND_##name
#define ACTION(name) AETHEEL_BACKEND_TYPES_ACTION_##name
#define OUTCOME(name) AETHEEL_BACKEND_TYPES_OUTCOME_##name
#define FAILURE(name) AETHEEL_BACKEND_TYPES_FAILURE_KIND_##name

// LINGER_MS: how long the agent may take to exit after its result. GRACE_MS: how long after an
// interrupt its processes are killed.
enum { PROC = 1, LINGER = 1, LINGER_MS = 2000, GRACE_MS = 3000 };

static const char DESCRIPTOR[] = {
#embed "descriptor.json"
};

// Each link has its own instance, which serves one turn.
static struct {
    enum { IDLE, RUNNING, OVER } state;
    turn_ref turn;
    bool interrupted, has_result;
    struct result result;
} link;

static struct text borrowed(string string) { return (struct text){(const char *)string.ptr, string.len}; }

static void end(struct result result, struct actions *out) {
    // An interrupted agent may report the interruption as a failure.
    if (link.interrupted && result.outcome.tag != OUTCOME(COMPLETED)) {
        aetheel_backend_types_outcome_free(&result.outcome);
        result.outcome = (aetheel_backend_types_outcome_t){.tag = OUTCOME(INTERRUPTED)};
    }
    link.state = OVER;
    add_end(out, link.turn, result);
}

static void start(const aetheel_backend_types_start_turn_t *start, struct actions *out) {
    struct text arguments[] = {TEXT("--json"), TEXT("--resume"), borrowed(start->native_id.val)};
    turn_ref turn = {start->session, start->turn};
    struct buffer prompt = {0};
    // The command was repeated.
    if (link.state != IDLE && turn.turn == link.turn.turn) return;
    if (link.state != IDLE) {
        add_end(out, turn, result_of(OUTCOME(FAILED), FAILURE(UNSUPPORTED), TEXT("one link serves one turn")));
        return;
    }
    link.state = RUNNING;
    link.turn = out->turn = turn;
    agent_prompt(&start->parts, &prompt);
    aetheel_backend_types_spawn_t *spawn = add_spawn(out, PROC, arguments, start->native_id.is_some ? 3 : 1);
    spawn->stdin_.ptr = grown(NULL, sizeof *spawn->stdin_.ptr);
    spawn->stdin_.len = 1;
    *spawn->stdin_.ptr = (aetheel_backend_types_chunk_t){.tag = AETHEEL_BACKEND_TYPES_CHUNK_TEXT, .val.text = given(&prompt)};
}

static void stop(uint8_t signal, struct actions *out) {
    add(out, ACTION(STOP))->val.stop = (aetheel_backend_types_stop_t){PROC, signal, GRACE_MS};
}

static void command(const aetheel_backend_types_command_t *command, struct actions *out) {
    if (command->tag == COMMAND(START_TURN)) {
        start(&command->val.start_turn, out);
    } else if (command->tag == COMMAND(INTERRUPT) && link.state == RUNNING && command->val.interrupt.turn == link.turn.turn) {
        link.interrupted = true;
        stop(AETHEEL_BACKEND_TYPES_SIGNAL_INTERRUPT, out);
    } else if (command->tag == COMMAND(SHUTDOWN) && link.state == RUNNING) {
        stop(AETHEEL_BACKEND_TYPES_SIGNAL_TERMINATE, out);
    } else if (command->tag == COMMAND(STEER)) {
        add(out, ACTION(STEERED))->val.steered =
            (aetheel_backend_types_steered_t){command->val.steer.message, AETHEEL_BACKEND_TYPES_STEER_OUTCOME_NOT_NOW};
    } else if (command->tag == COMMAND(QUERY)) {
        aetheel_backend_types_query_answer_t *answer = &add(out, ACTION(QUERY_ANSWER))->val.query_answer;
        answer->query = command->val.query.query;
        answer->answer.tag = AETHEEL_BACKEND_TYPES_QUERY_RESULT_FAILED;
        answer->answer.val.failed = failed(FAILURE(UNSUPPORTED), copied(TEXT("this backend does not support queries")));
    }
}

static void line(const aetheel_backend_types_line_t *line, struct actions *out) {
    struct result result;
    if (!agent_line(line, out, &result)) return;
    if (link.has_result) {
        aetheel_backend_types_outcome_free(&link.result.outcome);
    } else {
        add(out, ACTION(SET_TIMER))->val.set_timer = (aetheel_backend_types_set_timer_t){LINGER, LINGER_MS};
    }
    link.has_result = true;
    link.result = result;
}

// Returns the result of an agent that exited without one: the end of stderr, if there is any.
static struct result without_result(const aetheel_backend_types_exited_t *exited) {
    struct text said = text_trim(borrowed(exited->stderr_tail));
    bool refused = exited->how.tag == AETHEEL_BACKEND_TYPES_EXIT_CODE && exited->how.val.code != 0;
    if (refused && said.length) return result_of(OUTCOME(FAILED), FAILURE(OTHER), said);
    bool crashed = exited->how.tag == AETHEEL_BACKEND_TYPES_EXIT_SIGNAL;
    return result_of(OUTCOME(LOST), crashed ? FAILURE(CRASHED) : FAILURE(PROTOCOL), said.length ? said : TEXT("the agent ended without a result"));
}

static void take(const aetheel_backend_types_input_t *input, struct actions *out) {
    if (input->tag == INPUT(COMMAND)) {
        command(&input->val.command, out);
    } else if (link.state != RUNNING) {
        return;
    } else if (input->tag == INPUT(LINE) && input->val.line.proc == PROC) {
        line(&input->val.line, out);
    } else if (input->tag == INPUT(EXITED) && input->val.exited.proc == PROC) {
        end(link.has_result ? link.result : without_result(&input->val.exited), out);
    } else if (input->tag == INPUT(SPAWN_FAILED)) {
        const aetheel_backend_types_spawn_failed_t *why = &input->val.spawn_failed;
        end(result_of(OUTCOME(FAILED), why->not_found ? FAILURE(NOT_FOUND) : FAILURE(OTHER), borrowed(why->message)), out);
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
    *err = copied(TEXT("this backend saves no state"));
    agent_backend_string_free(state);
    agent_backend_string_free(saved_by);
    return false;
}
