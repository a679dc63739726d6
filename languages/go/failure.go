package export_aetheel_backend_backend

import (
	"strconv"
	"strings"
	"unicode"

	t "wit_component/aetheel_backend_types"
)

// noise has prefixes of irrelevant lines on stderr (Gemini CLI 0.61.0).
var noise = []string{
	"Warning: 256-color support not detected", "YOLO mode is enabled", "Ripgrep is not available", "[STARTUP]",
	"Security Warning: Skipping system", "at ", "Loaded cached credentials",
}

// words has phrases of failures; the first match counts. Only the first row precedes an HTTP
// status.
var words = []struct {
	kind  t.FailureKind
	words []string
}{
	{t.FailureKind_ContextFull, []string{"context window", "context length", "context limit", "prompt is too long", "token count exceeds"}},
	{t.FailureKind_Authentication, []string{"unauthorized", "not logged in", "please sign in", "please log in", "api key", "authentication"}},
	{t.FailureKind_Quota, []string{"quota", "usage limit", "credit balance"}},
	{t.FailureKind_RateLimited, []string{"rate limit", "rate_limit", "too many requests"}},
	{t.FailureKind_Overloaded, []string{"overloaded", "unavailable", "internal server error", "stream disconnected"}},
	{t.FailureKind_Network, []string{"fetch failed", "connection", "econnrefused", "enotfound"}},
	{t.FailureKind_ModelNotFound, []string{"model not found", "unknown model", "model_not_found"}},
	{t.FailureKind_BadRequest, []string{"invalid_request_error", "bad request"}},
}

// statusOf returns the HTTP status in the first six words, as in `API Error: 429 slow down`, or 0.
func statusOf(text string) int {
	between := func(letter rune) bool { return letter > unicode.MaxASCII || !unicode.IsLetter(letter) && !unicode.IsDigit(letter) }
	count := 0
	for word := range strings.FieldsFuncSeq(text, between) {
		if count++; count > 6 {
			break
		}
		status, err := strconv.Atoi(word)
		if err == nil && len(word) == 3 && status >= 400 && status < 600 {
			return status
		}
	}
	return 0
}

func kindOfWords(text string) t.FailureKind {
	lower := strings.ToLower(text)
	status := statusOf(text)
	for _, row := range words {
		for _, said := range row.words {
			if strings.Contains(lower, said) {
				return row.kind
			}
		}
		if status != 0 {
			break
		}
	}
	switch {
	case status == 0:
		return t.FailureKind_Other
	case status == 401 || status == 403:
		return t.FailureKind_Authentication
	case status == 404:
		return t.FailureKind_ModelNotFound
	case status == 429:
		return t.FailureKind_RateLimited
	case status >= 500:
		return t.FailureKind_Overloaded
	default:
		return t.FailureKind_BadRequest
	}
}

// forPeople extracts the message from texts such as `400 {"error":{"message":"…"}}`.
func forPeople(text string) string {
	text = strings.TrimSpace(text)
	at := strings.IndexByte(text, '{')
	if at < 0 {
		return text
	}
	told, _ := parse(text[at:])
	if fault := told.object("error"); fault.has("message") {
		return text[:at] + fault.text("message")
	}
	if told.has("message") {
		return text[:at] + told.text("message")
	}
	return text
}

// failureOfMessage returns the failure for a message of the model provider.
func failureOfMessage(message string) t.Failure {
	message = strings.TrimSpace(message)
	inner := message
	// [API Error: {"error":{"code":400,"message":"…"}}] which is followed by advice for some errors
	if rest, ok := strings.CutPrefix(message, "[API Error: "); ok {
		inner = rest
		if end := strings.LastIndexByte(rest, ']'); end >= 0 {
			inner = rest[:end]
		}
	}
	kind := kindOfWords(inner)
	// A 429 without a status in its message can only be recognised by the advice.
	if kind == t.FailureKind_Other && strings.Contains(message, "To increase your limits") {
		kind = t.FailureKind_RateLimited
	}
	return failure(kind, forPeople(inner))
}

// failureAtExit returns why a process ended without a result, from the end of its stderr.
func failureAtExit(stderr string) t.Failure {
	var said []string
	for _, line := range lines(stderr) {
		if !isNoise(line) {
			said = append(said, line)
		}
	}
	message := "the agent ended without a result"
	if len(said) > 0 {
		message = strings.Join(said, "\n")
	}
	has := func(words string) bool { return strings.Contains(message, words) }
	switch {
	case has("Invalid session identifier") || has("No previous sessions found"):
		return failure(t.FailureKind_SessionUnknown, message)
	case has("auth method") || has("Auth method"):
		return failure(t.FailureKind_Authentication, message)
	case has("not running in a trusted directory"):
		return failure(t.FailureKind_Unsupported, message)
	case has("No input provided"):
		return failure(t.FailureKind_BadRequest, message)
	default:
		return failure(failureOfMessage(message).Kind, message)
	}
}

func isNoise(line string) bool {
	for _, beginning := range noise {
		if strings.HasPrefix(line, beginning) {
			return true
		}
	}
	return false
}
