#include "json.h"

#include <stdlib.h>

enum { MOST_DEEP = 128 };

// ---- checking, recursively to a depth of at most MOST_DEEP

struct reader {
    const char *at, *end;
    unsigned depth;
};

static void blanks(struct reader *reader) {
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\n' || *reader->at == '\r')) reader->at++;
}

static bool take(struct reader *reader, char byte) {
    if (reader->at == reader->end || *reader->at != byte) return false;
    reader->at++;
    return true;
}

static bool word(struct reader *reader, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length)) return false;
    reader->at += length;
    return true;
}

static int hex_digit(char byte) {
    if (byte >= '0' && byte <= '9') return byte - '0';
    if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
    return -1;
}

// Returns the value of four hexadecimal digits, or -1.
static int hex(const char *at, const char *end) {
    if (end - at < 4) return -1;
    int number = 0;
    for (int digit = 0; digit < 4; digit++) {
        if (hex_digit(at[digit]) < 0) return -1;
        number = number * 16 + hex_digit(at[digit]);
    }
    return number;
}

static bool is_high(int unit) { return unit >= 0xD800 && unit <= 0xDBFF; }
static bool is_low(int unit) { return unit >= 0xDC00 && unit <= 0xDFFF; }

static bool string(struct reader *reader) {
    if (!take(reader, '"')) return false;
    while (reader->at < reader->end) {
        unsigned char byte = (unsigned char)*reader->at++;
        if (byte == '"') return true;
        if (byte < 0x20) return false;
        if (byte != '\\') continue;
        if (reader->at == reader->end) return false;
        char escape = *reader->at++;
        if (escape == 'u') {
            int unit = hex(reader->at, reader->end);
            if (unit < 0 || is_low(unit)) return false;
            reader->at += 4;
            // An unpaired surrogate is invalid.
            if (is_high(unit)) {
                if (!word(reader, "\\u") || !is_low(hex(reader->at, reader->end))) return false;
                reader->at += 4;
            }
        } else if (!strchr("\"\\/bfnrt", escape) || !escape) {
            return false;
        }
    }
    return false;
}

static bool digits(struct reader *reader) {
    const char *start = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') reader->at++;
    return reader->at > start;
}

static bool number(struct reader *reader) {
    take(reader, '-');
    if (!take(reader, '0') && !digits(reader)) return false;
    if (take(reader, '.') && !digits(reader)) return false;
    if (take(reader, 'e') || take(reader, 'E')) {
        if (!take(reader, '+')) take(reader, '-');
        return digits(reader);
    }
    return true;
}

static bool value(struct reader *reader);

static bool members(struct reader *reader, char close, bool keyed) {
    blanks(reader);
    if (take(reader, close)) return true;
    for (;;) {
        blanks(reader);
        if (keyed) {
            if (!string(reader)) return false;
            blanks(reader);
            if (!take(reader, ':')) return false;
        }
        if (!value(reader)) return false;
        blanks(reader);
        if (take(reader, close)) return true;
        if (!take(reader, ',')) return false;
    }
}

static bool value(struct reader *reader) {
    blanks(reader);
    if (reader->at == reader->end) return false;
    bool good;
    switch (*reader->at) {
    case '{':
    case '[': {
        bool keyed = *reader->at++ == '{';
        if (++reader->depth >= MOST_DEEP) return false;
        good = members(reader, keyed ? '}' : ']', keyed);
        reader->depth--;
        return good;
    }
    case '"': return string(reader);
    case 't': return word(reader, "true");
    case 'f': return word(reader, "false");
    case 'n': return word(reader, "null");
    default: return number(reader);
    }
}

bool json_parse(struct text line, json *found) {
    struct reader reader = {line.at, line.at + line.length, 0};
    if (!value(&reader)) return false;
    blanks(&reader);
    if (reader.at != reader.end) return false;
    *found = text_trim(line);
    return true;
}

// ---- reading checked text, in which all brackets match

static json nothing(void) { return (json){"", 0}; }

static size_t string_end(json text, size_t at) {
    for (at++;; at++) {
        // Strings may be long, and access to later fields must skip them.
        const char *quote = memchr(text.at + at, '"', text.length - at);
        size_t end = (size_t)(quote - text.at), escapes = 0;
        while (text.at[end - 1 - escapes] == '\\') escapes++;
        if (escapes % 2 == 0) return end + 1;
        at = end;
    }
}

static size_t value_end(json text, size_t at) {
    size_t depth = 0;
    for (; at < text.length; at++) {
        switch (text.at[at]) {
        case '"':
            at = string_end(text, at) - 1;
            if (!depth) return at + 1;
            break;
        case '{':
        case '[': depth++; break;
        case '}':
        case ']':
            if (!depth) return at;
            if (!--depth) return at + 1;
            break;
        case ',':
            if (!depth) return at;
            break;
        }
    }
    return at;
}

static size_t skip(json text, size_t at, char also) {
    while (at < text.length && (text.at[at] == ' ' || text.at[at] == '\t' || text.at[at] == '\n' || text.at[at] == '\r' || text.at[at] == also)) at++;
    return at;
}

static json slice(json text, size_t from, size_t to) { return text_trim((json){text.at + from, to - from}); }

// Reads the member of an object or list at or after `at`, and advances `at`. Returns false at the
// end.
static bool member(json container, size_t *at, json *key, json *element) {
    *at = skip(container, *at, ',');
    if (*at >= container.length || container.at[*at] == '}' || container.at[*at] == ']') return false;
    if (key) {
        size_t end = string_end(container, *at);
        *key = slice(container, *at, end);
        *at = skip(container, end, ':');
    }
    size_t end = value_end(container, *at);
    *element = slice(container, *at, end);
    *at = end;
    return true;
}

bool json_is_object(json value) { return value.length && value.at[0] == '{'; }

bool json_is_null(json value) { return !value.length || value.at[0] == 'n'; }

json json_field(json value, const char *name) {
    json found = nothing(), key, element;
    if (!json_is_object(value)) return found;
    for (size_t at = 1; member(value, &at, &key, &element);) {
        if (json_is(key, name)) found = element;
    }
    return found;
}

json json_first(json list) {
    json element;
    size_t at = 1;
    return list.length && list.at[0] == '[' && member(list, &at, NULL, &element) ? element : nothing();
}

json json_next(json list, json element) {
    size_t at = (size_t)(element.at + element.length - list.at);
    return member(list, &at, NULL, &element) ? element : nothing();
}

// ---- strings and numbers

static size_t utf8(unsigned long letter, char out[4]) {
    if (letter < 0x80) return out[0] = (char)letter, 1;
    size_t more = letter < 0x800 ? 1 : letter < 0x10000 ? 2 : 3;
    for (size_t at = more; at; at--, letter >>= 6) out[at] = (char)(0x80 | (letter & 0x3F));
    out[0] = (char)((0xFF00 >> (more + 1)) | letter);
    return more + 1;
}

// Returns the next piece of a string: the text up to an escape, or one escape, stored in `escape`.
static struct text stretch(struct text *rest, char escape[4]) {
    const char *backslash = memchr(rest->at, '\\', rest->length);
    struct text plain = {rest->at, backslash ? (size_t)(backslash - rest->at) : rest->length};
    if (plain.length) {
        *rest = text_from(*rest, plain.length);
        return plain;
    }
    const char *end = rest->at + rest->length;
    size_t used = 2, length = 1;
    if (rest->at[1] == 'u') {
        unsigned long letter = (unsigned long)hex(rest->at + 2, end);
        used = 6;
        if (is_high((int)letter)) {
            letter = 0x10000 + ((letter - 0xD800) << 10) + (unsigned long)(hex(rest->at + 8, end) - 0xDC00);
            used = 12;
        }
        length = utf8(letter, escape);
    } else {
        const char *known = strchr("\"\"\\\\//b\bf\fn\nr\rt\t", rest->at[1]);
        escape[0] = known[1];
    }
    *rest = text_from(*rest, used);
    return (struct text){escape, length};
}

static bool unquoted(json value, struct text *inner) {
    if (!value.length || value.at[0] != '"') return false;
    *inner = (struct text){value.at + 1, value.length - 2};
    return true;
}

bool json_string(json value, struct buffer *out) {
    struct text rest;
    char escape[4];
    if (!unquoted(value, &rest)) return false;
    while (rest.length) buffer_add(out, stretch(&rest, escape));
    return true;
}

bool json_is(json value, const char *string) {
    struct text rest, left = text_of(string);
    char escape[4];
    if (!unquoted(value, &rest)) return false;
    while (rest.length) {
        struct text piece = stretch(&rest, escape);
        if (piece.length > left.length || memcmp(piece.at, left.at, piece.length)) return false;
        left = text_from(left, piece.length);
    }
    return !left.length;
}

bool json_count(json value, uint32_t *count) {
    if (!value.length || !(value.at[0] == '-' || (value.at[0] >= '0' && value.at[0] <= '9'))) return false;
    double number = 0;
    long scale = 0, exponent = 0;
    bool fraction = false, negative_exponent = false;
    size_t at = value.at[0] == '-';
    for (; at < value.length && (value.at[at] | 0x20) != 'e'; at++) {
        if (value.at[at] == '.') {
            fraction = true;
        } else {
            number = number * 10 + (value.at[at] - '0');
            scale -= fraction;
        }
    }
    for (at++; at < value.length; at++) {
        if (value.at[at] == '-') negative_exponent = true;
        // Larger exponents have no effect.
        if (value.at[at] >= '0' && value.at[at] <= '9' && exponent < 100000) exponent = exponent * 10 + (value.at[at] - '0');
    }
    for (scale += negative_exponent ? -exponent : exponent; scale < 0 && number > 0; scale++) number /= 10;
    for (; scale > 0 && number > 0 && number < 1e10; scale--) number *= 10;
    number = value.at[0] == '-' ? 0 : number + 0.5;
    *count = number >= (double)UINT32_MAX ? UINT32_MAX : (uint32_t)number;
    return true;
}

// ---- writing

struct field {
    struct text key;
    // The key without escapes, if it had any.
    struct buffer resolved;
    json value;
};

static int by_key(const void *left, const void *right) {
    const struct field *a = left, *b = right;
    size_t least = a->key.length < b->key.length ? a->key.length : b->key.length;
    int order = memcmp(a->key.at, b->key.at, least);
    if (!order) order = (a->key.length > b->key.length) - (a->key.length < b->key.length);
    // Keeps duplicates in order, because sorting may be unstable and the last duplicate counts.
    return order ? order : (a->value.at > b->value.at) - (a->value.at < b->value.at);
}

static bool same_key(const struct field *a, const struct field *b) {
    return a->key.length == b->key.length && !memcmp(a->key.at, b->key.at, a->key.length);
}

void json_quote(struct text text, struct buffer *out) {
    static const char digits[] = "0123456789abcdef";
    buffer_add(out, TEXT("\""));
    size_t written = 0;
    for (size_t at = 0; at < text.length; at++) {
        unsigned char byte = (unsigned char)text.at[at];
        if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
        buffer_add(out, (struct text){text.at + written, at - written});
        written = at + 1;
        const char *known = byte ? strchr("\"\"\\\\\bb\ff\nn\rr\tt", byte) : NULL;
        if (known) {
            buffer_add(out, (struct text){(char[]){'\\', known[1]}, 2});
        } else {
            buffer_add(out, (struct text){(char[]){'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]}, 6});
        }
    }
    buffer_add(out, text_from(text, written));
    buffer_add(out, TEXT("\""));
}

static void write_object(json value, struct buffer *out) {
    struct field *fields = NULL;
    size_t count = 0, room = 0;
    json key, element;
    for (size_t at = 1; member(value, &at, &key, &element);) {
        if (count == room) fields = grown(fields, (room += room / 2 + 8) * sizeof *fields);
        struct field *field = &fields[count++];
        *field = (struct field){.value = element};
        unquoted(key, &field->key);
        if (memchr(field->key.at, '\\', field->key.length)) {
            json_string(key, &field->resolved);
            field->key = buffer_text(&field->resolved);
        }
    }
    if (count) qsort(fields, count, sizeof *fields, by_key);
    const char *before = "";
    buffer_add(out, TEXT("{"));
    for (size_t at = 0; at < count; at++) {
        if (at + 1 < count && same_key(&fields[at], &fields[at + 1])) continue;
        buffer_add(out, text_of(before));
        json_quote(fields[at].key, out);
        buffer_add(out, TEXT(":"));
        json_write(fields[at].value, out);
        before = ",";
    }
    buffer_add(out, TEXT("}"));
    for (size_t at = 0; at < count; at++) buffer_clear(&fields[at].resolved);
    free(fields);
}

void json_write(json value, struct buffer *out) {
    struct buffer string = {0};
    if (!value.length) {
        buffer_add(out, TEXT("null"));
    } else if (value.at[0] == '{') {
        write_object(value, out);
    } else if (value.at[0] == '[') {
        buffer_add(out, TEXT("["));
        const char *before = "";
        for (json element = json_first(value); element.length; element = json_next(value, element)) {
            buffer_add(out, text_of(before));
            json_write(element, out);
            before = ",";
        }
        buffer_add(out, TEXT("]"));
    } else if (json_string(value, &string)) {
        json_quote(buffer_text(&string), out);
    } else {
        buffer_add(out, value);
    }
    buffer_clear(&string);
}
