// Package export_aetheel_backend_backend is a backend for {{name}}: one process for each turn,
// which reads the prompt from stdin and prints JSON lines. The bindings require the package's name.
//
// This file has the four exports, and manages the only turn of a link: it ends exactly once,
// whatever the agent does. agent.go parses the output.
package export_aetheel_backend_backend

import (
	"strings"

	t "wit_component/aetheel_backend_types"

	w "wit_component/wit/types"
)

const (
	proc   = 1
	linger = 1
	// lingerMs is how long the agent may take to exit after its result.
	lingerMs = 2000
	// graceMs is how long after an interrupt the agent's processes are killed.
	graceMs = 3000
)

// link is the whole state. Each link has its own instance, which serves one turn.
var link struct {
	begun, over, interrupted bool
	turn                     t.TurnRef
	result                   *turnResult
}

func take(input t.Input, out *emitter) {
	if input.Tag() == t.Input_Command {
		command(input.Command(), out)
		return
	}
	if !link.begun || link.over {
		return
	}
	switch input.Tag() {
	case t.Input_Line:
		if line := input.Line(); line.Proc == proc {
			if result, told := agentLine(line, out); told {
				if link.result == nil {
					out.add(t.MakeActionSetTimer(t.SetTimer{Timer: linger, AfterMs: lingerMs}))
				}
				link.result = &result
			}
		}
	case t.Input_Exited:
		if exited := input.Exited(); exited.Proc == proc {
			if link.result == nil {
				result := ended(withoutResult(exited))
				link.result = &result
			}
			end(*link.result, out)
		}
	case t.Input_SpawnFailed:
		told := input.SpawnFailed()
		kind := t.FailureKind(t.FailureKind_Other)
		if told.NotFound {
			kind = t.FailureKind_NotFound
		}
		end(ended(t.MakeOutcomeFailed(failure(kind, told.Message))), out)
	case t.Input_Timer:
		if input.Timer() == linger && link.result != nil {
			end(*link.result, out)
		}
	}
}

func command(command t.Command, out *emitter) {
	running := link.begun && !link.over
	switch command.Tag() {
	case t.Command_StartTurn:
		start := command.StartTurn()
		turn := t.TurnRef{Session: start.Session, Turn: start.Turn}
		// The command was repeated.
		if link.begun && turn.Turn == link.turn.Turn {
			return
		}
		if link.begun {
			out.done(turn, ended(t.MakeOutcomeFailed(failure(t.FailureKind_Unsupported, "one link serves one turn"))))
			return
		}
		link.begun, link.turn, out.turn = true, turn, turn
		spawn := spawnOf(proc, start, "--json")
		spawn.Stdin = []t.Chunk{t.MakeChunkText(promptOf(start.Parts))}
		out.add(t.MakeActionSpawn(spawn))
	case t.Command_Interrupt:
		if running && command.Interrupt().Turn == link.turn.Turn {
			link.interrupted = true
			out.add(t.MakeActionStop(t.Stop{Proc: proc, Signal: t.Signal_Interrupt, GraceMs: graceMs}))
		}
	case t.Command_Shutdown:
		if running {
			out.add(t.MakeActionStop(t.Stop{Proc: proc, Signal: t.Signal_Terminate, GraceMs: graceMs}))
		}
	default:
		aside(command, out)
	}
}

func end(result turnResult, out *emitter) {
	// An interrupted agent may report the interruption as a failure.
	if link.interrupted && result.outcome.Tag() != t.Outcome_Completed {
		result.outcome = t.MakeOutcomeInterrupted()
	}
	link.over = true
	out.done(link.turn, result)
}

// withoutResult returns the end of a run without a result: the end of stderr, if there is any.
func withoutResult(exited t.Exited) t.Outcome {
	said := strings.TrimSpace(exited.StderrTail)
	if exited.How.Tag() == t.Exit_Code && exited.How.Code() != 0 && said != "" {
		return t.MakeOutcomeFailed(failure(t.FailureKind_Other, said))
	}
	if said == "" {
		said = "the agent ended without a result"
	}
	kind := t.FailureKind(t.FailureKind_Protocol)
	if exited.How.Tag() == t.Exit_Signal {
		kind = t.FailureKind_Crashed
	}
	return t.MakeOutcomeLost(failure(kind, said))
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
