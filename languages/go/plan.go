package export_aetheel_backend_backend

import (
	"fmt"
	"strings"

	t "wit_component/aetheel_backend_types"

	w "wit_component/wit/types"
)

// environment has variables for Gemini CLI. GEMINI_CLI_TRUST_WORKSPACE: otherwise it refuses to
// work in folders that were not trusted in its own user interface. GEMINI_CLI_NO_RELAUNCH:
// otherwise it restarts itself as a child process and ignores signals. NO_BROWSER: otherwise it
// opens a browser to authenticate.
var environment = [][2]string{{"GEMINI_CLI_TRUST_WORKSPACE", "true"}, {"GEMINI_CLI_NO_RELAUNCH", "true"}, {"NO_BROWSER", "1"}}

// plan adds the process for a turn, or returns why the turn must fail. Prompts and the system
// prompt are passed on stdin, so users' texts are never arguments.
func (g *gemini) plan(start t.StartTurn, out *emitter) (why t.Failure, ok bool) {
	settings := start.Settings
	g.resumed = start.NativeId
	prompt := promptOf(start.Parts)
	switch {
	case strings.TrimSpace(prompt) == "":
		return failure(t.FailureKind_BadRequest, "the prompt is empty"), false
	case start.Fork:
		return failure(t.FailureKind_Unsupported, "Gemini CLI cannot copy a session"), false
	// `latest` and numbers would resume other sessions.
	case start.NativeId.IsSome() && !isUUID(start.NativeId.Some()):
		return failure(t.FailureKind_SessionUnknown, "the session id is not one of Gemini CLI"), false
	}
	words := []string{"-o", "stream-json", "--approval-mode", approval(settings)}
	if start.NativeId.IsSome() {
		words = append(words, "--resume", start.NativeId.Some())
	} else if isUUID(start.FreshId) {
		// With a preset id, the session can be resumed even if the process is killed early.
		words = append(words, "--session-id", start.FreshId)
	}
	if settings.Model.IsSome() {
		words = append(words, "-m", settings.Model.Some())
	}
	if settings.Effort.IsSome() {
		text := fmt.Sprintf("Gemini CLI does not offer a choice of its effort: %q is ignored", settings.Effort.Some())
		out.add(t.MakeActionDiagnostic(t.Diagnostic{Level: t.Level_Warn, Text: text}))
	}
	spawn := t.Spawn{
		Proc: proc, Program: "gemini", BasicAuth: w.None[t.BasicAuth](), Session: w.Some(start.Session), Turn: w.Some(start.Turn),
	}
	for _, word := range words {
		spawn.Arguments = append(spawn.Arguments, t.MakeValueText(word))
	}
	for _, pair := range environment {
		spawn.Environment = append(spawn.Environment, t.Variable{Name: pair[0], Value: t.MakeValueText(pair[1])})
	}
	if system := settings.SystemPrompt.SomeOr(""); system != "" {
		spawn.Stdin = append(spawn.Stdin, t.MakeChunkText(standing(system)))
	}
	spawn.Stdin = append(spawn.Stdin, t.MakeChunkText(prompt))
	out.add(t.MakeActionSpawn(spawn))
	return t.Failure{}, true
}

func approval(settings t.Settings) string {
	switch {
	case settings.Mode == t.Mode_Plan:
		return "plan"
	case settings.Safety == t.Safety_Danger:
		return "yolo"
	case settings.Safety == t.Safety_Edit:
		return "auto_edit"
	default:
		return "default"
	}
}

func promptOf(parts []t.Part) string {
	var texts []string
	for _, part := range parts {
		switch part.Tag() {
		case t.Part_Text:
			texts = append(texts, part.Text())
		case t.Part_Image:
			texts = append(texts, attached(part.Image()))
		case t.Part_File:
			texts = append(texts, attached(part.File()))
		}
	}
	return strings.Join(texts, "\n\n")
}

func attached(file t.Attachment) string {
	return fmt.Sprintf("[Attached file: %s (%s, %d bytes) at %s]", file.Name, file.MediaType, file.Size, file.Path)
}

// standing wraps the system prompt, which every new process needs.
func standing(system string) string {
	// Prevents the expansion of `@path`. The host escapes the user's text.
	inert := strings.ReplaceAll(system, "@", "\\@")
	return "<system-prompt>\n" + inert + "\n</system-prompt>\n\nThe text above is your system prompt for this conversation: it replaces " +
		"any you were given in this way before, and was not written by the people you talk with. Their message follows.\n\n"
}

func isUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for at := range len(text) {
		dash := at == 8 || at == 13 || at == 18 || at == 23
		if dash != (text[at] == '-') || !dash && !strings.ContainsRune("0123456789abcdefABCDEF", rune(text[at])) {
			return false
		}
	}
	return true
}
