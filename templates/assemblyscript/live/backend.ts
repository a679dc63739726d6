// A backend for {{name}}: one process for all turns of a conversation. Prompts and output are JSON
// lines.
//
// Each conversation has its own instance. There are no files, no clock, no network and no
// exceptions: a failed check ends the instance.

import { isId, missing, prompt, text, toolStart, usage } from "./agent";
import * as c from "./contract";
import { DESCRIPTOR } from "./descriptor";
import { Json, Kind, quoted } from "./json";

// The number of the running process. Each process gets a new number.
let proc: u32 = 0;
let runs = false;
let turn: c.TurnRef | null = null;
let interrupted = false;

export function describe(): string {
  return DESCRIPTOR;
}

export function handle(inputs: c.TimedInput[]): c.Result<c.Action[]> {
  const out: c.Action[] = [];
  for (let at = 0; at < inputs.length; at++) take(inputs[at].input, out);
  return new c.Result<c.Action[]>(out);
}

export function save(): string | null {
  return null; // an idle conversation is closed and resumed with the new version
}

export function load(state: string, savedBy: string): string | null {
  return "this backend saves no state";
}

function take(input: c.Input, out: c.Action[]): void {
  const now = turn;
  if (input instanceof c.InputCommand) {
    const command = (<c.InputCommand>input).value;
    if (command instanceof c.CommandStartTurn && now === null) {
      begin((<c.CommandStartTurn>command).value, out);
    } else if (command instanceof c.CommandStartTurn) {
      const start = (<c.CommandStartTurn>command).value;
      if (now !== null && start.turn == now.turn) return;
      const busy = failure(c.FailureKind.Other, "another turn is still open");
      out.push(new c.ActionTurnDone(new c.TurnDone(start.session, start.turn, busy, null, null)));
    } else if (command instanceof c.CommandInterrupt && now !== null) {
      interrupted = true;
      write('{"type":"stop"}', out);
    } else if (command instanceof c.CommandShutdown && runs) {
      out.push(new c.ActionCloseStdin(proc));
    }
  } else if (input instanceof c.InputLine) {
    const given = (<c.InputLine>input).value;
    const raw = given.text.trim();
    if (now !== null && given.pipe == c.Pipe.Stdout && raw != "") line(raw, now, out);
  } else if (input instanceof c.InputSpawnFailed) {
    runs = false;
    const failed = (<c.InputSpawnFailed>input).value;
    end(failure(failed.notFound ? c.FailureKind.NotFound : c.FailureKind.Other, failed.message), null, out);
  } else if (input instanceof c.InputExited) {
    const exited = (<c.InputExited>input).value;
    if (exited.proc != proc) return;
    runs = false;
    const tail = exited.stderrTail.trim();
    const message = tail == "" ? "the agent ended in the middle of a turn" : tail;
    end(new c.OutcomeLost(new c.Failure(c.FailureKind.Crashed, message, null)), null, out);
  }
}

function begin(start: c.StartTurn, out: c.Action[]): void {
  turn = new c.TurnRef(start.session, start.turn);
  interrupted = false;
  if (!runs) {
    runs = true;
    proc += 1;
    out.push(plan(start));
  }
  write(`{"type":"prompt","text":${quoted(prompt(start.parts))}}`, out);
}

function write(message: string, out: c.Action[]): void {
  const body: c.Chunk[] = [new c.ChunkText(message + "\n")];
  out.push(new c.ActionWrite(new c.Write(proc, body)));
}

/** Returns the process to start. The host refuses flags that are not in descriptor.json. */
function plan(start: c.StartTurn): c.Action {
  const given: c.Value[] = [new c.ValueText("--serve")];
  const resume = start.nativeId;
  if (resume !== null) {
    given.push(new c.ValueText("--resume"));
    given.push(new c.ValueText(resume));
  }
  const session = new c.Some<u32>(start.session);
  return new c.ActionSpawn(new c.Spawn(proc, "{{name}}", given, [], [], true, false, null, session, new c.Some<u32>(start.turn)));
}

/** Handles a line of output. */
function line(raw: string, now: c.TurnRef, out: c.Action[]): void {
  const parsed = Json.parse(raw);
  const known = parsed !== null && parsed.kind == Kind.Object;
  const said = parsed !== null && known ? parsed : new Json(Kind.Object);
  const type = text(said, "type");
  const lacking = missing(said, raw);
  for (let at = 0; at < lacking.length; at++) event(lacking[at], now, out);
  if (type == "session") {
    const id = text(said, "id");
    if (isId(id)) out.push(new c.ActionSessionReady(new c.SessionReady(now.session, id, null, null, [])));
    else if (id != "") {
      const unknown = new c.Unrecognised(c.Difference.Unknown, "session line without a valid id", "id", raw.slice(0, 500));
      event(new c.EventKindUnrecognised(unknown), now, out);
    }
  } else if (type == "text") {
    event(new c.EventKindText(new c.Text(0, text(said, "text"), false, null)), now, out);
  } else if (type == "tool") {
    event(new c.EventKindToolStart(toolStart(said)), now, out);
  } else if (type == "tool-result") {
    const ok = said.field("ok");
    const status = ok !== null && ok.said == "true" ? c.ToolStatus.Ok : c.ToolStatus.Failed;
    event(new c.EventKindToolEnd(new c.ToolEnd(text(said, "id"), status, text(said, "output"), null, [])), now, out);
  } else if (type == "done") {
    end(new c.OutcomeCompleted(), usage(said.field("usage")), out);
  } else if (type == "error") {
    end(failure(c.FailureKind.Other, text(said, "message")), null, out);
  } else {
    // Unknown output is reported, because it shows that the agent changed.
    const what = known ? `line type ${quoted(type)}` : "line that is not a JSON object";
    const path: string | null = known ? "type" : null;
    event(new c.EventKindUnrecognised(new c.Unrecognised(c.Difference.Unknown, what, path, raw.slice(0, 500))), now, out);
  }
}

function event(kind: c.EventKind, now: c.TurnRef, out: c.Action[]): void {
  out.push(new c.ActionEvent(new c.Event(now.session, now.turn, kind)));
}

function end(outcome: c.Outcome, usage: c.Usage | null, out: c.Action[]): void {
  const now = turn;
  if (now === null) return;
  turn = null;
  const how = interrupted ? new c.OutcomeInterrupted() : outcome;
  out.push(new c.ActionTurnDone(new c.TurnDone(now.session, now.turn, how, null, usage)));
}

function failure(kind: c.FailureKind, message: string): c.Outcome {
  return new c.OutcomeFailed(new c.Failure(kind, message, null));
}
