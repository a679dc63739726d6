// Borrowed texts, and buffers that own their bytes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

// Borrowed UTF-8. Not terminated by NUL, because lines may contain NUL bytes.
struct text {
    const char *at;
    size_t length;
};

// Makes a text of a literal.
#define TEXT(literal) ((struct text){"" literal, sizeof(literal) - 1})

struct text text_of(const char *string);
struct text text_trim(struct text text);
bool text_equals(struct text text, const char *string);
bool text_starts(struct text text, const char *beginning);
// Returns the position of `words`, or SIZE_MAX.
size_t text_find(struct text text, const char *words);
bool text_has(struct text text, const char *words);
struct text text_from(struct text text, size_t start);
// Returns the longest beginning with at most `most` bytes that does not split a character.
struct text text_head(struct text text, size_t most);
// Removes the first line from `rest`. Returns false at the end.
bool text_line(struct text *rest, struct text *line);
// Returns the first non-empty line for users, shortened if necessary.
struct text text_one_line(struct text text, size_t most, bool *shortened);

// A growing buffer. Zeroed memory is an empty one. Without memory, the guest traps.
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
