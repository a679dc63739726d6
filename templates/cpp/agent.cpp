#include "agent.hpp"

#include "json.hpp"

#define EVENT(name) AETHEEL_BACKEND_TYPES_EVENT_KIND_##name
#define ACTION(name) AETHEEL_BACKEND_TYPES_ACTION_##name
#define OUTCOME(name) AETHEEL_BACKEND_TYPES_OUTCOME_##name
#define FAILURE(name) AETHEEL_BACKEND_TYPES_FAILURE_KIND_##name

namespace {

// The agent's tools: their names, unified kinds (see wit/types.wit), and the input field with the
// target of a call.
constexpr struct {
    std::string_view name, kind, target;
} tools[] = {{"shell", "bash", "command"}, {"read", "file_read", "path"}, {"edit", "file_edit", "path"}};

agent_backend_string_t taken(const Json &said, std::string_view key) { return copied(std::string_view(said.text(key).value_or(""))); }

// Returns whether a text can be the id of a session, see `session-ready` in wit/types.wit.
bool is_native_id(std::string_view id) {
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";
    return !id.empty() && id.size() <= 128 && id[0] != '-' && id.find_first_not_of(letters) == std::string_view::npos;
}

void tool(const Json &said, Actions &out) {
    std::string name = said.text("name").value_or(""), shown;
    std::string_view kind = "other";
    std::optional<std::string> target;
    Json input = said["input"];
    for (const auto &tool : tools) {
        if (tool.name != name) continue;
        kind = tool.kind;
        target = input.text(tool.target);
    }
    auto about = lines(target ? std::string_view(*target) : std::string_view());
    if (input.is_null()) {
        shown = "{}";
    } else {
        input.write(shown);
    }
    auto &start = out.event(EVENT(TOOL_START)).val.tool_start;
    start.id = taken(said, "id");
    start.kind = copied(kind);
    start.native_name = copied(std::string_view(name));
    start.title = copied(about.empty() ? std::string_view(name) : head(about[0], 160));
    start.target = copied(target);
    start.input = copied(std::string_view(shown));
}

// The fields that each type of line always has.
constexpr struct {
    std::string_view type, field;
    bool is_object = false;
} fields[] = {{"session", "id"}, {"text", "text"},        {"error", "message"},  {"done", "usage", true},   {"tool", "id"},
              {"tool", "name"},  {"tool", "input", true}, {"tool-result", "id"}, {"tool-result", "output"}};

// Reports the fields that a line lacks. Without a report, their loss would go unnoticed.
void report_missing(const Json &said, std::string_view raw, Actions &out) {
    std::string type = said.text("type").value_or("");
    auto need = [&](const Json &value, bool there, const std::string &path) {
        if (there) return;
        out.unrecognised("no `" + path + "` in a line of type " + quoted(type), path, raw);
        out.last().val.event.kind.val.unrecognised.difference =
            value.is_null() ? AETHEEL_BACKEND_TYPES_DIFFERENCE_MISSING : AETHEEL_BACKEND_TYPES_DIFFERENCE_CHANGED;
    };
    for (const auto &field : fields) {
        if (field.type != type) continue;
        Json value = said[field.field];
        need(value, field.is_object ? value.is_object() : value.text().has_value(), std::string(field.field));
    }
    Json input = said["input"];
    for (const auto &tool : tools) {
        if (type != "tool" || !said.says("name", tool.name) || !input.is_object()) continue;
        need(input[tool.target], input.text(tool.target).has_value(), "input." + std::string(tool.target));
    }
}

Result done(const Json &said) {
    Result result = Result::of(said["stopped"].is_true() ? OUTCOME(INTERRUPTED) : OUTCOME(COMPLETED));
    Json usage = said["usage"];
    auto input = usage.count("input");
    result.usage.is_some = input.has_value();
    result.usage.val.input = input.value_or(0);
    result.usage.val.output = usage.count("output").value_or(0);
    return result;
}

} // namespace

std::optional<Result> agent_line(const aetheel_backend_types_line_t &line, Actions &out) {
    std::string_view raw = trim(borrowed(line.text));
    if (line.pipe == AETHEEL_BACKEND_TYPES_PIPE_STDERR || raw.empty()) return std::nullopt;
    Json said = Json::parse(raw).value_or(Json());
    if (!said.is_object()) {
        out.unrecognised(line.truncated ? "line longer than the limit" : "line that is not a JSON object", "", raw);
        return std::nullopt;
    }
    report_missing(said, raw, out);
    std::string type = said.text("type").value_or("");
    if (type == "done") return done(said);
    if (type == "error") return Result::failed(FAILURE(OTHER), said.text("message").value_or(""));
    if (type == "session") {
        std::string id = said.text("id").value_or("");
        if (!is_native_id(id)) {
            out.unrecognised("session line without a valid id", "id", raw);
            return std::nullopt;
        }
        auto &ready = out.add(ACTION(SESSION_READY)).val.session_ready;
        ready.session = out.turn.session;
        ready.native_id = copied(std::string_view(id));
    } else if (type == "text") {
        out.text(0, said.text("text").value_or(""));
    } else if (type == "tool") {
        tool(said, out);
    } else if (type == "tool-result") {
        auto &end = out.event(EVENT(TOOL_END)).val.tool_end;
        end.id = taken(said, "id");
        end.status = said["ok"].is_true() ? AETHEEL_BACKEND_TYPES_TOOL_STATUS_OK : AETHEEL_BACKEND_TYPES_TOOL_STATUS_FAILED;
        end.output = copied(said.text("output"));
    } else {
        // Unknown output is reported, because it shows that the agent changed.
        out.unrecognised("line type " + quoted(type), "type", raw);
    }
    return std::nullopt;
}

std::string prompt_of(const aetheel_backend_types_list_part_t &parts) {
    std::string prompt;
    for (std::size_t at = 0; at < parts.len; at++) {
        const auto &part = parts.ptr[at];
        bool words = part.tag == AETHEEL_BACKEND_TYPES_PART_TEXT;
        if (at > 0) prompt += "\n\n";
        if (!words) prompt += "Attached file: ";
        prompt += borrowed(words ? part.val.text : part.tag == AETHEEL_BACKEND_TYPES_PART_IMAGE ? part.val.image.path : part.val.file.path);
    }
    return prompt;
}

aetheel_backend_types_spawn_t &add_spawn(const aetheel_backend_types_start_turn_t &start, std::uint32_t proc, std::string_view flag, Actions &out) {
    std::vector<aetheel_backend_types_value_t> arguments;
    auto add = [&](std::string_view word) {
        auto &argument = arguments.emplace_back();
        argument.tag = AETHEEL_BACKEND_TYPES_VALUE_TEXT;
        argument.val.text = copied(word);
    };
    add(flag);
    if (start.native_id.is_some) {
        add("--resume");
        add(borrowed(start.native_id.val));
    }
    auto &spawn = out.add(ACTION(SPAWN)).val.spawn;
    spawn.proc = proc;
    spawn.program = copied(std::string_view("{{name}}"));
    spawn.arguments = copied<aetheel_backend_types_list_value_t>(arguments);
    spawn.session = {true, start.session};
    spawn.turn = {true, start.turn};
    return spawn;
}

aetheel_backend_types_list_chunk_t chunk(std::string_view text) {
    aetheel_backend_types_chunk_t chunk{};
    chunk.tag = AETHEEL_BACKEND_TYPES_CHUNK_TEXT;
    chunk.val.text = copied(text);
    return copied<aetheel_backend_types_list_chunk_t>(std::vector{chunk});
}

void aside(const aetheel_backend_types_command_t &command, Actions &out) {
    if (command.tag == AETHEEL_BACKEND_TYPES_COMMAND_STEER) {
        out.add(ACTION(STEERED)).val.steered = {command.val.steer.message, AETHEEL_BACKEND_TYPES_STEER_OUTCOME_NOT_NOW};
    } else if (command.tag == AETHEEL_BACKEND_TYPES_COMMAND_QUERY) {
        auto &answer = out.add(ACTION(QUERY_ANSWER)).val.query_answer;
        answer.query = command.val.query.query;
        answer.answer.tag = AETHEEL_BACKEND_TYPES_QUERY_RESULT_FAILED;
        answer.answer.val.failed = ::failed(FAILURE(UNSUPPORTED), "this backend does not support queries");
    }
}

Result Result::of(int outcome) {
    Result result;
    result.outcome.tag = static_cast<std::uint8_t>(outcome);
    return result;
}

Result Result::failed(FailureKind kind, std::string_view message) {
    Result result = of(OUTCOME(FAILED));
    result.outcome.val.failed = ::failed(kind, message);
    return result;
}

Result Result::lost(FailureKind kind, std::string_view message) {
    Result result = of(OUTCOME(LOST));
    result.outcome.val.lost = ::failed(kind, message);
    return result;
}

void Result::add(TurnRef turn, Actions &out) const {
    out.add(ACTION(TURN_DONE)).val.turn_done = {turn.session, turn.turn, outcome, {}, usage};
}
