// What {{name}} says: the meaning of its lines, whichever way it is run.
#pragma once

#include "actions.hpp"

// How a turn ended. Owns what it holds until it is handed to the host.
struct Result {
    Outcome outcome{};
    aetheel_backend_types_option_usage_t usage{};

    static Result of(int outcome);
    static Result failed(FailureKind kind, std::string_view message);
    static Result lost(FailureKind kind, std::string_view message);
    void add(TurnRef turn, Actions &out) const;
};

// Takes a line of output in. Returns how the turn ended once the agent told.
std::optional<Result> agent_line(const aetheel_backend_types_line_t &line, Actions &out);

// All texts of a prompt, and where the files that came with it are.
std::string prompt_of(const aetheel_backend_types_list_part_t &parts);

// Starts {{name}}. Every flag must be in descriptor.json, or the host refuses it.
aetheel_backend_types_spawn_t &add_spawn(const aetheel_backend_types_start_turn_t &start, std::uint32_t proc, std::string_view flag, Actions &out);

// One piece of text, as a process gets it on its stdin.
aetheel_backend_types_list_chunk_t chunk(std::string_view text);

// Answers a command that is not about a turn.
void aside(const aetheel_backend_types_command_t &command, Actions &out);
