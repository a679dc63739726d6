// Parses a line of output. Fields may be missing or have another type.

import * as c from "./contract";
import { Json, Kind, quoted } from "./json";

export function prompt(parts: c.Part[]): string {
  const texts: string[] = [];
  for (let at = 0; at < parts.length; at++) {
    const part = parts[at];
    if (part instanceof c.PartText) texts.push((<c.PartText>part).value);
    else texts.push(part instanceof c.PartImage ? (<c.PartImage>part).value.path : (<c.PartFile>part).value.path);
  }
  return texts.join("\n\n");
}

/** Returns a text field, or an empty text if the field has another type. */
export function text(given: Json, name: string): string {
  const value = given.text(name);
  return value === null ? "" : value;
}

/** Returns whether a text can be the agent's id of a session. */
export function isId(text: string): bool {
  const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-";
  for (let at = 0; at < text.length; at++) if (!letters.includes(text.charAt(at))) return false;
  return text.length >= 1 && text.length <= 128 && !text.startsWith("-");
}

/** Reports the fields that a line lacks. Without a report, their loss would go unnoticed. */
export function missing(said: Json, raw: string): c.EventKind[] {
  const type = text(said, "type");
  const out: c.EventKind[] = [];
  if (type == "session") need(said, "id", "id", Kind.Text, raw, out);
  else if (type == "text") need(said, "text", "text", Kind.Text, raw, out);
  else if (type == "error") need(said, "message", "message", Kind.Text, raw, out);
  else if (type == "done") need(said, "usage", "usage", Kind.Object, raw, out);
  else if (type == "tool-result") {
    need(said, "id", "id", Kind.Text, raw, out);
    need(said, "output", "output", Kind.Text, raw, out);
  } else if (type == "tool") {
    need(said, "id", "id", Kind.Text, raw, out);
    need(said, "name", "name", Kind.Text, raw, out);
    need(said, "input", "input", Kind.Object, raw, out);
    const given = said.field("input");
    const name = text(said, "name");
    const target = name == "shell" ? "command" : name == "read" || name == "edit" ? "path" : "";
    if (given !== null && given.kind == Kind.Object && target != "") need(given, target, `input.${target}`, Kind.Text, raw, out);
  }
  return out;
}

function need(given: Json, field: string, path: string, kind: Kind, raw: string, out: c.EventKind[]): void {
  const value = given.field(field);
  if (value !== null && value.kind == kind) return;
  const difference = value === null || value.kind == Kind.Null ? c.Difference.Missing : c.Difference.Changed;
  out.push(new c.EventKindUnrecognised(new c.Unrecognised(difference, `no ${quoted(path)} in its line`, path, raw.slice(0, 500))));
}

export function toolStart(said: Json): c.ToolStart {
  const name = text(said, "name");
  const field = said.field("input");
  const given = field !== null && field.kind == Kind.Object ? field : new Json(Kind.Object);
  // The unified kind of the tool (see wit/types.wit), and the target of the call.
  let kind = "other";
  let target = "";
  if (name == "shell") {
    kind = "bash";
    target = text(given, "command");
  } else if (name == "read" || name == "edit") {
    kind = `file_${name}`;
    target = text(given, "path");
  }
  const title = target == "" ? name : target;
  return new c.ToolStart(text(said, "id"), null, kind, name, title, target == "" ? null : target, given.toString());
}

export function usage(said: Json | null): c.Usage | null {
  if (said === null || said.kind != Kind.Object) return null;
  const input = max<i64>(said.count("input"), 0);
  const output = max<i64>(said.count("output"), 0);
  return new c.Usage(<u32>input, <u32>output, 0, 0, 0, null, [], null, null);
}
