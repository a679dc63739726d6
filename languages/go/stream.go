package export_aetheel_backend_backend

import (
	"fmt"
	"strconv"
	"strings"

	t "wit_component/aetheel_backend_types"

	w "wit_component/wit/types"
)

// session is a new session without history. It is not saved if the first model request fails.
type session struct {
	id    string
	model w.Option[string]
}

// gemini is the state of one turn. It parses the output of `gemini -o stream-json`, which has one
// JSON object per line.
type gemini struct {
	// resumed is the session to resume.
	resumed w.Option[string]
	unkept  *session
	answer  answer
	// failing is the last reported error.
	failing w.Option[string]
}

// line handles a line of output. It returns the result if the line has it.
func (g *gemini) line(line t.Line, out *emitter) (turnResult, bool) {
	raw := strings.TrimSpace(line.Text)
	if line.Pipe == t.Pipe_Stderr {
		retries(raw, out)
		return turnResult{}, false
	}
	if raw == "" {
		return turnResult{}, false
	}
	message, ok := parse(raw)
	if !ok {
		what := "line that is not a JSON object"
		if line.Truncated {
			what = "line longer than the limit"
		}
		out.unrecognised(what, "", raw)
		return turnResult{}, false
	}
	switch kind := message.text("type"); {
	case !message.has("type"):
		out.unrecognised("line without a type", "type", raw)
	case kind == "init":
		g.begins(message, raw, out)
	case kind == "message":
		g.says(message, raw, out)
	case kind == "tool_use":
		g.kept(out)
		g.answer.tool()
		toolUse(message, out)
	case kind == "tool_result":
		toolResult(message, out)
	case kind == "error":
		said := message.text("message")
		g.failing = w.Some(said)
		if message.text("severity") == "warning" {
			out.notice(said)
		}
	case kind == "result":
		if message.text("status") == "success" {
			g.kept(out)
		}
		return g.ends(message), true
	default:
		out.unrecognised(fmt.Sprintf("line type %q", kind), "type", raw)
	}
	return turnResult{}, false
}

func (g *gemini) begins(message object, raw string, out *emitter) {
	if !message.has("session_id") {
		out.unrecognised("init line without a session", "session_id", raw)
		return
	}
	id := message.text("session_id")
	if g.resumed.IsSome() && g.resumed.Some() != id {
		out.notice("Gemini CLI began a new session: the earlier conversation is lost")
	}
	g.unkept = &session{id: id, model: some(message.text("model"), message.has("model"))}
	if g.resumed.IsSome() {
		g.kept(out)
	}
}

// kept reports the session when it has history.
func (g *gemini) kept(out *emitter) {
	if g.unkept == nil {
		return
	}
	out.add(t.MakeActionSessionReady(t.SessionReady{
		Session: out.turn.Session, NativeId: g.unkept.id, Model: g.unkept.model, Title: w.None[string](),
	}))
	g.unkept = nil
}

func (g *gemini) says(message object, raw string, out *emitter) {
	switch role := message.text("role"); role {
	case "assistant":
		g.kept(out)
		text := message.text("content")
		if atMs, ok := milliseconds(message.text("timestamp")); ok {
			g.answer.again(atMs, text, out)
		}
		g.answer.more(text, out)
	case "user": // the prompt
	default:
		out.unrecognised(fmt.Sprintf("message of %q", role), "role", raw)
	}
}

func (g *gemini) ends(message object) turnResult {
	result := turnResult{outcome: t.MakeOutcomeCompleted(), text: g.answer.finish(), usage: usage(message.object("stats"))}
	if message.text("status") == "success" {
		return result
	}
	result.text = w.None[string]()
	fault := message.object("error")
	said := g.failing.SomeOr("Gemini CLI reported an error without a message")
	if fault.has("message") {
		said = fault.text("message")
	}
	why := failureOfMessage(said)
	switch fault.text("type") {
	case "FatalTurnLimitedError":
		result.outcome = t.MakeOutcomeLimit(said)
		return result
	case "FatalAuthenticationError":
		why.Kind = t.FailureKind_Authentication
	}
	result.outcome = t.MakeOutcomeFailed(why)
	return result
}

// retries reports the only output while the model provider fails, which can take minutes.
func retries(line string, out *emitter) {
	if strings.HasPrefix(line, "Attempt ") && strings.Contains(line, " failed") {
		what, _, _ := strings.Cut(line, ". Retrying")
		out.event(t.MakeEventKindRetry(failure(kindOfWords(line), what)))
	}
}

func usage(stats object) w.Option[t.Usage] {
	input, told := stats.count("input")
	output, _ := stats.count("output_tokens")
	cached, _ := stats.count("cached")
	spent := t.Usage{
		Input: input, Output: output, Cached: cached, CostUsd: w.None[float64](), ContextUsed: w.None[uint32](), ContextSize: w.None[uint32](),
	}
	return some(spent, told && (input != 0 || output != 0 || cached != 0))
}

// milliseconds returns the time of day of `2026-11-21T21:02:11.350Z`. Pauses over midnight are not
// recognised.
func milliseconds(timestamp string) (float64, bool) {
	if len(timestamp) <= 11 {
		return 0, false
	}
	fields := strings.Split(strings.TrimRight(timestamp[11:], "Z"), ":")
	if len(fields) < 3 {
		return 0, false
	}
	seconds := 0.0
	for _, field := range fields[:3] {
		number, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, false
		}
		seconds = seconds*60 + number
	}
	return seconds * 1000, true
}
