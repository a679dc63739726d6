#include "actions.hpp"

#include <cstdlib>
#include <cstring>

#include "json.hpp"

namespace {
// Maximum length of the output in an `unrecognised` event, in bytes, as in the contract.
constexpr std::size_t sample = 2048;

bool within_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }
} // namespace

void *allocated(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    void *memory = std::malloc(bytes);
    if (!memory) std::abort();
    return memory;
}

agent_backend_string_t copied(std::string_view text) {
    auto *bytes = static_cast<std::uint8_t *>(allocated(text.size()));
    if (bytes) std::memcpy(bytes, text.data(), text.size());
    return {bytes, text.size()};
}

OptionString copied(const std::optional<std::string> &text) {
    OptionString option{};
    option.is_some = text.has_value();
    if (text) option.val = copied(std::string_view(*text));
    return option;
}

Failure failed(FailureKind kind, std::string_view message) {
    Failure failure{};
    failure.kind = kind;
    failure.message = copied(message);
    return failure;
}

std::string_view head(std::string_view text, std::size_t most) {
    if (text.size() <= most) return text;
    while (most > 0 && within_character(text[most])) most--;
    return text.substr(0, most);
}

std::vector<std::string_view> lines(std::string_view text) {
    std::vector<std::string_view> found;
    while (!text.empty()) {
        auto end = text.find('\n');
        if (auto line = trim(text.substr(0, end)); !line.empty()) found.push_back(line);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return found;
}

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (char byte : text) {
        if (byte == '"' || byte == '\\') out += '\\';
        out += (byte >= 0 && byte < 0x20) || byte == 0x7F ? '?' : byte;
    }
    return out + '"';
}

Action &Actions::add(int tag) {
    Action &action = all_.emplace_back();
    std::memset(&action, 0, sizeof action);
    action.tag = static_cast<std::uint8_t>(tag);
    return action;
}

EventKind &Actions::event(int tag) {
    auto &event = add(AETHEEL_BACKEND_TYPES_ACTION_EVENT).val.event;
    event.session = turn.session;
    event.turn = turn.turn;
    event.kind.tag = static_cast<std::uint8_t>(tag);
    return event.kind;
}

void Actions::text(std::uint32_t part, std::string_view text, bool replace) {
    event(AETHEEL_BACKEND_TYPES_EVENT_KIND_TEXT).val.text = {part, copied(text), replace, {}};
}

void Actions::notice(std::string_view text) {
    event(AETHEEL_BACKEND_TYPES_EVENT_KIND_NOTICE).val.notice = {AETHEEL_BACKEND_TYPES_LEVEL_INFO, {}, copied(text)};
}

void Actions::unrecognised(std::string_view what, std::string_view path, std::string_view output) {
    OptionString where{};
    if (!path.empty()) where = {true, copied(path)};
    event(AETHEEL_BACKEND_TYPES_EVENT_KIND_UNRECOGNISED).val.unrecognised = {
        AETHEEL_BACKEND_TYPES_DIFFERENCE_UNKNOWN, copied(what), where, copied(head(output, sample))};
}
