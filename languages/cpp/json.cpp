#include "json.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace {

constexpr unsigned most_deep = 127;

bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }
bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }
bool is_high(int unit) { return unit >= 0xD800 && unit <= 0xDBFF; }
bool is_low(int unit) { return unit >= 0xDC00 && unit <= 0xDFFF; }

// Returns the value of four hexadecimal digits, or -1.
int hex(std::string_view text) {
    if (text.size() < 4) return -1;
    int number = 0;
    for (char byte : text.substr(0, 4)) {
        char lower = static_cast<char>(byte | 0x20);
        if (!is_digit(byte) && (lower < 'a' || lower > 'f')) return -1;
        number = number * 16 + (is_digit(byte) ? byte - '0' : lower - 'a' + 10);
    }
    return number;
}

// Checks a line recursively, to a depth of at most `most_deep`.
class Checker {
  public:
    explicit Checker(std::string_view rest) : rest_(rest) {}

    bool whole() {
        if (!value()) return false;
        blanks();
        return rest_.empty();
    }

  private:
    void blanks() {
        while (!rest_.empty() && is_blank(rest_[0])) rest_.remove_prefix(1);
    }

    bool take(std::string_view word) {
        if (!rest_.starts_with(word)) return false;
        rest_.remove_prefix(word.size());
        return true;
    }

    bool digits() {
        std::size_t count = 0;
        while (count < rest_.size() && is_digit(rest_[count])) count++;
        rest_.remove_prefix(count);
        return count > 0;
    }

    bool number() {
        take("-");
        if (!take("0") && !digits()) return false;
        if (take(".") && !digits()) return false;
        if (!take("e") && !take("E")) return true;
        if (!take("+")) take("-");
        return digits();
    }

    bool unit(bool (*fits)(int)) {
        if (!fits(hex(rest_))) return false;
        rest_.remove_prefix(4);
        return true;
    }

    bool escape() {
        if (take("u")) {
            if (unit([](int unit) { return unit >= 0 && !is_high(unit) && !is_low(unit); })) return true;
            // An unpaired surrogate is invalid.
            return unit(is_high) && take("\\u") && unit(is_low);
        }
        if (rest_.empty() || std::string_view("\"\\/bfnrt").find(rest_[0]) == std::string_view::npos) return false;
        rest_.remove_prefix(1);
        return true;
    }

    bool string() {
        if (!take("\"")) return false;
        while (!rest_.empty()) {
            auto byte = static_cast<unsigned char>(rest_[0]);
            rest_.remove_prefix(1);
            if (byte == '"') return true;
            if (byte < 0x20 || (byte == '\\' && !escape())) return false;
        }
        return false;
    }

    bool members(std::string_view close, bool keyed) {
        if (++depth_ > most_deep) return false;
        blanks();
        if (!take(close)) {
            do {
                blanks();
                if (keyed && !string()) return false;
                blanks();
                if (keyed && !take(":")) return false;
                if (!value()) return false;
                blanks();
            } while (take(","));
            if (!take(close)) return false;
        }
        depth_--;
        return true;
    }

    bool value() {
        blanks();
        if (take("{")) return members("}", true);
        if (take("[")) return members("]", false);
        if (rest_.starts_with('"')) return string();
        return take("true") || take("false") || take("null") || number();
    }

    std::string_view rest_;
    unsigned depth_ = 0;
};

// The functions below work on checked text, so all brackets match.
std::size_t string_end(std::string_view text, std::size_t at) {
    for (at++; text[at] != '"'; at++) {
        if (text[at] == '\\') at++;
    }
    return at + 1;
}

std::size_t value_end(std::string_view text, std::size_t at) {
    for (std::size_t depth = 0; at < text.size(); at++) {
        switch (text[at]) {
        case '"':
            at = string_end(text, at) - 1;
            if (depth == 0) return at + 1;
            break;
        case '{':
        case '[': depth++; break;
        case '}':
        case ']':
            if (depth == 0) return at;
            if (--depth == 0) return at + 1;
            break;
        case ',':
            if (depth == 0) return at;
            break;
        }
    }
    return at;
}

void add_utf8(std::string &out, unsigned letter) {
    if (letter < 0x80) {
        out += static_cast<char>(letter);
        return;
    }
    unsigned more = letter < 0x800 ? 1 : letter < 0x10000 ? 2 : 3;
    out += static_cast<char>((0xFF00U >> (more + 1)) | (letter >> (6 * more)));
    while (more--) out += static_cast<char>(0x80 | ((letter >> (6 * more)) & 0x3F));
}

} // namespace

void quote(std::string &out, std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef", raw = "\"\\\b\f\n\r\t", escaped = "\"\\bfnrt";
    out += '"';
    for (char letter : text) {
        auto byte = static_cast<unsigned char>(letter);
        if (auto known = raw.find(letter); known != std::string_view::npos) {
            out += {'\\', escaped[known]};
        } else if (byte < 0x20) {
            out += {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
        } else {
            out += letter;
        }
    }
    out += '"';
}

std::string_view trim(std::string_view text) {
    constexpr std::string_view blank = " \t\n\v\f\r";
    auto start = text.find_first_not_of(blank);
    return start == std::string_view::npos ? std::string_view() : text.substr(start, text.find_last_not_of(blank) - start + 1);
}

std::optional<Json> Json::parse(std::string_view line) {
    if (!Checker(line).whole()) return std::nullopt;
    return Json(trim(line));
}

bool Json::member(std::size_t &at, Json *key, Json &element) const {
    auto skip = [&](char also) {
        while (at < text_.size() && (is_blank(text_[at]) || text_[at] == also)) at++;
    };
    skip(',');
    if (at >= text_.size() || text_[at] == '}' || text_[at] == ']') return false;
    if (key) {
        std::size_t end = string_end(text_, at);
        *key = Json(text_.substr(at, end - at));
        at = end;
        skip(':');
    }
    std::size_t end = value_end(text_, at);
    element = Json(trim(text_.substr(at, end - at)));
    at = end;
    return true;
}

Json Json::operator[](std::string_view name) const {
    Json found, key, element;
    if (!is_object()) return found;
    for (std::size_t at = 1; member(at, &key, element);) {
        // Most keys have no escapes.
        std::string_view plain = key.text_.substr(1, key.text_.size() - 2);
        if (plain == name || (plain.find('\\') != std::string_view::npos && key.text() == name)) found = element;
    }
    return found;
}

std::optional<std::string> Json::text() const {
    if (!text_.starts_with('"')) return std::nullopt;
    std::string_view rest = text_.substr(1, text_.size() - 2);
    std::string out;
    out.reserve(rest.size());
    while (!rest.empty()) {
        auto plain = rest.substr(0, rest.find('\\'));
        out += plain;
        rest.remove_prefix(plain.size());
        if (rest.empty()) break;
        if (rest[1] != 'u') {
            constexpr std::string_view escaped = "bfnrt", raw = "\b\f\n\r\t";
            auto known = escaped.find(rest[1]);
            out += known == std::string_view::npos ? rest[1] : raw[known];
            rest.remove_prefix(2);
            continue;
        }
        auto letter = static_cast<unsigned>(hex(rest.substr(2)));
        if (is_high(static_cast<int>(letter))) {
            letter = 0x10000 + ((letter - 0xD800) << 10) + static_cast<unsigned>(hex(rest.substr(8)) - 0xDC00);
            rest.remove_prefix(6);
        }
        add_utf8(out, letter);
        rest.remove_prefix(6);
    }
    return out;
}

std::optional<std::uint32_t> Json::count(std::string_view key) const {
    std::string_view digits = (*this)[key].text_;
    if (digits.empty() || !(digits[0] == '-' || is_digit(digits[0]))) return std::nullopt;
    // `strtod` would add its tables, and a count does not need its precision.
    double number = 0;
    long scale = 0, exponent = 0;
    bool fraction = false;
    auto power = digits.find_first_of("eE");
    for (char digit : digits.substr(0, power)) {
        if (digit == '.') fraction = true;
        if (!is_digit(digit)) continue;
        number = number * 10 + (digit - '0');
        scale -= fraction;
    }
    if (power != std::string_view::npos) {
        // Larger exponents have no effect.
        for (char digit : digits.substr(power)) {
            if (is_digit(digit) && exponent < 100000) exponent = exponent * 10 + (digit - '0');
        }
        if (digits.substr(power).find('-') != std::string_view::npos) exponent = -exponent;
    }
    for (scale += exponent; scale < 0 && number > 0; scale++) number /= 10;
    for (; scale > 0 && number > 0 && number < 1e10; scale--) number *= 10;
    if (digits[0] == '-') return 0;
    return number + 0.5 >= double(UINT32_MAX) ? UINT32_MAX : static_cast<std::uint32_t>(number + 0.5);
}

void Json::write_object(std::string &out) const {
    std::vector<std::pair<std::string, Json>> fields;
    Json key, element;
    for (std::size_t at = 1; member(at, &key, element);) fields.emplace_back(*key.text(), element);
    // The last duplicate counts, so the sort must be stable.
    std::stable_sort(fields.begin(), fields.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    std::string_view before = "{";
    for (std::size_t at = 0; at < fields.size(); at++) {
        if (at + 1 < fields.size() && fields[at].first == fields[at + 1].first) continue;
        out += before;
        quote(out, fields[at].first);
        out += ':';
        fields[at].second.write(out);
        before = ",";
    }
    out += fields.empty() ? "{}" : "}";
}

void Json::write(std::string &out) const {
    if (is_object()) {
        write_object(out);
    } else if (text_.starts_with('[')) {
        std::string_view before = "";
        out += '[';
        each([&](const Json &element) {
            out += before;
            element.write(out);
            before = ",";
        });
        out += ']';
    } else if (auto string = text()) {
        quote(out, *string);
    } else {
        out += text_.empty() ? "null" : text_;
    }
}
