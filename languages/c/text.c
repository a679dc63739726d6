#include "text.h"

#include <stdint.h>
#include <stdlib.h>

static bool is_blank(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

struct text text_of(const char *string) { return (struct text){string, strlen(string)}; }

struct text text_from(struct text text, size_t start) {
    if (start > text.length) start = text.length;
    return (struct text){text.at + start, text.length - start};
}

struct text text_trim(struct text text) {
    while (text.length && is_blank(text.at[0])) text = text_from(text, 1);
    while (text.length && is_blank(text.at[text.length - 1])) text.length--;
    return text;
}

bool text_equals(struct text text, const char *string) {
    return text.length == strlen(string) && !memcmp(text.at, string, text.length);
}

bool text_starts(struct text text, const char *beginning) {
    size_t length = strlen(beginning);
    return text.length >= length && !memcmp(text.at, beginning, length);
}

size_t text_find(struct text text, const char *words) {
    size_t length = strlen(words);
    const char *at = text.at, *end = text.at + text.length;
    // A line may have 8 MB, so `memchr` skips to the next first byte.
    while ((size_t)(end - at) >= length && (at = memchr(at, words[0], (size_t)(end - at) - length + 1))) {
        if (!memcmp(at, words, length)) return (size_t)(at - text.at);
        at++;
    }
    return SIZE_MAX;
}

bool text_has(struct text text, const char *words) { return text_find(text, words) != SIZE_MAX; }

struct text text_head(struct text text, size_t most) {
    if (text.length <= most) return text;
    // Continuation bytes of a character start with the bits 10.
    while (most && ((unsigned char)text.at[most] & 0xC0) == 0x80) most--;
    return (struct text){text.at, most};
}

bool text_line(struct text *rest, struct text *line) {
    if (!rest->length) return false;
    const char *end = memchr(rest->at, '\n', rest->length);
    size_t length = end ? (size_t)(end - rest->at) : rest->length;
    *line = (struct text){rest->at, length};
    *rest = text_from(*rest, length + 1);
    if (end && line->length && line->at[line->length - 1] == '\r') line->length--;
    return true;
}

struct text text_one_line(struct text text, size_t most, bool *shortened) {
    struct text first = {"", 0}, line;
    *shortened = false;
    while (text_line(&text, &line)) {
        line = text_trim(line);
        if (line.length && first.length) *shortened = true;
        if (*shortened) break;
        if (line.length) first = line;
    }
    struct text head = text_trim(text_head(first, most));
    *shortened |= head.length < first.length;
    return head;
}

void *grown(void *old, size_t bytes) {
    void *memory = realloc(old, bytes ? bytes : 1);
    if (!memory) __builtin_trap();
    return memory;
}

void buffer_add(struct buffer *buffer, struct text text) {
    if (text.length > SIZE_MAX / 2 - buffer->length) __builtin_trap();
    if (buffer->length + text.length > buffer->room) {
        buffer->room = buffer->length + text.length;
        buffer->room += buffer->room / 2;
        buffer->at = grown(buffer->at, buffer->room);
    }
    // `memcpy` from a null pointer is undefined, even for zero bytes.
    if (text.length) memcpy(buffer->at + buffer->length, text.at, text.length);
    buffer->length += text.length;
}

void buffer_number(struct buffer *buffer, unsigned long number) {
    char digits[24];
    size_t at = sizeof digits;
    do digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    buffer_add(buffer, (struct text){digits + at, sizeof digits - at});
}

void buffer_clear(struct buffer *buffer) {
    free(buffer->at);
    *buffer = (struct buffer){0};
}

struct text buffer_text(const struct buffer *buffer) { return (struct text){buffer->at ? buffer->at : "", buffer->length}; }
