// Text: stretches of somebody else's bytes, and buffers that own theirs.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

// Some bytes of UTF-8 that somebody else owns. Not ended by NUL: lines may hold one.
struct text {
    const char *at;
    size_t length;
};

// Of a literal.
#define TEXT(literal) ((struct text){"" literal, sizeof(literal) - 1})

struct text text_of(const char *string);
struct text text_trim(struct text text);
bool text_equals(struct text text, const char *string);
bool text_starts(struct text text, const char *beginning);
// Where `words` begin, or SIZE_MAX.
size_t text_find(struct text text, const char *words);
bool text_has(struct text text, const char *words);
struct text text_from(struct text text, size_t start);
// The longest beginning of at most so many bytes that cuts no character.
struct text text_head(struct text text, size_t most);
// Cuts the first line off `rest`. False: there is none left.
bool text_line(struct text *rest, struct text *line);
// One line for people: the first with something in it, shortened, with an ellipsis where something was left out.
struct text text_one_line(struct text text, size_t most, bool *shortened);

// Bytes that grow. All zero is an empty one; memory that cannot be had ends the guest, which the host takes for a crash.
struct buffer {
    char *at;
    size_t length;
    size_t room;
};

void *grown(void *old, size_t bytes);
void buffer_add(struct buffer *buffer, struct text text);
void buffer_number(struct buffer *buffer, unsigned long number);
void buffer_clear(struct buffer *buffer);
struct text buffer_text(const struct buffer *buffer);
