"""A backend for {{name}}: one process for each turn, which reads the prompt from stdin and prints
JSON lines.

The host calls `Backend`. Each turn has its own instance. There are no files, no clock and no
network. Modules are imported while the component is built.
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
PROC = 1
LINGER = 1


class Backend(exports.Backend):
    """The exports of the contract. Each call creates a new object, so the state is in LINK."""

    def describe(self) -> str:
        return DESCRIPTOR

    def handle(self, inputs: list[t.TimedInput]) -> list[t.Action]:
        out: list[t.Action] = []
        try:
            for timed in inputs:
                LINK.take(timed.input, out)
        except Exception as error:
            traceback.print_exc()  # is written to the gateway's log
            raise Err(f"{type(error).__name__}: {error}") from None
        return out

    def save(self) -> str | None:
        return None

    def load(self, state: str, saved_by: str) -> None:
        raise Err("the state of a single turn cannot be saved")


class Link:
    def __init__(self) -> None:
        self.turn: t.TurnRef | None = None
        self.served: int | None = None
        self.interrupted = False
        self.result: tuple[t.Outcome, t.Usage | None] | None = None

    def take(self, given: t.Input, out: list[t.Action]) -> None:
        match given:
            case t.Input_Command(t.Command_StartTurn(start)) if self.served is None:
                self.served = start.turn
                self.turn = t.TurnRef(start.session, start.turn)
                out.append(t.Action_Spawn(self.plan(start)))
            case t.Input_Command(t.Command_StartTurn(start)) if start.turn != self.served:
                busy = t.Outcome_Failed(t.Failure(t.FailureKind.OTHER, "one link serves one turn", None))
                out.append(t.Action_TurnDone(t.TurnDone(start.session, start.turn, busy, None, None)))
            case t.Input_Command(t.Command_Interrupt()) if self.turn:
                self.interrupted = True
                out.append(t.Action_Stop(t.Stop(PROC, t.Signal.INTERRUPT, 3000)))
            case t.Input_Line(line) if self.turn and line.pipe == t.Pipe.STDOUT and line.text.strip():
                self.line(line.text.strip(), out)
            case t.Input_SpawnFailed(failed):
                kind = t.FailureKind.NOT_FOUND if failed.not_found else t.FailureKind.OTHER
                self.end(t.Outcome_Failed(t.Failure(kind, failed.message, None)), None, out)
            case t.Input_Exited(exited):
                said = exited.stderr_tail.strip() or "the agent ended without a result"
                lost = t.Outcome_Lost(t.Failure(t.FailureKind.CRASHED, said, None))
                self.end(*self.result or (lost, None), out)
            case t.Input_Timer(timer) if timer == LINGER and self.result:
                self.end(*self.result, out)

    def plan(self, start: t.StartTurn) -> t.Spawn:
        """Returns the process to start. The host refuses flags that are not in descriptor.json."""
        arguments = ["--json"]
        if start.native_id is not None:
            arguments += ["--resume", start.native_id]
        return t.Spawn(
            proc=PROC,
            program="{{name}}",
            arguments=[t.Value_Text(argument) for argument in arguments],
            environment=[],
            stdin=[t.Chunk_Text(prompt(start.parts))],
            keep_open=False,
            listens=False,
            basic_auth=None,
            session=start.session,
            turn=start.turn,
        )

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
                self.told(t.Outcome_Completed(), usage(said.get("usage")), out)
            case "error":
                self.told(t.Outcome_Failed(t.Failure(t.FailureKind.OTHER, text(said, "message"), None)), None, out)
            case kind:
                # Unknown output is reported, because it shows that the agent changed.
                what = f"line type {json.dumps(kind)}" if said else "line that is not a JSON object"
                self.event(t.EventKind_Unrecognised(t.Unrecognised(t.Difference.UNKNOWN, what, "type" if said else None, raw[:500])), out)

    def event(self, kind: t.EventKind, out: list[t.Action]) -> None:
        out.append(t.Action_Event(t.Event(self.turn.session, self.turn.turn, kind)))

    def told(self, outcome: t.Outcome, used: t.Usage | None, out: list[t.Action]) -> None:
        """Saves the result. The turn ends when the process exits, at the latest in two seconds."""
        if self.result is None:
            out.append(t.Action_SetTimer(t.SetTimer(LINGER, 2000)))
        self.result = (outcome, used)

    def end(self, outcome: t.Outcome, used: t.Usage | None, out: list[t.Action]) -> None:
        if self.turn is None:
            return
        turn, self.turn = self.turn, None
        if self.interrupted and not isinstance(outcome, t.Outcome_Completed):
            outcome = t.Outcome_Interrupted()
        out.append(t.Action_TurnDone(t.TurnDone(turn.session, turn.turn, outcome, None, used)))


# The state of this instance. It is global, because calls of `Backend` share no object.
LINK = Link()
