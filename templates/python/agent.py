"""Parses a line of output. Fields may be missing or have another type."""

import json
import re

from wit_world.imports import types as t

# The unified kind of each tool (see wit/types.wit), and the input field with the target of a call.
TOOLS = {"shell": ("bash", "command"), "read": ("file_read", "path"), "edit": ("file_edit", "path")}


# The fields that each type of line always has: texts and objects.
FIELDS: dict[str, tuple[list[str], list[str]]] = {
    "session": (["id"], []),
    "text": (["text"], []),
    "tool": (["id", "name"], ["input"]),
    "tool-result": (["id", "output"], []),
    "ask": (["id", "tool", "name", "always"], ["input"]),
    "ask-over": (["id"], []),
    "done": ([], ["usage"]),
    "error": (["message"], []),
}


def prompt(parts: list[t.Part]) -> str:
    return "\n\n".join(part.value if isinstance(part, t.Part_Text) else part.value.path for part in parts)


def parse(raw: str) -> dict:
    """Returns the JSON object of a line, or an empty object if the line is not one."""
    try:
        value = {} if is_deep(raw) else json.loads(raw)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # the host rejects unpaired surrogates
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def is_deep(line: str) -> bool:
    """Returns whether the nesting is so deep that parsing would overflow the stack, which cannot be caught."""
    if line.count("[") + line.count("{") <= 128:
        return False
    open_brackets = 0
    for token in re.finditer(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', line):
        open_brackets += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if open_brackets > 128:
            return True
    return False


def text(of: dict, field: str) -> str:
    """Returns a text field, or an empty text if the field has another type."""
    value = of.get(field)
    return value if isinstance(value, str) else ""


def missing(said: dict, raw: str) -> list[t.EventKind]:
    """Reports the fields that a line lacks. Without a report, their loss would go unnoticed."""
    kind = text(said, "type")
    texts, objects = FIELDS.get(kind, ([], []))
    needed = [(field, said.get(field), str) for field in texts] + [(field, said.get(field), dict) for field in objects]
    given, (_, target) = said.get("input"), TOOLS.get(text(said, "name"), ("", ""))
    if kind in ("tool", "ask") and isinstance(given, dict) and target:
        needed.append((f"input.{target}", given.get(target), str))
    lacking = [(path, value) for path, value, of in needed if not isinstance(value, of)]
    return [
        t.EventKind_Unrecognised(
            t.Unrecognised(
                t.Difference.MISSING if value is None else t.Difference.CHANGED,
                f"no `{path}` in a line of type {json.dumps(kind)}",
                path,
                raw[:500],
            )
        )
        for path, value in lacking
    ]


def tool_start(said: dict) -> t.ToolStart:
    name, given = text(said, "name"), said.get("input")
    kind, field = TOOLS.get(name, ("other", ""))
    target = text(given, field) if isinstance(given, dict) else ""
    shown = json.dumps(given if isinstance(given, dict) else {}, ensure_ascii=False, separators=(",", ":"))
    return t.ToolStart(text(said, "id"), None, kind, name, target or name, target or None, shown)


def usage(said: object) -> t.Usage | None:
    if not isinstance(said, dict):
        return None
    counts = [value if isinstance(value := said.get(field), int) else 0 for field in ("input", "output")]
    used, made = (min(max(int(value), 0), 0xFFFF_FFFF) for value in counts)
    return t.Usage(used, made, 0, 0, 0, None, [], None, None)
