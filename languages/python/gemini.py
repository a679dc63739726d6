"""Gemini CLI, run once a turn: its command line, the lines `gemini -o stream-json` prints, and why it failed.

Made against Gemini CLI 0.61.0. Output it does not know becomes an `unrecognised` event.
"""

import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wit_world.imports import types as t

# Read when the component is built, and part of it from then on.
DESCRIPTOR = next(file for folder in sys.path if (file := Path(folder) / "gemini.json").exists()).read_text()

# Without the first it refuses to work in a folder nobody trusted in its own interface; without the second it starts itself
# again as a child and does not hear signals; without the third it opens a browser to sign in.
ENVIRONMENT = [("GEMINI_CLI_TRUST_WORKSPACE", "true"), ("GEMINI_CLI_NO_RELAUNCH", "true"), ("NO_BROWSER", "1")]

# Stops the expansion of `@path` in text that stands before people's own, which the host has made inert.
ESCAPE = "\\"

# Least pause before Gemini CLI asks the model again, milliseconds, and the letters that must be alike to tell that it did.
RETRY_PAUSE_MS = 900.0
ALIKE = 8

# How deep JSON may be nested.
DEEPEST = 128

# Bytes of a sample of output nobody knows, and of a tool's title.
SAMPLE = 2048
TITLE = 160

KINDS = {
    "run_shell_command": "bash",
    "Bash": "bash",
    "list_background_processes": "bash",
    "read_background_output": "bash",
    "read_file": "file_read",
    "read_many_files": "file_read",
    "write_file": "file_write",
    "replace": "file_edit",
    "glob": "file_search",
    "list_directory": "file_search",
    "grep_search": "content_search",
    "search_file_content": "content_search",
    "google_web_search": "web_search",
    "web_fetch": "web_fetch",
    "invoke_agent": "agent_spawn",
    "write_todos": "todo",
    "ask_user": "ask_user",
    "activate_skill": "skill",
}

# What a use of a tool is about: the first of these fields of its input.
TARGETS = {
    "bash": ["command"],
    "content_search": ["pattern", "path", "dir_path"],
    "file_search": ["pattern", "path", "dir_path"],
    "web_search": ["query"],
    "web_fetch": ["url", "prompt"],
    "agent_spawn": ["description", "agent_name"],
}

# Beginnings of lines on stderr that say nothing.
NOISE = (
    "Warning: 256-color support not detected",
    "YOLO mode is enabled",
    "Ripgrep is not available",
    "[STARTUP]",
    "Security Warning: Skipping system",
    "at ",
    "Loaded cached credentials",
)

STATUS = {"success": t.ToolStatus.OK, "error": t.ToolStatus.FAILED}
TODO = {"in_progress": t.PlanStatus.ACTIVE, "completed": t.PlanStatus.DONE, "cancelled": t.PlanStatus.DONE}


class Refused(Exception):
    """The turn cannot be started."""

    def __init__(self, kind: t.FailureKind, message: str) -> None:
        super().__init__(message)
        self.failure = failure(kind, message)


@dataclass
class Plan:
    """What to start."""

    arguments: list[str]
    stdin: list[str]
    environment: list[tuple[str, str]]


@dataclass
class Result:
    """What the turn came to; without a text, the answer is its parts in order."""

    outcome: t.Outcome
    text: str | None = None
    usage: t.Usage | None = None


class Emit:
    """Writes the agent-events of a turn in few words."""

    def __init__(self, turn: t.TurnRef, out: list[t.Action]) -> None:
        self.turn = turn
        self.out = out

    def event(self, kind: t.EventKind) -> None:
        self.out.append(t.Action_Event(t.Event(self.turn.session, self.turn.turn, kind)))

    def text(self, part: int, text: str, replace: bool = False) -> None:
        self.event(t.EventKind_Text(t.Text(part, text, replace, None)))

    def unrecognised(self, what: str, path: str | None, output: str) -> None:
        self.event(t.EventKind_Unrecognised(t.Unrecognised(what, path, head(output, SAMPLE))))


class Answer:
    """Which text belongs to which part of the answer: a part ends where a tool begins."""

    def __init__(self) -> None:
        self.parts = 0
        self.open = False
        # What was said since the last tool: whole, its first piece, its parts, and when the last piece came.
        self.tail = ""
        self.first = ""
        self.shown: list[int] = []
        self.at_ms = 0.0

    def more(self, text: str, emit: Emit) -> None:
        if not text:
            return
        if not self.open:
            self.open = True
            self.shown.append(self.parts)
            self.parts += 1
        if not self.tail:
            self.first = text
        self.tail += text
        emit.text(self.parts - 1, text)

    def again(self, at_ms: float, text: str, emit: Emit) -> None:
        """Takes back what was said where, after a pause, the answer begins a second time: Gemini CLI asks the model again when
        the connection breaks, and tells the new answer without a word about the old one."""
        pause = at_ms - self.at_ms
        self.at_ms = at_ms
        alike = text.startswith(self.first) or self.first.startswith(text)
        if not self.tail or pause < RETRY_PAUSE_MS or not alike or min(len(text), len(self.first)) < ALIKE:
            return
        for part in self.shown:
            emit.text(part, "", replace=True)
        self.tool()

    def tool(self) -> None:
        """What was said before the use of a tool is no part of the final answer."""
        self.open = False
        self.tail = ""
        self.shown = []

    def finish(self) -> str | None:
        """The final answer, told once; none: the parts in order."""
        answer, self.tail = self.tail, ""
        return answer or None


class Gemini:
    """Gemini CLI, as it speaks in one turn."""

    def __init__(self) -> None:
        self.resumed: str | None = None
        # Id and model of a new session without history: one whose first turn fails at the model is not kept.
        self.unkept: tuple[str, str | None] | None = None
        self.answer = Answer()
        self.error: str | None = None

    def plan(self, start: t.StartTurn, emit: Emit) -> Plan:
        """The process for a turn. The prompt goes in on stdin: nothing people wrote is ever an argument."""
        prompt = "\n\n".join(part_text(part) for part in start.parts)
        if not prompt.strip():
            raise Refused(t.FailureKind.BAD_REQUEST, "the prompt is empty")
        if start.fork:
            raise Refused(t.FailureKind.UNSUPPORTED, "Gemini CLI cannot copy a session")
        settings = start.settings
        arguments = ["-o", "stream-json", "--approval-mode", approval(settings)]
        self.resumed = start.native_id
        if start.native_id is not None:
            # `latest` and numbers would resume somebody's session.
            if not is_uuid(start.native_id):
                raise Refused(t.FailureKind.SESSION_UNKNOWN, "the session id is not one of Gemini CLI")
            arguments += ["--resume", start.native_id]
        elif is_uuid(start.fresh_id):
            # A first turn that is killed before it says anything can be resumed by a preset id.
            arguments += ["--session-id", start.fresh_id]
        if settings.model is not None:
            arguments += ["-m", settings.model]
        if settings.effort is not None:
            said = f"Gemini CLI lets nobody choose its effort: {quoted(settings.effort)} is ignored"
            emit.out.append(t.Action_Diagnostic(t.Diagnostic(t.Level.WARN, said)))
        stdin = [prompt]
        if settings.system_prompt:
            # Each run is a new process that knows of no system prompt told before.
            stdin.insert(0, standing(settings.system_prompt).replace("@", f"{ESCAPE}@") + "\n\n")
        return Plan(arguments, stdin, ENVIRONMENT)

    def line(self, line: t.Line, emit: Emit) -> Result | None:
        """Takes a line of output in; returns the result once there is one."""
        raw = line.text.strip()
        if line.pipe == t.Pipe.STDERR:
            # The only sign of life while the model's service fails, which takes minutes.
            if raw.startswith("Attempt ") and " failed" in raw:
                retry = failure(kind_of(raw), raw.split(". Retrying")[0])
                emit.event(t.EventKind_Retry(retry))
            return None
        if not raw:
            return None
        message = parse(raw)
        if not isinstance(message, dict):
            what = "line longer than the limit" if line.truncated else "line that is not a JSON object"
            emit.unrecognised(what, None, raw)
            return None
        return self.message(message, raw, emit)

    def message(self, message: dict, raw: str, emit: Emit) -> Result | None:
        match text(message, "type"):
            case "init":
                self.init(message, raw, emit)
            case "message":
                self.said(message, raw, emit)
            case "tool_use":
                self.kept(emit)
                self.tool(message, emit)
            case "tool_result":
                status = STATUS.get(text(message, "status") or "", t.ToolStatus.UNKNOWN)
                output = text(message, "output")
                if output is None:
                    output = text(message.get("error"), "message")
                emit.event(t.EventKind_ToolEnd(t.ToolEnd(text(message, "tool_id") or "", status, output, None, [])))
            case "error":
                self.error = text(message, "message") or ""
                if text(message, "severity") == "warning":
                    emit.event(t.EventKind_Notice(self.error))
            case "result":
                return self.result(message, emit)
            case None:
                emit.unrecognised("line without a type", "type", raw)
            case kind:
                emit.unrecognised(f"line type {quoted(kind)}", "type", raw)
        return None

    def init(self, message: dict, raw: str, emit: Emit) -> None:
        native_id = text(message, "session_id")
        if native_id is None:
            emit.unrecognised("init line without a session", "session_id", raw)
            return
        if self.resumed is not None and self.resumed != native_id:
            emit.event(t.EventKind_Notice("Gemini CLI began a new session: the earlier conversation is lost"))
        self.unkept = (native_id, text(message, "model"))
        if self.resumed is not None:
            self.kept(emit)

    def said(self, message: dict, raw: str, emit: Emit) -> None:
        match text(message, "role"):
            case "assistant":
                self.kept(emit)
                content = text(message, "content") or ""
                at_ms = milliseconds(text(message, "timestamp") or "")
                if at_ms is not None:
                    self.answer.again(at_ms, content, emit)
                self.answer.more(content, emit)
            case "user":
                pass  # the prompt
            case role:
                emit.unrecognised(f"message of {quoted(role or '')}", "role", raw)

    def kept(self, emit: Emit) -> None:
        """The session has something in it."""
        if self.unkept is not None:
            native_id, model = self.unkept
            self.unkept = None
            emit.out.append(t.Action_SessionReady(t.SessionReady(emit.turn.session, native_id, model, None)))

    def tool(self, message: dict, emit: Emit) -> None:
        name = text(message, "tool_name") or ""
        kind = kind_of_tool(name)
        given = message.get("parameters")
        target = target_of(given, kind)
        said = text(given, "description") if kind == "bash" else None
        self.answer.tool()
        start = t.ToolStart(
            id=text(message, "tool_id") or "",
            parent=None,
            kind=kind,
            native_name=name,
            title=one_line(target or "" if said is None else said, TITLE) or name,
            target=target,
            input="{}" if given is None else compact(given),
        )
        emit.event(t.EventKind_ToolStart(start))
        if name == "write_todos":
            todos = given.get("todos") if isinstance(given, dict) else None
            entries = [
                t.PlanEntry(text(todo, "description") or "", TODO.get(text(todo, "status") or "", t.PlanStatus.PENDING))
                for todo in (todos if isinstance(todos, list) else [])
            ]
            emit.event(t.EventKind_Plan(entries))

    def result(self, message: dict, emit: Emit) -> Result:
        usage = usage_of(message.get("stats"))
        answer = self.answer.finish()
        if text(message, "status") == "success":
            self.kept(emit)
            return Result(t.Outcome_Completed(), answer, usage)
        error = message.get("error")
        said = text(error, "message")
        if said is None:
            said = "Gemini CLI reported an error without words" if self.error is None else self.error
        match text(error, "type"):
            case "FatalTurnLimitedError":
                return Result(t.Outcome_Limit(said), None, usage)
            case "FatalAuthenticationError":
                told = failure(t.FailureKind.AUTHENTICATION, of_message(said).message)
            case _:
                told = of_message(said)
        return Result(t.Outcome_Failed(told), None, usage)

    def failure(self, stderr: str) -> t.Failure:
        """Why a run that exited without a result failed."""
        lines = [line.strip() for line in stderr.split("\n")]
        said = "\n".join(line for line in lines if line and not line.startswith(NOISE)) or "the agent ended without a result"
        if "Invalid session identifier" in said or "No previous sessions found" in said:
            kind = t.FailureKind.SESSION_UNKNOWN
        elif "auth method" in said or "Auth method" in said:
            kind = t.FailureKind.AUTHENTICATION
        elif "not running in a trusted directory" in said:
            kind = t.FailureKind.UNSUPPORTED
        elif "No input provided" in said:
            kind = t.FailureKind.BAD_REQUEST
        else:
            kind = of_message(said).kind
        return failure(kind, said)


# ---------- what it is told ----------


def approval(settings: t.Settings) -> str:
    if settings.mode == t.Mode.PLAN:
        return "plan"
    return {t.Safety.DEFAULT: "default", t.Safety.EDIT: "auto_edit", t.Safety.DANGER: "yolo"}[settings.safety]


def part_text(part: t.Part) -> str:
    if isinstance(part, t.Part_Text):
        return part.value
    file = part.value
    return f"[Attached file: {file.name} ({file.media_type}, {file.size} bytes) at {file.path}]"


def standing(system: str) -> str:
    return (
        f"<system-prompt>\n{system}\n</system-prompt>\n\nThe text above is your system prompt for this conversation: it replaces "
        "any you were given in this way before, and was not written by the people you talk with. Their message follows."
    )


def is_uuid(text: str) -> bool:
    return re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text) is not None


# ---------- what it says: wrong types and missing fields are `None`, never an error ----------


def parse(line: str) -> Any:
    """The JSON of a line; `None` where it is none, too deep, or holds what is not text."""
    try:
        if is_deep(line):
            return None
        value = json.loads(line, parse_constant=refuse, parse_int=whole)
        if "\\u" in line:
            # Half of a surrogate pair is a `str` in Python, but no text: the host would not get it.
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except ValueError:
        return None


def is_deep(line: str) -> bool:
    """Whether brackets are nested so deep that reading them would be the end of the stack, which nothing can catch."""
    if line.count("[") + line.count("{") <= DEEPEST:
        return False
    open_brackets = 0
    for token in re.finditer(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', line):
        open_brackets += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if open_brackets > DEEPEST:
            return True
    return False


def whole(digits: str) -> int | float:
    # The one whole number that Python cannot tell as it was written.
    return -0.0 if digits == "-0" else int(digits)


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def text(of: Any, field: str) -> str | None:
    value = of.get(field) if isinstance(of, dict) else None
    return value if isinstance(value, str) else None


def count(of: Any, field: str) -> int | None:
    value = of.get(field) if isinstance(of, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return round(min(max(value, 0), 0xFFFF_FFFF))


def usage_of(stats: Any) -> t.Usage | None:
    used = [count(stats, field) for field in ("input", "output_tokens", "cached")]
    if used[0] is None or not any(used):
        return None
    return t.Usage(used[0], used[1] or 0, used[2] or 0, 0, 0, None, [], None, None)


def milliseconds(timestamp: str) -> float | None:
    """The time of day of `2026-11-21T21:02:11.350Z`. Wrong by a day at midnight, which is no pause at all."""
    fields = timestamp[11:].rstrip("Z").split(":")
    try:
        hours, minutes, seconds = (float(field) for field in fields[:3])
    except ValueError:
        return None
    at_ms = ((hours * 60.0 + minutes) * 60.0 + seconds) * 1000.0
    return at_ms if math.isfinite(at_ms) else None


def kind_of_tool(name: str) -> str:
    return KINDS.get(name) or ("mcp" if name.startswith("mcp_") or "___" in name else "other")


def target_of(given: Any, kind: str) -> str | None:
    fields = TARGETS.get(kind, ["file_path", "path", "absolute_path"])
    return next((value for field in fields if (value := text(given, field)) is not None), None)


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def head(text: str, size: int) -> str:
    """The beginning of a text, at most so many bytes of it."""
    return text.encode()[:size].decode(errors="ignore")


def one_line(text: str, size: int) -> str:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        return ""
    short = head(lines[0], size).rstrip()
    return f"{short} …" if len(lines) > 1 or short != lines[0] else short


# ---------- why it failed ----------


def failure(kind: t.FailureKind, message: str) -> t.Failure:
    return t.Failure(kind, message, None)


def of_message(message: str) -> t.Failure:
    """The failure that a message of the model's service tells."""
    message = message.strip()
    # [API Error: {"error":{"code":400,"message":"…"}}] and, for some errors, advice behind it
    inner = message.removeprefix("[API Error: ")
    if inner != message and "]" in inner:
        inner = inner[: inner.rindex("]")]
    kind = kind_of(inner)
    # For a 429 without a number in its words, the advice is all there is to tell it by.
    if kind == t.FailureKind.OTHER and "To increase your limits" in message:
        kind = t.FailureKind.RATE_LIMITED
    return failure(kind, words(inner))


def words(message: str) -> str:
    """The words for people within `400 {"error":{"message":"…"}}` and the like; other text as it is."""
    message = message.strip()
    before, brace, rest = message.partition("{")
    value = parse(brace + rest) if brace else None
    if not isinstance(value, dict):
        return message
    said = text(value.get("error"), "message")
    said = text(value, "message") if said is None else said
    return message if said is None else before + said


WORDS = [
    (t.FailureKind.AUTHENTICATION, "unauthorized|not logged in|please sign in|please log in|api key|authentication"),
    (t.FailureKind.RATE_LIMITED, "rate limit|rate_limit|quota|too many requests|usage limit"),
    (t.FailureKind.OVERLOADED, "overloaded|unavailable|internal server error|stream disconnected|fetch failed|connection"),
    (t.FailureKind.MODEL_NOT_FOUND, "model not found|unknown model|model_not_found"),
    (t.FailureKind.BAD_REQUEST, "invalid_request_error|bad request"),
]


def kind_of(message: str) -> t.FailureKind:
    lower = message.lower()
    if re.search("context window|context length|context limit|prompt is too long|token count exceeds", lower):
        return t.FailureKind.CONTEXT_FULL
    # An HTTP status at the beginning of the words, as in `API Error: 429 slow down`.
    first = re.findall(r"[A-Za-z0-9]+", message)[:6]
    status = next((int(word) for word in first if re.fullmatch("[45][0-9][0-9]", word)), None)
    if status is not None:
        known = {401: "AUTHENTICATION", 403: "AUTHENTICATION", 404: "MODEL_NOT_FOUND", 429: "RATE_LIMITED"}
        return t.FailureKind[known.get(status, "BAD_REQUEST" if status < 500 else "OVERLOADED")]
    return next((kind for kind, pattern in WORDS if re.search(pattern, lower)), t.FailureKind.OTHER)
