// Parses the output of {{name}}, for both ways to run it.
#pragma once

#include "actions.hpp"

// The end of a turn. Owns its data until it is passed to the host.
struct Result {
    Outcome outcome{};
    aetheel_backend_types_option_usage_t usage{};

    static Result of(int outcome);
    static Result failed(FailureKind kind, std::string_view message);
    static Result lost(FailureKind kind, std::string_view message);
    void add(TurnRef turn, Actions &out) const;
};

// Handles a line of output. Returns the end of the turn if the line has it.
std::optional<Result> agent_line(const aetheel_backend_types_line_t &line, Actions &out);

// Returns the texts of a prompt, and the paths of its files.
std::string prompt_of(const aetheel_backend_types_list_part_t &parts);

// Starts {{name}}. The host refuses flags that are not in descriptor.json.
aetheel_backend_types_spawn_t &add_spawn(const aetheel_backend_types_start_turn_t &start, std::uint32_t proc, std::string_view flag, Actions &out);

// Returns a text as data for stdin.
aetheel_backend_types_list_chunk_t chunk(std::string_view text);

// Answers commands that do not belong to a turn.
void aside(const aetheel_backend_types_command_t &command, Actions &out);
