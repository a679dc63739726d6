// One turn with Gemini CLI: the process to start, and the parser of its output.
#pragma once

#include "actions.h"
#include "answer.h"
#include "json.h"

// The end of a turn, as reported by the agent.
struct result {
    aetheel_backend_types_outcome_t outcome;
    option_string text;
    aetheel_backend_types_option_usage_t usage;
};

struct gemini {
    // The session to resume.
    bool resumes;
    struct buffer resumed;
    // A new session without history. It is not saved if the first model request fails.
    bool unkept, has_model;
    struct buffer id, model;
    struct answer answer;
    // The last reported error.
    bool has_error;
    struct buffer error;
};

// Adds the process for a turn. Returns false and sets `why` if the turn must fail.
bool gemini_plan(struct gemini *gemini, const aetheel_backend_types_start_turn_t *start, uint32_t proc, struct actions *out, failure *why);

// Handles a line of output. Returns true if it has a result.
bool gemini_line(struct gemini *gemini, const aetheel_backend_types_line_t *line, struct actions *out, struct result *result);
