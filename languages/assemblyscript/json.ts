// A JSON parser, because AssemblyScript has none. Wrong types and missing fields are null, not
// errors.

/** Maximum depth. Lines with deeper nesting are rejected. */
const DEEPEST = 128;

export enum Kind {
  Null,
  Bool,
  Number,
  Text,
  List,
  Object,
}

// Shared by all values without items, which are the most.
const NO_ITEMS: Json[] = [];
const NO_NAMES: string[] = [];

export class Json {
  /** The elements of a list, or the values of an object. */
  items: Json[] = NO_ITEMS;
  names: string[] = NO_NAMES;

  /** `said` is a text, or the source of a number or bool. */
  constructor(
    public kind: Kind,
    public said: string = "",
  ) {}

  /** Parses a text. Returns null if it is not valid JSON. */
  static parse(text: string): Json | null {
    const reader = new Reader(text);
    const value = reader.value(0);
    reader.space();
    return value !== null && reader.at == text.length ? value : null;
  }

  /** Returns a field of an object, or the last one of several with the same name. */
  field(name: string): Json | null {
    if (this.kind != Kind.Object) return null;
    const at = this.names.lastIndexOf(name);
    return at < 0 ? null : this.items[at];
  }

  text(name: string): string | null {
    const value = this.field(name);
    return value !== null && value.kind == Kind.Text ? value.said : null;
  }

  /** Returns a number as a count, rounded and limited to its range, or -1 if there is none. */
  count(name: string): i64 {
    const value = this.field(name);
    if (value === null || value.kind != Kind.Number) return -1;
    return <i64>Math.round(Math.min(Math.max(F64.parseFloat(value.said), 0), <f64>u32.MAX_VALUE));
  }

  /** Returns the value as JSON with sorted keys. */
  toString(): string {
    if (this.kind == Kind.Text) return quoted(this.said);
    if (this.kind == Kind.List) {
      const shown: string[] = [];
      for (let at = 0; at < this.items.length; at++) shown.push(this.items[at].toString());
      return `[${shown.join(",")}]`;
    }
    if (this.kind != Kind.Object) return this.said;
    const shown: string[] = [];
    const names = this.names.slice(0).sort();
    for (let at = 0; at < names.length; at++) {
      if (at > 0 && names[at] == names[at - 1]) continue;
      const value = this.field(names[at]);
      if (value !== null) shown.push(`${quoted(names[at])}:${value.toString()}`);
    }
    return `{${shown.join(",")}}`;
  }
}

export function quoted(text: string): string {
  // Collects pieces, because no memory is freed before the call returns.
  const out: string[] = ['"'];
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code >= 0x20 && code != 0x22 && code != 0x5c) continue;
    if (from < at) out.push(text.substring(from, at));
    from = at + 1;
    if (code == 0x22) out.push('\\"');
    else if (code == 0x5c) out.push("\\\\");
    else if (code == 0x0a) out.push("\\n");
    else if (code == 0x0d) out.push("\\r");
    else if (code == 0x09) out.push("\\t");
    else if (code == 0x08) out.push("\\b");
    else if (code == 0x0c) out.push("\\f");
    else out.push("\\u" + code.toString(16).padStart(4, "0"));
  }
  if (from < text.length) out.push(text.substring(from));
  out.push('"');
  return out.join("");
}

/** A parser. Its functions return null or false on a syntax error. */
class Reader {
  at: i32 = 0;

  constructor(private source: string) {}

  space(): void {
    while (this.at < this.source.length) {
      const code = this.source.charCodeAt(this.at);
      if (code != 0x20 && code != 0x09 && code != 0x0a && code != 0x0d) return;
      this.at++;
    }
  }

  value(depth: i32): Json | null {
    this.space();
    if (depth > DEEPEST) return null;
    const code = this.peek();
    if (code == 0x7b) return this.members(depth, Kind.Object, 0x7d);
    if (code == 0x5b) return this.members(depth, Kind.List, 0x5d);
    if (code == 0x22) {
      const text = this.string();
      return text === null ? null : new Json(Kind.Text, text);
    }
    if (this.word("true")) return new Json(Kind.Bool, "true");
    if (this.word("false")) return new Json(Kind.Bool, "false");
    if (this.word("null")) return new Json(Kind.Null, "null");
    return this.number();
  }

  private members(depth: i32, kind: Kind, end: i32): Json | null {
    const all = new Json(kind);
    all.items = [];
    if (kind == Kind.Object) all.names = [];
    this.at++;
    this.space();
    if (this.skip(end)) return all;
    do {
      if (kind == Kind.Object) {
        this.space();
        const name = this.string();
        if (name === null) return null;
        this.space();
        if (!this.skip(0x3a)) return null;
        all.names.push(name);
      }
      const value = this.value(depth + 1);
      if (value === null) return null;
      all.items.push(value);
      this.space();
    } while (this.skip(0x2c));
    return this.skip(end) ? all : null;
  }

  private string(): string | null {
    if (!this.skip(0x22)) return null;
    // Texts between escapes, and the escapes. Most texts have no escapes.
    let pieces: string[] | null = null;
    let from = this.at;
    while (this.at < this.source.length) {
      const code = this.source.charCodeAt(this.at);
      if (code == 0x22) {
        const last = this.source.substring(from, this.at);
        this.at++;
        if (pieces === null) return last;
        pieces.push(last);
        return pieces.join("");
      }
      if (code < 0x20) return null;
      this.at++;
      if (code != 0x5c) continue;
      if (pieces === null) pieces = [];
      if (from < this.at - 1) pieces.push(this.source.substring(from, this.at - 1));
      const letter = this.escape();
      if (letter === null) return null;
      pieces.push(letter);
      from = this.at;
    }
    return null;
  }

  private escape(): string | null {
    const code = this.peek();
    this.at++;
    const place = '"\\/bfnrt'.indexOf(String.fromCharCode(code));
    if (place >= 0) return '"\\/\b\f\n\r\t'.charAt(place);
    if (code != 0x75) return null;
    const first = this.hex();
    if (first < 0 || (first >= 0xdc00 && first < 0xe000)) return null;
    if (first < 0xd800 || first >= 0xe000) return String.fromCharCode(first);
    // An unpaired surrogate is not valid text.
    if (!this.word("\\u")) return null;
    const second = this.hex();
    return second >= 0xdc00 && second < 0xe000 ? String.fromCharCode(first, second) : null;
  }

  private hex(): i32 {
    let value = 0;
    for (let digit = 0; digit < 4; digit++) {
      const place = "0123456789abcdef".indexOf(String.fromCharCode(this.peek()).toLowerCase());
      if (place < 0) return -1;
      value = value * 16 + place;
      this.at++;
    }
    return value;
  }

  private number(): Json | null {
    const from = this.at;
    this.skip(0x2d);
    if (!this.skip(0x30) && !this.digits()) return null;
    if (this.skip(0x2e) && !this.digits()) return null;
    if (this.skip(0x65) || this.skip(0x45)) {
      if (!this.skip(0x2b)) this.skip(0x2d);
      if (!this.digits()) return null;
    }
    const written = this.source.substring(from, this.at);
    // The other languages print it like this.
    return new Json(Kind.Number, written == "-0" ? "-0.0" : written);
  }

  private digits(): bool {
    const from = this.at;
    while (this.peek() >= 0x30 && this.peek() <= 0x39) this.at++;
    return this.at > from;
  }

  private word(word: string): bool {
    if (!this.source.substr(this.at, word.length).startsWith(word)) return false;
    this.at += word.length;
    return true;
  }

  private skip(code: i32): bool {
    if (this.peek() != code) return false;
    this.at++;
    return true;
  }

  private peek(): i32 {
    return this.at < this.source.length ? this.source.charCodeAt(this.at) : -1;
  }
}
