// Tool calls: names, targets and results.
#include <initializer_list>
#include <utility>

#include "gemini.hpp"

namespace {

// Maximum length of a tool's title, in bytes.
constexpr std::size_t title_bytes = 160;

// The tools of Gemini CLI 0.61.0 and their unified kinds.
constexpr std::pair<std::string_view, std::string_view> kinds[] = {
    {"Bash", "bash"},
    {"run_shell_command", "bash"},
    {"list_background_processes", "bash"},
    {"read_background_output", "bash"},
    {"read_file", "file_read"},
    {"read_many_files", "file_read"},
    {"write_file", "file_write"},
    {"replace", "file_edit"},
    {"glob", "file_search"},
    {"list_directory", "file_search"},
    {"grep_search", "content_search"},
    {"search_file_content", "content_search"},
    {"google_web_search", "web_search"},
    {"web_fetch", "web_fetch"},
    {"invoke_agent", "agent_spawn"},
    {"write_todos", "todo"},
    {"ask_user", "ask_user"},
    {"activate_skill", "skill"},
};

std::string_view kind_of(std::string_view name) {
    for (const auto &[known, kind] : kinds) {
        if (name == known) return kind;
    }
    return name.starts_with("mcp_") || name.find("___") != std::string_view::npos ? "mcp" : "other";
}

// The input fields with the target of a tool use. The first existing one is used.
std::initializer_list<std::string_view> targets(std::string_view kind) {
    static constexpr std::initializer_list<std::string_view> command = {"command"}, pattern = {"pattern", "path", "dir_path"}, query = {"query"},
                                                             url = {"url", "prompt"}, agent = {"description", "agent_name"},
                                                             path = {"file_path", "path", "absolute_path"};
    if (kind == "bash") return command;
    if (kind == "content_search" || kind == "file_search") return pattern;
    if (kind == "web_search") return query;
    if (kind == "web_fetch") return url;
    if (kind == "agent_spawn") return agent;
    return path;
}

std::optional<std::string> target(const Json &input, std::string_view kind) {
    for (auto field : targets(kind)) {
        if (auto found = input.text(field)) return found;
    }
    return std::nullopt;
}

// Returns the first non-empty line for users, with an ellipsis if it was shortened.
std::string title(std::string_view said, std::string_view name) {
    auto found = lines(said);
    if (found.empty()) return std::string(name);
    std::string title(trim(head(found[0], title_bytes)));
    if (found.size() > 1 || title.size() < found[0].size()) title += " …";
    return title;
}

int plan_status(const Json &todo) {
    if (todo.says("status", "in_progress")) return AETHEEL_BACKEND_TYPES_PLAN_STATUS_ACTIVE;
    if (todo.says("status", "completed") || todo.says("status", "cancelled")) return AETHEEL_BACKEND_TYPES_PLAN_STATUS_DONE;
    return AETHEEL_BACKEND_TYPES_PLAN_STATUS_PENDING;
}

void plan(const Json &todos, Actions &out) {
    std::vector<aetheel_backend_types_plan_entry_t> entries;
    todos.each([&](const Json &todo) {
        auto status = static_cast<aetheel_backend_types_plan_status_t>(plan_status(todo));
        entries.push_back({copied(std::string_view(todo.text("description").value_or(""))), status});
    });
    out.event(AETHEEL_BACKEND_TYPES_EVENT_KIND_PLAN).val.plan = copied<aetheel_backend_types_list_plan_entry_t>(entries);
}

} // namespace

void tool_use(const Json &message, Actions &out) {
    std::string name = message.text("tool_name").value_or("");
    std::string_view kind = kind_of(name);
    Json input = message["parameters"];
    auto about = target(input, kind);
    auto described = kind == "bash" ? input.text("description") : std::nullopt;
    std::string shown;
    if (input.is_null()) {
        shown = "{}";
    } else {
        input.write(shown);
    }
    auto &start = out.event(AETHEEL_BACKEND_TYPES_EVENT_KIND_TOOL_START).val.tool_start;
    start.id = copied(std::string_view(message.text("tool_id").value_or("")));
    start.kind = copied(kind);
    start.native_name = copied(std::string_view(name));
    start.title = copied(std::string_view(title(described ? *described : about.value_or(""), name)));
    start.target = copied(about);
    start.input = copied(std::string_view(shown));
    if (name == "write_todos") plan(input["todos"], out);
}

void tool_result(const Json &message, Actions &out) {
    auto output = message.text("output");
    if (!output) output = message["error"].text("message");
    auto &end = out.event(AETHEEL_BACKEND_TYPES_EVENT_KIND_TOOL_END).val.tool_end;
    end.id = copied(std::string_view(message.text("tool_id").value_or("")));
    end.status = message.says("status", "success") ? AETHEEL_BACKEND_TYPES_TOOL_STATUS_OK
                 : message.says("status", "error") ? AETHEEL_BACKEND_TYPES_TOOL_STATUS_FAILED
                                                   : AETHEEL_BACKEND_TYPES_TOOL_STATUS_UNKNOWN;
    end.output = copied(output);
}
