// The actions that the guest collects. The bindings free them after the host has received them, so
// every string in them must be a copy.
#pragma once

#include "agent_backend.h"
#include "text.h"

typedef agent_backend_string_t string;
typedef agent_backend_option_string_t option_string;
typedef aetheel_backend_types_action_t action;
typedef aetheel_backend_types_event_kind_t event_kind;
typedef aetheel_backend_types_failure_t failure;
typedef aetheel_backend_types_failure_kind_t failure_kind;
typedef aetheel_backend_types_turn_ref_t turn_ref;

struct actions {
    action *at;
    size_t count, room;
    // The turn of the events.
    turn_ref turn;
};

string copied(struct text text);
// Moves the bytes into a string. The buffer is empty afterwards.
string given(struct buffer *buffer);
// Returns none for a string without data.
option_string some(string string);

failure failed(failure_kind kind, string message);

// Adds an action or an event, which the caller completes.
action *add(struct actions *actions, uint8_t tag);
event_kind *add_event(struct actions *actions, uint8_t tag);

void add_text(struct actions *actions, uint32_t part, struct text text, bool replace);
void add_notice(struct actions *actions, struct text text);
// Reports unknown output: a description without values, the path of the field or "", and the
// output.
void add_unrecognised(struct actions *actions, string what, const char *path, struct text output);

// Writes quoted text for users. Control characters are escaped.
void buffer_quote(struct buffer *buffer, struct text text);
