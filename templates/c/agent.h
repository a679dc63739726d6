// What {{name}} says: the meaning of its lines, whichever way it is run.
#pragma once

#include "actions.h"

// How a turn ended, as the agent told it. Owns what it holds until it is handed to the host.
struct result {
    aetheel_backend_types_outcome_t outcome;
    aetheel_backend_types_option_usage_t usage;
};

// Takes a line of output in. True: it told the end of the turn.
bool agent_line(const aetheel_backend_types_line_t *line, struct actions *out, struct result *result);

// All texts of a prompt, and where the files that came with it are.
void agent_prompt(const aetheel_backend_types_list_part_t *parts, struct buffer *prompt);

struct result result_of(uint8_t outcome, failure_kind kind, struct text message);
void add_end(struct actions *out, turn_ref turn, struct result result);
// Starts {{name}} with these arguments, ended by NULL. Every flag must be in descriptor.json, or the host refuses it.
aetheel_backend_types_spawn_t *add_spawn(struct actions *out, uint32_t proc, const struct text *arguments, size_t count);
