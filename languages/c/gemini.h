// Gemini CLI, as it speaks in one turn: what to start, and what its lines mean.
#pragma once

#include "actions.h"
#include "answer.h"
#include "json.h"

// What the agent said the turn came to.
struct result {
    aetheel_backend_types_outcome_t outcome;
    option_string text;
    aetheel_backend_types_option_usage_t usage;
};

struct gemini {
    // The session that was to be continued.
    bool resumes;
    struct buffer resumed;
    // A new session that has no history yet: one whose first turn fails at the model is not kept.
    bool unkept, has_model;
    struct buffer id, model;
    struct answer answer;
    // The last error it told.
    bool has_error;
    struct buffer error;
};

// Adds the process for a turn. False: `why` tells why there is none.
bool gemini_plan(struct gemini *gemini, const aetheel_backend_types_start_turn_t *start, uint32_t proc, struct actions *out, failure *why);

// Takes a line in. True: it told a result.
bool gemini_line(struct gemini *gemini, const aetheel_backend_types_line_t *line, struct actions *out, struct result *result);
