import { CheckpointError, type ErrorCode, isCheckpointError } from '@holdfast/core/contract';

/** A store broke the contract: what was expected, and what it did. */
export class ConformanceError extends Error {
  override readonly name = 'ConformanceError';
}

export function fail(what: string, expected: string, found: string, cause?: unknown): never {
  throw new ConformanceError(
    `${what}: expected ${expected}, found ${found}`,
    cause === undefined ? {} : { cause },
  );
}

/** `seen`: what the store did instead, in words. */
export function expectThat(isKept: boolean, seen: string): asserts isKept {
  if (!isKept) throw new ConformanceError(seen);
}

export function expectTrue(
  condition: boolean,
  what: string,
  expected: string,
  found: unknown,
): asserts condition {
  if (!condition) fail(what, expected, show(found));
}

/** Compares by JSON: numbers, strings, and lists and records of them. */
export function expectEqual(found: unknown, expected: unknown, what: string): void {
  if (json(found) !== json(expected)) fail(what, show(expected), show(found));
}

export function expectBytes(found: Uint8Array, expected: Uint8Array, what: string): void {
  if (found.byteLength !== expected.byteLength) {
    fail(what, `${expected.byteLength} bytes`, `${found.byteLength} bytes`);
  }
  if (Buffer.compare(found, expected) === 0) return;
  const offset = found.findIndex((byte, index) => byte !== expected[index]);
  fail(what, `byte ${expected[offset]} at offset ${offset}`, `byte ${found[offset]}`);
}

/** Resolves to the error of `call`. Its code must be one of `codes`. */
export async function expectRejection(
  call: Promise<unknown> | (() => Promise<unknown>),
  codes: ErrorCode | readonly ErrorCode[],
  what: string,
): Promise<CheckpointError> {
  const outcome = await settle(call);
  const expected = [codes].flat().join(' or ');
  if (outcome.status === 'fulfilled') fail(what, `a rejection with ${expected}`, 'success');
  const error: unknown = outcome.reason;
  if (!isCheckpointError(error))
    fail(what, expected, `an error that is not a CheckpointError: ${String(error)}`, error);
  if (![codes].flat().includes(error.code)) fail(what, expected, `${error.code} (${error.message})`, error);
  return error;
}

/** Long enough for any provider that still answers. */
const SOON_MS = 30_000;

/** Resolves to the outcome of the call, which must settle within half a minute. */
export async function settle<T>(call: Promise<T> | (() => Promise<T>)): Promise<PromiseSettledResult<T>> {
  const ended = Promise.allSettled([typeof call === 'function' ? Promise.resolve().then(call) : call]);
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, SOON_MS, undefined);
  });
  const results = await Promise.race([ended, tooLate]);
  clearTimeout(timer);
  if (results !== undefined) return results[0];
  const late = `an end within ${SOON_MS / 1000} s`;
  fail('a call', late, 'none', new CheckpointError('TimedOut', `${late} was expected`));
}

/** Returns the value of a settled call, or throws its error. */
export function unsettle<T>(outcome: PromiseSettledResult<T>): T {
  if (outcome.status === 'rejected') throw outcome.reason;
  return outcome.value;
}

/** A copy in the order of a listing. */
export function inOrder(names: readonly string[]): string[] {
  return [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

/** Waits in real time, because the background work of a store takes real time. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

const SHOWN_CHARACTERS = 500;

function show(value: unknown): string {
  const text = json(value);
  return text.length <= SHOWN_CHARACTERS
    ? text
    : `${text.slice(0, SHOWN_CHARACTERS)}… (${text.length} characters)`;
}

function json(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
}
