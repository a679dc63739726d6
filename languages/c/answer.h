// Which text belongs to which part of the answer: a part ends where a tool begins.
#pragma once

#include "actions.h"

struct answer {
    uint32_t parts;
    // More text goes on with the last part.
    bool open;
    // What was said since the last tool use: its text, the first piece of it, the parts it stands in, and when a piece came.
    struct buffer tail, first;
    uint32_t *shown;
    size_t shown_count;
    double at_ms;
};

void answer_more(struct answer *answer, struct text text, struct actions *out);
// A piece of text is about to come. Where it begins the answer a second time after a pause, what was said is withdrawn.
void answer_again(struct answer *answer, double at_ms, struct text text, struct actions *out);
// A tool use began: what was said before it is no part of the final answer.
void answer_tool(struct answer *answer);
// Takes the final answer; none: the parts in order.
option_string answer_finish(struct answer *answer);
