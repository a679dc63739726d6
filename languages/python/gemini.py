"""Gemini CLI, one process for each turn: command line, output (`gemini -o stream-json`), failures.

Tested against Gemini CLI 0.61.0. Unknown output becomes an `unrecognised` event.
"""

import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wit_world.imports import types as t

# Read while the component is built, and then part of it.
DESCRIPTOR = next(file for folder in sys.path if (file := Path(folder) / "gemini.json").exists()).read_text()

# GEMINI_CLI_TRUST_WORKSPACE: otherwise it refuses to work in folders that were not trusted in its
# own user interface. GEMINI_CLI_NO_RELAUNCH: otherwise it restarts itself as a child process and
# ignores signals. NO_BROWSER: otherwise it opens a browser to authenticate.
ENVIRONMENT = [("GEMINI_CLI_TRUST_WORKSPACE", "true"), ("GEMINI_CLI_NO_RELAUNCH", "true"), ("NO_BROWSER", "1")]

# Prevents the expansion of `@path` in the system prompt. The host escapes the user's text.
ESCAPE = "\\"

# Minimum pause in milliseconds before a retry, and minimum length of the repeated beginning.
RETRY_PAUSE_MS = 900.0
ALIKE = 8

# Maximum depth of JSON.
DEEPEST = 128

# Maximum length of a sample of unknown output, and of a tool's title, in bytes.
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

# The input fields with the target of a tool use. The first existing one is used.
TARGETS = {
    "bash": ["command"],
    "content_search": ["pattern", "path", "dir_path"],
    "file_search": ["pattern", "path", "dir_path"],
    "web_search": ["query"],
    "web_fetch": ["url", "prompt"],
    "agent_spawn": ["description", "agent_name"],
}

# Prefixes of irrelevant lines on stderr.
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
    """The process to start."""

    arguments: list[str]
    stdin: list[str]
    environment: list[tuple[str, str]]


@dataclass
class Result:
    """The end of a turn. Without a text, the answer consists of the parts in order."""

    outcome: t.Outcome
    text: str | None = None
    usage: t.Usage | None = None


class Emit:
    """Emits the agent-events of a turn."""

    def __init__(self, turn: t.TurnRef, out: list[t.Action]) -> None:
        self.turn = turn
        self.out = out

    def event(self, kind: t.EventKind) -> None:
        self.out.append(t.Action_Event(t.Event(self.turn.session, self.turn.turn, kind)))

    def text(self, part: int, text: str, replace: bool = False) -> None:
        self.event(t.EventKind_Text(t.Text(part, text, replace, None)))

    def notice(self, text: str) -> None:
        self.event(t.EventKind_Notice(t.Notice(t.Level.INFO, None, text)))

    def unrecognised(self, what: str, path: str | None, output: str) -> None:
        self.event(t.EventKind_Unrecognised(t.Unrecognised(t.Difference.UNKNOWN, what, path, head(output, SAMPLE))))


class Answer:
    """Splits an answer into parts. A part ends where a tool use begins."""

    def __init__(self) -> None:
        self.parts = 0
        self.open = False
        # The text since the last tool use, its first piece, its parts, and the time of its last
        # piece.
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
        """Called before a piece of text. If it repeats the answer after a pause, the old text is withdrawn.

        After a connection error, Gemini CLI asks the model again, and sends the new answer without
        withdrawing the old one."""
        pause = at_ms - self.at_ms
        self.at_ms = at_ms
        alike = text.startswith(self.first) or self.first.startswith(text)
        if not self.tail or pause < RETRY_PAUSE_MS or not alike or min(len(text), len(self.first)) < ALIKE:
            return
        for part in self.shown:
            emit.text(part, "", replace=True)
        self.tool()

    def tool(self) -> None:
        """Starts a tool use. Text before a tool use is not part of the final answer."""
        self.open = False
        self.tail = ""
        self.shown = []

    def finish(self) -> str | None:
        """Returns the final answer, or None if it consists of the parts in order."""
        answer, self.tail = self.tail, ""
        return answer or None


class Gemini:
    """The state of one turn with Gemini CLI."""

    def __init__(self) -> None:
        self.resumed: str | None = None
        # Id and model of a new session. It is not saved if the first model request fails.
        self.unkept: tuple[str, str | None] | None = None
        self.answer = Answer()
        self.error: str | None = None

    def plan(self, start: t.StartTurn, emit: Emit) -> Plan:
        """Returns the process for a turn. Users' texts are only passed on stdin, never as arguments."""
        prompt = "\n\n".join(part_text(part) for part in start.parts)
        if not prompt.strip():
            raise Refused(t.FailureKind.BAD_REQUEST, "the prompt is empty")
        if start.fork:
            raise Refused(t.FailureKind.UNSUPPORTED, "Gemini CLI cannot copy a session")
        settings = start.settings
        arguments = ["-o", "stream-json", "--approval-mode", approval(settings)]
        self.resumed = start.native_id
        if start.native_id is not None:
            # `latest` and numbers would resume other sessions.
            if not is_uuid(start.native_id):
                raise Refused(t.FailureKind.SESSION_UNKNOWN, "the session id is not one of Gemini CLI")
            arguments += ["--resume", start.native_id]
        elif is_uuid(start.fresh_id):
            # With a preset id, the session can be resumed even if the process is killed early.
            arguments += ["--session-id", start.fresh_id]
        if settings.model is not None:
            arguments += ["-m", settings.model]
        if settings.effort is not None:
            said = f"Gemini CLI does not offer a choice of its effort: {quoted(settings.effort)} is ignored"
            emit.out.append(t.Action_Diagnostic(t.Diagnostic(t.Level.WARN, said)))
        stdin = [prompt]
        if settings.system_prompt:
            # Each run is a new process, so the system prompt is passed every time.
            stdin.insert(0, standing(settings.system_prompt).replace("@", f"{ESCAPE}@") + "\n\n")
        return Plan(arguments, stdin, ENVIRONMENT)

    def line(self, line: t.Line, emit: Emit) -> Result | None:
        """Handles a line of output. Returns the end of the turn if the line has it."""
        raw = line.text.strip()
        if line.pipe == t.Pipe.STDERR:
            # The only output while the model provider fails, which can take minutes.
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
                    emit.notice(self.error)
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
            emit.notice("Gemini CLI began a new session: the earlier conversation is lost")
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
        """Reports the session when it has history."""
        if self.unkept is not None:
            native_id, model = self.unkept
            self.unkept = None
            emit.out.append(t.Action_SessionReady(t.SessionReady(emit.turn.session, native_id, model, None, [])))

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
            said = "Gemini CLI reported an error without a message" if self.error is None else self.error
        match text(error, "type"):
            case "FatalTurnLimitedError":
                return Result(t.Outcome_Limit(said), None, usage)
            case "FatalAuthenticationError":
                told = failure(t.FailureKind.AUTHENTICATION, of_message(said).message)
            case _:
                told = of_message(said)
        return Result(t.Outcome_Failed(told), None, usage)

    def failure(self, stderr: str) -> t.Failure:
        """Returns why a run without a result failed."""
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


# ---------- input ----------


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


# ---------- output: wrong types and missing fields are `None`, never an error ----------


def parse(line: str) -> Any:
    """Parses a line. Returns `None` if it is invalid, too deep, or has unpaired surrogates."""
    try:
        if is_deep(line):
            return None
        value = json.loads(line, parse_constant=refuse, parse_int=whole)
        if "\\u" in line:
            # Python accepts unpaired surrogates, but the host does not.
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except ValueError:
        return None


def is_deep(line: str) -> bool:
    """Returns whether the nesting is so deep that parsing would overflow the stack, which cannot be caught."""
    if line.count("[") + line.count("{") <= DEEPEST:
        return False
    open_brackets = 0
    for token in re.finditer(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', line):
        open_brackets += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if open_brackets > DEEPEST:
            return True
    return False


def whole(digits: str) -> int | float:
    # Python would print this number as 0.
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
    """Returns the time of day of `2026-11-21T21:02:11.350Z`. Pauses over midnight are not recognised."""
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
    """Returns the beginning of a text with at most `size` bytes."""
    return text.encode()[:size].decode(errors="ignore")


def one_line(text: str, size: int) -> str:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        return ""
    short = head(lines[0], size).rstrip()
    return f"{short} …" if len(lines) > 1 or short != lines[0] else short


# ---------- failures ----------


def failure(kind: t.FailureKind, message: str) -> t.Failure:
    return t.Failure(kind, message, None)


def of_message(message: str) -> t.Failure:
    """Returns the failure for a message of the model provider."""
    message = message.strip()
    # [API Error: {"error":{"code":400,"message":"…"}}] which is followed by advice for some errors
    inner = message.removeprefix("[API Error: ")
    if inner != message and "]" in inner:
        inner = inner[: inner.rindex("]")]
    kind = kind_of(inner)
    # A 429 without a status in its message can only be recognised by the advice.
    if kind == t.FailureKind.OTHER and "To increase your limits" in message:
        kind = t.FailureKind.RATE_LIMITED
    return failure(kind, words(inner))


def words(message: str) -> str:
    """Extracts the message from texts such as `400 {"error":{"message":"…"}}`."""
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
    (t.FailureKind.QUOTA, "quota|usage limit|credit balance"),
    (t.FailureKind.RATE_LIMITED, "rate limit|rate_limit|too many requests"),
    (t.FailureKind.OVERLOADED, "overloaded|unavailable|internal server error|stream disconnected"),
    (t.FailureKind.NETWORK, "fetch failed|connection|econnrefused|enotfound"),
    (t.FailureKind.MODEL_NOT_FOUND, "model not found|unknown model|model_not_found"),
    (t.FailureKind.BAD_REQUEST, "invalid_request_error|bad request"),
]


def kind_of(message: str) -> t.FailureKind:
    lower = message.lower()
    if re.search("context window|context length|context limit|prompt is too long|token count exceeds", lower):
        return t.FailureKind.CONTEXT_FULL
    # The HTTP status near the beginning of the message, as in `API Error: 429 slow down`.
    first = re.findall(r"[A-Za-z0-9]+", message)[:6]
    status = next((int(word) for word in first if re.fullmatch("[45][0-9][0-9]", word)), None)
    if status is not None:
        known = {401: "AUTHENTICATION", 403: "AUTHENTICATION", 404: "MODEL_NOT_FOUND", 429: "RATE_LIMITED"}
        return t.FailureKind[known.get(status, "BAD_REQUEST" if status < 500 else "OVERLOADED")]
    return next((kind for kind, pattern in WORDS if re.search(pattern, lower)), t.FailureKind.OTHER)
