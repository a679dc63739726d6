// Parses a line of output. Fields may be missing or have another type.

// The unified kind of each tool (see wit/types.wit), and the input field with the target of a call.
const TOOLS = new Map([
  ["shell", ["bash", "command"]],
  ["read", ["file_read", "path"]],
  ["edit", ["file_edit", "path"]],
]);

// The fields that each type of line always has: texts and objects.
const FIELDS = {
  session: [["id"], []],
  text: [["text"], []],
  tool: [["id", "name"], ["input"]],
  "tool-result": [["id", "output"], []],
  done: [[], ["usage"]],
  error: [["message"], []],
};

export function prompt(parts) {
  return parts.map((part) => (part.tag === "text" ? part.val : part.val.path)).join("\n\n");
}

/** Returns the JSON object of a line, or an empty object if the line is not one. */
export function parse(raw) {
  try {
    const value = isDeep(raw) ? {} : JSON.parse(raw);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/**
 * Returns whether the nesting is so deep that parsing would overflow the stack, which cannot be
 * caught.
 */
function isDeep(line) {
  // In long lines, `split` is many times faster than `indexOf`.
  const count = (letter) => line.split(letter, 130).length - 1;
  if (count("[") + count("{") <= 128) return false;
  const marks = /["[\]{}]/g;
  let open = 0;
  for (let mark = marks.exec(line); mark !== null; mark = marks.exec(line)) {
    if (mark[0] === '"') marks.lastIndex = endOfText(line, mark.index) + 1;
    else open += mark[0] === "[" || mark[0] === "{" ? 1 : -1;
    if (open > 128) return true;
  }
  return false;
}

/** Returns the end of the string that begins with the quotation mark at `from`. */
function endOfText(line, from) {
  for (let at = line.indexOf('"', from + 1); at >= 0; at = line.indexOf('"', at + 1)) {
    let before = at;
    while (line[before - 1] === "\\") before -= 1;
    if ((at - before) % 2 === 0) return at;
  }
  return line.length;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Returns a value that is text, and otherwise an empty text. The host rejects unpaired surrogates.
 */
export function text(value) {
  return typeof value === "string" ? value.toWellFormed() : "";
}

/**
 * Reports the fields that a line lacks. Without a report, their loss would go unnoticed.
 */
export function missing(said, raw) {
  const type = text(said.type);
  const [texts, objects] = Object.hasOwn(FIELDS, type) ? FIELDS[type] : [[], []];
  const needed = texts.map((field) => [field, said[field], typeof said[field] === "string"]);
  for (const field of objects) needed.push([field, said[field], isObject(said[field])]);
  const [, target] = TOOLS.get(text(said.name)) ?? ["", ""];
  if (type === "tool" && isObject(said.input) && target !== "") {
    needed.push([`input.${target}`, said.input[target], typeof said.input[target] === "string"]);
  }
  const lacking = needed.filter(([, , there]) => !there);
  return lacking.map(([path, value]) => ({
    tag: "unrecognised",
    val: {
      difference: value === undefined || value === null ? "missing" : "changed",
      what: `no \`${path}\` in a line of type ${JSON.stringify(type)}`,
      path,
      sample: raw.slice(0, 500).toWellFormed(),
    },
  }));
}

export function toolStart(said) {
  const name = text(said.name);
  const given = isObject(said.input) ? said.input : {};
  const [kind, field] = TOOLS.get(name) ?? ["other", ""];
  const target = text(given[field]);
  return {
    id: text(said.id),
    parent: null,
    kind,
    nativeName: name,
    title: target || name,
    target: target || null,
    input: JSON.stringify(given),
  };
}

export function usage(said) {
  if (!isObject(said)) return null;
  const count = (value) => (typeof value === "number" ? Math.round(Math.min(Math.max(value, 0), 0x7fff_ffff)) : 0);
  const { input, output } = said;
  return {
    input: count(input),
    output: count(output),
    cached: 0,
    cacheWrite: 0,
    reasoning: 0,
    costUsd: null,
    models: [],
    contextUsed: null,
    contextSize: null,
  };
}
