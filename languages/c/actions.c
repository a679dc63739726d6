#include "actions.h"

#include <stdlib.h>

// Maximum length of the output in an `unrecognised` event, in bytes, as in the contract.
enum { SAMPLE = 2048 };

string given(struct buffer *buffer) {
    string string = {(uint8_t *)buffer->at, buffer->length};
    // The bindings only free non-empty strings.
    if (!buffer->length) free(buffer->at);
    *buffer = (struct buffer){0};
    return string;
}

string copied(struct text text) {
    struct buffer buffer = {0};
    buffer_add(&buffer, text);
    return given(&buffer);
}

option_string some(string string) { return (option_string){true, string}; }

failure failed(failure_kind kind, string message) { return (failure){.kind = kind, .message = message}; }

action *add(struct actions *actions, uint8_t tag) {
    if (actions->count == actions->room) {
        actions->room = actions->room * 2 + 8;
        actions->at = grown(actions->at, actions->room * sizeof *actions->at);
    }
    action *added = &actions->at[actions->count++];
    memset(added, 0, sizeof *added);
    added->tag = tag;
    return added;
}

event_kind *add_event(struct actions *actions, uint8_t tag) {
    aetheel_backend_types_event_t *event = &add(actions, AETHEEL_BACKEND_TYPES_ACTION_EVENT)->val.event;
    event->session = actions->turn.session;
    event->turn = actions->turn.turn;
    event->kind.tag = tag;
    return &event->kind;
}

void add_text(struct actions *actions, uint32_t part, struct text text, bool replace) {
    aetheel_backend_types_text_t *added = &add_event(actions, AETHEEL_BACKEND_TYPES_EVENT_KIND_TEXT)->val.text;
    added->part = part;
    added->text = copied(text);
    added->replace = replace;
}

void add_notice(struct actions *actions, struct text text) {
    aetheel_backend_types_notice_t *added = &add_event(actions, AETHEEL_BACKEND_TYPES_EVENT_KIND_NOTICE)->val.notice;
    added->level = AETHEEL_BACKEND_TYPES_LEVEL_INFO;
    added->text = copied(text);
}

void add_unrecognised(struct actions *actions, string what, const char *path, struct text output) {
    aetheel_backend_types_unrecognised_t *added = &add_event(actions, AETHEEL_BACKEND_TYPES_EVENT_KIND_UNRECOGNISED)->val.unrecognised;
    added->difference = AETHEEL_BACKEND_TYPES_DIFFERENCE_UNKNOWN;
    added->what = what;
    if (*path) added->path = some(copied(text_of(path)));
    added->sample = copied(text_head(output, SAMPLE));
}

void buffer_quote(struct buffer *buffer, struct text text) {
    buffer_add(buffer, TEXT("\""));
    for (size_t at = 0; at < text.length; at++) {
        unsigned char byte = (unsigned char)text.at[at];
        if (byte < 0x20 || byte == 0x7F) {
            buffer_add(buffer, TEXT("?"));
        } else {
            if (byte == '"' || byte == '\\') buffer_add(buffer, TEXT("\\"));
            buffer_add(buffer, (struct text){text.at + at, 1});
        }
    }
    buffer_add(buffer, TEXT("\""));
}
