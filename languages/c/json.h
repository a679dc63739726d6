// Reads JSON without building a tree: values are parts of their line that are parsed on access.
// Only extracted strings are allocated, so that no line needs more memory than its size.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "text.h"

// A part of a text that `json_parse` checked. It is empty for a missing value.
typedef struct text json;

// Parses a line. Returns false if it is invalid or has more than 128 levels.
bool json_parse(struct text line, json *value);

// Returns the field of an object, or the last one of several with the same name. Returns a missing
// value if there is no such field or `value` is not an object.
json json_field(json value, const char *key);

bool json_is_object(json value);
// Also true for a missing value.
bool json_is_null(json value);

// Iterates over a list: `for (json at = json_first(list); at.length; at = json_next(list, at))`.
json json_first(json list);
json json_next(json list, json element);

// Reads a string without escapes. Returns false if the value is not a string.
bool json_string(json value, struct buffer *out);
// Returns whether a value is this string.
bool json_is(json value, const char *string);

// Reads a number as a count, rounded and limited to its range. Returns false if it is not a number.
bool json_count(json value, uint32_t *count);

// Writes a value in canonical form: without whitespace and with sorted keys.
void json_write(json value, struct buffer *out);
// Writes text as a JSON string.
void json_quote(struct text text, struct buffer *out);
