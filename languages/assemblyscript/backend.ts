// The exports of the contract: one link, one turn, one process. Gemini CLI's details are in
// `gemini.ts`.

import * as c from "./contract";
import { DESCRIPTOR } from "./descriptor";
import { bytes, Emit, failure, Gemini, Plan, Told } from "./gemini";

const PROC: u32 = 1;
const LINGER: u32 = 1;
/** Milliseconds that an agent may take to exit after its result. Then the turn ends anyway. */
const LINGER_MS: u32 = 2000;
/** Milliseconds after an interrupt until the agent's processes are killed. */
const GRACE_MS: u32 = 3000;

/** The state of a turn. */
class Link {
  agent: Gemini = new Gemini();
  turn: c.TurnRef | null = null;
  over: bool = false;
  interrupted: bool = false;
  told: Told | null = null;

  take(input: c.Input, out: c.Action[]): void {
    if (input instanceof c.InputCommand) return this.command((<c.InputCommand>input).value, out);
    const turn = this.turn;
    if (turn === null || this.over) return;
    if (input instanceof c.InputLine) {
      const line = (<c.InputLine>input).value;
      if (line.proc != PROC) return;
      const told = this.agent.line(line, new Emit(turn, out));
      if (told === null) return;
      if (this.told === null) out.push(new c.ActionSetTimer(new c.SetTimer(LINGER, LINGER_MS)));
      this.told = told;
    } else if (input instanceof c.InputSpawnFailed) {
      const failed = (<c.InputSpawnFailed>input).value;
      const kind = failed.notFound ? c.FailureKind.NotFound : c.FailureKind.Other;
      this.end(new Told(new c.OutcomeFailed(failure(kind, failed.message))), out);
    } else if (input instanceof c.InputExited) {
      const exited = (<c.InputExited>input).value;
      if (exited.proc != PROC) return;
      const told = this.told;
      this.end(told === null ? new Told(this.withoutResult(exited)) : told, out);
    } else if (input instanceof c.InputTimer) {
      const told = this.told;
      if ((<c.InputTimer>input).value == LINGER && told !== null) this.end(told, out);
    }
  }

  private command(command: c.Command, out: c.Action[]): void {
    const turn = this.turn;
    if (command instanceof c.CommandStartTurn) {
      const start = (<c.CommandStartTurn>command).value;
      if (turn === null) return this.start(start, out);
      const outcome = new c.OutcomeFailed(failure(c.FailureKind.Unsupported, "one link serves one turn"));
      out.push(new c.ActionTurnDone(new c.TurnDone(start.session, start.turn, outcome, null, null)));
    } else if (command instanceof c.CommandSteer) {
      const message = (<c.CommandSteer>command).value.message;
      out.push(new c.ActionSteered(new c.Steered(message, c.SteerOutcome.NotNow)));
    } else if (command instanceof c.CommandQuery) {
      const said = "this agent runs only for a turn and does not answer queries";
      const answer = new c.QueryResultFailed(failure(c.FailureKind.Unsupported, said));
      out.push(new c.ActionQueryAnswer(new c.QueryAnswer((<c.CommandQuery>command).value.query, answer)));
    } else if (turn !== null && !this.over) {
      if (command instanceof c.CommandInterrupt && (<c.CommandInterrupt>command).value.turn == turn.turn) {
        this.interrupted = true;
        out.push(new c.ActionStop(new c.Stop(PROC, c.Signal.Interrupt, GRACE_MS)));
      } else if (command instanceof c.CommandShutdown) {
        out.push(new c.ActionStop(new c.Stop(PROC, c.Signal.Terminate, GRACE_MS)));
      }
    }
  }

  private start(start: c.StartTurn, out: c.Action[]): void {
    const turn = new c.TurnRef(start.session, start.turn);
    this.turn = turn;
    const plan = this.agent.plan(start, new Emit(turn, out));
    const refused = plan.refused;
    if (refused !== null) return this.end(new Told(new c.OutcomeFailed(refused)), out);
    const given = plan.given.map<c.Value>((text) => new c.ValueText(text));
    const stdin = plan.stdin.map<c.Chunk>((text) => new c.ChunkText(text));
    const session = new c.Some<u32>(turn.session);
    const spawn = new c.Spawn(
      PROC,
      "gemini",
      given,
      plan.environment,
      stdin,
      false,
      false,
      null,
      session,
      new c.Some<u32>(turn.turn),
    );
    out.push(new c.ActionSpawn(spawn));
  }

  /** Returns the outcome of a turn whose process exited without a result. */
  private withoutResult(exited: c.Exited): c.Outcome {
    if (this.interrupted) return new c.OutcomeInterrupted();
    const said = summary(exited.stderrTail);
    const code: u32 = exited.how instanceof c.ExitCode ? (<c.ExitCode>exited.how).value : 0;
    let signal: u32 = exited.how instanceof c.ExitSignal ? (<c.ExitSignal>exited.how).value : 0;
    // Shells and agents report a fatal signal as the exit code 128 plus its number.
    if (code >= 129 && code <= 159) signal = code - 128;
    else if (code != 0) return new c.OutcomeFailed(this.agent.failure(said));
    const kind = signal > 0 ? c.FailureKind.Crashed : c.FailureKind.Protocol;
    const how = signal > 0 ? `the agent was ended by signal ${signal}` : "the agent ended without a result";
    return new c.OutcomeLost(failure(kind, said == "" ? how : `${how}: ${said}`));
  }

  private end(told: Told, out: c.Action[]): void {
    const turn = this.turn;
    if (turn === null) return;
    this.over = true;
    // An interrupted agent may report the interruption as a failure.
    const outcome = this.interrupted && told.outcome instanceof c.OutcomeFailed ? new c.OutcomeInterrupted() : told.outcome;
    out.push(new c.ActionTurnDone(new c.TurnDone(turn.session, turn.turn, outcome, told.text, told.usage)));
  }
}

/** Returns the last 5 non-empty lines of stderr, at most 1 KiB. */
function summary(tail: string): string {
  const lines = tail.split("\n");
  const said: string[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at].trim();
    if (line != "") said.push(line);
  }
  const all = said.slice(-5).join("\n");
  let from = all.length;
  let size = 0;
  while (from > 0) {
    const step = from > 1 && (all.charCodeAt(from - 1) & 0xfc00) == 0xdc00 ? 2 : 1;
    size += bytes(all.codePointAt(from - step));
    if (size > 1024) break;
    from -= step;
  }
  return all.substring(from);
}

const link = new Link();

export function describe(): string {
  return DESCRIPTOR;
}

export function handle(inputs: c.TimedInput[]): c.Result<c.Action[]> {
  const out: c.Action[] = [];
  for (let at = 0; at < inputs.length; at++) link.take(inputs[at].input, out);
  return new c.Result<c.Action[]>(out);
}

export function save(): string | null {
  return null;
}

export function load(state: string, savedBy: string): string | null {
  return "the state of a single turn cannot be saved";
}
