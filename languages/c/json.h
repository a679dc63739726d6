// Reading JSON without building a tree of it: values are stretches of the line they stand in, looked into when asked. Nothing
// is allocated but the strings that are taken out, so that no line, however strange, needs more than its own size.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "text.h"

// A stretch of text that was checked with `json_parse`; an empty one is a value that is not there.
typedef struct text json;

// Makes a value of a whole line. False: it is not JSON, or nested more than 128 deep.
bool json_parse(struct text line, json *value);

// Field of an object, of duplicates the last; not there when `value` is no object or has no such field.
json json_field(json value, const char *key);

bool json_is_object(json value);
// Also of a value that is not there.
bool json_is_null(json value);

// The elements of a list one by one: `for (json at = json_first(list); at.length; at = json_next(list, at))`.
json json_first(json list);
json json_next(json list, json element);

// Takes a string out, its escapes resolved. False, and no text: it is no string.
bool json_string(json value, struct buffer *out);
// Whether a value is this string.
bool json_is(json value, const char *string);

// Reads a number as a count: fractions are rounded, negative numbers are 0, large ones UINT32_MAX. False: it is no number.
bool json_count(json value, uint32_t *count);

// Writes a value without blanks and with sorted keys, so that what means the same looks the same.
void json_write(json value, struct buffer *out);
// Writes text as a JSON string.
void json_quote(struct text text, struct buffer *out);
