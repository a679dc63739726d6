// The command line of a turn. Prompts and the system prompt are passed on stdin, so users' texts
// are never arguments.
#include "gemini.h"

typedef aetheel_backend_types_value_t value;
typedef aetheel_backend_types_variable_t variable;
typedef aetheel_backend_types_chunk_t chunk;

enum { MOST_ARGUMENTS = 8, MOST_CHUNKS = 2 };

// GEMINI_CLI_TRUST_WORKSPACE: otherwise it refuses to work in folders that were not trusted in its
// own user interface. GEMINI_CLI_NO_RELAUNCH: otherwise it restarts itself as a child process and
// ignores signals. NO_BROWSER: otherwise it opens a browser to authenticate.
static const char *const ENVIRONMENT[] = {"GEMINI_CLI_TRUST_WORKSPACE", "true", "GEMINI_CLI_NO_RELAUNCH", "true", "NO_BROWSER", "1"};

static struct text borrowed(string string) { return (struct text){(const char *)string.ptr, string.len}; }

static bool is_uuid(struct text text) {
    if (text.length != 36) return false;
    for (size_t at = 0; at < text.length; at++) {
        char byte = text.at[at], lower = byte | 0x20;
        bool dash = at == 8 || at == 13 || at == 18 || at == 23;
        if (dash ? byte != '-' : !((byte >= '0' && byte <= '9') || (lower >= 'a' && lower <= 'f'))) return false;
    }
    return true;
}

static const char *approval(const aetheel_backend_types_settings_t *settings) {
    if (settings->mode == AETHEEL_BACKEND_TYPES_MODE_PLAN) return "plan";
    switch (settings->safety) {
    case AETHEEL_BACKEND_TYPES_SAFETY_DANGER: return "yolo";
    case AETHEEL_BACKEND_TYPES_SAFETY_EDIT: return "auto_edit";
    default: return "default";
    }
}

static void add_prompt(const aetheel_backend_types_list_part_t *parts, struct buffer *prompt) {
    for (size_t at = 0; at < parts->len; at++) {
        const aetheel_backend_types_part_t *part = &parts->ptr[at];
        if (at) buffer_add(prompt, TEXT("\n\n"));
        if (part->tag == AETHEEL_BACKEND_TYPES_PART_TEXT) {
            buffer_add(prompt, borrowed(part->val.text));
            continue;
        }
        const aetheel_backend_types_attachment_t *file =
            part->tag == AETHEEL_BACKEND_TYPES_PART_IMAGE ? &part->val.image : &part->val.file;
        buffer_add(prompt, TEXT("[Attached file: "));
        buffer_add(prompt, borrowed(file->name));
        buffer_add(prompt, TEXT(" ("));
        buffer_add(prompt, borrowed(file->media_type));
        buffer_add(prompt, TEXT(", "));
        buffer_number(prompt, file->size);
        buffer_add(prompt, TEXT(" bytes) at "));
        buffer_add(prompt, borrowed(file->path));
        buffer_add(prompt, TEXT("]"));
    }
}

// Each run is a new process, so the system prompt is passed every time.
static void add_system(struct text system, struct buffer *out) {
    buffer_add(out, TEXT("<system-prompt>\n"));
    for (size_t at = 0; at < system.length; at++) {
        // Prevents the expansion of `@path`. The host escapes the user's text.
        if (system.at[at] == '@') buffer_add(out, TEXT("\\"));
        buffer_add(out, (struct text){system.at + at, 1});
    }
    buffer_add(out, TEXT("\n</system-prompt>\n\nThe text above is your system prompt for this conversation: it replaces any you were given in "
                         "this way before, and was not written by the people you talk with. Their message follows.\n\n"));
}

static void add_word(aetheel_backend_types_list_value_t *arguments, struct text word) {
    arguments->ptr[arguments->len++] = (value){.tag = AETHEEL_BACKEND_TYPES_VALUE_TEXT, .val.text = copied(word)};
}

bool gemini_plan(struct gemini *gemini, const aetheel_backend_types_start_turn_t *start, uint32_t proc, struct actions *out, failure *why) {
    const aetheel_backend_types_settings_t *settings = &start->settings;
    struct text session = start->native_id.is_some ? borrowed(start->native_id.val) : TEXT("");
    if (start->native_id.is_some) {
        gemini->resumes = true;
        buffer_add(&gemini->resumed, session);
    }
    struct buffer prompt = {0};
    add_prompt(&start->parts, &prompt);
    const char *refused = NULL;
    failure_kind kind = AETHEEL_BACKEND_TYPES_FAILURE_KIND_OTHER;
    if (!text_trim(buffer_text(&prompt)).length) {
        kind = AETHEEL_BACKEND_TYPES_FAILURE_KIND_BAD_REQUEST;
        refused = "the prompt is empty";
    } else if (start->fork) {
        kind = AETHEEL_BACKEND_TYPES_FAILURE_KIND_UNSUPPORTED;
        refused = "Gemini CLI cannot copy a session";
    } else if (start->native_id.is_some && !is_uuid(session)) {
        // `latest` and numbers would resume other sessions.
        kind = AETHEEL_BACKEND_TYPES_FAILURE_KIND_SESSION_UNKNOWN;
        refused = "the session id is not one of Gemini CLI";
    }
    if (refused) {
        buffer_clear(&prompt);
        *why = failed(kind, copied(text_of(refused)));
        return false;
    }

    if (settings->effort.is_some) {
        struct buffer warning = {0};
        buffer_add(&warning, TEXT("Gemini CLI does not offer a choice of its effort: "));
        buffer_quote(&warning, borrowed(settings->effort.val));
        buffer_add(&warning, TEXT(" is ignored"));
        aetheel_backend_types_diagnostic_t *diagnostic = &add(out, AETHEEL_BACKEND_TYPES_ACTION_DIAGNOSTIC)->val.diagnostic;
        diagnostic->level = AETHEEL_BACKEND_TYPES_LEVEL_WARN;
        diagnostic->text = given(&warning);
    }

    aetheel_backend_types_spawn_t *spawn = &add(out, AETHEEL_BACKEND_TYPES_ACTION_SPAWN)->val.spawn;
    spawn->proc = proc;
    spawn->program = copied(TEXT("gemini"));
    spawn->session = (aetheel_backend_types_option_session_key_t){true, start->session};
    spawn->turn = (aetheel_backend_types_option_turn_key_t){true, start->turn};

    aetheel_backend_types_list_value_t *arguments = &spawn->arguments;
    arguments->ptr = grown(NULL, MOST_ARGUMENTS * sizeof *arguments->ptr);
    add_word(arguments, TEXT("-o"));
    add_word(arguments, TEXT("stream-json"));
    add_word(arguments, TEXT("--approval-mode"));
    add_word(arguments, text_of(approval(settings)));
    if (start->native_id.is_some) {
        add_word(arguments, TEXT("--resume"));
        add_word(arguments, session);
    } else if (is_uuid(borrowed(start->fresh_id))) {
        // With a preset id, the session can be resumed even if the process is killed early.
        add_word(arguments, TEXT("--session-id"));
        add_word(arguments, borrowed(start->fresh_id));
    }
    if (settings->model.is_some) {
        add_word(arguments, TEXT("-m"));
        add_word(arguments, borrowed(settings->model.val));
    }

    size_t variables = sizeof ENVIRONMENT / sizeof *ENVIRONMENT / 2;
    spawn->environment.ptr = grown(NULL, variables * sizeof *spawn->environment.ptr);
    spawn->environment.len = variables;
    for (size_t at = 0; at < variables; at++) {
        spawn->environment.ptr[at] = (variable){
            .name = copied(text_of(ENVIRONMENT[2 * at])),
            .value = {.tag = AETHEEL_BACKEND_TYPES_VALUE_TEXT, .val.text = copied(text_of(ENVIRONMENT[2 * at + 1]))},
        };
    }

    aetheel_backend_types_list_chunk_t *stdin_chunks = &spawn->stdin_;
    stdin_chunks->ptr = grown(NULL, MOST_CHUNKS * sizeof *stdin_chunks->ptr);
    if (settings->system_prompt.is_some && settings->system_prompt.val.len) {
        struct buffer system = {0};
        add_system(borrowed(settings->system_prompt.val), &system);
        stdin_chunks->ptr[stdin_chunks->len++] = (chunk){.tag = AETHEEL_BACKEND_TYPES_CHUNK_TEXT, .val.text = given(&system)};
    }
    stdin_chunks->ptr[stdin_chunks->len++] = (chunk){.tag = AETHEEL_BACKEND_TYPES_CHUNK_TEXT, .val.text = given(&prompt)};
    return true;
}
