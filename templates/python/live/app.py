"""A backend for {{name}}: one process for all turns of a conversation. Prompts and output are JSON
lines.

The host calls `Backend`. Each conversation has its own instance. There are no files, no clock and
no network. Modules are imported while the component is built.
"""

import json
import re
import traceback
from pathlib import Path

from agent import missing, parse, prompt, text, tool_start, usage
from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import types as t

DESCRIPTOR = (Path(__file__).parent / "descriptor.json").read_text()


class Backend(exports.Backend):
    """The exports of the contract. Each call creates a new object, so the state is in CONVERSATION."""

    def describe(self) -> str:
        return DESCRIPTOR

    def handle(self, inputs: list[t.TimedInput]) -> list[t.Action]:
        out: list[t.Action] = []
        try:
            for timed in inputs:
                CONVERSATION.take(timed.input, out)
        except Exception as error:
            traceback.print_exc()  # is written to the gateway's log
            raise Err(f"{type(error).__name__}: {error}") from None
        return out

    def save(self) -> str | None:
        return CONVERSATION.save()

    def load(self, state: str, saved_by: str) -> None:
        try:
            CONVERSATION.load(json.loads(state))
        except (ValueError, KeyError, TypeError) as error:
            raise Err(f"saved by version {saved_by}: {type(error).__name__}: {error}") from None


class Conversation:
    def __init__(self) -> None:
        self.proc = 0  # the number of the running process; each process gets a new one
        self.runs = False
        self.turn: t.TurnRef | None = None
        self.interrupted = False

    def save(self) -> str | None:
        """Returns what the next version needs to continue with the process, or None during a turn or without a process."""
        return json.dumps({"proc": self.proc}) if self.runs and self.turn is None else None

    def load(self, state: dict) -> None:
        self.proc, self.runs = int(state["proc"]), True

    def take(self, given: t.Input, out: list[t.Action]) -> None:
        match given:
            case t.Input_Command(t.Command_StartTurn(start)) if self.turn is None:
                self.turn = t.TurnRef(start.session, start.turn)
                self.interrupted = False
                if not self.runs:
                    self.runs = True
                    self.proc += 1
                    out.append(t.Action_Spawn(self.plan(start)))
                self.write({"type": "prompt", "text": prompt(start.parts)}, out)
            case t.Input_Command(t.Command_StartTurn(start)) if self.turn and start.turn != self.turn.turn:
                busy = t.Outcome_Failed(t.Failure(t.FailureKind.OTHER, "another turn is still open", None))
                out.append(t.Action_TurnDone(t.TurnDone(start.session, start.turn, busy, None, None)))
            case t.Input_Command(t.Command_Interrupt()) if self.turn:
                self.interrupted = True
                self.write({"type": "stop"}, out)
            case t.Input_Command(t.Command_Shutdown()) if self.runs:
                out.append(t.Action_CloseStdin(self.proc))
            case t.Input_Line(line) if self.turn and line.pipe == t.Pipe.STDOUT and line.text.strip():
                self.line(line.text.strip(), out)
            case t.Input_SpawnFailed(failed):
                self.runs = False
                kind = t.FailureKind.NOT_FOUND if failed.not_found else t.FailureKind.OTHER
                self.end(t.Outcome_Failed(t.Failure(kind, failed.message, None)), None, out)
            case t.Input_Exited(exited) if exited.proc == self.proc:
                self.runs = False
                said = exited.stderr_tail.strip() or "the agent ended in the middle of a turn"
                self.end(t.Outcome_Lost(t.Failure(t.FailureKind.CRASHED, said, None)), None, out)

    def plan(self, start: t.StartTurn) -> t.Spawn:
        """Returns the process to start. The host refuses flags that are not in descriptor.json."""
        arguments = ["--serve"]
        if start.native_id is not None:
            arguments += ["--resume", start.native_id]
        return t.Spawn(
            proc=self.proc,
            program="{{name}}",
            arguments=[t.Value_Text(argument) for argument in arguments],
            environment=[],
            stdin=[],
            keep_open=True,
            listens=False,
            basic_auth=None,
            session=start.session,
            turn=start.turn,
        )

    def write(self, message: dict, out: list[t.Action]) -> None:
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":")) + "\n"
        out.append(t.Action_Write(t.Write(self.proc, [t.Chunk_Text(line)])))

    def line(self, raw: str, out: list[t.Action]) -> None:
        """Handles a line of output."""
        said = parse(raw)
        for report in missing(said, raw):
            self.event(report, out)
        match text(said, "type"):
            case "session" if re.fullmatch("[A-Za-z0-9_.:][A-Za-z0-9_.:-]{0,127}", text(said, "id")):
                out.append(t.Action_SessionReady(t.SessionReady(self.turn.session, text(said, "id"), None, None, [])))
            case "text":
                self.event(t.EventKind_Text(t.Text(0, text(said, "text"), False, None)), out)
            case "tool":
                self.event(t.EventKind_ToolStart(tool_start(said)), out)
            case "tool-result":
                status = t.ToolStatus.OK if said.get("ok") is True else t.ToolStatus.FAILED
                end = t.ToolEnd(text(said, "id"), status, text(said, "output"), None, [])
                self.event(t.EventKind_ToolEnd(end), out)
            case "done":
                self.end(t.Outcome_Completed(), usage(said.get("usage")), out)
            case "error":
                self.end(t.Outcome_Failed(t.Failure(t.FailureKind.OTHER, text(said, "message"), None)), None, out)
            case kind:
                # Unknown output is reported, because it shows that the agent changed.
                what = f"line type {json.dumps(kind)}" if said else "line that is not a JSON object"
                self.event(t.EventKind_Unrecognised(t.Unrecognised(t.Difference.UNKNOWN, what, "type" if said else None, raw[:500])), out)

    def event(self, kind: t.EventKind, out: list[t.Action]) -> None:
        out.append(t.Action_Event(t.Event(self.turn.session, self.turn.turn, kind)))

    def end(self, outcome: t.Outcome, used: t.Usage | None, out: list[t.Action]) -> None:
        if self.turn is None:
            return
        turn, self.turn = self.turn, None
        if self.interrupted:
            outcome = t.Outcome_Interrupted()
        out.append(t.Action_TurnDone(t.TurnDone(turn.session, turn.turn, outcome, None, used)))


# The state of this instance. It is global, because calls of `Backend` share no object.
CONVERSATION = Conversation()
