// Reading JSON without building a tree of it: values are stretches of the line they stand in, looked into when asked. Nothing is
// allocated but the strings that are taken out, so that no line, however strange, needs more than its own size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

class Json {
  public:
    // A value that is not there.
    Json() = default;

    // Makes a value of a whole line; none: it is not JSON, or nested more than 127 deep.
    static std::optional<Json> parse(std::string_view line);

    // Field of an object, of duplicates the last; not there when this is no object or has no such field.
    Json operator[](std::string_view key) const;

    bool is_object() const { return text_.starts_with('{'); }
    bool is_true() const { return text_ == "true"; }
    // Also of a value that is not there.
    bool is_null() const { return text_.empty() || text_ == "null"; }

    // A string, its escapes resolved.
    std::optional<std::string> text() const;
    std::optional<std::string> text(std::string_view key) const { return (*this)[key].text(); }
    // Whether a field is this string.
    bool says(std::string_view key, std::string_view expected) const { return text(key) == expected; }

    // A number as a count: fractions are rounded, negative numbers are 0, large ones the largest there is.
    std::optional<std::uint32_t> count(std::string_view key) const;

    // Adds it without blanks and with sorted keys, so that what means the same looks the same.
    void write(std::string &out) const;

    // Calls back with every element of a list.
    template <typename Callback> void each(Callback &&callback) const {
        if (!text_.starts_with('[')) return;
        Json element;
        for (std::size_t at = 1; member(at, nullptr, element);) callback(element);
    }

  private:
    explicit Json(std::string_view text) : text_(text) {}
    // The member at or after `at`, which moves behind it. False: there is none.
    bool member(std::size_t &at, Json *key, Json &element) const;
    void write_object(std::string &out) const;

    std::string_view text_;
};

// Cuts blanks of ASCII off both ends.
std::string_view trim(std::string_view text);
// Adds text as a JSON string.
void quote(std::string &out, std::string_view text);
