// A backend for {{name}}: one process for all turns of a conversation. Prompts and output are JSON
// lines.
//
// Each conversation has its own instance. There are no files, no clock and no network. A thrown
// value becomes the error of `handle`.

import { missing, parse, prompt, text, toolStart, usage } from "./agent.js";
import type { Action, Backend, EventKind, Input, Outcome, StartTurn, TurnRef, Usage } from "./contract.js";
import { descriptor } from "./descriptor.js";

// The number of the running process. Each process gets a new number.
let proc = 0;
let runs = false;
let turn: TurnRef | null = null;
let interrupted = false;

export const backend: Backend = {
  describe: () => descriptor,
  handle(inputs) {
    const out: Action[] = [];
    try {
      for (const { input } of inputs) take(input, out);
    } catch (error) {
      // The host only gets the message, so the location is added to it.
      throw error instanceof Error ? `${error} ${(error.stack ?? "").trim().split("\n")[0]}` : `${error}`;
    }
    return out;
  },
  save: () => null, // an idle conversation is closed and resumed with the new version
  load() {
    throw "this backend saves no state";
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

/** Returns the process to start. The host refuses flags that are not in descriptor.json. */
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

function write(message: object, out: Action[]): void {
  out.push({ tag: "write", val: { proc, body: [{ tag: "text", val: `${JSON.stringify(message)}\n` }] } });
}

/** Handles a line of output. */
function line(raw: string, turn: TurnRef, out: Action[]): void {
  const said = parse(raw);
  const event = (kind: EventKind) => out.push({ tag: "event", val: { ...turn, kind } });
  missing(said, raw).forEach(event);
  switch (said.type) {
    case "session":
      if (/^[A-Za-z0-9_.:][A-Za-z0-9_.:-]{0,127}$/.test(text(said.id))) {
        out.push({ tag: "session-ready", val: { session: turn.session, nativeId: text(said.id), model: null, title: null, tools: [] } });
      } else if (said.id !== undefined) {
        const what = "session line without a valid id";
        event({ tag: "unrecognised", val: { difference: "unknown", what, path: "id", sample: raw.slice(0, 500).toWellFormed() } });
      }
      break;
    case "text":
      event({ tag: "text", val: { part: 0, text: text(said.text), replace: false, parent: null } });
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
      // Unknown output is reported, because it shows that the agent changed.
      const known = Object.keys(said).length > 0;
      const what = known ? `line type ${JSON.stringify(text(said.type))}` : "line that is not a JSON object";
      const path = known ? "type" : null;
      event({ tag: "unrecognised", val: { difference: "unknown", what, path, sample: raw.slice(0, 500).toWellFormed() } });
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
