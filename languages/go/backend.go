// Package export_aetheel_backend_backend is a backend for Gemini CLI with one process for each
// turn. The bindings require the package's name.
//
// This file has the four exports, and manages the only turn of a link: it ends exactly once,
// whatever the agent does. A turn ends when its process has exited, because an agent may print a
// second, better result, and an earlier end could interrupt the writing of its session.
package export_aetheel_backend_backend

import (
	_ "embed"
	"fmt"
	"strings"
	"unicode/utf8"

	t "wit_component/aetheel_backend_types"

	w "wit_component/wit/types"
)

const (
	proc   = 1
	linger = 1
	// lingerMs is how long an agent may take to exit after its result.
	lingerMs = 2000
	// interruptGraceMs is how long after an interrupt the agent's processes are killed.
	interruptGraceMs = 3000
)

//go:embed gemini.json
var descriptor string

// link is the whole state. Each link has its own instance, which serves one turn.
var link struct {
	state       int
	turn        t.TurnRef
	interrupted bool
	result      *turnResult
	agent       gemini
}

const (
	idle = iota
	running
	over
)

func init() {
	link.agent.resumed, link.agent.failing = w.None[string](), w.None[string]()
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

// Save returns nothing, because a link serves one turn.
func Save() w.Option[string] { return w.None[string]() }

// Load rejects states of other versions.
func Load(_, savedBy string) w.Result[w.Unit, string] {
	return w.Err[w.Unit, string]("this backend saves no state and cannot load that of version " + savedBy)
}

func take(input t.Input, out *emitter) {
	if input.Tag() == t.Input_Command {
		command(input.Command(), out)
		return
	}
	if link.state != running {
		return
	}
	switch input.Tag() {
	case t.Input_Line:
		if line := input.Line(); line.Proc == proc {
			if result, told := link.agent.line(line, out); told {
				if link.result == nil {
					out.add(t.MakeActionSetTimer(t.SetTimer{Timer: linger, AfterMs: lingerMs}))
				}
				link.result = &result
			}
		}
	case t.Input_Exited:
		if exited := input.Exited(); exited.Proc == proc {
			switch {
			case link.result != nil:
				end(*link.result, out)
			case link.interrupted:
				end(ended(t.MakeOutcomeInterrupted()), out)
			default:
				end(ended(withoutResult(exited)), out)
			}
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
	switch command.Tag() {
	case t.Command_StartTurn:
		start := command.StartTurn()
		turn := t.TurnRef{Session: start.Session, Turn: start.Turn}
		// The command was repeated.
		if link.state != idle && turn.Turn == link.turn.Turn {
			return
		}
		if link.state != idle {
			out.done(turn, ended(t.MakeOutcomeFailed(failure(t.FailureKind_Unsupported, "one link serves one turn"))))
			return
		}
		link.state, link.turn, out.turn = running, turn, turn
		if why, ok := link.agent.plan(start, out); !ok {
			end(ended(t.MakeOutcomeFailed(why)), out)
		}
	case t.Command_Interrupt:
		if link.state == running && command.Interrupt().Turn == link.turn.Turn {
			link.interrupted = true
			stop(t.Signal_Interrupt, out)
		}
	case t.Command_Shutdown:
		if link.state == running {
			stop(t.Signal_Terminate, out)
		}
	case t.Command_Steer:
		out.add(t.MakeActionSteered(t.Steered{Message: command.Steer().Message, Outcome: t.SteerOutcome_NotNow}))
	case t.Command_Query:
		why := failure(t.FailureKind_Unsupported, "this agent runs only for a turn and does not answer queries")
		out.add(t.MakeActionQueryAnswer(t.QueryAnswer{Query: command.Query().Query, Answer: t.MakeQueryResultFailed(why)}))
	}
}

func stop(signal t.Signal, out *emitter) {
	out.add(t.MakeActionStop(t.Stop{Proc: proc, Signal: signal, GraceMs: interruptGraceMs}))
}

func end(result turnResult, out *emitter) {
	// An interrupted agent may report the interruption as a failure.
	if link.interrupted && result.outcome.Tag() == t.Outcome_Failed {
		result.outcome = t.MakeOutcomeInterrupted()
	}
	link.state = over
	out.done(link.turn, result)
}

func withoutResult(exited t.Exited) t.Outcome {
	said := summary(exited.StderrTail)
	kind, how := t.FailureKind(t.FailureKind_Protocol), "the agent ended without a result"
	signal := uint32(0)
	switch exited.How.Tag() {
	case t.Exit_Signal:
		signal = exited.How.Signal()
	case t.Exit_Code:
		switch code := exited.How.Code(); {
		// Shells and agents report a fatal signal as the exit code 128 plus its number.
		case code > 128 && code < 160:
			signal = code - 128
		case code != 0:
			return t.MakeOutcomeFailed(failureAtExit(said))
		}
	}
	if signal != 0 {
		kind, how = t.FailureKind_Crashed, fmt.Sprintf("the agent was ended by signal %d", signal)
	}
	if said != "" {
		how += ": " + said
	}
	return t.MakeOutcomeLost(failure(kind, how))
}

// summary returns the last five non-empty lines of stderr, at most 1 KiB.
func summary(tail string) string {
	said := lines(tail)
	text := strings.Join(said[max(0, len(said)-5):], "\n")
	start := max(0, len(text)-1024)
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}
