"""A backend for {{name}}, run as the operator chooses: one process for each conversation, which
reads prompts as JSON lines and asks for permissions, or one process for each turn, which asks
nothing.

The host calls `Backend`. Each conversation, or each turn, has its own instance. There are no files,
no clock and no network. Modules are imported while the component is built.
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
INSTRUCTIONS = "instructions.md"  # the name of the system prompt's file
LINGER = 1  # the timer after the result of a one-shot agent


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
        return LINK.save()

    def load(self, state: str, saved_by: str) -> None:
        try:
            LINK.load(json.loads(state))
        except (ValueError, KeyError, TypeError) as error:
            raise Err(f"saved by version {saved_by}: {type(error).__name__}: {error}") from None


class Link:
    def __init__(self) -> None:
        self.proc = 0  # the number of the running process; each process gets a new one
        self.runs = False
        self.once: int | None = None  # the turn of a one-shot link
        self.turn: t.TurnRef | None = None
        self.interrupted = False
        self.asked = 0  # the number of the last question
        self.open: dict[int, str] = {}  # open questions, each with the agent's id
        self.result: tuple[t.Outcome, t.Usage | None] | None = None

    def save(self) -> str | None:
        """Returns what the next version needs to continue with the process, or None during a turn or without a process."""
        idle = self.runs and self.turn is None and self.once is None
        return json.dumps({"proc": self.proc, "asked": self.asked}) if idle else None

    def load(self, state: dict) -> None:
        self.proc, self.asked, self.runs = int(state["proc"]), int(state["asked"]), True

    def take(self, given: t.Input, out: list[t.Action]) -> None:
        match given:
            case t.Input_Command(t.Command_StartTurn(start)) if self.turn is None and self.once is None:
                self.start(start, out)
            case t.Input_Command(t.Command_StartTurn(start)) if start.turn not in (self.once, self.turn and self.turn.turn):
                busy = t.Outcome_Failed(t.Failure(t.FailureKind.OTHER, "another turn is still open", None))
                out.append(t.Action_TurnDone(t.TurnDone(start.session, start.turn, busy, None, None)))
            case t.Input_Command(t.Command_Interrupt()) if self.turn:
                self.interrupted = True
                if self.once is None:
                    self.write({"type": "stop"}, out)
                else:
                    out.append(t.Action_Stop(t.Stop(self.proc, t.Signal.INTERRUPT, 3000)))
            case t.Input_Command(t.Command_Answer(answer)) if answer.ask in self.open:
                self.decided(self.open.pop(answer.ask), answer.decision, out)
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
                self.end(*self.result or (t.Outcome_Lost(t.Failure(t.FailureKind.CRASHED, said, None)), None), out)
            case t.Input_Timer(timer) if timer == LINGER and self.result:
                self.end(*self.result, out)

    def start(self, start: t.StartTurn, out: list[t.Action]) -> None:
        self.turn = t.TurnRef(start.session, start.turn)
        self.interrupted = False
        if start.one_shot:
            self.once = start.turn
        if not self.runs:
            self.runs = True
            self.proc += 1
            if start.settings.system_prompt is not None:
                out.append(t.Action_PutFile(t.PutFile(INSTRUCTIONS, [t.Chunk_Text(start.settings.system_prompt)])))
            out.append(t.Action_Spawn(self.plan(start)))
        if not start.one_shot:
            self.write({"text": prompt(start.parts), "type": "prompt"}, out)

    def plan(self, start: t.StartTurn) -> t.Spawn:
        """Returns the process to start. The host refuses flags that are not in descriptor.json.

        Texts of users and operators are passed in files or on stdin, never as arguments."""
        arguments: list[t.Value] = [t.Value_Text("--json" if start.one_shot else "--serve")]
        if start.native_id is not None:
            arguments += [t.Value_Text("--resume"), t.Value_Text(start.native_id)]
        if start.settings.safety == t.Safety.DANGER and start.settings.mode == t.Mode.BUILD:
            arguments.append(t.Value_Text("--yes"))
        if start.settings.system_prompt is not None:
            arguments += [t.Value_Text("--instructions"), t.Value_File(INSTRUCTIONS)]
        return t.Spawn(
            proc=self.proc,
            program="{{name}}",
            arguments=arguments,
            environment=[],
            stdin=[t.Chunk_Text(prompt(start.parts))] if start.one_shot else [],
            keep_open=not start.one_shot,
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
            case "ask" if self.once is None:
                self.ask(said, out)
            case "ask-over" if self.once is None:
                for ask in [ask for ask, id in self.open.items() if id == text(said, "id")]:
                    del self.open[ask]
                    out.append(t.Action_AskWithdrawn(ask))
            case "done":
                stopped = said.get("stopped") is True
                self.told(t.Outcome_Interrupted() if stopped else t.Outcome_Completed(), usage(said.get("usage")), out)
            case "error":
                self.told(t.Outcome_Failed(t.Failure(t.FailureKind.OTHER, text(said, "message"), None)), None, out)
            case kind:
                # Unknown output is reported, because it shows that the agent changed.
                what = f"line type {json.dumps(kind)}" if said else "line that is not a JSON object"
                self.event(t.EventKind_Unrecognised(t.Unrecognised(t.Difference.UNKNOWN, what, "type" if said else None, raw[:500])), out)

    def ask(self, said: dict, out: list[t.Action]) -> None:
        """Handles the agent's request for permission to use a tool."""
        self.asked += 1
        self.open[self.asked] = text(said, "id")
        tool = tool_start({**said, "id": said.get("tool")})
        always = text(said, "always") or None
        title = f"{tool.native_name}: {tool.title}"[:160]
        kind = t.AskKind_Permission(tool)
        out.append(t.Action_Ask(t.Ask(self.asked, self.turn.session, self.turn.turn, title, kind, always, [], [], False, None, None)))

    def decided(self, id: str, decision: t.Decision, out: list[t.Action]) -> None:
        """Sends a decision to the agent. A dismissed question is answered with no."""
        match decision:
            case t.Decision_AllowOnce():
                answer = "once"
            case t.Decision_AllowAlways():
                answer = "always"
            case _:
                answer = "no"
        self.write({"answer": answer, "id": id, "type": "answer"}, out)

    def event(self, kind: t.EventKind, out: list[t.Action]) -> None:
        out.append(t.Action_Event(t.Event(self.turn.session, self.turn.turn, kind)))

    def told(self, outcome: t.Outcome, used: t.Usage | None, out: list[t.Action]) -> None:
        """Ends the turn at once. A one-shot turn ends when the process exits, at the latest in two seconds."""
        if self.once is None:
            return self.end(outcome, used, out)
        if self.result is None:
            out.append(t.Action_SetTimer(t.SetTimer(LINGER, 2000)))
        self.result = (outcome, used)

    def end(self, outcome: t.Outcome, used: t.Usage | None, out: list[t.Action]) -> None:
        if self.turn is None:
            return
        turn, self.turn = self.turn, None
        self.open.clear()  # the host withdraws the questions
        if self.interrupted and not isinstance(outcome, t.Outcome_Completed):
            outcome = t.Outcome_Interrupted()
        out.append(t.Action_TurnDone(t.TurnDone(turn.session, turn.turn, outcome, None, used)))


# The state of this instance. It is global, because calls of `Backend` share no object.
LINK = Link()
