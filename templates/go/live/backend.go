// Package export_aetheel_backend_backend is a backend for {{name}}: one process for each
// conversation. Prompts and output are JSON lines. The bindings require the package's name.
//
// This file has the four exports, and manages the process and the turns: each turn ends exactly
// once, whatever the agent does. agent.go parses the output.
package export_aetheel_backend_backend

import (
	"strings"

	t "wit_component/aetheel_backend_types"

	w "wit_component/wit/types"
)

// link is the whole state. Each link has its own instance: a conversation with at most one process
// and one open turn.
var link struct {
	// proc is the key of the running process, or 0. Keys are never reused.
	proc, lastProc    uint32
	open, interrupted bool
	turn              t.TurnRef
}

func take(input t.Input, out *emitter) {
	switch input.Tag() {
	case t.Input_Command:
		command(input.Command(), out)
	case t.Input_Line:
		// Output between turns is ignored.
		if line := input.Line(); link.open && line.Proc == link.proc {
			if result, told := agentLine(line, out); told {
				end(result, out)
			}
		}
	case t.Input_Exited:
		if exited := input.Exited(); exited.Proc == link.proc {
			said := strings.TrimSpace(exited.StderrTail)
			if said == "" {
				said = "the agent ended in the middle of a turn"
			}
			link.proc = 0
			if link.interrupted {
				end(ended(t.MakeOutcomeInterrupted()), out)
			} else {
				end(ended(t.MakeOutcomeLost(failure(t.FailureKind_Crashed, said))), out)
			}
		}
	case t.Input_SpawnFailed:
		if told := input.SpawnFailed(); told.Proc == link.proc {
			kind := t.FailureKind(t.FailureKind_Other)
			if told.NotFound {
				kind = t.FailureKind_NotFound
			}
			link.proc = 0
			end(ended(t.MakeOutcomeFailed(failure(kind, told.Message))), out)
		}
	}
}

func command(command t.Command, out *emitter) {
	switch command.Tag() {
	case t.Command_StartTurn:
		start := command.StartTurn()
		turn := t.TurnRef{Session: start.Session, Turn: start.Turn}
		// The command was repeated.
		if link.lastProc != 0 && turn.Turn == link.turn.Turn {
			return
		}
		if link.open {
			out.done(turn, ended(t.MakeOutcomeFailed(failure(t.FailureKind_Unsupported, "another turn is still open"))))
			return
		}
		link.open, link.interrupted, link.turn, out.turn = true, false, turn, turn
		if link.proc == 0 {
			link.lastProc++
			link.proc = link.lastProc
			spawn := spawnOf(link.proc, start, "--serve")
			spawn.KeepOpen = true
			out.add(t.MakeActionSpawn(spawn))
		}
		say(`{"type":"prompt","text":`+write(promptOf(start.Parts))+"}", out)
	case t.Command_Interrupt:
		if link.open && command.Interrupt().Turn == link.turn.Turn {
			// The agent reports the interrupted turn in a line.
			link.interrupted = true
			say(`{"type":"stop"}`, out)
		}
	case t.Command_Shutdown:
		if link.proc != 0 {
			// The agent exits when its stdin is closed.
			out.add(t.MakeActionCloseStdin(link.proc))
		}
	default:
		aside(command, out)
	}
}

func say(line string, out *emitter) {
	out.add(t.MakeActionWrite(t.Write{Proc: link.proc, Body: []t.Chunk{t.MakeChunkText(line + "\n")}}))
}

func end(result turnResult, out *emitter) {
	if link.open {
		link.open = false
		out.done(link.turn, result)
	}
}

// Describe returns the descriptor.
func Describe() string { return descriptor }

// Handle handles inputs, in order.
func Handle(inputs []t.TimedInput) w.Result[[]t.Action, string] {
	out := emitter{turn: link.turn}
	for _, input := range inputs {
		take(input.Input, &out)
	}
	return w.Ok[[]t.Action, string](out.actions)
}

// Save returns nothing, because no state is saved.
func Save() w.Option[string] { return w.None[string]() }

// Load rejects states of other versions.
func Load(_, _ string) w.Result[w.Unit, string] {
	return w.Err[w.Unit, string]("this backend saves no state")
}
