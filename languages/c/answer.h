// Splits an answer into parts. A part ends where a tool use begins.
#pragma once

#include "actions.h"

struct answer {
    uint32_t parts;
    // Whether more text belongs to the last part.
    bool open;
    // The text since the last tool use, its first piece, its parts, and the time of its last piece.
    struct buffer tail, first;
    uint32_t *shown;
    size_t shown_count;
    double at_ms;
};

void answer_more(struct answer *answer, struct text text, struct actions *out);
// Called before a piece of text. If it repeats the answer after a pause, the old text is withdrawn.
void answer_again(struct answer *answer, double at_ms, struct text text, struct actions *out);
// Starts a tool use. Text before a tool use is not part of the final answer.
void answer_tool(struct answer *answer);
// Returns the final answer, or none if it consists of the parts in order.
option_string answer_finish(struct answer *answer);
