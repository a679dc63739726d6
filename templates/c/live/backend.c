// A backend for {{name}}: one process for each conversation. Prompts and output are JSON lines.
//
// This file has the four exports, and manages the process and the turns: each turn ends exactly
// once, whatever the agent does. agent.c parses the output.
#include "agent.h"
#include "json.h"

#define INPUT(name) AETHEEL_BACKEND_TYPES_INPUT_##name
#define COMMAND(name) AETHEEL_BACKEND_TYPES_COMMAND_##name
#define ACTION(name) AETHEEL_BACKEND_TYPES_ACTION_##name
#define OUTCOME(name) AETHEEL_BACKEND_TYPES_OUTCOME_##name
#define FAILURE(name) AETHEEL_BACKEND_TYPES_FAILURE_KIND_##name

static const char DESCRIPTOR[] = {
#embed "descriptor.json"
};

// Each link has its own instance: a conversation with at most one process and one open turn.
static struct {
    // The key of the running process, or 0. Keys are never reused.
    uint32_t proc, last_proc;
    bool open, interrupted;
    turn_ref turn;
} link;

static struct text borrowed(string string) { return (struct text){(const char *)string.ptr, string.len}; }

static void end(struct result result, struct actions *out) {
    if (!link.open) {
        aetheel_backend_types_outcome_free(&result.outcome);
        return;
    }
    link.open = false;
    add_end(out, link.turn, result);
}

static void say(struct buffer *line, struct actions *out) {
    aetheel_backend_types_write_t *write = &add(out, ACTION(WRITE))->val.write;
    buffer_add(line, TEXT("\n"));
    write->proc = link.proc;
    write->body.ptr = grown(NULL, sizeof *write->body.ptr);
    write->body.len = 1;
    *write->body.ptr = (aetheel_backend_types_chunk_t){.tag = AETHEEL_BACKEND_TYPES_CHUNK_TEXT, .val.text = given(line)};
}

static void start(const aetheel_backend_types_start_turn_t *start, struct actions *out) {
    struct text arguments[] = {TEXT("--serve"), TEXT("--resume"), borrowed(start->native_id.val)};
    turn_ref turn = {start->session, start->turn};
    struct buffer prompt = {0}, line = {0};
    // The command was repeated.
    if (link.last_proc && turn.turn == link.turn.turn) return;
    if (link.open) {
        add_end(out, turn, result_of(OUTCOME(FAILED), FAILURE(UNSUPPORTED), TEXT("another turn is still open")));
        return;
    }
    link.open = true;
    link.interrupted = false;
    link.turn = out->turn = turn;
    if (!link.proc) {
        link.proc = ++link.last_proc;
        add_spawn(out, link.proc, arguments, start->native_id.is_some ? 3 : 1)->keep_open = true;
    }
    agent_prompt(&start->parts, &prompt);
    buffer_add(&line, TEXT("{\"type\":\"prompt\",\"text\":"));
    json_quote(buffer_text(&prompt), &line);
    buffer_add(&line, TEXT("}"));
    buffer_clear(&prompt);
    say(&line, out);
}

static void command(const aetheel_backend_types_command_t *command, struct actions *out) {
    if (command->tag == COMMAND(START_TURN)) {
        start(&command->val.start_turn, out);
    } else if (command->tag == COMMAND(INTERRUPT) && link.open && command->val.interrupt.turn == link.turn.turn) {
        // The agent reports the interrupted turn in a line.
        struct buffer line = {0};
        link.interrupted = true;
        buffer_add(&line, TEXT("{\"type\":\"stop\"}"));
        say(&line, out);
    } else if (command->tag == COMMAND(SHUTDOWN) && link.proc) {
        // The agent exits when its stdin is closed.
        add(out, ACTION(CLOSE_STDIN))->val.close_stdin = link.proc;
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
    // Output between turns is ignored.
    if (link.open && agent_line(line, out, &result)) end(result, out);
}

static void exited(const aetheel_backend_types_exited_t *exited, struct actions *out) {
    struct text said = text_trim(borrowed(exited->stderr_tail));
    link.proc = 0;
    if (link.interrupted) {
        end((struct result){.outcome.tag = OUTCOME(INTERRUPTED)}, out);
    } else {
        end(result_of(OUTCOME(LOST), FAILURE(CRASHED), said.length ? said : TEXT("the agent ended in the middle of a turn")), out);
    }
}

static void take(const aetheel_backend_types_input_t *input, struct actions *out) {
    if (input->tag == INPUT(COMMAND)) {
        command(&input->val.command, out);
    } else if (input->tag == INPUT(LINE) && input->val.line.proc == link.proc) {
        line(&input->val.line, out);
    } else if (input->tag == INPUT(EXITED) && input->val.exited.proc == link.proc) {
        exited(&input->val.exited, out);
    } else if (input->tag == INPUT(SPAWN_FAILED) && input->val.spawn_failed.proc == link.proc) {
        const aetheel_backend_types_spawn_failed_t *why = &input->val.spawn_failed;
        link.proc = 0;
        end(result_of(OUTCOME(FAILED), why->not_found ? FAILURE(NOT_FOUND) : FAILURE(OTHER), borrowed(why->message)), out);
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
