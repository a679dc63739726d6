#include "answer.h"

// Minimum pause before a retry, in milliseconds: Gemini CLI 0.61.0 waits 1 s, then 2 s, then 4 s.
static const double RETRY_PAUSE_MS = 900;
// Minimum length in bytes of the common beginning of a repeated answer.
enum { ALIKE = 8 };

void answer_more(struct answer *answer, struct text text, struct actions *out) {
    if (!text.length) return;
    if (!answer->open) answer->parts++;
    answer->open = true;
    uint32_t part = answer->parts - 1;
    if (!answer->tail.length) {
        answer->first.length = 0;
        buffer_add(&answer->first, text);
    }
    if (!answer->shown_count || answer->shown[answer->shown_count - 1] != part) {
        answer->shown = grown(answer->shown, (answer->shown_count + 1) * sizeof *answer->shown);
        answer->shown[answer->shown_count++] = part;
    }
    buffer_add(&answer->tail, text);
    add_text(out, part, text, false);
}

void answer_again(struct answer *answer, double at_ms, struct text text, struct actions *out) {
    double pause = at_ms - answer->at_ms;
    answer->at_ms = at_ms;
    // After a connection error, Gemini CLI 0.61.0 asks the model again, and sends the new answer
    // without withdrawing the old one. If the new answer begins with other words, it cannot be
    // distinguished from a continuation.
    size_t least = text.length < answer->first.length ? text.length : answer->first.length;
    if (!answer->tail.length || pause < RETRY_PAUSE_MS || least < ALIKE || memcmp(text.at, answer->first.at, least)) return;
    for (size_t at = 0; at < answer->shown_count; at++) add_text(out, answer->shown[at], (struct text){"", 0}, true);
    answer_tool(answer);
}

void answer_tool(struct answer *answer) {
    answer->open = false;
    answer->tail.length = 0;
    answer->shown_count = 0;
}

option_string answer_finish(struct answer *answer) {
    string text = given(&answer->tail);
    return (option_string){text.len > 0, text};
}
