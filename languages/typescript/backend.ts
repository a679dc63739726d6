// The exports of the contract: one link, one turn, one process. Gemini CLI's details are in
// `gemini.ts`.
//
// An exception becomes the error of `handle` with its location. The host ends the turn and logs it.

import type { Action, Backend, Command, Exited, Input, Outcome, StartTurn, TurnRef } from "./contract.js";
import { descriptor } from "./descriptor.js";
import { bytes, Emit, failure, Gemini, Refused, type Result } from "./gemini.js";

const PROC = 1;
const LINGER = 1;
/** Milliseconds that an agent may take to exit after its result. Then the turn ends anyway. */
const LINGER_MS = 2000;
/** Milliseconds after an interrupt until the agent's processes are killed. */
const GRACE_MS = 3000;

/** The state of a turn. */
class Link {
  lines = 0;
  private agent = new Gemini();
  private turn: TurnRef | null = null;
  private over = false;
  private interrupted = false;
  private result: Result | null = null;

  take(input: Input, out: Action[]): void {
    if (input.tag === "command") this.command(input.val, out);
    if (this.turn === null || this.over) return;
    switch (input.tag) {
      case "line": {
        if (input.val.proc !== PROC) return;
        this.lines += 1;
        const result = this.agent.line(input.val, new Emit(this.turn, out));
        if (result === null) return;
        if (this.result === null) out.push({ tag: "set-timer", val: { timer: LINGER, afterMs: LINGER_MS } });
        this.result = result;
        return;
      }
      case "spawn-failed":
        return this.end(failed(failure(input.val.notFound ? "not-found" : "other", input.val.message)), out);
      case "exited":
        if (input.val.proc === PROC) this.end(this.result ?? withoutText(this.withoutResult(input.val)), out);
        return;
      case "timer":
        if (input.val === LINGER && this.result !== null) this.end(this.result, out);
    }
  }

  private command(command: Command, out: Action[]): void {
    const running = this.turn !== null && !this.over;
    switch (command.tag) {
      case "start-turn":
        if (this.turn === null) return this.start(command.val, out);
        return void out.push(done(command.val, failed(failure("unsupported", "one link serves one turn"))));
      case "interrupt":
        if (!running || command.val.turn !== this.turn?.turn) return;
        this.interrupted = true;
        return void out.push({ tag: "stop", val: { proc: PROC, signal: "interrupt", graceMs: GRACE_MS } });
      case "shutdown":
        if (running) out.push({ tag: "stop", val: { proc: PROC, signal: "terminate", graceMs: GRACE_MS } });
        return;
      case "steer":
        return void out.push({ tag: "steered", val: { message: command.val.message, outcome: "not-now" } });
      case "query": {
        const said = failure("unsupported", "this agent runs only for a turn and does not answer queries");
        out.push({ tag: "query-answer", val: { query: command.val.query, answer: { tag: "failed", val: said } } });
      }
    }
  }

  private start(start: StartTurn, out: Action[]): void {
    this.turn = { session: start.session, turn: start.turn };
    try {
      const plan = this.agent.plan(start, new Emit(this.turn, out));
      const spawn = {
        proc: PROC,
        program: "gemini",
        arguments: plan.arguments.map((text) => ({ tag: "text" as const, val: text })),
        environment: plan.environment.map(([name, text]) => ({ name, value: { tag: "text" as const, val: text } })),
        stdin: plan.stdin.map((text) => ({ tag: "text" as const, val: text })),
        keepOpen: false,
        listens: false,
        basicAuth: null,
        session: start.session,
        turn: start.turn,
      };
      out.push({ tag: "spawn", val: spawn });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.end(failed(error.failure), out);
    }
  }

  /** Returns the outcome of a turn whose process exited without a result. */
  private withoutResult({ how, stderrTail }: Exited): Outcome {
    if (this.interrupted) return { tag: "interrupted" };
    const said = summary(stderrTail);
    const lost = (kind: "crashed" | "protocol", what: string): Outcome => ({
      tag: "lost",
      val: failure(kind, said === "" ? what : `${what}: ${said}`),
    });
    const code = how.tag === "code" ? how.val : 0;
    if (how.tag === "signal") return lost("crashed", `the agent was ended by signal ${how.val}`);
    // Shells and agents report a fatal signal as the exit code 128 plus its number.
    if (code >= 129 && code <= 159) return lost("crashed", `the agent was ended by signal ${code - 128}`);
    if (code !== 0) return { tag: "failed", val: this.agent.failure(said) };
    return lost("protocol", "the agent ended without a result");
  }

  private end(result: Result, out: Action[]): void {
    this.over = true;
    // An interrupted agent may report the interruption as a failure.
    const failed = this.interrupted && result.outcome.tag === "failed";
    const outcome: Outcome = failed ? { tag: "interrupted" } : result.outcome;
    if (this.turn !== null) out.push(done(this.turn, { ...result, outcome }));
  }
}

function done(turn: TurnRef, result: Result): Action {
  return { tag: "turn-done", val: { session: turn.session, turn: turn.turn, ...result } };
}

function withoutText(outcome: Outcome): Result {
  return { outcome, text: null, usage: null };
}

function failed(why: ReturnType<typeof failure>): Result {
  return withoutText({ tag: "failed", val: why });
}

/** Returns the last 5 non-empty lines of stderr, at most 1 KiB. */
function summary(tail: string): string {
  const said = tail
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const letters = [...said.slice(-5).join("\n")];
  let from = letters.length;
  for (let left = 1024 - bytes(letters[from - 1]); from > 0 && left >= 0; left -= bytes(letters[from - 1])) from -= 1;
  return letters.slice(from).join("");
}

const link = new Link();

export const backend: Backend = {
  describe: () => descriptor,
  handle(inputs) {
    const out: Action[] = [];
    try {
      for (const { input } of inputs) link.take(input, out);
    } catch (error) {
      const place = error instanceof Error ? `${error} ${(error.stack ?? "").trim().split("\n")[0]}` : `${error}`;
      throw `${place}, at line ${link.lines} of the agent's output`;
    }
    return out;
  },
  save: () => null,
  load() {
    throw "the state of a single turn cannot be saved";
  },
};
