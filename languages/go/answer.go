package export_aetheel_backend_backend

import (
	"strings"

	w "wit_component/wit/types"
)

const (
	// retryPauseMs is the minimum pause before a retry: Gemini CLI 0.61.0 waits 1 s, then 2 s, then 4
	// s.
	retryPauseMs = 900
	// alike is the minimum length in bytes of the common beginning of a repeated answer.
	alike = 8
)

// answer splits an answer into parts. A part ends where a tool use begins.
type answer struct {
	parts uint32
	// open is whether more text belongs to the last part.
	open bool
	// The text since the last tool use, its first piece, its parts, and the time of its last piece.
	tail  strings.Builder
	first string
	shown []uint32
	atMs  float64
}

func (a *answer) more(text string, out *emitter) {
	if text == "" {
		return
	}
	if !a.open {
		a.open = true
		a.parts++
	}
	part := a.parts - 1
	if a.tail.Len() == 0 {
		a.first = text
	}
	if len(a.shown) == 0 || a.shown[len(a.shown)-1] != part {
		a.shown = append(a.shown, part)
	}
	a.tail.WriteString(text)
	out.text(part, text, false)
}

// again is called before a piece of text. If it repeats the answer after a pause, the old text is
// withdrawn.
//
// After a connection error, Gemini CLI 0.61.0 asks the model again, and sends the new answer
// without withdrawing the old one. If the new answer begins with other words, it cannot be
// distinguished from a continuation.
func (a *answer) again(atMs float64, text string, out *emitter) {
	pause := atMs - a.atMs
	a.atMs = atMs
	least := min(len(text), len(a.first))
	if a.tail.Len() == 0 || pause < retryPauseMs || least < alike || text[:least] != a.first[:least] {
		return
	}
	for _, part := range a.shown {
		out.text(part, "", true)
	}
	a.tool()
}

// tool starts a tool use. Text before a tool use is not part of the final answer.
func (a *answer) tool() {
	a.open = false
	a.tail.Reset()
	a.shown = nil
}

// finish returns the final answer, or none if it consists of the parts in order.
func (a *answer) finish() w.Option[string] {
	text := a.tail.String()
	a.tail.Reset()
	return some(text, text != "")
}
