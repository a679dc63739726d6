#!/usr/bin/python3
"""Takes the place of a model in the tests of mending, as the demo agent's program.

It knows nothing but the folder of its task. It finds a word (the name of a field or of a kind) that
the lost recordings have and that neither the sources nor the healthy recordings know. The former
word is one that the sources know and that the healthy recordings have at the same place. It adds
the new word beside the former one in the sources, and says what it did.
"""

import json
import re
import sys
from pathlib import Path

WORD = re.compile(r"[A-Za-z][\w-]*")
KINDS = ("type", "sessionUpdate")


def say(kind, **fields):
    print(json.dumps({"type": kind, **fields}), flush=True)


def paths(value, start=""):
    """Returns the paths of all fields below a value."""
    if isinstance(value, list):
        return set().union(*(paths(item, f"{start}[]") for item in value))
    if not isinstance(value, dict):
        return set()
    below = (paths(inner, f"{start}.{key}") for key, inner in value.items())
    return {f"{start}.{key}" for key in value}.union(*below)


def words(path):
    """Returns the words of a recording, those of kinds and of fields, by place. Also returns the
    fields below the objects of each kind."""
    found = {}

    def visit(value, place):
        if isinstance(value, list):
            for item in value:
                visit(item, f"{place}[]")
        if not isinstance(value, dict):
            return
        kinds = [value[key] for key in KINDS if isinstance(value.get(key), str)]
        for key, inner in value.items():
            field = ("field", place, *kinds, type(inner).__name__)
            found.setdefault(field, set()).add(key)
            if isinstance(inner, str) and WORD.fullmatch(inner):
                at = ("kind", f"{place}.{key}")
                found.setdefault(at, set()).add(inner)
                found.setdefault(("below", *at, inner), set()).update(paths(value))
            visit(inner, f"{place}.{key}")

    for line in path.read_text().splitlines():
        output = json.loads(line).get("in", {}).get("line", {})
        if output.get("pipe") == "stdout":
            try:
                visit(json.loads(output["text"]), "")
            except json.JSONDecodeError:
                pass
    return found


def renamed(lost, healthy, known):
    """Returns the words that have a new name: (field or kind, former word, new word)."""
    pairs = set()
    for place in {place for recording in lost for place in recording}:
        now = set().union(*(recording.get(place, set()) for recording in lost))
        before = [recording[place] for recording in healthy if place in recording]
        if not before:
            continue
        always = set.intersection(*before)
        for new in now - set().union(*before) - known if place[0] != "below" else ():
            below = fields(lost, place, new)

            def likeness(old):
                other = fields(healthy, place, old)
                return len(below & other) / max(len(below | other), 1)

            old = max(sorted((always - now) & known), key=likeness, default=None)
            pairs |= {(place[0], old, new)} if old else set()
    return pairs


def fields(recordings, place, word):
    """Returns the fields below the objects of a kind."""
    return set().union(*(recording.get(("below", *place, word), set()) for recording in recordings))


def with_kind(text, old, new):
    """Adds the new word in the patterns and comparisons that have the former one."""
    lines = []
    for line in text.split("\n"):
        value = r'([\w.:]+\((?:"\w+"|\w*)\))'
        for form in (f'"{old}"', f'Some("{old}")'):
            other = form.replace(old, new)
            compared = re.escape(form)
            line = re.sub(
                f"{value} == {compared}", rf"(\1 == {form} || \1 == {other})", line
            )
        if "=>" in line or "matches!" in line:
            pattern, arrow, rest = line.partition("=>")
            if not re.search(f'[=!]= (Some\\()?"{old}"', pattern):
                quoted = rf'(^\s*|\| |Some\()"{old}"(?! *,)'
                pattern = re.sub(quoted, rf'\1"{old}" | "{new}"', pattern)
            line = pattern + arrow + rest
        lines.append(line)
    return "\n".join(lines)


def with_field(text, old, new):
    """Reads the new field, if it exists, where the former one is read."""
    one_of = rf'if \2.get("{new}").is_some() {{ "\3{new}" }} else {{ "\3{old}" }}'
    path = r'"((?:[\w.\[\]]*\.)?)'
    text = re.sub(rf'(required_text\()(\w+), {path}{old}"', rf"\1\2, {one_of}", text)
    return re.sub(rf'()(\w+)\.text\("(){old}"\)', rf"\2.text({one_of})", text)


def main():
    if "--version" in sys.argv:
        print("aetheel demo-agent 0.1.0")
        return
    say("hello", session="editor")
    task = Path("TASK.md").read_text()
    named = re.search(r"^\* (.*): the sources of the backend", task, re.M).group(1)
    folders = [Path(name) for name in re.findall(r"`([^`]+)`", named)]
    files = [file for folder in folders for file in sorted(folder.rglob("*.rs"))]
    sources = {file: file.read_text() for file in files}
    known = {
        word
        for text in sources.values()
        for literal in re.findall(r'"([\w.\[\]-]+)"', text)
        for word in (literal, literal.rsplit(".", 1)[-1])
    }
    lost = [words(path) for path in sorted(Path("lost").glob("*.jsonl"))]
    cases = [path for path in sorted(Path("cases").glob("*.jsonl"))]
    healthy = [words(path) for path in cases if not path.name.endswith(".actions.jsonl")]
    for what, old, new in sorted(renamed(lost, healthy, known)):
        add = with_kind if what == "kind" else with_field
        for file, text in sources.items():
            sources[file] = add(text, old, new)
            file.write_text(sources[file])
        say("text", text=f"The {what} {old} may be {new}. ")
    say("done")


main()
