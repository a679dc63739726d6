#include <algorithm>

#include "gemini.hpp"

namespace {
// Minimum pause before a retry, in milliseconds: Gemini CLI 0.61.0 waits 1 s, then 2 s, then 4 s.
constexpr double retry_pause_ms = 900;
// Minimum length in bytes of the common beginning of a repeated answer.
constexpr std::size_t alike = 8;
} // namespace

void Answer::more(std::string_view text, Actions &out) {
    if (text.empty()) return;
    if (!open_) parts_++;
    open_ = true;
    std::uint32_t part = parts_ - 1;
    if (tail_.empty()) first_ = text;
    if (shown_.empty() || shown_.back() != part) shown_.push_back(part);
    tail_ += text;
    out.text(part, text);
}

void Answer::again(double at_ms, std::string_view text, Actions &out) {
    double pause = at_ms - at_ms_;
    at_ms_ = at_ms;
    // After a connection error, Gemini CLI 0.61.0 asks the model again, and sends the new answer
    // without withdrawing the old one. If the new answer begins with other words, it cannot be
    // distinguished from a continuation.
    std::size_t least = std::min(text.size(), first_.size());
    if (tail_.empty() || pause < retry_pause_ms || least < alike || text.substr(0, least) != first_.substr(0, least)) return;
    for (std::uint32_t part : shown_) out.text(part, "", true);
    tool();
}

void Answer::tool() {
    open_ = false;
    tail_.clear();
    shown_.clear();
}

std::optional<std::string> Answer::finish() {
    std::string text;
    text.swap(tail_);
    return text.empty() ? std::nullopt : std::optional(std::move(text));
}
