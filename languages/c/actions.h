// What the guest wants done, while it is being put together. The bindings free it all when the host has taken it, so every string
// in it is a copy of its own.
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
    // The turn that events are about.
    turn_ref turn;
};

string copied(struct text text);
// Takes the bytes over; the buffer is empty afterwards.
string given(struct buffer *buffer);
// None where there is no text to begin with.
option_string some(string string);

failure failed(failure_kind kind, string message);

// Adds an action or an event, to be filled in.
action *add(struct actions *actions, uint8_t tag);
event_kind *add_event(struct actions *actions, uint8_t tag);

void add_text(struct actions *actions, uint32_t part, struct text text, bool replace);
void add_notice(struct actions *actions, struct text text);
// Output this parser does not know: what in words without values, where it was (empty: nowhere special), and the output.
void add_unrecognised(struct actions *actions, string what, const char *path, struct text output);

// Writes text in quotes, for people; what could confuse a terminal is escaped.
void buffer_quote(struct buffer *buffer, struct text text);
