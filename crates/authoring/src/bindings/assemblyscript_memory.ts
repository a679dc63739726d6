/** A number that may be missing. */
export class Some<T> {
  constructor(public value: T) {}
}

export class Pair<A, B> {
  constructor(
    public first: A,
    public second: B,
  ) {}
}

/** The result of a function that can fail: a value, or an error. */
export class Result<T> {
  constructor(
    public value: T,
    public error: string | null = null,
  ) {}
}

// Addresses of the memory that is shared with the host during a call. It is freed after the call.
const held: usize[] = [];

export function hold(size: usize): usize {
  const at = heap.alloc(size);
  held.push(at);
  return at;
}

export function release(): void {
  for (let index = 0; index < held.length; index++) heap.free(held[index]);
  held.length = 0;
}

function liftString(at: usize): string {
  return String.UTF8.decodeUnsafe(load<u32>(at), load<u32>(at, 4));
}

export function lowerString(at: usize, text: string): void {
  const size = String.UTF8.byteLength(text);
  const bytes = hold(size);
  // An unpaired surrogate becomes U+FFFD, because the host accepts only valid UTF-8.
  String.UTF8.encodeUnsafe(changetype<usize>(text), text.length, bytes, false, String.UTF8.ErrorMode.REPLACE);
  store<u32>(at, <u32>bytes);
  store<u32>(at, <u32>size, 4);
}

function liftArray<T>(at: usize, length: i32, size: usize, lift: (at: usize) => T): T[] {
  const list: T[] = [];
  for (let index = 0; index < length; index++) list.push(lift(at + <usize>index * size));
  return list;
}

function liftList<T>(at: usize, size: usize, lift: (at: usize) => T): T[] {
  return liftArray<T>(load<u32>(at), load<i32>(at, 4), size, lift);
}

function lowerList<T>(at: usize, list: T[], size: usize, lower: (at: usize, value: T) => void): void {
  const there = hold(size * <usize>list.length);
  for (let index = 0; index < list.length; index++) lower(there + <usize>index * size, list[index]);
  store<u32>(at, <u32>there);
  store<i32>(at, list.length, 4);
}
