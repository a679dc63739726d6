// Parses the output of `gemini -o stream-json`, which has one JSON object per line.
#include "gemini.hpp"

#define OUTCOME(name) AETHEEL_BACKEND_TYPES_OUTCOME_##name

namespace {

// Reads the time of day of `2026-11-21T21:02:11.350Z` in milliseconds. Pauses over midnight are not
// recognised.
std::optional<double> milliseconds(std::string_view timestamp) {
    if (timestamp.size() <= 11) return std::nullopt;
    double fields[3] = {}, digit = 1;
    std::size_t field = 0;
    bool fraction = false;
    for (char byte : timestamp.substr(11)) {
        if (byte == 'Z') break;
        if (byte == ':' && !fraction && field < 2) {
            field++;
        } else if (byte == '.' && !fraction) {
            fraction = true;
        } else if (byte < '0' || byte > '9') {
            return std::nullopt;
        } else if (fraction) {
            fields[field] += (digit /= 10) * (byte - '0');
        } else {
            fields[field] = fields[field] * 10 + (byte - '0');
        }
    }
    if (field != 2) return std::nullopt;
    return ((fields[0] * 60 + fields[1]) * 60 + fields[2]) * 1000;
}

// The only output while the model provider fails, which can take minutes.
void retries(std::string_view line, Actions &out) {
    if (!line.starts_with("Attempt ") || line.find(" failed") == std::string_view::npos) return;
    Failure why = failed(kind_of_words(line), line.substr(0, line.find(". Retrying")));
    out.event(AETHEEL_BACKEND_TYPES_EVENT_KIND_RETRY).val.retry = why;
}

aetheel_backend_types_option_usage_t usage(const Json &stats) {
    aetheel_backend_types_usage_t usage{};
    auto input = stats.count("input");
    usage.input = input.value_or(0);
    usage.output = stats.count("output_tokens").value_or(0);
    usage.cached = stats.count("cached").value_or(0);
    return {input && (usage.input || usage.output || usage.cached), usage};
}

} // namespace

std::optional<Result> Gemini::line(const aetheel_backend_types_line_t &line, Actions &out) {
    std::string_view raw = trim(borrowed(line.text));
    if (line.pipe == AETHEEL_BACKEND_TYPES_PIPE_STDERR) {
        retries(raw, out);
        return std::nullopt;
    }
    if (raw.empty()) return std::nullopt;
    Json message = Json::parse(raw).value_or(Json());
    if (!message.is_object()) {
        out.unrecognised(line.truncated ? "line longer than the limit" : "line that is not a JSON object", "", raw);
        return std::nullopt;
    }
    auto type = message.text("type");
    if (!type) {
        out.unrecognised("line without a type", "type", raw);
    } else if (*type == "init") {
        begins(message, raw, out);
    } else if (*type == "message") {
        says(message, raw, out);
    } else if (*type == "tool_use") {
        kept(out);
        answer_.tool();
        tool_use(message, out);
    } else if (*type == "tool_result") {
        tool_result(message, out);
    } else if (*type == "error") {
        failing_ = message.text("message").value_or("");
        if (message.says("severity", "warning")) out.notice(*failing_);
    } else if (*type == "result") {
        if (message.says("status", "success")) kept(out);
        return ends(message);
    } else {
        out.unrecognised("line type " + quoted(*type), "type", raw);
    }
    return std::nullopt;
}

void Gemini::begins(const Json &message, std::string_view raw, Actions &out) {
    auto id = message.text("session_id");
    if (!id) {
        out.unrecognised("init line without a session", "session_id", raw);
        return;
    }
    if (resumed_ && *resumed_ != *id) out.notice("Gemini CLI began a new session: the earlier conversation is lost");
    unkept_ = Session{*id, message.text("model")};
    if (resumed_) kept(out);
}

// Reports the session when it has history.
void Gemini::kept(Actions &out) {
    if (!unkept_) return;
    auto &ready = out.add(AETHEEL_BACKEND_TYPES_ACTION_SESSION_READY).val.session_ready;
    ready.session = out.turn.session;
    ready.native_id = copied(std::string_view(unkept_->id));
    ready.model = copied(unkept_->model);
    unkept_.reset();
}

void Gemini::says(const Json &message, std::string_view raw, Actions &out) {
    std::string role = message.text("role").value_or("");
    if (role == "assistant") {
        kept(out);
        std::string text = message.text("content").value_or("");
        if (auto at_ms = milliseconds(message.text("timestamp").value_or(""))) answer_.again(*at_ms, text, out);
        answer_.more(text, out);
    } else if (role != "user") { // the prompt
        out.unrecognised("message of " + quoted(role), "role", raw);
    }
}

Result Gemini::ends(const Json &message) {
    Result result;
    auto text = answer_.finish();
    result.usage = usage(message["stats"]);
    if (message.says("status", "success")) {
        result.text = copied(text);
        return result;
    }
    Json error = message["error"];
    std::string said = error.text("message").value_or(failing_.value_or("Gemini CLI reported an error without a message"));
    if (error.says("type", "FatalTurnLimitedError")) {
        result.outcome.tag = OUTCOME(LIMIT);
        result.outcome.val.limit = copied(std::string_view(said));
        return result;
    }
    result.outcome.tag = OUTCOME(FAILED);
    result.outcome.val.failed = failure_of_message(said);
    if (error.says("type", "FatalAuthenticationError")) result.outcome.val.failed.kind = AETHEEL_BACKEND_TYPES_FAILURE_KIND_AUTHENTICATION;
    return result;
}

Result Result::failed(const Failure &why) {
    Result result;
    result.outcome.tag = OUTCOME(FAILED);
    result.outcome.val.failed = why;
    return result;
}

void Result::free() {
    aetheel_backend_types_outcome_free(&outcome);
    agent_backend_option_string_free(&text);
}
