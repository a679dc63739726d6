// {{name}} as a backend: one process for all turns of a conversation, which takes prompts as JSON
// lines and prints JSON lines.
//
// One instance is one conversation. There are no files, no clock and no network here; what is thrown becomes the error of `handle`.

import type { Action, Backend, EventKind, Input, Outcome, Part, StartTurn, ToolStart, TurnRef, Usage } from "./contract.js";
import { descriptor } from "./descriptor.js";

type Said = { [field: string]: unknown };

// Unified kinds of the agent's tools (see wit/types.wit), and the field that says what a use is about.
const TOOLS = new Map([
  ["shell", ["bash", "command"]],
  ["read", ["file_read", "path"]],
  ["edit", ["file_edit", "path"]],
]);

// The process that runs; each gets a new number.
let proc = 0;
let runs = false;
let turn: TurnRef | null = null;
let interrupted = false;

export const backend: Backend = {
  describe: () => descriptor,
  handle(inputs) {
    const out: Action[] = [];
    for (const { input } of inputs) take(input, out);
    return out;
  },
  save: () => null, // an idle conversation is closed and resumed on the new generation
  load() {
    throw "nothing was saved";
  },
};

function take(input: Input, out: Action[]): void {
  if (input.tag === "command") {
    if (input.val.tag === "start-turn" && turn === null) start(input.val.val, out);
    else if (input.val.tag === "start-turn" && turn?.turn !== input.val.val.turn)
      out.push(done(input.val.val, failed("other", "another turn is still open"), null));
    else if (input.val.tag === "interrupt" && turn !== null) {
      interrupted = true;
      write({ type: "stop" }, out);
    } else if (input.val.tag === "shutdown" && runs) out.push({ tag: "close-stdin", val: proc });
  } else if (input.tag === "line") {
    const raw = input.val.text.trim();
    if (turn !== null && input.val.pipe === "stdout" && raw !== "") line(raw, turn, out);
  } else if (input.tag === "spawn-failed") {
    runs = false;
    end(failed(input.val.notFound ? "not-found" : "other", input.val.message), null, out);
  } else if (input.tag === "exited" && input.val.proc === proc) {
    runs = false;
    const message = input.val.stderrTail.trim() || "the agent ended in the middle of a turn";
    end({ tag: "lost", val: { kind: "crashed", message, retryAfterMs: null } }, null, out);
  }
}

function start(start: StartTurn, out: Action[]): void {
  turn = { session: start.session, turn: start.turn };
  interrupted = false;
  if (!runs) {
    runs = true;
    proc += 1;
    out.push(plan(start));
  }
  write({ type: "prompt", text: prompt(start.parts) }, out);
}

/** What to start. Every flag must be in descriptor.json, or the host refuses it; prompts go to stdin. */
function plan(start: StartTurn): Action {
  const resume = start.nativeId === null ? [] : ["--resume", start.nativeId];
  return {
    tag: "spawn",
    val: {
      proc,
      program: "{{name}}",
      arguments: ["--serve", ...resume].map((val) => ({ tag: "text", val })),
      environment: [],
      stdin: [],
      keepOpen: true,
      listens: false,
      basicAuth: null,
      session: start.session,
      turn: start.turn,
    },
  };
}

function write(message: Said, out: Action[]): void {
  out.push({ tag: "write", val: { proc, body: [{ tag: "text", val: `${JSON.stringify(message)}\n` }] } });
}

/** What a line of output means. */
function line(raw: string, turn: TurnRef, out: Action[]): void {
  const said = parse(raw);
  const event = (kind: EventKind) => out.push({ tag: "event", val: { ...turn, kind } });
  switch (said.type) {
    case "session":
      if (!/^[A-Za-z0-9_.:][A-Za-z0-9_.:-]{0,127}$/.test(text(said.id))) break;
      out.push({ tag: "session-ready", val: { session: turn.session, nativeId: text(said.id), model: null, title: null } });
      break;
    case "text":
      event({ tag: "text", val: { part: 0, text: text(said.text), replace: false } });
      break;
    case "tool":
      event({ tag: "tool-start", val: toolStart(said) });
      break;
    case "tool-result": {
      const status = said.ok === true ? "ok" : "failed";
      event({ tag: "tool-end", val: { id: text(said.id), status, output: text(said.output), exitCode: null, diffs: [] } });
      break;
    }
    case "done":
      end({ tag: "completed" }, usage(said.usage), out);
      break;
    case "error":
      end(failed("other", text(said.message)), null, out);
      break;
    default: {
      // Never dropped: it is how people learn that the agent changed.
      const known = Object.keys(said).length > 0;
      const what = known ? `line type ${JSON.stringify(text(said.type))}` : "line that is not a JSON object";
      event({ tag: "unrecognised", val: { what, path: known ? "type" : null, sample: raw.slice(0, 500).toWellFormed() } });
    }
  }
}

function end(outcome: Outcome, usage: Usage | null, out: Action[]): void {
  if (turn === null) return;
  const how: Outcome = interrupted ? { tag: "interrupted" } : outcome;
  out.push(done(turn, how, usage));
  turn = null;
}

function done({ session, turn }: TurnRef, outcome: Outcome, usage: Usage | null): Action {
  return { tag: "turn-done", val: { session, turn, outcome, text: null, usage } };
}

function failed(kind: "not-found" | "other", message: string): Outcome {
  return { tag: "failed", val: { kind, message, retryAfterMs: null } };
}

function prompt(parts: Part[]): string {
  return parts.map((part) => (part.tag === "text" ? part.val : part.val.path)).join("\n\n");
}

/** The JSON object of a line; an empty one where it is none. */
function parse(raw: string): Said {
  try {
    const value = isDeep(raw) ? {} : JSON.parse(raw);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** Whether brackets are nested so deep that reading them would be the end of the stack, which nothing can catch. */
function isDeep(line: string): boolean {
  let brackets = 0;
  for (const letter of "[{") {
    for (let at = line.indexOf(letter); at >= 0 && brackets <= 128; at = line.indexOf(letter, at + 1)) brackets += 1;
  }
  if (brackets <= 128) return false;
  let open = 0;
  for (let at = 0; at < line.length; at++) {
    const letter = line[at];
    if (letter === "[" || letter === "{") open += 1;
    else if (letter === "]" || letter === "}") open -= 1;
    else if (letter === '"') at = endOfText(line, at);
    if (open > 128) return true;
  }
  return false;
}

/** Where the text ends that begins with the quotation mark at `from`. */
function endOfText(line: string, from: number): number {
  for (let at = line.indexOf('"', from + 1); at >= 0; at = line.indexOf('"', at + 1)) {
    let before = at;
    while (line[before - 1] === "\\") before -= 1;
    if ((at - before) % 2 === 0) return at;
  }
  return line.length;
}

function isObject(value: unknown): value is Said {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A value that is text; what agents print may have any type. Halves of surrogate pairs are no text for the host. */
function text(value: unknown): string {
  return typeof value === "string" ? value.toWellFormed() : "";
}

function toolStart(said: Said): ToolStart {
  const name = text(said.name);
  const given = isObject(said.input) ? said.input : {};
  const [kind, field] = TOOLS.get(name) ?? ["other", ""];
  const target = text(given[field]);
  return {
    id: text(said.id),
    parent: null,
    kind,
    nativeName: name,
    title: target || name,
    target: target || null,
    input: JSON.stringify(given),
  };
}

function usage(said: unknown): Usage | null {
  if (!isObject(said)) return null;
  const count = (value: unknown) => (typeof value === "number" ? Math.round(Math.min(Math.max(value, 0), 0x7fff_ffff)) : 0);
  const { input, output } = said;
  return {
    input: count(input),
    output: count(output),
    cached: 0,
    reasoning: 0,
    costUsd: null,
    contextUsed: null,
    contextSize: null,
  };
}
