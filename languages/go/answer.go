package export_aetheel_backend_backend

import (
	"strings"

	w "wit_component/wit/types"
)

const (
	// retryPauseMs is the least pause before Gemini CLI 0.61.0 asks the model again: it waits a second, then two, then four.
	retryPauseMs = 900
	// alike is how many bytes must be alike before a piece is taken for a second beginning.
	alike = 8
)

// answer knows which text belongs to which part of the answer: a part ends where a tool begins.
type answer struct {
	parts uint32
	// open: more text goes on with the last part.
	open bool
	// What was said since the last tool use: its text, the first piece of it, the parts it stands in, and when a piece came.
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

// again is called before a piece of text. Where it begins the answer a second time after a pause, what was said is withdrawn.
//
// Gemini CLI 0.61.0 asks the model again when the connection breaks and tells the new answer without a word about the old one. A
// new answer that begins in other words cannot be told from more of the old.
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

// tool is called when a tool use begins: what was said before it is no part of the final answer.
func (a *answer) tool() {
	a.open = false
	a.tail.Reset()
	a.shown = nil
}

// finish takes the final answer; none: the parts in order.
func (a *answer) finish() w.Option[string] {
	text := a.tail.String()
	a.tail.Reset()
	return some(text, text != "")
}
