// Package export_aetheel_backend_backend is {{name}} as a backend: one process for a conversation, which hears prompts on stdin and
// prints JSON lines. Its name is what the bindings call.
//
// Here are the four exports, the life of the process and that of its turns: exactly one end for each, whatever the agent does.
// What its lines mean is in agent.go.
package export_aetheel_backend_backend

import (
	"strings"

	t "wit_component/aetheel_backend_types"

	w "wit_component/wit/types"
)

// link is all there is: one instance is one link, a conversation with at most one process and one open turn at a time.
var link struct {
	// proc is the process that runs, 0: none; keys are never used again.
	proc, lastProc    uint32
	open, interrupted bool
	turn              t.TurnRef
}

func take(input t.Input, out *emitter) {
	switch input.Tag() {
	case t.Input_Command:
		command(input.Command(), out)
	case t.Input_Line:
		// What it says between turns belongs to none.
		if line := input.Line(); link.open && line.Proc == link.proc {
			if result, told := agentLine(line, out); told {
				end(result, out)
			}
		}
	case t.Input_Exited:
		if exited := input.Exited(); exited.Proc == link.proc {
			said := strings.TrimSpace(exited.StderrTail)
			if said == "" {
				said = "the agent ended in the midst of a turn"
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
		// Told once more what is known already.
		if link.lastProc != 0 && turn.Turn == link.turn.Turn {
			return
		}
		if link.open {
			out.done(turn, ended(t.MakeOutcomeFailed(failure(t.FailureKind_Unsupported, "one turn at a time"))))
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
			// That it stopped, the agent says in a line.
			link.interrupted = true
			say(`{"type":"stop"}`, out)
		}
	case t.Command_Shutdown:
		if link.proc != 0 {
			// It leaves when there is nobody to hear.
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

// Handle takes what happened, in order.
func Handle(inputs []t.TimedInput) w.Result[[]t.Action, string] {
	out := emitter{turn: link.turn}
	for _, input := range inputs {
		take(input.Input, &out)
	}
	return w.Ok[[]t.Action, string](out.actions)
}

// Save has nothing to move.
func Save() w.Option[string] { return w.None[string]() }

// Load refuses what another generation saved.
func Load(_, _ string) w.Result[w.Unit, string] {
	return w.Err[w.Unit, string]("this backend takes over no state")
}
