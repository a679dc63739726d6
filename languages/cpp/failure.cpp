// Classifies failures of Gemini CLI from its result or stderr.
#include <algorithm>

#include "gemini.hpp"

#define KIND(name) AETHEEL_BACKEND_TYPES_FAILURE_KIND_##name

namespace {

// Prefixes of irrelevant lines on stderr (Gemini CLI 0.61.0).
constexpr std::string_view noise[] = {
    "Warning: 256-color support not detected", "YOLO mode is enabled", "Ripgrep is not available", "[STARTUP]",
    "Security Warning: Skipping system",       "at ",                  "Loaded cached credentials",
};

// Phrases of failures; the first match counts. Only the first row precedes an HTTP status.
constexpr struct {
    FailureKind kind;
    std::string_view words[6];
} rows[] = {
    {KIND(CONTEXT_FULL), {"context window", "context length", "context limit", "prompt is too long", "token count exceeds"}},
    {KIND(AUTHENTICATION), {"unauthorized", "not logged in", "please sign in", "please log in", "api key", "authentication"}},
    {KIND(QUOTA), {"quota", "usage limit", "credit balance"}},
    {KIND(RATE_LIMITED), {"rate limit", "rate_limit", "too many requests"}},
    {KIND(OVERLOADED), {"overloaded", "unavailable", "internal server error", "stream disconnected"}},
    {KIND(NETWORK), {"fetch failed", "connection", "econnrefused", "enotfound"}},
    {KIND(MODEL_NOT_FOUND), {"model not found", "unknown model", "model_not_found"}},
    {KIND(BAD_REQUEST), {"invalid_request_error", "bad request"}},
};

bool has(std::string_view text, std::string_view words) { return text.find(words) != std::string_view::npos; }

bool is_alphanumeric(char byte) {
    char lower = static_cast<char>(byte | 0x20);
    return (byte >= '0' && byte <= '9') || (lower >= 'a' && lower <= 'z');
}

// Returns the HTTP status in the first six words, as in `API Error: 429 slow down`, or 0.
int status_of(std::string_view text) {
    for (int words = 0; words < 6 && !text.empty();) {
        auto end = std::find_if_not(text.begin(), text.end(), is_alphanumeric) - text.begin();
        auto word = text.substr(0, static_cast<std::size_t>(end));
        words += !word.empty();
        if (word.size() == 3 && (word[0] == '4' || word[0] == '5') && word[1] <= '9' && word[2] <= '9') {
            return (word[0] - '0') * 100 + (word[1] - '0') * 10 + (word[2] - '0');
        }
        text.remove_prefix(std::min(word.size() + 1, text.size()));
    }
    return 0;
}

// Extracts the message from texts such as `400 {"error":{"message":"…"}}`.
std::string for_people(std::string_view text) {
    text = trim(text);
    auto at = text.find('{');
    if (at == std::string_view::npos) return std::string(text);
    auto told = Json::parse(text.substr(at)).value_or(Json());
    auto message = told["error"].text("message");
    if (!message) message = told.text("message");
    return message ? std::string(text.substr(0, at)) + *message : std::string(text);
}

} // namespace

FailureKind kind_of_words(std::string_view words) {
    std::string lower(words);
    for (char &byte : lower) {
        if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte | 0x20);
    }
    int status = status_of(words);
    for (const auto &row : rows) {
        for (auto said : row.words) {
            if (!said.empty() && has(lower, said)) return row.kind;
        }
        if (status) break;
    }
    switch (status) {
    case 0: return KIND(OTHER);
    case 401:
    case 403: return KIND(AUTHENTICATION);
    case 404: return KIND(MODEL_NOT_FOUND);
    case 429: return KIND(RATE_LIMITED);
    default: return status < 500 ? KIND(BAD_REQUEST) : KIND(OVERLOADED);
    }
}

Failure failure_of_message(std::string_view message) {
    message = trim(message);
    std::string_view inner = message;
    // [API Error: {"error":{"code":400,"message":"…"}}] which is followed by advice for some errors
    constexpr std::string_view opening = "[API Error: ";
    if (message.starts_with(opening)) inner = message.substr(opening.size(), message.substr(opening.size()).rfind(']'));
    FailureKind kind = kind_of_words(inner);
    // A 429 without a status in its message can only be recognised by the advice.
    if (kind == KIND(OTHER) && has(message, "To increase your limits")) kind = KIND(RATE_LIMITED);
    return failed(kind, for_people(inner));
}

Failure failure_at_exit(std::string_view stderr_summary) {
    std::string said;
    for (auto line : lines(stderr_summary)) {
        if (std::any_of(std::begin(noise), std::end(noise), [&](auto beginning) { return line.starts_with(beginning); })) continue;
        if (!said.empty()) said += '\n';
        said += line;
    }
    if (said.empty()) said = "the agent ended without a result";
    if (has(said, "Invalid session identifier") || has(said, "No previous sessions found")) return failed(KIND(SESSION_UNKNOWN), said);
    if (has(said, "auth method") || has(said, "Auth method")) return failed(KIND(AUTHENTICATION), said);
    if (has(said, "not running in a trusted directory")) return failed(KIND(UNSUPPORTED), said);
    if (has(said, "No input provided")) return failed(KIND(BAD_REQUEST), said);
    Failure told = failure_of_message(said);
    FailureKind kind = told.kind;
    aetheel_backend_types_failure_free(&told);
    return failed(kind, said);
}
