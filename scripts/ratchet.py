"""Limits that may only shrink, in a file with lines `NAME NUMBER`. Used by scripts/prose and
scripts/house."""

import os


def read(path):
    """Returns the limits in a file, by name; `None` if there is no such file."""
    if not os.path.exists(path):
        return None
    with open(path) as file:
        lines = (line.rsplit(maxsplit=1) for line in file if line.strip() and line[0] != "#")
        return {name: int(number) for name, number in lines}


def grown(path, figures):
    """Prints the figures that are above their limits, and returns their names."""
    limits = read(path) or {}
    names = [name for name in figures if figures[name] > limits.get(name, 0)]
    for name in names:
        hint = "" if name in limits else ", because it has no limit yet; --update adds it"
        print(f"{path}: {name}: {figures[name]}, allowed are at most {limits.get(name, 0)}{hint}")
    if not names and limits != figures:
        print(f"notice: figures are below {path}; lower it with --update")
    return names


def update(path, figures):
    """Writes figures as the new limits and returns the exit status, 1 if one is above its limit.
    A figure without a limit gets one."""
    limits = read(path)
    if limits is not None and grown(path, {name: figures[name] for name in figures if name in limits}):
        return 1
    with open(path, "w") as file:
        file.write("# Limits that may only shrink; the script of this name has --update.\n")
        file.writelines(f"{name} {number}\n" for name, number in figures.items())
    return 0
