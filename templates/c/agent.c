#include "agent.h"

#include "json.h"

#define KIND(name) AETHEEL_BACKEND_TYPES_EVENT_KIND_##name
#define OUTCOME(name) AETHEEL_BACKEND_TYPES_OUTCOME_##name

// The agent's tools: their names, unified kinds (see wit/types.wit), and the input field with the
// target of a call.
static const struct {
    const char *name, *kind, *target;
} TOOLS[] = {{"shell", "bash", "command"}, {"read", "file_read", "path"}, {"edit", "file_edit", "path"}};

static string taken(json value) {
    struct buffer text = {0};
    json_string(value, &text);
    return given(&text);
}

// Returns whether a text can be the id of a session, see `session-ready` in wit/types.wit.
static bool is_native_id(struct text id) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";
    for (size_t at = 0; at < id.length; at++) {
        if (!memchr(letters, id.at[at], sizeof letters - 1)) return false;
    }
    return id.length && id.length <= 128 && id.at[0] != '-';
}

static void tool(json said, struct actions *out) {
    struct buffer name = {0}, target = {0}, title = {0}, input = {0};
    const char *kind = "other";
    bool known = false, shortened = false;
    json_string(json_field(said, "name"), &name);
    for (size_t at = 0; at < sizeof TOOLS / sizeof *TOOLS; at++) {
        if (!text_equals(buffer_text(&name), TOOLS[at].name)) continue;
        kind = TOOLS[at].kind;
        known = json_string(json_field(json_field(said, "input"), TOOLS[at].target), &target);
    }
    buffer_add(&title, text_one_line(buffer_text(&target), 160, &shortened));
    if (shortened) buffer_add(&title, TEXT(" …"));
    if (!title.length) buffer_add(&title, buffer_text(&name));
    if (json_is_null(json_field(said, "input"))) {
        buffer_add(&input, TEXT("{}"));
    } else {
        json_write(json_field(said, "input"), &input);
    }
    aetheel_backend_types_tool_start_t *start = &add_event(out, KIND(TOOL_START))->val.tool_start;
    start->id = taken(json_field(said, "id"));
    start->kind = copied(text_of(kind));
    start->native_name = given(&name);
    start->title = given(&title);
    start->target = (option_string){known, given(&target)};
    start->input = given(&input);
}

static void tool_result(json said, struct actions *out) {
    struct buffer output = {0};
    bool told = json_string(json_field(said, "output"), &output);
    aetheel_backend_types_tool_end_t *end = &add_event(out, KIND(TOOL_END))->val.tool_end;
    end->id = taken(json_field(said, "id"));
    end->status = text_equals(json_field(said, "ok"), "true") ? AETHEEL_BACKEND_TYPES_TOOL_STATUS_OK : AETHEEL_BACKEND_TYPES_TOOL_STATUS_FAILED;
    end->output = (option_string){told, given(&output)};
}

static struct result done(json said) {
    bool stopped = text_equals(json_field(said, "stopped"), "true");
    struct result result = {.outcome.tag = stopped ? OUTCOME(INTERRUPTED) : OUTCOME(COMPLETED)};
    json usage = json_field(said, "usage");
    result.usage.is_some = json_count(json_field(usage, "input"), &result.usage.val.input);
    json_count(json_field(usage, "output"), &result.usage.val.output);
    return result;
}

// Reports a field that a line lacks. Without a report, its loss would go unnoticed.
static void need(json value, bool there, struct text type, const char *path, struct text raw, struct actions *out) {
    if (there) return;
    struct buffer what = {0};
    buffer_add(&what, TEXT("no `"));
    buffer_add(&what, text_of(path));
    buffer_add(&what, TEXT("` in a line of type "));
    buffer_quote(&what, type);
    add_unrecognised(out, given(&what), path, raw);
    out->at[out->count - 1].val.event.kind.val.unrecognised.difference =
        json_is_null(value) ? AETHEEL_BACKEND_TYPES_DIFFERENCE_MISSING : AETHEEL_BACKEND_TYPES_DIFFERENCE_CHANGED;
}

static bool is_text(json value) { return value.length && value.at[0] == '"'; }

// The fields that each type of line always has.
static const struct {
    const char *type, *field;
    bool is_object;
} FIELDS[] = {{"session", "id", false},  {"text", "text", false}, {"error", "message", false},
              {"done", "usage", true},    {"tool", "id", false},   {"tool", "name", false},
              {"tool", "input", true},    {"tool-result", "id", false}, {"tool-result", "output", false}};

static void report_missing(json said, struct text raw, struct actions *out) {
    struct buffer type = {0};
    json_string(json_field(said, "type"), &type);
    for (size_t at = 0; at < sizeof FIELDS / sizeof *FIELDS; at++) {
        if (!text_equals(buffer_text(&type), FIELDS[at].type)) continue;
        json value = json_field(said, FIELDS[at].field);
        need(value, FIELDS[at].is_object ? json_is_object(value) : is_text(value), buffer_text(&type), FIELDS[at].field, raw, out);
    }
    for (size_t at = 0; at < sizeof TOOLS / sizeof *TOOLS; at++) {
        json input = json_field(said, "input"), target = json_field(input, TOOLS[at].target);
        if (!text_equals(buffer_text(&type), "tool") || !json_is(json_field(said, "name"), TOOLS[at].name) || !json_is_object(input)) continue;
        need(target, is_text(target), buffer_text(&type), TOOLS[at].target, raw, out);
    }
    buffer_clear(&type);
}

bool agent_line(const aetheel_backend_types_line_t *line, struct actions *out, struct result *result) {
    struct text raw = text_trim((struct text){(const char *)line->text.ptr, line->text.len});
    struct buffer text = {0};
    json said, type;
    if (line->pipe == AETHEEL_BACKEND_TYPES_PIPE_STDERR || !raw.length) return false;
    if (!json_parse(raw, &said) || !json_is_object(said)) {
        struct text what = line->truncated ? TEXT("line longer than the limit") : TEXT("line that is not a JSON object");
        add_unrecognised(out, copied(what), "", raw);
        return false;
    }
    report_missing(said, raw, out);
    type = json_field(said, "type");
    if (json_is(type, "done")) {
        *result = done(said);
        return true;
    }
    if (json_is(type, "error")) {
        json_string(json_field(said, "message"), &text);
        *result = result_of(OUTCOME(FAILED), AETHEEL_BACKEND_TYPES_FAILURE_KIND_OTHER, buffer_text(&text));
        buffer_clear(&text);
        return true;
    }
    if (json_is(type, "session")) {
        json_string(json_field(said, "id"), &text);
        if (!is_native_id(buffer_text(&text))) {
            add_unrecognised(out, copied(TEXT("session line without a valid id")), "id", raw);
            buffer_clear(&text);
            return false;
        }
        aetheel_backend_types_session_ready_t *ready = &add(out, AETHEEL_BACKEND_TYPES_ACTION_SESSION_READY)->val.session_ready;
        ready->session = out->turn.session;
        ready->native_id = given(&text);
    } else if (json_is(type, "text")) {
        json_string(json_field(said, "text"), &text);
        add_text(out, 0, buffer_text(&text), false);
    } else if (json_is(type, "tool")) {
        tool(said, out);
    } else if (json_is(type, "tool-result")) {
        tool_result(said, out);
    } else {
        // Unknown output is reported, because it shows that the agent changed.
        struct buffer what = {0};
        json_string(type, &text);
        buffer_add(&what, TEXT("line type "));
        buffer_quote(&what, buffer_text(&text));
        add_unrecognised(out, given(&what), "type", raw);
    }
    buffer_clear(&text);
    return false;
}

void agent_prompt(const aetheel_backend_types_list_part_t *parts, struct buffer *prompt) {
    for (size_t at = 0; at < parts->len; at++) {
        const aetheel_backend_types_part_t *part = &parts->ptr[at];
        bool words = part->tag == AETHEEL_BACKEND_TYPES_PART_TEXT;
        string text = words ? part->val.text : part->tag == AETHEEL_BACKEND_TYPES_PART_IMAGE ? part->val.image.path : part->val.file.path;
        if (at) buffer_add(prompt, TEXT("\n\n"));
        if (!words) buffer_add(prompt, TEXT("Attached file: "));
        buffer_add(prompt, (struct text){(const char *)text.ptr, text.len});
    }
}

struct result result_of(uint8_t outcome, failure_kind kind, struct text message) {
    return (struct result){.outcome = {.tag = outcome, .val.failed = failed(kind, copied(message))}};
}

void add_end(struct actions *out, turn_ref turn, struct result result) {
    aetheel_backend_types_turn_done_t *done = &add(out, AETHEEL_BACKEND_TYPES_ACTION_TURN_DONE)->val.turn_done;
    done->session = turn.session;
    done->turn = turn.turn;
    done->outcome = result.outcome;
    done->usage = result.usage;
}

aetheel_backend_types_spawn_t *add_spawn(struct actions *out, uint32_t proc, const struct text *arguments, size_t count) {
    aetheel_backend_types_spawn_t *spawn = &add(out, AETHEEL_BACKEND_TYPES_ACTION_SPAWN)->val.spawn;
    spawn->proc = proc;
    spawn->program = copied(TEXT("{{name}}"));
    spawn->arguments.ptr = grown(NULL, count * sizeof *spawn->arguments.ptr);
    spawn->arguments.len = count;
    for (size_t at = 0; at < count; at++) {
        spawn->arguments.ptr[at] =
            (aetheel_backend_types_value_t){.tag = AETHEEL_BACKEND_TYPES_VALUE_TEXT, .val.text = copied(arguments[at])};
    }
    spawn->session = (aetheel_backend_types_option_session_key_t){true, out->turn.session};
    spawn->turn = (aetheel_backend_types_option_turn_key_t){true, out->turn.turn};
    return spawn;
}
