package export_aetheel_backend_backend

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	t "wit_component/aetheel_backend_types"

	w "wit_component/wit/types"
)

//go:embed descriptor.json
var descriptor string

// nativeID matches ids of sessions, see `session-ready` in wit/types.wit.
var nativeID = regexp.MustCompile(`^[A-Za-z0-9_.:][A-Za-z0-9_.:-]{0,127}$`)

// tools has the unified kind (see wit/types.wit) of each tool, and the input field with the target
// of a call.
var tools = map[string]struct{ kind, target string }{
	"shell": {"bash", "command"}, "read": {"file_read", "path"}, "edit": {"file_edit", "path"},
}

// fields has the fields that each type of line always has: texts and objects.
var fields = map[string]struct{ texts, objects []string }{
	"session": {texts: []string{"id"}}, "text": {texts: []string{"text"}}, "error": {texts: []string{"message"}},
	"tool":        {texts: []string{"id", "name"}, objects: []string{"input"}},
	"tool-result": {texts: []string{"id", "output"}}, "done": {objects: []string{"usage"}},
}

// reportMissing reports the fields that a line lacks. Without a report, their loss would go
// unnoticed.
func reportMissing(said object, raw string, out *emitter) {
	kind := said.text("type")
	report := func(path string, value any) {
		difference := t.Difference(t.Difference_Changed)
		if value == nil {
			difference = t.Difference_Missing
		}
		what := fmt.Sprintf("no `%s` in a line of type %q", path, kind)
		out.event(t.MakeEventKindUnrecognised(t.Unrecognised{
			Difference: difference, What: what, Path: w.Some(path), Sample: head(raw, sampleBytes),
		}))
	}
	for _, field := range fields[kind].texts {
		if !said.has(field) {
			report(field, said[field])
		}
	}
	for _, field := range fields[kind].objects {
		if said.object(field) == nil {
			report(field, said[field])
		}
	}
	input, target := said.object("input"), tools[said.text("name")].target
	if kind == "tool" && input != nil && target != "" && !input.has(target) {
		report("input."+target, input[target])
	}
}

// agentLine handles a line of output, for both ways to run the agent. It returns the end of the
// turn if the line has it.
func agentLine(line t.Line, out *emitter) (turnResult, bool) {
	raw := strings.TrimSpace(line.Text)
	if line.Pipe == t.Pipe_Stderr || raw == "" {
		return turnResult{}, false
	}
	said, ok := parse(raw)
	if !ok {
		what := "line that is not a JSON object"
		if line.Truncated {
			what = "line longer than the limit"
		}
		out.unrecognised(what, "", raw)
		return turnResult{}, false
	}
	reportMissing(said, raw, out)
	switch kind := said.text("type"); kind {
	case "session":
		if !nativeID.MatchString(said.text("id")) {
			out.unrecognised("session line without a valid id", "id", raw)
			break
		}
		out.add(t.MakeActionSessionReady(t.SessionReady{
			Session: out.turn.Session, NativeId: said.text("id"), Model: w.None[string](), Title: w.None[string](),
		}))
	case "text":
		out.text(0, said.text("text"), false)
	case "tool":
		toolUse(said, out)
	case "tool-result":
		status := t.ToolStatus(t.ToolStatus_Failed)
		if said["ok"] == true {
			status = t.ToolStatus_Ok
		}
		out.event(t.MakeEventKindToolEnd(t.ToolEnd{
			Id: said.text("id"), Status: status, Output: some(said.text("output"), said.has("output")), ExitCode: w.None[uint32](),
		}))
	case "done":
		result := ended(t.MakeOutcomeCompleted())
		if said["stopped"] == true {
			result = ended(t.MakeOutcomeInterrupted())
		}
		usage := said.object("usage")
		input, told := usage.count("input")
		output, _ := usage.count("output")
		result.usage = some(t.Usage{
			Input: input, Output: output, CostUsd: w.None[float64](), ContextUsed: w.None[uint32](), ContextSize: w.None[uint32](),
		}, told)
		return result, true
	case "error":
		return ended(t.MakeOutcomeFailed(failure(t.FailureKind_Other, said.text("message")))), true
	default:
		// Unknown output is reported, because it shows that the agent changed.
		out.unrecognised(fmt.Sprintf("line type %q", kind), "type", raw)
	}
	return turnResult{}, false
}

func toolUse(said object, out *emitter) {
	name, input := said.text("name"), said.object("input")
	tool, known := tools[name]
	if !known {
		tool.kind = "other"
	}
	target, shown := input.text(tool.target), "{}"
	if said["input"] != nil {
		shown = write(said["input"])
	}
	title := name
	if about := lines(target); len(about) > 0 {
		title = head(about[0], 160)
	}
	out.event(t.MakeEventKindToolStart(t.ToolStart{
		Id: said.text("id"), Parent: w.None[string](), Kind: tool.kind, NativeName: name, Title: title, Target: some(target, target != ""),
		Input: shown,
	}))
}

// promptOf returns the texts of a prompt, and the paths of its files.
func promptOf(parts []t.Part) string {
	var texts []string
	for _, part := range parts {
		switch part.Tag() {
		case t.Part_Text:
			texts = append(texts, part.Text())
		case t.Part_Image:
			texts = append(texts, "Attached file: "+part.Image().Path)
		case t.Part_File:
			texts = append(texts, "Attached file: "+part.File().Path)
		}
	}
	return strings.Join(texts, "\n\n")
}

// spawnOf returns the agent's process. The host refuses flags that are not in descriptor.json.
func spawnOf(proc uint32, start t.StartTurn, flag string) t.Spawn {
	arguments := []t.Value{t.MakeValueText(flag)}
	if start.NativeId.IsSome() {
		arguments = append(arguments, t.MakeValueText("--resume"), t.MakeValueText(start.NativeId.Some()))
	}
	return t.Spawn{
		Proc: proc, Program: "{{name}}", Arguments: arguments, BasicAuth: w.None[t.BasicAuth](), Session: w.Some(start.Session),
		Turn: w.Some(start.Turn),
	}
}

// aside answers commands that do not belong to a turn.
func aside(command t.Command, out *emitter) {
	switch command.Tag() {
	case t.Command_Steer:
		out.add(t.MakeActionSteered(t.Steered{Message: command.Steer().Message, Outcome: t.SteerOutcome_NotNow}))
	case t.Command_Query:
		why := failure(t.FailureKind_Unsupported, "this backend does not support queries")
		out.add(t.MakeActionQueryAnswer(t.QueryAnswer{Query: command.Query().Query, Answer: t.MakeQueryResultFailed(why)}))
	}
}
