package export_aetheel_backend_backend

import (
	"runtime/debug"
	"strings"
	"unicode/utf8"

	t "wit_component/aetheel_backend_types"

	w "wit_component/wit/types"
)

// sampleBytes is the maximum length of unrecognised output, as in the contract.
const sampleBytes = 2048

func init() {
	// The host limits a guest to 128 MiB, so the collector must run earlier.
	debug.SetMemoryLimit(96 << 20)
}

// emitter collects actions. Its events belong to its turn.
type emitter struct {
	turn    t.TurnRef
	actions []t.Action
}

func (e *emitter) add(action t.Action) { e.actions = append(e.actions, action) }

func (e *emitter) event(kind t.EventKind) {
	e.add(t.MakeActionEvent(t.Event{Session: e.turn.Session, Turn: e.turn.Turn, Kind: kind}))
}

func (e *emitter) text(part uint32, text string, replace bool) {
	e.event(t.MakeEventKindText(t.Text{Part: part, Text: text, Replace: replace, Parent: w.None[string]()}))
}

func (e *emitter) notice(text string) {
	e.event(t.MakeEventKindNotice(t.Notice{Level: t.Level_Info, Key: w.None[string](), Text: text}))
}

// unrecognised reports unknown output: a description without values, the path, and the output.
func (e *emitter) unrecognised(what, path, output string) {
	e.event(t.MakeEventKindUnrecognised(t.Unrecognised{
		Difference: t.Difference_Unknown, What: what, Path: some(path, path != ""), Sample: head(output, sampleBytes),
	}))
}

func (e *emitter) done(turn t.TurnRef, result turnResult) {
	e.add(t.MakeActionTurnDone(t.TurnDone{
		Session: turn.Session, Turn: turn.Turn, Outcome: result.outcome, Text: result.text, Usage: result.usage,
	}))
}

// turnResult is the end of a turn.
type turnResult struct {
	outcome t.Outcome
	text    w.Option[string]
	usage   w.Option[t.Usage]
}

func ended(outcome t.Outcome) turnResult {
	return turnResult{outcome: outcome, text: w.None[string](), usage: w.None[t.Usage]()}
}

func failure(kind t.FailureKind, message string) t.Failure {
	return t.Failure{Kind: kind, Message: message, RetryAfterMs: w.None[uint32]()}
}

func some[T any](value T, there bool) w.Option[T] {
	if !there {
		return w.None[T]()
	}
	return w.Some(value)
}

// head returns the longest beginning with at most `most` bytes that does not split a character.
func head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// lines returns the trimmed non-empty lines.
func lines(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			found = append(found, line)
		}
	}
	return found
}
