// A backend for {{name}}: one process for each turn, which reads the prompt from stdin and prints
// JSON lines.
//
// Each turn has its own instance. There are no files, no clock and no network. A thrown value
// becomes the error of `handle`.

import { missing, parse, prompt, text, toolStart, usage } from "./agent.js";
import type { Action, Backend, EventKind, Input, Outcome, StartTurn, TurnRef, Usage } from "./contract.js";
import { descriptor } from "./descriptor.js";

const PROC = 1;
const LINGER = 1;

let turn: TurnRef | null = null;
let served: number | null = null;
let interrupted = false;
let result: { outcome: Outcome; usage: Usage | null } | null = null;

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
  save: () => null,
  load() {
    throw "the state of a single turn cannot be saved";
  },
};

function take(input: Input, out: Action[]): void {
  if (input.tag === "command" && input.val.tag === "start-turn") {
    const start = input.val.val;
    if (served !== null)
      return void (served !== start.turn && out.push(done(start, failed("other", "one link serves one turn"), null)));
    served = start.turn;
    turn = { session: start.session, turn: start.turn };
    out.push(plan(start));
  }
  if (turn === null) return;
  if (input.tag === "command" && input.val.tag === "interrupt") {
    interrupted = true;
    out.push({ tag: "stop", val: { proc: PROC, signal: "interrupt", graceMs: 3000 } });
  } else if (input.tag === "line" && input.val.pipe === "stdout" && input.val.text.trim() !== "") {
    line(input.val.text.trim(), turn, out);
  } else if (input.tag === "spawn-failed") {
    end(failed(input.val.notFound ? "not-found" : "other", input.val.message), null, out);
  } else if (input.tag === "exited") {
    const message = input.val.stderrTail.trim() || "the agent ended without a result";
    const lost: Outcome = { tag: "lost", val: { kind: "crashed", message, retryAfterMs: null } };
    end(result?.outcome ?? lost, result?.usage ?? null, out);
  } else if (input.tag === "timer" && input.val === LINGER && result !== null) {
    end(result.outcome, result.usage, out);
  }
}

/** Returns the process to start. The host refuses flags that are not in descriptor.json. */
function plan(start: StartTurn): Action {
  const resume = start.nativeId === null ? [] : ["--resume", start.nativeId];
  return {
    tag: "spawn",
    val: {
      proc: PROC,
      program: "{{name}}",
      arguments: ["--json", ...resume].map((val) => ({ tag: "text", val })),
      environment: [],
      stdin: [{ tag: "text", val: prompt(start.parts) }],
      keepOpen: false,
      listens: false,
      basicAuth: null,
      session: start.session,
      turn: start.turn,
    },
  };
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
      told({ tag: "completed" }, usage(said.usage), out);
      break;
    case "error":
      told(failed("other", text(said.message)), null, out);
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

/** Saves the result. The turn ends when the process exits, at the latest in two seconds. */
function told(outcome: Outcome, usage: Usage | null, out: Action[]): void {
  if (result === null) out.push({ tag: "set-timer", val: { timer: LINGER, afterMs: 2000 } });
  result = { outcome, usage };
}

function end(outcome: Outcome, usage: Usage | null, out: Action[]): void {
  if (turn === null) return;
  const how: Outcome = interrupted && outcome.tag !== "completed" ? { tag: "interrupted" } : outcome;
  out.push(done(turn, how, usage));
  turn = null;
}

function done({ session, turn }: TurnRef, outcome: Outcome, usage: Usage | null): Action {
  return { tag: "turn-done", val: { session, turn, outcome, text: null, usage } };
}

function failed(kind: "not-found" | "other", message: string): Outcome {
  return { tag: "failed", val: { kind, message, retryAfterMs: null } };
}
