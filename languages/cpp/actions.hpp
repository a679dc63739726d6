// The actions that the guest collects. The bindings free them with C's `free` after the host has
// received them, so every string and list in them must be a copy that was allocated with `malloc`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent_backend.h"

using Action = aetheel_backend_types_action_t;
using EventKind = aetheel_backend_types_event_kind_t;
using Failure = aetheel_backend_types_failure_t;
using FailureKind = aetheel_backend_types_failure_kind_t;
using Outcome = aetheel_backend_types_outcome_t;
using TurnRef = aetheel_backend_types_turn_ref_t;
using OptionString = agent_backend_option_string_t;

inline std::string_view borrowed(const agent_backend_string_t &string) {
    return {reinterpret_cast<const char *>(string.ptr), string.len};
}

agent_backend_string_t copied(std::string_view text);
OptionString copied(const std::optional<std::string> &text);
Failure failed(FailureKind kind, std::string_view message);
// Allocates memory for the elements of a list. Traps without memory.
void *allocated(std::size_t bytes);

// Copies elements into a list of the bindings, which is a pointer and a length.
template <typename List, typename Element> List copied(const std::vector<Element> &elements) {
    List list{};
    list.len = elements.size();
    list.ptr = static_cast<Element *>(allocated(elements.size() * sizeof(Element)));
    for (std::size_t at = 0; at < elements.size(); at++) list.ptr[at] = elements[at];
    return list;
}

// Returns the longest beginning with at most `most` bytes that does not split a character.
std::string_view head(std::string_view text, std::size_t most);
// Returns the trimmed non-empty lines.
std::vector<std::string_view> lines(std::string_view text);
// Quoted text for users, without control characters.
std::string quoted(std::string_view text);

class Actions {
  public:
    explicit Actions(TurnRef turn) : turn(turn) {}

    // The turn of the events.
    TurnRef turn;

    // Adds an action or an event, which the caller completes.
    Action &add(int tag);
    EventKind &event(int tag);

    void text(std::uint32_t part, std::string_view text, bool replace = false);
    void notice(std::string_view text);
    // Reports unknown output: a description without values, the path of the field or "", and the
    // output.
    void unrecognised(std::string_view what, std::string_view path, std::string_view output);

    const std::vector<Action> &all() const { return all_; }
    Action &last() { return all_.back(); }

  private:
    std::vector<Action> all_;
};
