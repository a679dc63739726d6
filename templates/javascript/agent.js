// What {{name}} prints, as far as one line of it tells. Nothing is believed: fields may be missing or of another type.

// Unified kinds of the agent's tools (see wit/types.wit), and the field that says what a use is about.
const TOOLS = new Map([
  ["shell", ["bash", "command"]],
  ["read", ["file_read", "path"]],
  ["edit", ["file_edit", "path"]],
]);

export function prompt(parts) {
  return parts.map((part) => (part.tag === "text" ? part.val : part.val.path)).join("\n\n");
}

/** The JSON object of a line; an empty one where it is none. */
export function parse(raw) {
  try {
    const value = isDeep(raw) ? {} : JSON.parse(raw);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** Whether brackets are nested so deep that reading them would be the end of the stack, which nothing can catch. */
function isDeep(line) {
  // `split` finds a letter in a long line many times faster than `indexOf` does.
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

/** Where the text ends that begins with the quotation mark at `from`. */
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

/** A value that is text; what agents print may have any type. Halves of surrogate pairs are no text for the host. */
export function text(value) {
  return typeof value === "string" ? value.toWellFormed() : "";
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
