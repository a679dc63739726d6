// Made by `aetheel backend bindings --lang assemblyscript`; changes are lost. The four exports of a backend around the
// author's `backend.ts`; `rename.mjs` gives them the names of the contract, which AssemblyScript cannot spell.

import { hold, liftInputs, lowerActions, lowerString, release } from "./contract";
import * as backend from "./backend";

export function cabi_realloc(was: usize, had: usize, align: usize, size: usize): usize {
  const at = hold(size);
  if (had > 0) memory.copy(at, was, had);
  return at;
}

/** Called by the host after it has read a result. */
export function cabi_post(at: usize): void {
  release();
  __collect();
}

export function describe(): usize {
  const at = hold(8);
  lowerString(at, backend.describe());
  return at;
}

export function handle(at: usize, length: i32): usize {
  const inputs = liftInputs(at, length);
  release();
  const handled = backend.handle(inputs);
  const answer = hold(12);
  const error = handled.error;
  store<u8>(answer, error === null ? 0 : 1);
  if (error === null) lowerActions(answer + 4, handled.value);
  else lowerString(answer + 4, error);
  return answer;
}

export function save(): usize {
  const answer = hold(12);
  const state = backend.save();
  store<u8>(answer, state === null ? 0 : 1);
  if (state !== null) lowerString(answer + 4, state);
  return answer;
}

export function load_(state: usize, stateLength: i32, by: usize, byLength: i32): usize {
  const error = backend.load(String.UTF8.decodeUnsafe(state, stateLength), String.UTF8.decodeUnsafe(by, byLength));
  release();
  const answer = hold(12);
  store<u8>(answer, error === null ? 0 : 1);
  if (error !== null) lowerString(answer + 4, error);
  return answer;
}

/** AssemblyScript has no exceptions: a failed check ends the link. The gateway logs the stack trace. */
export function abort(message: usize, file: usize, line: u32, column: u32): void {
  unreachable();
}
