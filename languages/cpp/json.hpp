// Reads JSON without building a tree: values are parts of their line that are parsed on access.
// Only extracted strings are allocated, so that no line needs more memory than its size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

class Json {
  public:
    // Creates a missing value.
    Json() = default;

    // Parses a line. Returns none if it is invalid or has more than 127 levels.
    static std::optional<Json> parse(std::string_view line);

    // Returns the field of an object, or the last one of several with the same name. Returns a
    // missing value if there is no such field or this is not an object.
    Json operator[](std::string_view key) const;

    bool is_object() const { return text_.starts_with('{'); }
    bool is_true() const { return text_ == "true"; }
    // Also true for a missing value.
    bool is_null() const { return text_.empty() || text_ == "null"; }

    // Returns a string without escapes.
    std::optional<std::string> text() const;
    std::optional<std::string> text(std::string_view key) const { return (*this)[key].text(); }
    // Returns whether a field is this string.
    bool says(std::string_view key, std::string_view expected) const { return text(key) == expected; }

    // Returns a number as a count, rounded and limited to its range.
    std::optional<std::uint32_t> count(std::string_view key) const;

    // Appends the value in canonical form: without whitespace and with sorted keys.
    void write(std::string &out) const;

    // Calls a function with each element of a list.
    template <typename Callback> void each(Callback &&callback) const {
        if (!text_.starts_with('[')) return;
        Json element;
        for (std::size_t at = 1; member(at, nullptr, element);) callback(element);
    }

  private:
    explicit Json(std::string_view text) : text_(text) {}
    // Reads the member at or after `at` and advances `at`. Returns false at the end.
    bool member(std::size_t &at, Json *key, Json &element) const;
    void write_object(std::string &out) const;

    std::string_view text_;
};

// Removes ASCII whitespace at both ends.
std::string_view trim(std::string_view text);
// Appends text as a JSON string.
void quote(std::string &out, std::string_view text);
