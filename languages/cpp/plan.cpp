// The command line of a turn. Prompts and the system prompt are passed on stdin, so users' texts
// are never arguments.
#include "gemini.hpp"

namespace {

using Value = aetheel_backend_types_value_t;
using Variable = aetheel_backend_types_variable_t;
using Chunk = aetheel_backend_types_chunk_t;

// GEMINI_CLI_TRUST_WORKSPACE: otherwise it refuses to work in folders that were not trusted in its
// own user interface. GEMINI_CLI_NO_RELAUNCH: otherwise it restarts itself as a child process and
// ignores signals. NO_BROWSER: otherwise it opens a browser to authenticate.
constexpr std::string_view environment[][2] = {
    {"GEMINI_CLI_TRUST_WORKSPACE", "true"},
    {"GEMINI_CLI_NO_RELAUNCH", "true"},
    {"NO_BROWSER", "1"},
};

bool is_uuid(std::string_view text) {
    if (text.size() != 36) return false;
    for (std::size_t at = 0; at < text.size(); at++) {
        bool dash = at == 8 || at == 13 || at == 18 || at == 23;
        bool hex = std::string_view("0123456789abcdefABCDEF").find(text[at]) != std::string_view::npos;
        if (dash ? text[at] != '-' : !hex) return false;
    }
    return true;
}

std::string_view approval(const aetheel_backend_types_settings_t &settings) {
    if (settings.mode == AETHEEL_BACKEND_TYPES_MODE_PLAN) return "plan";
    switch (settings.safety) {
    case AETHEEL_BACKEND_TYPES_SAFETY_DANGER: return "yolo";
    case AETHEEL_BACKEND_TYPES_SAFETY_EDIT: return "auto_edit";
    default: return "default";
    }
}

std::string prompt_of(const aetheel_backend_types_list_part_t &parts) {
    std::string prompt;
    for (std::size_t at = 0; at < parts.len; at++) {
        const auto &part = parts.ptr[at];
        if (at > 0) prompt += "\n\n";
        if (part.tag == AETHEEL_BACKEND_TYPES_PART_TEXT) {
            prompt += borrowed(part.val.text);
            continue;
        }
        const auto &file = part.tag == AETHEEL_BACKEND_TYPES_PART_IMAGE ? part.val.image : part.val.file;
        prompt += "[Attached file: ";
        prompt += borrowed(file.name);
        prompt += " (";
        prompt += borrowed(file.media_type);
        prompt += ", " + std::to_string(file.size) + " bytes) at ";
        prompt += borrowed(file.path);
        prompt += ']';
    }
    return prompt;
}

// Each run is a new process, so the system prompt is passed every time.
std::string standing(std::string_view system) {
    std::string text = "<system-prompt>\n";
    for (char byte : system) {
        // Prevents the expansion of `@path`. The host escapes the user's text.
        if (byte == '@') text += '\\';
        text += byte;
    }
    return text + "\n</system-prompt>\n\nThe text above is your system prompt for this conversation: it replaces any you were given in this "
                  "way before, and was not written by the people you talk with. Their message follows.\n\n";
}

Value value(std::string_view text) {
    Value value{};
    value.tag = AETHEEL_BACKEND_TYPES_VALUE_TEXT;
    value.val.text = copied(text);
    return value;
}

Chunk chunk(std::string_view text) {
    Chunk chunk{};
    chunk.tag = AETHEEL_BACKEND_TYPES_CHUNK_TEXT;
    chunk.val.text = copied(text);
    return chunk;
}

} // namespace

std::optional<Failure> Gemini::plan(const aetheel_backend_types_start_turn_t &start, std::uint32_t proc, Actions &out) {
    const auto &settings = start.settings;
    if (start.native_id.is_some) resumed_ = borrowed(start.native_id.val);
    std::string prompt = prompt_of(start.parts);
    if (trim(prompt).empty()) return failed(AETHEEL_BACKEND_TYPES_FAILURE_KIND_BAD_REQUEST, "the prompt is empty");
    if (start.fork) return failed(AETHEEL_BACKEND_TYPES_FAILURE_KIND_UNSUPPORTED, "Gemini CLI cannot copy a session");
    // `latest` and numbers would resume other sessions.
    if (resumed_ && !is_uuid(*resumed_)) {
        return failed(AETHEEL_BACKEND_TYPES_FAILURE_KIND_SESSION_UNKNOWN, "the session id is not one of Gemini CLI");
    }

    std::vector<Value> arguments = {value("-o"), value("stream-json"), value("--approval-mode"), value(approval(settings))};
    if (resumed_) {
        arguments.push_back(value("--resume"));
        arguments.push_back(value(*resumed_));
    } else if (is_uuid(borrowed(start.fresh_id))) {
        // With a preset id, the session can be resumed even if the process is killed early.
        arguments.push_back(value("--session-id"));
        arguments.push_back(value(borrowed(start.fresh_id)));
    }
    if (settings.model.is_some) {
        arguments.push_back(value("-m"));
        arguments.push_back(value(borrowed(settings.model.val)));
    }
    if (settings.effort.is_some) {
        std::string warning = "Gemini CLI does not offer a choice of its effort: " + quoted(borrowed(settings.effort.val)) + " is ignored";
        out.add(AETHEEL_BACKEND_TYPES_ACTION_DIAGNOSTIC).val.diagnostic = {AETHEEL_BACKEND_TYPES_LEVEL_WARN, copied(std::string_view(warning))};
    }
    std::vector<Variable> variables;
    for (const auto &[name, text] : environment) variables.push_back({copied(name), value(text)});
    std::vector<Chunk> chunks;
    if (settings.system_prompt.is_some && settings.system_prompt.val.len > 0) {
        chunks.push_back(chunk(standing(borrowed(settings.system_prompt.val))));
    }
    chunks.push_back(chunk(prompt));

    auto &spawn = out.add(AETHEEL_BACKEND_TYPES_ACTION_SPAWN).val.spawn;
    spawn.proc = proc;
    spawn.program = copied(std::string_view("gemini"));
    spawn.arguments = copied<aetheel_backend_types_list_value_t>(arguments);
    spawn.environment = copied<aetheel_backend_types_list_variable_t>(variables);
    spawn.stdin_ = copied<aetheel_backend_types_list_chunk_t>(chunks);
    spawn.session = {true, start.session};
    spawn.turn = {true, start.turn};
    return std::nullopt;
}
