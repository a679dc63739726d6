// One turn with Gemini CLI: the process to start, and the parser of its output.
#pragma once

#include "actions.hpp"
#include "json.hpp"

// The end of a turn. Owns its data until it is passed to the host.
struct Result {
    Outcome outcome{};
    OptionString text{};
    aetheel_backend_types_option_usage_t usage{};

    static Result failed(const Failure &why);
    void free();
};

// Splits an answer into parts. A part ends where a tool use begins.
class Answer {
  public:
    void more(std::string_view text, Actions &out);
    // Called before a piece of text. If it repeats the answer after a pause, the old text is
    // withdrawn.
    void again(double at_ms, std::string_view text, Actions &out);
    // Starts a tool use. Text before a tool use is not part of the final answer.
    void tool();
    // Returns the final answer, or none if it consists of the parts in order.
    std::optional<std::string> finish();

  private:
    std::uint32_t parts_ = 0;
    // Whether more text belongs to the last part.
    bool open_ = false;
    // The text since the last tool use, its first piece, its parts, and the time of its last piece.
    std::string tail_, first_;
    std::vector<std::uint32_t> shown_;
    double at_ms_ = 0;
};

class Gemini {
  public:
    // Adds the process for a turn. Returns a failure if the turn must fail.
    std::optional<Failure> plan(const aetheel_backend_types_start_turn_t &start, std::uint32_t proc, Actions &out);
    // Handles a line of output. Returns the result if the line has it.
    std::optional<Result> line(const aetheel_backend_types_line_t &line, Actions &out);

  private:
    struct Session {
        std::string id;
        std::optional<std::string> model;
    };

    void begins(const Json &message, std::string_view raw, Actions &out);
    void says(const Json &message, std::string_view raw, Actions &out);
    void kept(Actions &out);
    Result ends(const Json &message);

    // The session to resume.
    std::optional<std::string> resumed_;
    // A new session without history. It is not saved if the first model request fails.
    std::optional<Session> unkept_;
    Answer answer_;
    // The last reported error.
    std::optional<std::string> failing_;
};

// tool.cpp: reports tool uses, plans, and results.
void tool_use(const Json &message, Actions &out);
void tool_result(const Json &message, Actions &out);

// failure.cpp: classifies messages, errors of the model provider, and the end of stderr.
FailureKind kind_of_words(std::string_view words);
Failure failure_of_message(std::string_view message);
Failure failure_at_exit(std::string_view stderr_summary);
