// Gemini CLI, as it speaks in one turn: what to start, and what its lines mean.
#pragma once

#include "actions.hpp"
#include "json.hpp"

// What the agent said the turn came to. Owns what it holds until it is handed to the host.
struct Result {
    Outcome outcome{};
    OptionString text{};
    aetheel_backend_types_option_usage_t usage{};

    static Result failed(const Failure &why);
    void free();
};

// Which text belongs to which part of the answer: a part ends where a tool begins.
class Answer {
  public:
    void more(std::string_view text, Actions &out);
    // A piece of text is about to come. Where it begins the answer a second time after a pause, what was said is withdrawn.
    void again(double at_ms, std::string_view text, Actions &out);
    // A tool use began: what was said before it is no part of the final answer.
    void tool();
    // Takes the final answer; none: the parts in order.
    std::optional<std::string> finish();

  private:
    std::uint32_t parts_ = 0;
    // More text goes on with the last part.
    bool open_ = false;
    // What was said since the last tool use: its text, the first piece of it, the parts it stands in, and when a piece came.
    std::string tail_, first_;
    std::vector<std::uint32_t> shown_;
    double at_ms_ = 0;
};

class Gemini {
  public:
    // Adds the process for a turn, or says why there is none.
    std::optional<Failure> plan(const aetheel_backend_types_start_turn_t &start, std::uint32_t proc, Actions &out);
    // Takes a line in. Returns a result once it told one.
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

    // The session that was to be continued.
    std::optional<std::string> resumed_;
    // A new session that has no history yet: one whose first turn fails at the model is not kept.
    std::optional<Session> unkept_;
    Answer answer_;
    // The last error it told.
    std::optional<std::string> failing_;
};

// tool.cpp: reports the use of a tool, with the plan where it makes one, and its end.
void tool_use(const Json &message, Actions &out);
void tool_result(const Json &message, Actions &out);

// failure.cpp: what failed by its words, in a message of the model's service, and at the end of stderr.
FailureKind kind_of_words(std::string_view words);
Failure failure_of_message(std::string_view message);
Failure failure_at_exit(std::string_view stderr_summary);
