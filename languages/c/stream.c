// Parses the output of `gemini -o stream-json`, which has one JSON object per line.
#include "failure.h"
#include "gemini.h"
#include "tool.h"

#define OUTCOME(name) AETHEEL_BACKEND_TYPES_OUTCOME_##name

// Reads the time of day of `2026-11-21T21:02:11.350Z` in milliseconds. Pauses over midnight are not
// recognised.
static bool milliseconds(struct text timestamp, double *at_ms) {
    if (timestamp.length <= 11) return false;
    double fields[3] = {0}, digit = 1;
    size_t field = 0;
    bool fraction = false;
    for (struct text rest = text_from(timestamp, 11); rest.length && rest.at[0] != 'Z'; rest = text_from(rest, 1)) {
        char byte = rest.at[0];
        if (byte == ':' && !fraction && field < 2) {
            field++;
        } else if (byte == '.' && !fraction) {
            fraction = true;
        } else if (byte < '0' || byte > '9') {
            return false;
        } else if (fraction) {
            fields[field] += (digit /= 10) * (byte - '0');
        } else {
            fields[field] = fields[field] * 10 + (byte - '0');
        }
    }
    *at_ms = ((fields[0] * 60 + fields[1]) * 60 + fields[2]) * 1000;
    return field == 2;
}

// Reports the session when it has history.
static void kept(struct gemini *gemini, struct actions *out) {
    if (!gemini->unkept) return;
    gemini->unkept = false;
    aetheel_backend_types_session_ready_t *ready = &add(out, AETHEEL_BACKEND_TYPES_ACTION_SESSION_READY)->val.session_ready;
    ready->session = out->turn.session;
    ready->native_id = given(&gemini->id);
    ready->model = (option_string){gemini->has_model, given(&gemini->model)};
}

static void unrecognised_value(const char *what, struct text value, const char *path, struct text raw, struct actions *out) {
    struct buffer words = {0};
    buffer_add(&words, text_of(what));
    buffer_quote(&words, value);
    add_unrecognised(out, given(&words), path, raw);
}

static void begins(struct gemini *gemini, json message, struct text raw, struct actions *out) {
    struct buffer id = {0};
    if (!json_string(json_field(message, "session_id"), &id)) {
        add_unrecognised(out, copied(TEXT("init line without a session")), "session_id", raw);
        return;
    }
    struct text resumed = buffer_text(&gemini->resumed);
    if (gemini->resumes && (resumed.length != id.length || memcmp(resumed.at, buffer_text(&id).at, id.length))) {
        add_notice(out, TEXT("Gemini CLI began a new session: the earlier conversation is lost"));
    }
    buffer_clear(&gemini->id);
    buffer_clear(&gemini->model);
    gemini->id = id;
    gemini->has_model = json_string(json_field(message, "model"), &gemini->model);
    gemini->unkept = true;
    if (gemini->resumes) kept(gemini, out);
}

static void says(struct gemini *gemini, json message, struct text raw, struct actions *out) {
    json role = json_field(message, "role");
    struct buffer text = {0}, timestamp = {0};
    if (json_is(role, "assistant")) {
        double at_ms;
        kept(gemini, out);
        json_string(json_field(message, "content"), &text);
        if (json_string(json_field(message, "timestamp"), &timestamp) && milliseconds(buffer_text(&timestamp), &at_ms)) {
            answer_again(&gemini->answer, at_ms, buffer_text(&text), out);
        }
        answer_more(&gemini->answer, buffer_text(&text), out);
    } else if (!json_is(role, "user")) { // the prompt
        json_string(role, &text);
        unrecognised_value("message of ", buffer_text(&text), "role", raw, out);
    }
    buffer_clear(&text);
    buffer_clear(&timestamp);
}

static aetheel_backend_types_option_usage_t usage(json stats) {
    aetheel_backend_types_usage_t usage = {0};
    bool told = json_count(json_field(stats, "input"), &usage.input);
    json_count(json_field(stats, "output_tokens"), &usage.output);
    json_count(json_field(stats, "cached"), &usage.cached);
    return (aetheel_backend_types_option_usage_t){told && (usage.input || usage.output || usage.cached), usage};
}

static struct result ends(struct gemini *gemini, json message) {
    struct result result = {.outcome.tag = OUTCOME(COMPLETED), .usage = usage(json_field(message, "stats"))};
    option_string text = answer_finish(&gemini->answer);
    if (json_is(json_field(message, "status"), "success")) {
        result.text = text;
        return result;
    }
    agent_backend_option_string_free(&text);
    json error = json_field(message, "error"), type = json_field(error, "type");
    struct buffer said = {0};
    if (!json_string(json_field(error, "message"), &said)) {
        buffer_add(&said, gemini->has_error ? buffer_text(&gemini->error) : TEXT("Gemini CLI reported an error without a message"));
    }
    if (json_is(type, "FatalTurnLimitedError")) {
        result.outcome.tag = OUTCOME(LIMIT);
        result.outcome.val.limit = given(&said);
    } else {
        result.outcome.tag = OUTCOME(FAILED);
        result.outcome.val.failed = failure_of_message(buffer_text(&said));
        if (json_is(type, "FatalAuthenticationError")) result.outcome.val.failed.kind = AETHEEL_BACKEND_TYPES_FAILURE_KIND_AUTHENTICATION;
        buffer_clear(&said);
    }
    return result;
}

static void failing(struct gemini *gemini, json message, struct actions *out) {
    buffer_clear(&gemini->error);
    gemini->has_error = true;
    json_string(json_field(message, "message"), &gemini->error);
    if (json_is(json_field(message, "severity"), "warning")) add_notice(out, buffer_text(&gemini->error));
}

// The only output while the model provider fails, which can take minutes.
static void retries(struct text line, struct actions *out) {
    if (!text_starts(line, "Attempt ") || !text_has(line, " failed")) return;
    size_t end = text_find(line, ". Retrying");
    struct text what = {line.at, end == SIZE_MAX ? line.length : end};
    add_event(out, AETHEEL_BACKEND_TYPES_EVENT_KIND_RETRY)->val.retry = failed(kind_of_words(line), copied(what));
}

bool gemini_line(struct gemini *gemini, const aetheel_backend_types_line_t *line, struct actions *out, struct result *result) {
    struct text raw = text_trim((struct text){(const char *)line->text.ptr, line->text.len});
    if (line->pipe == AETHEEL_BACKEND_TYPES_PIPE_STDERR) {
        retries(raw, out);
        return false;
    }
    if (!raw.length) return false;
    json message;
    if (!json_parse(raw, &message) || !json_is_object(message)) {
        struct text what = line->truncated ? TEXT("line longer than the limit") : TEXT("line that is not a JSON object");
        add_unrecognised(out, copied(what), "", raw);
        return false;
    }
    json type = json_field(message, "type");
    struct buffer kind = {0};
    if (json_is(type, "init")) {
        begins(gemini, message, raw, out);
    } else if (json_is(type, "message")) {
        says(gemini, message, raw, out);
    } else if (json_is(type, "tool_use")) {
        kept(gemini, out);
        answer_tool(&gemini->answer);
        tool_use(message, out);
    } else if (json_is(type, "tool_result")) {
        tool_result(message, out);
    } else if (json_is(type, "error")) {
        failing(gemini, message, out);
    } else if (json_is(type, "result")) {
        if (json_is(json_field(message, "status"), "success")) kept(gemini, out);
        *result = ends(gemini, message);
        return true;
    } else if (json_string(type, &kind)) {
        unrecognised_value("line type ", buffer_text(&kind), "type", raw, out);
        buffer_clear(&kind);
    } else {
        add_unrecognised(out, copied(TEXT("line without a type")), "type", raw);
    }
    return false;
}
