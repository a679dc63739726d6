// What the guest wants done, while it is being put together. The bindings free it all with C's `free` when the host has taken it,
// so every string and list in it is a copy of its own, made with `malloc`.
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
// Memory for the elements of a list; ends the guest where there is none.
void *allocated(std::size_t bytes);

// One of the bindings' lists: a pointer and a length.
template <typename List, typename Element> List copied(const std::vector<Element> &elements) {
    List list{};
    list.len = elements.size();
    list.ptr = static_cast<Element *>(allocated(elements.size() * sizeof(Element)));
    for (std::size_t at = 0; at < elements.size(); at++) list.ptr[at] = elements[at];
    return list;
}

// The longest beginning of at most so many bytes that cuts no character.
std::string_view head(std::string_view text, std::size_t most);
// The trimmed lines with something in them.
std::vector<std::string_view> lines(std::string_view text);
// Text in quotes, for people; what could confuse a terminal is left out.
std::string quoted(std::string_view text);

class Actions {
  public:
    explicit Actions(TurnRef turn) : turn(turn) {}

    // The turn that events are about.
    TurnRef turn;

    // Adds an action or an event, to be filled in.
    Action &add(int tag);
    EventKind &event(int tag);

    void text(std::uint32_t part, std::string_view text, bool replace = false);
    void notice(std::string_view text);
    // Output this parser does not know: what in words without values, where it was (empty: nowhere special), and the output.
    void unrecognised(std::string_view what, std::string_view path, std::string_view output);

    const std::vector<Action> &all() const { return all_; }

  private:
    std::vector<Action> all_;
};
