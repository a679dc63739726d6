// Parses the output of {{name}}, for both ways to run it.
#pragma once

#include "actions.h"

// The end of a turn, as reported by the agent. Owns its data until it is passed to the host.
struct result {
    aetheel_backend_types_outcome_t outcome;
    aetheel_backend_types_option_usage_t usage;
};

// Handles a line of output. Returns true if it ended the turn.
bool agent_line(const aetheel_backend_types_line_t *line, struct actions *out, struct result *result);

// Collects the texts of a prompt, and the paths of its files.
void agent_prompt(const aetheel_backend_types_list_part_t *parts, struct buffer *prompt);

struct result result_of(uint8_t outcome, failure_kind kind, struct text message);
void add_end(struct actions *out, turn_ref turn, struct result result);
// Starts {{name}} with these arguments. The host refuses flags that are not in descriptor.json.
aetheel_backend_types_spawn_t *add_spawn(struct actions *out, uint32_t proc, const struct text *arguments, size_t count);
