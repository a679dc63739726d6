"""The exports of the contract: one link, one turn, one process.

Gemini CLI's details are in `gemini.py`. An exception becomes the error of `handle` with its
location, and its traceback is written to stderr, which the gateway logs. Modules are imported while
the component is built, and there are no files at run time.
"""

import sys
import traceback

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import types as t

from gemini import DESCRIPTOR, Emit, Gemini, Refused, Result, failure

PROC = 1
LINGER = 1
# Milliseconds that an agent may take to exit after its result. Then the turn ends anyway.
LINGER_MS = 2000
# Milliseconds after an interrupt until the agent's processes are killed.
GRACE_MS = 3000


class Backend(exports.Backend):
    """The exports of the contract. Each call creates a new object, so the state is in LINK."""

    def describe(self) -> str:
        return DESCRIPTOR

    def handle(self, inputs: list[t.TimedInput]) -> list[t.Action]:
        out: list[t.Action] = []
        for timed in inputs:
            try:
                LINK.take(timed.input, out)
            except Exception as error:
                traceback.print_exc()
                sys.stderr.flush()
                place = traceback.extract_tb(error.__traceback__)[-1]
                raise Err(f"{type(error).__name__}: {error} in {place.name} (line {place.lineno}), {LINK.at()}") from None
        return out

    def save(self) -> str | None:
        return None

    def load(self, state: str, saved_by: str) -> None:
        raise Err("the state of a single turn cannot be saved")


class Link:
    """The state of a turn."""

    def __init__(self) -> None:
        self.agent = Gemini()
        self.turn: t.TurnRef | None = None
        self.over = False
        self.interrupted = False
        self.result: Result | None = None
        self.lines = 0

    def at(self) -> str:
        return f"at line {self.lines} of the agent's output"

    def take(self, given: t.Input, out: list[t.Action]) -> None:
        if isinstance(given, t.Input_Command):
            self.command(given.value, out)
        if self.turn is None or self.over:
            return
        match given:
            case t.Input_Line(line) if line.proc == PROC:
                self.lines += 1
                result = self.agent.line(line, Emit(self.turn, out))
                if result is not None:
                    if self.result is None:
                        out.append(t.Action_SetTimer(t.SetTimer(LINGER, LINGER_MS)))
                    self.result = result
            case t.Input_SpawnFailed(failed):
                kind = t.FailureKind.NOT_FOUND if failed.not_found else t.FailureKind.OTHER
                self.end(Result(t.Outcome_Failed(failure(kind, failed.message))), out)
            case t.Input_Exited(exited) if exited.proc == PROC:
                self.end(self.result or Result(self.without_result(exited)), out)
            case t.Input_Timer(timer) if timer == LINGER and self.result is not None:
                self.end(self.result, out)

    def command(self, command: t.Command, out: list[t.Action]) -> None:
        running = self.turn is not None and not self.over
        match command:
            case t.Command_StartTurn(start) if self.turn is None:
                self.start(start, out)
            case t.Command_StartTurn(start):
                outcome = t.Outcome_Failed(failure(t.FailureKind.UNSUPPORTED, "one link serves one turn"))
                out.append(t.Action_TurnDone(t.TurnDone(start.session, start.turn, outcome, None, None)))
            case t.Command_Interrupt(turn) if running and turn.turn == self.turn.turn:
                self.interrupted = True
                out.append(t.Action_Stop(t.Stop(PROC, t.Signal.INTERRUPT, GRACE_MS)))
            case t.Command_Shutdown() if running:
                out.append(t.Action_Stop(t.Stop(PROC, t.Signal.TERMINATE, GRACE_MS)))
            case t.Command_Steer(steer):
                out.append(t.Action_Steered(t.Steered(steer.message, t.SteerOutcome.NOT_NOW)))
            case t.Command_Query(query):
                said = "this agent runs only for a turn and does not answer queries"
                answer = t.QueryResult_Failed(failure(t.FailureKind.UNSUPPORTED, said))
                out.append(t.Action_QueryAnswer(t.QueryAnswer(query.query, answer)))

    def start(self, start: t.StartTurn, out: list[t.Action]) -> None:
        self.turn = t.TurnRef(start.session, start.turn)
        try:
            plan = self.agent.plan(start, Emit(self.turn, out))
        except Refused as refused:
            self.end(Result(t.Outcome_Failed(refused.failure)), out)
            return
        spawn = t.Spawn(
            proc=PROC,
            program="gemini",
            arguments=[t.Value_Text(argument) for argument in plan.arguments],
            environment=[t.Variable(name, t.Value_Text(value)) for name, value in plan.environment],
            stdin=[t.Chunk_Text(text) for text in plan.stdin],
            keep_open=False,
            listens=False,
            basic_auth=None,
            session=start.session,
            turn=start.turn,
        )
        out.append(t.Action_Spawn(spawn))

    def without_result(self, exited: t.Exited) -> t.Outcome:
        """Returns the outcome of a turn whose process exited without a result."""
        if self.interrupted:
            return t.Outcome_Interrupted()
        said = summary(exited.stderr_tail)
        code = exited.how.value if isinstance(exited.how, t.Exit_Code) else 0
        # Shells and agents report a fatal signal as the exit code 128 plus its number.
        signal = exited.how.value if isinstance(exited.how, t.Exit_Signal) else code - 128
        if isinstance(exited.how, t.Exit_Signal) or 129 <= code <= 159:
            kind, how = t.FailureKind.CRASHED, f"the agent was ended by signal {signal}"
        elif code != 0:
            return t.Outcome_Failed(self.agent.failure(said))
        else:
            kind, how = t.FailureKind.PROTOCOL, "the agent ended without a result"
        return t.Outcome_Lost(failure(kind, f"{how}: {said}" if said else how))

    def end(self, result: Result, out: list[t.Action]) -> None:
        self.over = True
        outcome = result.outcome
        # An interrupted agent may report the interruption as a failure.
        if self.interrupted and isinstance(outcome, t.Outcome_Failed):
            outcome = t.Outcome_Interrupted()
        done = t.TurnDone(self.turn.session, self.turn.turn, outcome, result.text, result.usage)
        out.append(t.Action_TurnDone(done))


def summary(tail: str) -> str:
    """Returns the last 5 non-empty lines of stderr, at most 1 KiB."""
    said = [line.strip() for line in tail.split("\n") if line.strip()]
    return "\n".join(said[-5:]).encode()[-1024:].decode(errors="ignore")


# The state of this instance. It is global, because calls of `Backend` share no object.
LINK = Link()
