// Gemini CLI, one process for each turn: command line, output (`gemini -o stream-json`), failures.
//
// Tested against Gemini CLI 0.61.0. Unknown output becomes an `unrecognised` event.

import type {
  Action,
  EventKind,
  Failure,
  FailureKind,
  Line,
  Outcome,
  Part,
  PlanEntry,
  Settings,
  StartTurn,
  TurnRef,
  Usage,
} from "./contract.js";

type Json = null | boolean | number | string | Json[] | { [field: string]: Json };
type Message = { [field: string]: Json };

/** The process to start. */
export interface Plan {
  arguments: string[];
  stdin: string[];
  environment: [string, string][];
}

/** The end of a turn. Without a text, the answer consists of the parts in order. */
export interface Result {
  outcome: Outcome;
  text: string | null;
  usage: Usage | null;
}

// GEMINI_CLI_TRUST_WORKSPACE: otherwise it refuses to work in folders that were not trusted in its
// own user interface. GEMINI_CLI_NO_RELAUNCH: otherwise it restarts itself as a child process and
// ignores signals. NO_BROWSER: otherwise it opens a browser to authenticate.
const ENVIRONMENT: [string, string][] = [
  ["GEMINI_CLI_TRUST_WORKSPACE", "true"],
  ["GEMINI_CLI_NO_RELAUNCH", "true"],
  ["NO_BROWSER", "1"],
];

/** Prevents the expansion of `@path` in the system prompt. The host escapes the user's text. */
const ESCAPE = "\\";

/** Minimum pause in milliseconds before a retry, and minimum length of the repeated beginning. */
const RETRY_PAUSE_MS = 900;
const ALIKE = 8;

/** Maximum length of a sample of unknown output, and of a tool's title, in bytes. */
const SAMPLE = 2048;
const TITLE = 160;

/** Maximum depth of JSON. Deeper nesting would overflow the stack. */
const DEEPEST = 128;

const KINDS = new Map(
  Object.entries({
    bash: ["run_shell_command", "Bash", "list_background_processes", "read_background_output"],
    file_read: ["read_file", "read_many_files"],
    file_write: ["write_file"],
    file_edit: ["replace"],
    file_search: ["glob", "list_directory"],
    content_search: ["grep_search", "search_file_content"],
    web_search: ["google_web_search"],
    web_fetch: ["web_fetch"],
    agent_spawn: ["invoke_agent"],
    todo: ["write_todos"],
    ask_user: ["ask_user"],
    skill: ["activate_skill"],
  }).flatMap(([kind, names]) => names.map((name) => [name, kind] as const)),
);

/** The input fields with the target of a tool use. The first existing one is used. */
const TARGETS = new Map([
  ["bash", ["command"]],
  ["content_search", ["pattern", "path", "dir_path"]],
  ["file_search", ["pattern", "path", "dir_path"]],
  ["web_search", ["query"]],
  ["web_fetch", ["url", "prompt"]],
  ["agent_spawn", ["description", "agent_name"]],
]);

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

/** The turn cannot be started. */
export class Refused {
  readonly failure: Failure;

  constructor(failure: Failure) {
    this.failure = failure;
  }
}

/** Emits the agent-events of a turn. */
export class Emit {
  readonly turn: TurnRef;
  readonly out: Action[];

  constructor(turn: TurnRef, out: Action[]) {
    this.turn = turn;
    this.out = out;
  }

  event(kind: EventKind): void {
    this.out.push({ tag: "event", val: { session: this.turn.session, turn: this.turn.turn, kind } });
  }

  text(part: number, text: string, replace = false): void {
    this.event({ tag: "text", val: { part, text, replace, parent: null } });
  }

  notice(text: string): void {
    this.event({ tag: "notice", val: { level: "info", key: null, text } });
  }

  unrecognised(what: string, path: string | null, output: string): void {
    this.event({ tag: "unrecognised", val: { difference: "unknown", what, path, sample: head(output, SAMPLE) } });
  }
}

/** Splits an answer into parts. A part ends where a tool use begins. */
class Answer {
  /** The text since the last tool use. */
  tail = "";
  private parts = 0;
  private open = false;
  private first = "";
  private shown: number[] = [];
  private atMs = 0;

  more(text: string, emit: Emit): void {
    if (text === "") return;
    if (!this.open) {
      this.open = true;
      this.shown.push(this.parts);
      this.parts += 1;
    }
    if (this.tail === "") this.first = text;
    this.tail += text;
    emit.text(this.parts - 1, text);
  }

  /**
   * Called before a piece of text. If it repeats the answer after a pause, the old text is
   * withdrawn: after a connection error, Gemini CLI asks the model again, and sends the new answer
   * without withdrawing the old one.
   */
  again(atMs: number, text: string, emit: Emit): void {
    const pause = atMs - this.atMs;
    this.atMs = atMs;
    const alike = text.startsWith(this.first) || this.first.startsWith(text);
    if (this.tail === "" || pause < RETRY_PAUSE_MS || !alike || Math.min(text.length, this.first.length) < ALIKE) return;
    for (const part of this.shown) emit.text(part, "", true);
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
    return answer === "" ? null : answer;
  }
}

/** The state of one turn with Gemini CLI. */
export class Gemini {
  private resumed: string | null = null;
  /** Id and model of a new session. It is not saved if the first model request fails. */
  private unkept: { id: string; model: string | null } | null = null;
  private answer = new Answer();
  private error: string | null = null;

  /** Returns the process for a turn. Users' texts are only passed on stdin, never as arguments. */
  plan(start: StartTurn, emit: Emit): Plan {
    const prompt = start.parts.map(partText).join("\n\n");
    if (prompt.trim() === "") throw new Refused(failure("bad-request", "the prompt is empty"));
    if (start.fork) throw new Refused(failure("unsupported", "Gemini CLI cannot copy a session"));
    const { model, effort, systemPrompt } = start.settings;
    const args = ["-o", "stream-json", "--approval-mode", approval(start.settings)];
    this.resumed = start.nativeId;
    if (start.nativeId !== null) {
      // `latest` and numbers would resume other sessions.
      if (!isUuid(start.nativeId)) throw new Refused(failure("session-unknown", "the session id is not one of Gemini CLI"));
      args.push("--resume", start.nativeId);
    } else if (isUuid(start.freshId)) {
      // With a preset id, the session can be resumed even if the process is killed early.
      args.push("--session-id", start.freshId);
    }
    if (model !== null) args.push("-m", model);
    if (effort !== null) {
      const text = `Gemini CLI does not offer a choice of its effort: ${JSON.stringify(effort)} is ignored`;
      emit.out.push({ tag: "diagnostic", val: { level: "warn", text } });
    }
    // Each run is a new process, so the system prompt is passed every time.
    const system = systemPrompt ? [`${standing(systemPrompt).replaceAll("@", `${ESCAPE}@`)}\n\n`] : [];
    return { arguments: args, stdin: [...system, prompt], environment: ENVIRONMENT };
  }

  /** Handles a line of output. Returns the end of the turn if the line has it. */
  line(line: Line, emit: Emit): Result | null {
    const raw = line.text.trim();
    if (line.pipe === "stderr") {
      // The only output while the model provider fails, which can take minutes.
      if (raw.startsWith("Attempt ") && raw.includes(" failed")) {
        emit.event({ tag: "retry", val: failure(kindOf(raw), raw.split(". Retrying")[0]) });
      }
      return null;
    }
    if (raw === "") return null;
    const message = parse(raw);
    if (!isObject(message)) {
      emit.unrecognised(line.truncated ? "line longer than the limit" : "line that is not a JSON object", null, raw);
      return null;
    }
    return this.message(message, raw, emit);
  }

  /** Returns why a run without a result failed. */
  failure(stderr: string): Failure {
    const lines = stderr.split("\n").map((line) => line.trim());
    const said = lines.filter((line) => line !== "" && !NOISE.some((noise) => line.startsWith(noise))).join("\n");
    const message = said === "" ? "the agent ended without a result" : said;
    if (/Invalid session identifier|No previous sessions found/.test(message)) return failure("session-unknown", message);
    if (/[aA]uth method/.test(message)) return failure("authentication", message);
    if (message.includes("not running in a trusted directory")) return failure("unsupported", message);
    if (message.includes("No input provided")) return failure("bad-request", message);
    return failure(ofMessage(message).kind, message);
  }

  private message(message: Message, raw: string, emit: Emit): Result | null {
    const type = text(message, "type");
    switch (type) {
      case "init":
        this.init(message, raw, emit);
        break;
      case "message":
        this.said(message, raw, emit);
        break;
      case "tool_use":
        this.kept(emit);
        this.tool(message, emit);
        break;
      case "tool_result": {
        const told = text(message, "status");
        const status = told === "success" ? "ok" : told === "error" ? "failed" : "unknown";
        const output = text(message, "output") ?? text(message.error, "message");
        emit.event({ tag: "tool-end", val: { id: text(message, "tool_id") ?? "", status, output, exitCode: null, diffs: [] } });
        break;
      }
      case "error":
        this.error = text(message, "message") ?? "";
        if (text(message, "severity") === "warning") emit.notice(this.error);
        break;
      case "result":
        return this.result(message, emit);
      case null:
        emit.unrecognised("line without a type", "type", raw);
        break;
      default:
        emit.unrecognised(`line type ${JSON.stringify(type)}`, "type", raw);
    }
    return null;
  }

  private init(message: Message, raw: string, emit: Emit): void {
    const id = text(message, "session_id");
    if (id === null) return emit.unrecognised("init line without a session", "session_id", raw);
    if (this.resumed !== null && this.resumed !== id) {
      emit.notice("Gemini CLI began a new session: the earlier conversation is lost");
    }
    this.unkept = { id, model: text(message, "model") };
    if (this.resumed !== null) this.kept(emit);
  }

  private said(message: Message, raw: string, emit: Emit): void {
    const role = text(message, "role");
    if (role === "user") return; // the prompt
    if (role !== "assistant") return emit.unrecognised(`message of ${JSON.stringify(role ?? "")}`, "role", raw);
    this.kept(emit);
    const content = text(message, "content") ?? "";
    const atMs = milliseconds(text(message, "timestamp") ?? "");
    if (atMs !== null) this.answer.again(atMs, content, emit);
    this.answer.more(content, emit);
  }

  /** Reports the session when it has history. */
  private kept(emit: Emit): void {
    if (this.unkept === null) return;
    const { id, model } = this.unkept;
    this.unkept = null;
    emit.out.push({ tag: "session-ready", val: { session: emit.turn.session, nativeId: id, model, title: null, tools: [] } });
  }

  private tool(message: Message, emit: Emit): void {
    const name = text(message, "tool_name") ?? "";
    const kind = kindOfTool(name);
    const given = message.parameters ?? null;
    const fields = TARGETS.get(kind) ?? ["file_path", "path", "absolute_path"];
    const target = fields.map((field) => text(given, field)).find((value) => value !== null) ?? null;
    const said = (kind === "bash" ? text(given, "description") : null) ?? target ?? "";
    this.answer.tool();
    emit.event({
      tag: "tool-start",
      val: {
        id: text(message, "tool_id") ?? "",
        parent: null,
        kind,
        nativeName: name,
        title: oneLine(said, TITLE) || name,
        target,
        input: given === null ? "{}" : sorted(given),
      },
    });
    if (name === "write_todos") {
      const todos = isObject(given) && Array.isArray(given.todos) ? given.todos : [];
      emit.event({ tag: "plan", val: todos.map(todo) });
    }
  }

  private result(message: Message, emit: Emit): Result {
    const usage = usageOf(message.stats);
    const answer = this.answer.finish();
    if (text(message, "status") === "success") {
      this.kept(emit);
      return { outcome: { tag: "completed" }, text: answer, usage };
    }
    const said = text(message.error, "message") ?? this.error ?? "Gemini CLI reported an error without a message";
    const type = text(message.error, "type");
    if (type === "FatalTurnLimitedError") return { outcome: { tag: "limit", val: said }, text: null, usage };
    const told = ofMessage(said);
    const kind = type === "FatalAuthenticationError" ? "authentication" : told.kind;
    return { outcome: { tag: "failed", val: { ...told, kind } }, text: null, usage };
  }
}

// ---------- input ----------

function approval({ mode, safety }: Settings): string {
  if (mode === "plan") return "plan";
  return { default: "default", edit: "auto_edit", danger: "yolo" }[safety];
}

function partText(part: Part): string {
  if (part.tag === "text") return part.val;
  const { name, mediaType, size, path } = part.val;
  return `[Attached file: ${name} (${mediaType}, ${size} bytes) at ${path}]`;
}

function standing(system: string): string {
  return (
    `<system-prompt>\n${system}\n</system-prompt>\n\nThe text above is your system prompt for this conversation: it replaces ` +
    "any you were given in this way before, and was not written by the people you talk with. Their message follows."
  );
}

function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
}

// ---------- output: wrong types and missing fields are null, never an error ----------

/** Parses a line. Returns null if it is invalid, too deep, or has unpaired surrogates. */
function parse(line: string): Json {
  try {
    const value: Json = isDeep(line) ? null : JSON.parse(line);
    // JavaScript accepts unpaired surrogates, but the host does not.
    const escapes = line.split("\\", 2).length > 1;
    return escapes && /\\ud[89a-f]/i.test(line) && !wellFormed(value) ? null : value;
  } catch {
    return null;
  }
}

/**
 * Returns whether the nesting is so deep that parsing would overflow the stack, which cannot be
 * caught.
 */
function isDeep(line: string): boolean {
  // In long lines, `split` is many times faster than `indexOf`.
  const count = (letter: string) => line.split(letter, DEEPEST + 2).length - 1;
  if (count("[") + count("{") <= DEEPEST) return false;
  const marks = /["[\]{}]/g;
  let open = 0;
  for (let mark = marks.exec(line); mark !== null; mark = marks.exec(line)) {
    if (mark[0] === '"') marks.lastIndex = endOfText(line, mark.index) + 1;
    else open += mark[0] === "[" || mark[0] === "{" ? 1 : -1;
    if (open > DEEPEST) return true;
  }
  return false;
}

/** Returns the end of the string that begins with the quotation mark at `from`. */
function endOfText(line: string, from: number): number {
  for (let at = line.indexOf('"', from + 1); at >= 0; at = line.indexOf('"', at + 1)) {
    let before = at;
    while (line[before - 1] === "\\") before -= 1;
    if ((at - before) % 2 === 0) return at;
  }
  return line.length;
}

function wellFormed(value: Json): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (Array.isArray(value)) return value.every(wellFormed);
  return !isObject(value) || Object.entries(value).every(([name, inner]) => name.isWellFormed() && wellFormed(inner));
}

function isObject(value: Json | undefined): value is Message {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function field(of: Json | undefined, name: string): Json | undefined {
  return isObject(of) && Object.hasOwn(of, name) ? of[name] : undefined;
}

function text(of: Json | undefined, name: string): string | null {
  const value = field(of, name);
  return typeof value === "string" ? value : null;
}

function count(of: Json | undefined, name: string): number | null {
  const value = field(of, name);
  // componentize-qjs 0.4.5 limits a `u32` to 2³¹-1, so it gets the signed number with the same
  // bits.
  return typeof value === "number" ? Math.round(Math.min(Math.max(value, 0), 0xffff_ffff)) | 0 : null;
}

function usageOf(stats: Json | undefined): Usage | null {
  const input = count(stats, "input");
  const output = count(stats, "output_tokens") ?? 0;
  const cached = count(stats, "cached") ?? 0;
  if (input === null || (input === 0 && output === 0 && cached === 0)) return null;
  return { input, output, cached, cacheWrite: 0, reasoning: 0, costUsd: null, models: [], contextUsed: null, contextSize: null };
}

function todo(told: Json): PlanEntry {
  const said = text(told, "status");
  const status = said === "in_progress" ? "active" : said === "completed" || said === "cancelled" ? "done" : "pending";
  return { text: text(told, "description") ?? "", status };
}

/**
 * Returns the time of day of `2026-11-21T21:02:11.350Z`. Pauses over midnight are not recognised.
 */
function milliseconds(timestamp: string): number | null {
  const found = /^.{11}(\d+):(\d+):(\d+(?:\.\d+)?)Z*$/.exec(timestamp);
  if (found === null) return null;
  const [hours, minutes, seconds] = found.slice(1).map(Number);
  return ((hours * 60 + minutes) * 60 + seconds) * 1000;
}

function kindOfTool(name: string): string {
  return KINDS.get(name) ?? (name.startsWith("mcp_") || name.includes("___") ? "mcp" : "other");
}

/** Returns a value as JSON with sorted keys, like other backends. */
function sorted(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(sorted).join(",")}]`;
  if (typeof value === "string") return JSON.stringify(value);
  // JavaScript would print this number as 0.
  if (!isObject(value)) return Object.is(value, -0) ? "-0.0" : String(value);
  const fields = Object.keys(value).sort();
  return `{${fields.map((name) => `${JSON.stringify(name)}:${sorted(value[name])}`).join(",")}}`;
}

/** Returns the length of a character in UTF-8, because QuickJS has no TextEncoder. */
export function bytes(letter: string | undefined): number {
  const code = letter?.codePointAt(0) ?? 0;
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x1_0000 ? 3 : 4;
}

/** Returns the beginning of a text with at most `size` bytes. */
function head(text: string, size: number): string {
  if (text.length * 3 <= size) return text;
  let used = 0;
  let end = 0;
  for (const letter of text) {
    used += bytes(letter);
    if (used > size) return text.slice(0, end);
    end += letter.length;
  }
  return text;
}

function oneLine(text: string, size: number): string {
  const [line = "", ...more] = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const short = head(line, size).trimEnd();
  return more.length > 0 || short !== line ? `${short} …` : short;
}

// ---------- failures ----------

export function failure(kind: FailureKind, message: string): Failure {
  return { kind, message, retryAfterMs: null };
}

/** Returns the failure for a message of the model provider. */
function ofMessage(said: string): Failure {
  const message = said.trim();
  // [API Error: {"error":{"code":400,"message":"…"}}] which is followed by advice for some errors
  const inner = /^\[API Error: (.*)\]/s.exec(message)?.[1] ?? message.replace(/^\[API Error: /, "");
  const kind = kindOf(inner);
  // A 429 without a status in its message can only be recognised by the advice.
  const limited = kind === "other" && message.includes("To increase your limits");
  return failure(limited ? "rate-limited" : kind, words(inner));
}

/** Extracts the message from texts such as `400 {"error":{"message":"…"}}`. */
function words(said: string): string {
  const message = said.trim();
  const at = message.indexOf("{");
  const value = at < 0 ? null : parse(message.slice(at));
  const told = text(field(value, "error"), "message") ?? text(value, "message");
  return told === null ? message : message.slice(0, at) + told;
}

const WORDS: [FailureKind, RegExp][] = [
  ["authentication", /unauthorized|not logged in|please sign in|please log in|api key|authentication/i],
  ["quota", /quota|usage limit|credit balance/i],
  ["rate-limited", /rate limit|rate_limit|too many requests/i],
  ["overloaded", /overloaded|unavailable|internal server error|stream disconnected/i],
  ["network", /fetch failed|connection|econnrefused|enotfound/i],
  ["model-not-found", /model not found|unknown model|model_not_found/i],
  ["bad-request", /invalid_request_error|bad request/i],
];

function kindOf(message: string): FailureKind {
  if (/context window|context length|context limit|prompt is too long|token count exceeds/i.test(message)) return "context-full";
  // The HTTP status near the beginning of the message, as in `API Error: 429 slow down`.
  const first = (message.match(/[A-Za-z0-9]+/g) ?? []).slice(0, 6);
  const status = first.find((word) => /^[45]\d\d$/.test(word));
  if (status === undefined) return WORDS.find(([, pattern]) => pattern.test(message))?.[0] ?? "other";
  if (status === "401" || status === "403") return "authentication";
  if (status === "404") return "model-not-found";
  if (status === "429") return "rate-limited";
  return status < "500" ? "bad-request" : "overloaded";
}
