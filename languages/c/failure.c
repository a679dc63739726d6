#include "failure.h"

#include "json.h"

#define KIND(name) AETHEEL_BACKEND_TYPES_FAILURE_KIND_##name

// Prefixes of irrelevant lines on stderr (Gemini CLI 0.61.0).
static const char *const NOISE[] = {
    "Warning: 256-color support not detected", "YOLO mode is enabled",    "Ripgrep is not available", "[STARTUP]",
    "Security Warning: Skipping system",       "at ",                     "Loaded cached credentials",
};

// Phrases of failures. The first match counts.
static const struct {
    failure_kind kind;
    const char *words[8];
} WORDS[] = {
    {KIND(CONTEXT_FULL), {"context window", "context length", "context limit", "prompt is too long", "token count exceeds"}},
    {KIND(AUTHENTICATION), {"unauthorized", "not logged in", "please sign in", "please log in", "api key", "authentication"}},
    {KIND(QUOTA), {"quota", "usage limit", "credit balance"}},
    {KIND(RATE_LIMITED), {"rate limit", "rate_limit", "too many requests"}},
    {KIND(OVERLOADED), {"overloaded", "unavailable", "internal server error", "stream disconnected"}},
    {KIND(NETWORK), {"fetch failed", "connection", "econnrefused", "enotfound"}},
    {KIND(MODEL_NOT_FOUND), {"model not found", "unknown model", "model_not_found"}},
    {KIND(BAD_REQUEST), {"invalid_request_error", "bad request"}},
};

static bool is_alphanumeric(char byte) { return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z'); }

// Returns the HTTP status in the first six words, as in `API Error: 429 slow down`, or 0.
static unsigned status_of(struct text text) {
    for (int words = 0; words < 6 && text.length;) {
        size_t end = 0;
        while (end < text.length && is_alphanumeric(text.at[end])) end++;
        if (end) words++;
        if (end == 3) {
            unsigned status = 0;
            for (size_t at = 0; at < 3; at++) status = text.at[at] <= '9' ? status * 10 + (unsigned)(text.at[at] - '0') : 10000;
            if (status >= 400 && status < 600) return status;
        }
        text = text_from(text, end + 1);
    }
    return 0;
}

// Returns the kind of the first matching row, ignoring case.
static failure_kind said(struct text words, size_t rows) {
    struct buffer lower = {0};
    failure_kind kind = KIND(OTHER);
    buffer_add(&lower, words);
    for (size_t at = 0; at < lower.length; at++) {
        if (lower.at[at] >= 'A' && lower.at[at] <= 'Z') lower.at[at] |= 0x20;
    }
    for (size_t row = 0; row < rows && kind == KIND(OTHER); row++) {
        for (const char *const *word = WORDS[row].words; *word; word++) {
            if (text_has(buffer_text(&lower), *word)) kind = WORDS[row].kind;
        }
    }
    buffer_clear(&lower);
    return kind;
}

failure_kind kind_of_words(struct text words) {
    unsigned status = status_of(words);
    // If the message has a status, only the first row is used.
    failure_kind kind = said(words, status ? 1 : sizeof WORDS / sizeof *WORDS);
    if (kind != KIND(OTHER)) return kind;
    switch (status) {
    case 0: return KIND(OTHER);
    case 401:
    case 403: return KIND(AUTHENTICATION);
    case 404: return KIND(MODEL_NOT_FOUND);
    case 429: return KIND(RATE_LIMITED);
    default: return status < 500 ? KIND(BAD_REQUEST) : KIND(OVERLOADED);
    }
}

// Extracts the message from texts such as `400 {"error":{"message":"…"}}`.
static string for_people(struct text text) {
    struct buffer words = {0};
    json told;
    text = text_trim(text);
    size_t at = text_find(text, "{");
    if (at != SIZE_MAX && json_parse(text_from(text, at), &told)) {
        buffer_add(&words, (struct text){text.at, at});
        if (json_string(json_field(json_field(told, "error"), "message"), &words) || json_string(json_field(told, "message"), &words)) {
            return given(&words);
        }
        buffer_clear(&words);
    }
    return copied(text);
}

failure failure_of_message(struct text message) {
    message = text_trim(message);
    struct text inner = message;
    // [API Error: {"error":{"code":400,"message":"…"}}] which is followed by advice for some errors
    if (text_starts(message, "[API Error: ")) {
        inner = text_from(message, strlen("[API Error: "));
        for (size_t at = inner.length; at--;) {
            if (inner.at[at] != ']') continue;
            inner.length = at;
            break;
        }
    }
    failure_kind kind = kind_of_words(inner);
    // A 429 without a status in its message can only be recognised by the advice.
    if (kind == KIND(OTHER) && text_has(message, "To increase your limits")) kind = KIND(RATE_LIMITED);
    return failed(kind, for_people(inner));
}

static bool is_noise(struct text line) {
    for (size_t at = 0; at < sizeof NOISE / sizeof *NOISE; at++) {
        if (text_starts(line, NOISE[at])) return true;
    }
    return !line.length;
}

failure failure_at_exit(struct text stderr_summary) {
    struct buffer message = {0};
    struct text line;
    while (text_line(&stderr_summary, &line)) {
        line = text_trim(line);
        if (is_noise(line)) continue;
        if (message.length) buffer_add(&message, TEXT("\n"));
        buffer_add(&message, line);
    }
    if (!message.length) buffer_add(&message, TEXT("the agent ended without a result"));
    struct text said = buffer_text(&message);
    failure_kind kind;
    if (text_has(said, "Invalid session identifier") || text_has(said, "No previous sessions found")) {
        kind = KIND(SESSION_UNKNOWN);
    } else if (text_has(said, "auth method") || text_has(said, "Auth method")) {
        kind = KIND(AUTHENTICATION);
    } else if (text_has(said, "not running in a trusted directory")) {
        kind = KIND(UNSUPPORTED);
    } else if (text_has(said, "No input provided")) {
        kind = KIND(BAD_REQUEST);
    } else {
        failure told = failure_of_message(said);
        kind = told.kind;
        aetheel_backend_types_failure_free(&told);
    }
    return failed(kind, given(&message));
}
