"""Measures of Rust sources and of the pages in docs/ that scripts/house prints and limits. Sources
are texts by path."""

import collections
import os
import re
import statistics

TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:pub\(crate\) )?mod \w+ \{", re.M)
TEST_FILE = re.compile(r"^#\[cfg\(test\)\]\n(?:pub\(crate\) )?mod \w+;\n", re.M)
TYPE = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type) (\w+)", re.M)
FUNCTION = re.compile(r"^( *)(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*fn \w+")
BLOCK = re.compile(r"^impl(?:<[^{]*?>)? (?:[^{;]+ for )?(\w+)[^{;]*\{\n(.*?)^\}", re.M | re.S)
METHOD = re.compile(r"^    (?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*fn \w", re.M)
TELLING = re.compile(r"(?:un|re)?told|(?:re)?tell(?:s|er|ing)?|heard|hear(?:s|ing)?", re.I)
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Code that works only with Discord: the adapter's types, conversions from and to Discord's numbers,
# and bare numbers of users, channels and messages. Ids with a platform (`model::id`) do not count.
PLATFORM = re.compile(
    r"\bcrate::discord\b|\baetheel_discord\b|::discord\(|\bas_discord\b"
    r"|\b(?:user|asker|channel|parent|message): (?:&|Option<)?u64\b"
)

# A page in docs/, the pages that tests generate, and a block of code in a page.
PAGE = re.compile(r"docs/[^/]+\.md$")
GENERATED_PAGE = re.compile(r"docs/(?:contract|gallery|proven|compatibility[^/]*)\.md$")
CODE_BLOCK = re.compile(r"^ *```.*?^ *```[^\n]*\n", re.M | re.S)


def without_tests(sources, folders):
    """Returns the sources in some folders without unit tests."""
    cut = {
        path: TEST_FILE.sub("", TESTS.split(text, maxsplit=1)[0])
        for path, text in sources.items()
        if re.match(folders, path) and not re.search(r"/tests(?:/|\.rs$)", path)
    }
    return {path: text for path, text in cut.items() if text}


def without_comments(text):
    lines = text.split("\n")
    return "\n".join(line.split(" // ")[0] for line in lines if not line.lstrip().startswith("//"))


def count_lines(sources):
    """Returns the number of lines that are neither empty nor a comment."""
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("//")
        for text in sources.values()
        for line in text.split("\n")
    )


def function_lengths(text):
    """Returns the lengths of functions, by the indentation that rustfmt gives them."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if begin := FUNCTION.match(line):
            # A declaration in a trait ends with a semicolon.
            ends = re.compile(re.escape(begin[1]) + r"(?:\}|;|\).*;)$|.*\bfn .*;$")
            end = next((n for n in range(at, len(lines)) if ends.match(lines[n])), at)
            yield end - at + 1


def spread(numbers):
    numbers = sorted(numbers)
    return f"{statistics.median(numbers):.0f} / {numbers[int(len(numbers) * 0.9)]} / {numbers[-1]}"


def module_of(path):
    """Returns the path of a module: `discord::live` for src/discord/live/mod.rs or for
    crates/discord/src/live.rs. A crate in crates/ counts as a module of its name."""
    parts = re.sub(r"(?:/(?:mod|lib|main))?\.rs$", "", path).split("/")
    return tuple(parts[1:2] + parts[3:] if parts[0] == "crates" else parts[1:])


def paths(code):
    """Returns the paths in a piece of code as lists of words; groups of `use` are expanded."""
    found = []

    def expand(tree, before):
        for item in re.findall(r"[^,{}]*\{(?:[^{}]|\{[^{}]*\})*\}|[^,{}]+", tree):
            head, _, group = item.strip().partition("{")
            words = before + [word for word in head.split(" as ")[0].strip().split("::") if word]
            if group:
                expand(group[: group.rindex("}")], words)
            else:
                found.append(words)

    for use in re.findall(r"\buse ([^;]+);", code):
        expand(use, [])
    inline = re.sub(r"\buse [^;]+;", "", code)
    found += [path.split("::") for path in re.findall(r"\b\w+(?:::\w+)+", inline)]
    return found


def arrows(host, root):
    """Returns how many pairs of modules directly in a module name each other, the module's own file
    counting as one, and how many of these point from a module back up to that file."""
    modules = collections.defaultdict(str)
    for path, text in host.items():
        modules[module_of(path)] += without_comments(text)
    in_crate = any(path.startswith(f"crates/{root[0]}/") for path in host)
    # A name that the module's own file only re-exports does not count as a reference to it.
    own = set(re.findall(r"\b(?:struct|enum|trait|type|fn|const|static) (\w+)", modules[root]))
    pairs = set()
    for module, code in modules.items():
        if module[: len(root)] != root:
            continue
        for path in paths(code):
            ups = next((n for n, word in enumerate(path) if word != "super"), len(path))
            if ups:
                target = module[: len(module) - ups] + tuple(path[ups:])
            elif path[0] == "crate":
                target = (root[:1] if in_crate else ()) + tuple(path[1:])
            elif path[0] == "self" or module + (path[0],) in modules:
                target = module + tuple(path[path[0] == "self" :])
            else:
                continue
            name = target[len(root) : len(root) + 1]
            while target and target not in modules:
                target = target[:-1]
            if target[: len(root)] == root and (target != root or name and name[0] in own):
                pairs.add((module[len(root) :][:1], target[len(root) :][:1]))
    pairs = {(from_, to) for from_, to in pairs if from_ != to}
    return len(pairs), sum(to == () for _, to in pairs)


def count_methods(host):
    """Returns the number of methods of each type, by the module that defines it and its name. An
    `impl` belongs to the definition of that name that is nearest in the tree of modules."""
    defined, methods = collections.defaultdict(list), collections.Counter()
    for path, text in host.items():
        for name in TYPE.findall(text):
            defined[name].append(module_of(path))
    for path, text in host.items():
        for name, body in BLOCK.findall(text):
            module = module_of(path)
            if name in defined:
                shared = lambda other: len(os.path.commonprefix([module, other]))
                methods[max(defined[name], key=shared) + (name,)] += len(METHOD.findall(body))
    return methods

# A signature: the name and the parameters, which may contain two levels of parentheses.
SIGNATURE = re.compile(
    r"\bfn (\w+)(?:<[^(]*>)?\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)", re.S
)
TUPLE = re.compile(r":\s*&?(?:mut )?\((?=[^)]*,)")
STRUCT = re.compile(
    r"^( *)(?:pub(?:\([^)]*\))? )?struct (\w+)[^;{(]*\{\n(.*?)^\1\}", re.M | re.S
)
FIELD = re.compile(r"^( *)(?:pub(?:\([^)]*\))? )?(?:r#)?\w+: ", re.M)
# A struct with a lifetime whose first borrowed field borrows a type.
BORROWER = re.compile(
    r"^(?:pub(?:\([^)]*\))? )?struct (\w+)<[^>{(]*>\s*"
    r"(?:\(\s*(?:pub(?:\([^)]*\))? )?&'\w+ (?:mut )?(\w+)|\{[^}]*?:\s*&'\w+ (?:mut )?(\w+),)",
    re.M | re.S,
)
# A free function whose first parameter borrows a type.
FREE = re.compile(
    r"^(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*fn \w+(?:<[^(]*>)?"
    r"\(\s*\w+: &(?:mut )?(?:Arc<|Rc<)?(\w+)>?[,)\s]",
    re.M,
)
EVENT_ARM = re.compile(
    r"AgentEventKind::\w+[^;=]*=>|matches!\([^;]*AgentEventKind::", re.S
)
OLD_WORD = re.compile(r"\b(?:kept|begun|taken|standing|wish|seat|house|stir)\b")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.S)
RECORDED = r"Action|RecordingEntry|TurnFacts|RecordingFacts|SummaryEntry|TurnSteps"
COMPARING = re.compile(r"differ|compar|meaning|edits|expected_actions")


def crate_of(path):
    """Returns the crate of a path: `dispatch` for crates/dispatch/src/lib.rs, `src` for src/main.rs."""
    first, second = path.split("/")[:2]
    return second if first == "crates" else first


def count_responsibilities(code):
    """Returns how many functions belong to each type, by its module and name: its methods, the
    free functions of its crate that borrow it as their first parameter, and the methods of structs
    of its crate that only borrow it. So a type does not become smaller when its methods move out
    without a part of its state."""
    defined = collections.defaultdict(list)
    for path, text in code.items():
        for name in TYPE.findall(text):
            defined[name].append(module_of(path))

    def nearest(name, module):
        same = [other for other in defined[name] if other[:1] == module[:1]]
        return max(same, key=lambda each: len(os.path.commonprefix([module, each])), default=None)

    methods = count_methods(code)
    total = collections.Counter(methods)
    for path, text in code.items():
        module = module_of(path)
        for name in FREE.findall(text):
            if home := nearest(name, module):
                total[home + (name,)] += 1
        for wrapper, tuple_field, field in BORROWER.findall(text):
            name = tuple_field or field
            if home := nearest(name, module):
                total[home + (name,)] += methods[nearest(wrapper, module) + (wrapper,)]
    return total


def large_structs(code, limit=12):
    """Returns the structs with more named fields than a limit."""
    return [
        f"{path} {name}"
        for path, text in code.items()
        for begin, name, body in STRUCT.findall(text)
        if sum(indent == begin + "    " for indent in FIELD.findall(body)) > limit
    ]


def tuple_parameters(code):
    """Returns the parameters of functions whose type is a tuple, each by its function."""
    return [
        f"{path} {name}"
        for path, text in code.items()
        for name, parameters in SIGNATURE.findall(text)
        for _ in TUPLE.findall(parameters)
    ]


def count_old_words(code):
    """Returns how often eight words without a clear meaning are names in the code."""
    return sum(len(OLD_WORD.findall(STRING.sub('""', text))) for text in code.values())


def files_that_match_events(code):
    """Returns the files that match on the kind of an event of an agent."""
    return sorted(path for path, text in code.items() if EVENT_ARM.search(text))


def modules_that_compare_recordings(code):
    """Returns the modules with a function that compares two recordings, or two lists of their actions
    or facts. The files below a module whose name says that it compares count once."""
    found = set()
    for path, text in code.items():
        if not re.search(rf"\b(?:{RECORDED})\b", text):
            continue
        module = module_of(path)
        named = next((n for n, word in enumerate(module) if COMPARING.search(word)), None)
        if named is not None:
            found.add(module[: named + 1])
            continue
        for _, parameters in SIGNATURE.findall(text):
            types = re.findall(rf":\s*(&[^,]*\b(?:{RECORDED})\b[^,]*)", parameters)
            itself = re.search(r"&self\b.*: &Self\b", parameters, re.S)
            in_recorded = re.search(rf"^impl (?:\w*Facts|TurnSteps)\b", text, re.M)
            if len(types) > len(set(map(str.strip, types))) or (itself and in_recorded):
                found.add(module)
    return sorted("::".join(module) for module in found)


def words_by_page(sources):
    """Returns the number of words of each page in docs/ that no test generates, without blocks of
    code."""
    return {
        path: len(CODE_BLOCK.sub("", text).split())
        for path, text in sources.items()
        if PAGE.match(path) and not GENERATED_PAGE.match(path)
    }


def count_words_of_pages(sources):
    return sum(words_by_page(sources).values())
