#include <algorithm>

#include "gemini.hpp"

namespace {
// Least pause before Gemini CLI 0.61.0 asks the model again, milliseconds: it waits a second, then two, then four.
constexpr double retry_pause_ms = 900;
// Bytes that must be alike before a piece is taken for a second beginning.
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
    // Gemini CLI 0.61.0 asks the model again when the connection breaks and tells the new answer without a word about the old
    // one. A new answer that begins in other words cannot be told from more of the old.
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
