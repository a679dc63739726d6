// Package export_aetheel_backend_backend is Gemini CLI as a backend, run once a turn. Its name is what the bindings call.
//
// Here are the four exports and the life of the one turn a link serves: exactly one end, whatever the agent does. A turn is over
// when its process has exited, because an agent may print a second, better result, and because ending it earlier could cut off the
// writing of its session.
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
	// lingerMs is how long an agent may take to exit after its result before the turn ends without it.
	lingerMs = 2000
	// interruptGraceMs is from an interrupt to the end of everything the agent started.
	interruptGraceMs = 3000
)

//go:embed gemini.json
var descriptor string

// link is all there is: one instance is one link, and serves one turn.
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

// Handle takes what happened, in order.
func Handle(inputs []t.TimedInput) w.Result[[]t.Action, string] {
	out := emitter{turn: link.turn}
	for _, input := range inputs {
		take(input.Input, &out)
	}
	return w.Ok[[]t.Action, string](out.actions)
}

// Save has nothing to move: a link serves one turn.
func Save() w.Option[string] { return w.None[string]() }

// Load refuses what another generation saved.
func Load(_, savedBy string) w.Result[w.Unit, string] {
	return w.Err[w.Unit, string]("this backend takes over no state, not even from version " + savedBy)
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
		// Told once more what is known already.
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
		why := failure(t.FailureKind_Unsupported, "this agent runs once a turn and answers no questions beside it")
		out.add(t.MakeActionQueryAnswer(t.QueryAnswer{Query: command.Query().Query, Answer: t.MakeQueryResultFailed(why)}))
	}
}

func stop(signal t.Signal, out *emitter) {
	out.add(t.MakeActionStop(t.Stop{Proc: proc, Signal: signal, GraceMs: interruptGraceMs}))
}

func end(result turnResult, out *emitter) {
	// What an interrupted agent calls a failure is what was asked of it.
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
		// Shells and agents tell a signal they died of as 128 and its number.
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

// summary returns what the end of stderr says: its last five lines with something in them, at most 1 KiB.
func summary(tail string) string {
	said := lines(tail)
	text := strings.Join(said[max(0, len(said)-5):], "\n")
	start := max(0, len(text)-1024)
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}
