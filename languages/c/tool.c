#include "tool.h"

#include <stdlib.h>

// Maximum length of a tool's title, in bytes.
enum { TITLE = 160 };

// The tools of Gemini CLI 0.61.0 and their unified kinds.
static const struct {
    const char *name, *kind;
} KINDS[] = {
    {"Bash", "bash"},                     {"run_shell_command", "bash"},
    {"list_background_processes", "bash"}, {"read_background_output", "bash"},
    {"read_file", "file_read"},
    {"read_many_files", "file_read"},     {"write_file", "file_write"},
    {"replace", "file_edit"},             {"glob", "file_search"},
    {"list_directory", "file_search"},    {"grep_search", "content_search"},
    {"search_file_content", "content_search"}, {"google_web_search", "web_search"},
    {"web_fetch", "web_fetch"},           {"invoke_agent", "agent_spawn"},
    {"write_todos", "todo"},              {"ask_user", "ask_user"},
    {"activate_skill", "skill"},
};

// The input fields with the target of a tool use. The first existing one is used.
static const struct {
    const char *kind, *fields[5];
} TARGETS[] = {
    {"bash", {"command"}},
    {"content_search", {"pattern", "path", "dir_path"}},
    {"file_search", {"pattern", "path", "dir_path"}},
    {"web_search", {"query"}},
    {"web_fetch", {"url", "prompt"}},
    {"agent_spawn", {"description", "agent_name"}},
    {NULL, {"file_path", "path", "absolute_path"}},
};

static const char *kind_of(struct text name) {
    for (size_t at = 0; at < sizeof KINDS / sizeof *KINDS; at++) {
        if (text_equals(name, KINDS[at].name)) return KINDS[at].kind;
    }
    return text_starts(name, "mcp_") || text_has(name, "___") ? "mcp" : "other";
}

static bool find_target(json input, const char *kind, struct buffer *target) {
    size_t row = 0;
    while (TARGETS[row].kind && strcmp(TARGETS[row].kind, kind)) row++;
    for (const char *const *field = TARGETS[row].fields; *field; field++) {
        if (json_string(json_field(input, *field), target)) return true;
    }
    return false;
}

static string title(struct text said, struct text name) {
    struct buffer title = {0};
    bool shortened;
    buffer_add(&title, text_one_line(said, TITLE, &shortened));
    if (shortened) buffer_add(&title, TEXT(" …"));
    if (!title.length) buffer_add(&title, name);
    return given(&title);
}

static void plan(json todos, struct actions *out) {
    aetheel_backend_types_plan_entry_t *entries = NULL;
    size_t count = 0, room = 0;
    for (json todo = json_first(todos); todo.length; todo = json_next(todos, todo)) {
        if (count == room) entries = grown(entries, (room = room * 2 + 8) * sizeof *entries);
        struct buffer text = {0};
        json status = json_field(todo, "status");
        json_string(json_field(todo, "description"), &text);
        entries[count++] = (aetheel_backend_types_plan_entry_t){
            .text = given(&text),
            .status = json_is(status, "in_progress")                                ? AETHEEL_BACKEND_TYPES_PLAN_STATUS_ACTIVE
                      : json_is(status, "completed") || json_is(status, "cancelled") ? AETHEEL_BACKEND_TYPES_PLAN_STATUS_DONE
                                                                                     : AETHEEL_BACKEND_TYPES_PLAN_STATUS_PENDING,
        };
    }
    event_kind *event = add_event(out, AETHEEL_BACKEND_TYPES_EVENT_KIND_PLAN);
    event->val.plan.ptr = entries;
    event->val.plan.len = count;
}

void tool_use(json message, struct actions *out) {
    struct buffer id = {0}, name = {0}, target = {0}, description = {0}, input = {0};
    json parameters = json_field(message, "parameters");
    json_string(json_field(message, "tool_id"), &id);
    json_string(json_field(message, "tool_name"), &name);
    const char *kind = kind_of(buffer_text(&name));
    bool known = find_target(parameters, kind, &target);
    bool described = !strcmp(kind, "bash") && json_string(json_field(parameters, "description"), &description);
    if (json_is_null(parameters)) {
        buffer_add(&input, TEXT("{}"));
    } else {
        json_write(parameters, &input);
    }

    bool todos = text_equals(buffer_text(&name), "write_todos");
    aetheel_backend_types_tool_start_t *start = &add_event(out, AETHEEL_BACKEND_TYPES_EVENT_KIND_TOOL_START)->val.tool_start;
    start->id = given(&id);
    start->kind = copied(text_of(kind));
    start->title = title(buffer_text(described ? &description : &target), buffer_text(&name));
    start->native_name = given(&name);
    start->target = (option_string){known, given(&target)};
    start->input = given(&input);
    buffer_clear(&description);
    if (todos) plan(json_field(parameters, "todos"), out);
}

void tool_result(json message, struct actions *out) {
    struct buffer id = {0}, output = {0};
    json status = json_field(message, "status");
    json_string(json_field(message, "tool_id"), &id);
    bool told = json_string(json_field(message, "output"), &output) || json_string(json_field(json_field(message, "error"), "message"), &output);
    aetheel_backend_types_tool_end_t *end = &add_event(out, AETHEEL_BACKEND_TYPES_EVENT_KIND_TOOL_END)->val.tool_end;
    end->id = given(&id);
    end->status = json_is(status, "success") ? AETHEEL_BACKEND_TYPES_TOOL_STATUS_OK
                  : json_is(status, "error") ? AETHEEL_BACKEND_TYPES_TOOL_STATUS_FAILED
                                             : AETHEEL_BACKEND_TYPES_TOOL_STATUS_UNKNOWN;
    end->output = (option_string){told, given(&output)};
}
