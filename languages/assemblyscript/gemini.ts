// Gemini CLI, one process for each turn: command line, output (`gemini -o stream-json`), failures.
//
// Tested against Gemini CLI 0.61.0. Unknown output becomes an `unrecognised` event.

import * as c from "./contract";
import { Json, Kind, quoted } from "./json";

// GEMINI_CLI_TRUST_WORKSPACE: otherwise it refuses to work in folders that were not trusted in its
// own user interface. GEMINI_CLI_NO_RELAUNCH: otherwise it restarts itself as a child process and
// ignores signals. NO_BROWSER: otherwise it opens a browser to authenticate.
const ENVIRONMENT: c.Variable[] = [
  new c.Variable("GEMINI_CLI_TRUST_WORKSPACE", new c.ValueText("true")),
  new c.Variable("GEMINI_CLI_NO_RELAUNCH", new c.ValueText("true")),
  new c.Variable("NO_BROWSER", new c.ValueText("1")),
];

/** Prevents the expansion of `@path` in the system prompt. The host escapes the user's text. */
const ESCAPE = "\\";

/** Minimum pause in milliseconds before a retry, and minimum length of the repeated beginning. */
const RETRY_PAUSE_MS: f64 = 900;
const ALIKE = 8;

/** Maximum length of a sample of unknown output, and of a tool's title, in bytes. */
const SAMPLE = 2048;
const TITLE = 160;

/** Prefixes of irrelevant lines on stderr. */
const NOISE = [
  "Warning: 256-color support not detected",
  "YOLO mode is enabled",
  "Ripgrep is not available",
  "[STARTUP]",
  "Security Warning: Skipping system",
  "at ",
  "Loaded cached credentials",
];

/** The process to start, or why there is none. */
export class Plan {
  given: string[] = [];
  stdin: string[] = [];
  environment: c.Variable[] = ENVIRONMENT;

  constructor(public refused: c.Failure | null = null) {}
}

/** The end of a turn. Without a text, the answer consists of the parts in order. */
export class Told {
  constructor(
    public outcome: c.Outcome,
    public text: string | null = null,
    public usage: c.Usage | null = null,
  ) {}
}

/** Emits the agent-events of a turn. */
export class Emit {
  constructor(
    public turn: c.TurnRef,
    public out: c.Action[],
  ) {}

  event(kind: c.EventKind): void {
    this.out.push(new c.ActionEvent(new c.Event(this.turn.session, this.turn.turn, kind)));
  }

  text(part: u32, text: string, replace: bool): void {
    this.event(new c.EventKindText(new c.Text(part, text, replace, null)));
  }

  notice(text: string): void {
    this.event(new c.EventKindNotice(new c.Notice(c.Level.Info, null, text)));
  }

  unrecognised(what: string, path: string | null, output: string): void {
    this.event(new c.EventKindUnrecognised(new c.Unrecognised(c.Difference.Unknown, what, path, head(output, SAMPLE))));
  }
}

/** Splits an answer into parts. A part ends where a tool use begins. */
class Answer {
  /** The text since the last tool use. */
  tail: string = "";
  private parts: u32 = 0;
  private open: bool = false;
  private first: string = "";
  private shown: u32[] = [];
  private atMs: f64 = 0;

  more(text: string, emit: Emit): void {
    if (text == "") return;
    if (!this.open) {
      this.open = true;
      this.shown.push(this.parts);
      this.parts += 1;
    }
    if (this.tail == "") this.first = text;
    this.tail += text;
    emit.text(this.parts - 1, text, false);
  }

  /**
   * Called before a piece of text. If it repeats the answer after a pause, the old text is
   * withdrawn: after a connection error, Gemini CLI asks the model again, and sends the new answer
   * without withdrawing the old one.
   */
  again(atMs: f64, text: string, emit: Emit): void {
    const pause = atMs - this.atMs;
    this.atMs = atMs;
    const alike = text.startsWith(this.first) || this.first.startsWith(text);
    if (this.tail == "" || pause < RETRY_PAUSE_MS || !alike || min(text.length, this.first.length) < ALIKE) return;
    for (let at = 0; at < this.shown.length; at++) emit.text(this.shown[at], "", true);
    this.tool();
  }

  /** Starts a tool use. Text before a tool use is not part of the final answer. */
  tool(): void {
    this.open = false;
    this.tail = "";
    this.shown = [];
  }

  /** Returns the final answer, or null if it consists of the parts in order. */
  finish(): string | null {
    const answer = this.tail;
    this.tail = "";
    return answer == "" ? null : answer;
  }
}

/** The state of one turn with Gemini CLI. */
export class Gemini {
  private resumed: string | null = null;
  /** Id and model of a new session. It is not saved if the first model request fails. */
  private unkept: string | null = null;
  private model: string | null = null;
  private answer: Answer = new Answer();
  private error: string | null = null;

  /** Returns the process for a turn. Users' texts are only passed on stdin, never as arguments. */
  plan(start: c.StartTurn, emit: Emit): Plan {
    const prompt = start.parts.map<string>((part) => partText(part)).join("\n\n");
    if (prompt.trim() == "") return new Plan(failure(c.FailureKind.BadRequest, "the prompt is empty"));
    if (start.fork) return new Plan(failure(c.FailureKind.Unsupported, "Gemini CLI cannot copy a session"));
    const plan = new Plan();
    plan.given = ["-o", "stream-json", "--approval-mode", approval(start.settings)];
    const nativeId = start.nativeId;
    this.resumed = nativeId;
    if (nativeId !== null) {
      // `latest` and numbers would resume other sessions.
      if (!isUuid(nativeId)) return new Plan(failure(c.FailureKind.SessionUnknown, "the session id is not one of Gemini CLI"));
      plan.given.push("--resume");
      plan.given.push(nativeId);
    } else if (isUuid(start.freshId)) {
      // With a preset id, the session can be resumed even if the process is killed early.
      plan.given.push("--session-id");
      plan.given.push(start.freshId);
    }
    const model = start.settings.model;
    if (model !== null) {
      plan.given.push("-m");
      plan.given.push(model);
    }
    const effort = start.settings.effort;
    if (effort !== null) {
      const said = `Gemini CLI does not offer a choice of its effort: ${quoted(effort)} is ignored`;
      emit.out.push(new c.ActionDiagnostic(new c.Diagnostic(c.Level.Warn, said)));
    }
    // Each run is a new process, so the system prompt is passed every time.
    const system = start.settings.systemPrompt;
    if (system !== null && system != "") plan.stdin.push(standing(system).replaceAll("@", `${ESCAPE}@`) + "\n\n");
    plan.stdin.push(prompt);
    return plan;
  }

  /** Handles a line of output. Returns the end of the turn if the line has it. */
  line(line: c.Line, emit: Emit): Told | null {
    const raw = line.text.trim();
    if (line.pipe == c.Pipe.Stderr) {
      // The only output while the model provider fails, which can take minutes.
      if (raw.startsWith("Attempt ") && raw.includes(" failed")) {
        emit.event(new c.EventKindRetry(failure(kindOf(raw), raw.split(". Retrying")[0])));
      }
      return null;
    }
    if (raw == "") return null;
    const message = Json.parse(raw);
    if (message === null || message.kind != Kind.Object) {
      emit.unrecognised(line.truncated ? "line longer than the limit" : "line that is not a JSON object", null, raw);
      return null;
    }
    return this.message(message, raw, emit);
  }

  /** Returns why a run without a result failed. */
  failure(stderr: string): c.Failure {
    const lines = stderr.split("\n");
    const said: string[] = [];
    for (let at = 0; at < lines.length; at++) {
      const line = lines[at].trim();
      if (line != "" && !isNoise(line)) said.push(line);
    }
    const message = said.length > 0 ? said.join("\n") : "the agent ended without a result";
    let kind = ofMessage(message).kind;
    if (has(message, "Invalid session identifier|No previous sessions found")) kind = c.FailureKind.SessionUnknown;
    else if (has(message, "auth method|Auth method")) kind = c.FailureKind.Authentication;
    else if (has(message, "not running in a trusted directory")) kind = c.FailureKind.Unsupported;
    else if (has(message, "No input provided")) kind = c.FailureKind.BadRequest;
    return failure(kind, message);
  }

  private message(message: Json, raw: string, emit: Emit): Told | null {
    const type = message.text("type");
    if (type === null) {
      emit.unrecognised("line without a type", "type", raw);
    } else if (type == "init") {
      this.init(message, raw, emit);
    } else if (type == "message") {
      this.said(message, raw, emit);
    } else if (type == "tool_use") {
      this.kept(emit);
      this.tool(message, emit);
    } else if (type == "tool_result") {
      const told = or(message.text("status"), "");
      const status = told == "success" ? c.ToolStatus.Ok : told == "error" ? c.ToolStatus.Failed : c.ToolStatus.Unknown;
      let output = message.text("output");
      if (output === null) output = textOf(message.field("error"), "message");
      emit.event(new c.EventKindToolEnd(new c.ToolEnd(or(message.text("tool_id"), ""), status, output, null, [])));
    } else if (type == "error") {
      const said = or(message.text("message"), "");
      this.error = said;
      if (or(message.text("severity"), "") == "warning") emit.notice(said);
    } else if (type == "result") {
      return this.result(message, emit);
    } else {
      emit.unrecognised(`line type ${quoted(type)}`, "type", raw);
    }
    return null;
  }

  private init(message: Json, raw: string, emit: Emit): void {
    const id = message.text("session_id");
    if (id === null) return emit.unrecognised("init line without a session", "session_id", raw);
    const resumed = this.resumed;
    if (resumed !== null && resumed != id) {
      emit.notice("Gemini CLI began a new session: the earlier conversation is lost");
    }
    this.unkept = id;
    this.model = message.text("model");
    if (resumed !== null) this.kept(emit);
  }

  private said(message: Json, raw: string, emit: Emit): void {
    const role = or(message.text("role"), "");
    if (role == "user") return; // the prompt
    if (role != "assistant") return emit.unrecognised(`message of ${quoted(role)}`, "role", raw);
    this.kept(emit);
    const content = or(message.text("content"), "");
    const atMs = milliseconds(or(message.text("timestamp"), ""));
    if (!isNaN(atMs)) this.answer.again(atMs, content, emit);
    this.answer.more(content, emit);
  }

  /** Reports the session when it has history. */
  private kept(emit: Emit): void {
    const id = this.unkept;
    if (id === null) return;
    this.unkept = null;
    emit.out.push(new c.ActionSessionReady(new c.SessionReady(emit.turn.session, id, this.model, null, [])));
  }

  private tool(message: Json, emit: Emit): void {
    const name = or(message.text("tool_name"), "");
    const kind = kindOfTool(name);
    const field = message.field("parameters");
    const given = field === null || field.kind == Kind.Null ? new Json(Kind.Object) : field;
    const target = targetOf(given, kind);
    const said = kind == "bash" ? given.text("description") : null;
    const title = or(said === null ? target : said, "");
    this.answer.tool();
    const id = or(message.text("tool_id"), "");
    const shown = oneLine(title);
    emit.event(
      new c.EventKindToolStart(new c.ToolStart(id, null, kind, name, shown == "" ? name : shown, target, given.toString())),
    );
    if (name != "write_todos") return;
    const todos = given.field("todos");
    const entries = todos !== null && todos.kind == Kind.List ? todos.items.map<c.PlanEntry>((one) => todo(one)) : [];
    emit.event(new c.EventKindPlan(entries));
  }

  private result(message: Json, emit: Emit): Told {
    const usage = usageOf(message.field("stats"));
    const answer = this.answer.finish();
    if (or(message.text("status"), "") == "success") {
      this.kept(emit);
      return new Told(new c.OutcomeCompleted(), answer, usage);
    }
    const error = message.field("error");
    const words = textOf(error, "message");
    const said = or(words === null ? this.error : words, "Gemini CLI reported an error without a message");
    const type = or(textOf(error, "type"), "");
    if (type == "FatalTurnLimitedError") return new Told(new c.OutcomeLimit(said), null, usage);
    const told = ofMessage(said);
    if (type == "FatalAuthenticationError") told.kind = c.FailureKind.Authentication;
    return new Told(new c.OutcomeFailed(told), null, usage);
  }
}

// ---------- input ----------

function approval(settings: c.Settings): string {
  if (settings.mode == c.Mode.Plan) return "plan";
  if (settings.safety == c.Safety.Default) return "default";
  return settings.safety == c.Safety.Edit ? "auto_edit" : "yolo";
}

function partText(part: c.Part): string {
  if (part instanceof c.PartText) return (<c.PartText>part).value;
  const file = part instanceof c.PartImage ? (<c.PartImage>part).value : (<c.PartFile>part).value;
  return `[Attached file: ${file.name} (${file.mediaType}, ${file.size} bytes) at ${file.path}]`;
}

function standing(system: string): string {
  return (
    `<system-prompt>\n${system}\n</system-prompt>\n\nThe text above is your system prompt for this conversation: it replaces ` +
    "any you were given in this way before, and was not written by the people you talk with. Their message follows."
  );
}

function isUuid(text: string): bool {
  if (text.length != 36) return false;
  for (let at = 0; at < 36; at++) {
    const letter = text.charAt(at);
    const dash = at == 8 || at == 13 || at == 18 || at == 23;
    if (dash ? letter != "-" : !"0123456789abcdefABCDEF".includes(letter)) return false;
  }
  return true;
}

// ---------- output ----------

function or(text: string | null, other: string): string {
  return text === null ? other : text;
}

function textOf(value: Json | null, name: string): string | null {
  return value === null ? null : value.text(name);
}

function usageOf(stats: Json | null): c.Usage | null {
  if (stats === null) return null;
  const input = stats.count("input");
  const output = max<i64>(stats.count("output_tokens"), 0);
  const cached = max<i64>(stats.count("cached"), 0);
  if (input < 0 || input + output + cached == 0) return null;
  return new c.Usage(<u32>input, <u32>output, <u32>cached, 0, 0, null, [], null, null);
}

function todo(told: Json): c.PlanEntry {
  const said = or(told.text("status"), "");
  let status = c.PlanStatus.Pending;
  if (said == "in_progress") status = c.PlanStatus.Active;
  else if (said == "completed" || said == "cancelled") status = c.PlanStatus.Done;
  return new c.PlanEntry(or(told.text("description"), ""), status);
}

function isNumber(text: string): bool {
  for (let at = 0; at < text.length; at++) if (!"0123456789.".includes(text.charAt(at))) return false;
  return text != "" && text != ".";
}

/**
 * Returns the time of day of `2026-11-21T21:02:11.350Z`. Pauses over midnight are not recognised.
 */
function milliseconds(timestamp: string): f64 {
  const fields = timestamp.substring(11).replaceAll("Z", "").split(":");
  if (fields.length != 3) return NaN;
  for (let at = 0; at < 3; at++) if (!isNumber(fields[at])) return NaN;
  return ((parseFloat(fields[0]) * 60 + parseFloat(fields[1])) * 60 + parseFloat(fields[2])) * 1000;
}

function kindOfTool(name: string): string {
  if (is(name, "run_shell_command|Bash|list_background_processes|read_background_output")) return "bash";
  if (is(name, "read_file|read_many_files")) return "file_read";
  if (is(name, "write_file")) return "file_write";
  if (is(name, "replace")) return "file_edit";
  if (is(name, "glob|list_directory")) return "file_search";
  if (is(name, "grep_search|search_file_content")) return "content_search";
  if (is(name, "google_web_search")) return "web_search";
  if (is(name, "web_fetch")) return "web_fetch";
  if (is(name, "invoke_agent")) return "agent_spawn";
  if (is(name, "write_todos")) return "todo";
  if (is(name, "ask_user")) return "ask_user";
  if (is(name, "activate_skill")) return "skill";
  return name.startsWith("mcp_") || name.includes("___") ? "mcp" : "other";
}

/** The input fields with the target of a tool use. The first existing one is used. */
function targetOf(given: Json, kind: string): string | null {
  let fields = "file_path|path|absolute_path";
  if (kind == "bash") fields = "command";
  else if (kind == "content_search" || kind == "file_search") fields = "pattern|path|dir_path";
  else if (kind == "web_search") fields = "query";
  else if (kind == "web_fetch") fields = "url|prompt";
  else if (kind == "agent_spawn") fields = "description|agent_name";
  const names = fields.split("|");
  for (let at = 0; at < names.length; at++) {
    const value = given.text(names[at]);
    if (value !== null) return value;
  }
  return null;
}

/** Returns the length of a character in UTF-8. */
export function bytes(code: i32): i32 {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

/** Returns the beginning of a text with at most `size` bytes. */
function head(text: string, size: i32): string {
  let used = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.codePointAt(at);
    used += bytes(code);
    if (used > size) return text.substring(0, at);
    if (code >= 0x10000) at++;
  }
  return text;
}

function oneLine(text: string): string {
  const lines = text
    .split("\n")
    .map<string>((line) => line.trim())
    .filter((line) => line != "");
  if (lines.length == 0) return "";
  const short = head(lines[0], TITLE).trimEnd();
  return lines.length > 1 || short != lines[0] ? `${short} …` : short;
}

// ---------- failures ----------

export function failure(kind: c.FailureKind, message: string): c.Failure {
  return new c.Failure(kind, message, null);
}

/** Returns whether a text contains one of the words, which are separated by bars. */
function has(text: string, words: string): bool {
  const all = words.split("|");
  for (let at = 0; at < all.length; at++) if (text.includes(all[at])) return true;
  return false;
}

/** Returns whether a text is one of the words, which are separated by bars. */
function is(text: string, words: string): bool {
  return words.split("|").includes(text);
}

function isNoise(line: string): bool {
  for (let at = 0; at < NOISE.length; at++) if (line.startsWith(NOISE[at])) return true;
  return false;
}

/** Returns the failure for a message of the model provider. */
function ofMessage(said: string): c.Failure {
  const message = said.trim();
  let inner = message;
  // [API Error: {"error":{"code":400,"message":"…"}}] which is followed by advice for some errors
  if (message.startsWith("[API Error: ")) {
    const end = message.lastIndexOf("]");
    inner = message.substring(12, end < 0 ? message.length : end);
  }
  let kind = kindOf(inner);
  // A 429 without a status in its message can only be recognised by the advice.
  if (kind == c.FailureKind.Other && message.includes("To increase your limits")) kind = c.FailureKind.RateLimited;
  return failure(kind, words(inner));
}

/** Extracts the message from texts such as `400 {"error":{"message":"…"}}`. */
function words(said: string): string {
  const message = said.trim();
  const at = message.indexOf("{");
  const value = Json.parse(at < 0 ? "" : message.substring(at));
  if (value === null) return message;
  let told = textOf(value.field("error"), "message");
  if (told === null) told = value.text("message");
  return told === null ? message : message.substring(0, at) + told;
}

function kindOf(message: string): c.FailureKind {
  const lower = message.toLowerCase();
  if (has(lower, "context window|context length|context limit|prompt is too long|token count exceeds"))
    return c.FailureKind.ContextFull;
  const status = statusOf(message);
  if (status == 401 || status == 403) return c.FailureKind.Authentication;
  if (status == 404) return c.FailureKind.ModelNotFound;
  if (status == 429) return c.FailureKind.RateLimited;
  if (status >= 500) return c.FailureKind.Overloaded;
  if (status >= 400) return c.FailureKind.BadRequest;
  if (has(lower, "unauthorized|not logged in|please sign in|please log in|api key|authentication"))
    return c.FailureKind.Authentication;
  if (has(lower, "quota|usage limit|credit balance")) return c.FailureKind.Quota;
  if (has(lower, "rate limit|rate_limit|too many requests")) return c.FailureKind.RateLimited;
  if (has(lower, "overloaded|unavailable|internal server error|stream disconnected")) return c.FailureKind.Overloaded;
  if (has(lower, "fetch failed|connection|econnrefused|enotfound")) return c.FailureKind.Network;
  if (has(lower, "model not found|unknown model|model_not_found")) return c.FailureKind.ModelNotFound;
  return has(lower, "invalid_request_error|bad request") ? c.FailureKind.BadRequest : c.FailureKind.Other;
}

/** Returns the HTTP status in the first six words, as in `API Error: 429 slow down`, or 0. */
function statusOf(message: string): i32 {
  let from = 0;
  let words = 0;
  for (let at = 0; at <= message.length && words < 6; at++) {
    const code = at < message.length ? message.charCodeAt(at) : 0;
    const letter = code | 0x20;
    if ((code >= 0x30 && code <= 0x39) || (letter >= 0x61 && letter <= 0x7a)) continue;
    if (at > from) words++;
    const status = at - from == 3 ? <i32>parseFloat(message.substring(from, at)) : 0;
    if (status >= 400 && status < 600) return status;
    from = at + 1;
  }
  return 0;
}
