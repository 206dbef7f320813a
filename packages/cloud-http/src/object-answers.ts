/** Checks and errors that reads of objects share in all cloud stores. */

import type { CheckpointError } from '@holdfast/core/contract';
import { DirectHttpError } from '@holdfast/direct-http';
import { HttpRefusal, objectError, type StoreSubject } from './errors.ts';

/** The key as the engine knows it, and as it is in the bucket. */
export interface ObjectPlace {
  readonly key: string;
  readonly path: string;
}

/**
 * A proxy may compress an answer, send a part of it from its cache, or end it by closing the
 * connection, which looks like a cut.
 */
export function assertUntouched(status: number, headers: Readonly<Record<string, string>>): void {
  const what = changeOf(status, headers);
  if (what === null) return;
  throw new DirectHttpError('BAD_BODY', `the answer ${what}; a proxy may have changed it`, { phase: 'head' });
}

function changeOf(status: number, headers: Readonly<Record<string, string>>): string | null {
  const encoding = headers['content-encoding'] ?? 'identity';
  if (status !== 200) return `has the status ${status}`;
  if (encoding.toLowerCase() !== 'identity') return `is encoded with ${encoding}`;
  if (headers['content-range'] !== undefined) return 'has a Content-Range, which was not asked for';
  const isFramed = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
  return isFramed ? null : 'has neither a length nor chunks';
}

/** A read without a condition and a range has no reason for these. */
export function refuseUnasked(error: unknown): never {
  const status = error instanceof HttpRefusal ? error.status : undefined;
  if (status !== 412 && status !== 416) throw error;
  const what = `a read of a whole object without a condition was answered with HTTP ${status}`;
  throw new DirectHttpError('BAD_HEAD', what, { phase: 'head', cause: error });
}

export function isTooLarge(error: unknown): boolean {
  return error instanceof DirectHttpError && error.code === 'TOO_LARGE';
}

/**
 * The error of a read of at most `maxBytes` whose answer was larger. `sizeBytes`: of the object, by
 * HEAD. If that is less, the answer was of another server, and it may be repeated.
 */
export function larger(
  subject: StoreSubject,
  { sizeBytes, maxBytes, cause }: { sizeBytes: number; maxBytes: number; cause: unknown },
): Error {
  if (sizeBytes > maxBytes)
    return objectError('Corrupt', subject, `is larger than the ${maxBytes} bytes that were expected`, cause);
  const what = `the answer is larger than the object, which has ${sizeBytes} bytes`;
  return new DirectHttpError('BAD_BODY', `${what}; another server may have answered`, {
    phase: 'head',
    cause,
  });
}

export function assertCreateSize(subject: StoreSubject, sizeBytes: number, maxBytes: number): void {
  if (sizeBytes <= maxBytes) return;
  const what = `has ${sizeBytes} bytes; one create takes at most ${maxBytes}`;
  throw objectError('InvalidArgument', subject, what);
}

export function assertOffset(subject: StoreSubject, offsetBytes: number): void {
  if (Number.isSafeInteger(offsetBytes) && offsetBytes >= 0) return;
  const what = `cannot be read at offset ${offsetBytes}; offsets are whole numbers from 0 on`;
  throw objectError('InvalidArgument', subject, what);
}

/** The object was replaced since its ETag was read. */
export function replaced(subject: StoreSubject, etag: string | undefined, cause?: unknown): CheckpointError {
  return objectError(
    'Corrupt',
    subject,
    `was replaced by another object: its etag is no longer ${etag}`,
    cause,
  );
}

/**
 * The key's path in the bucket. `root`: empty, or ends in '/'. `InvalidArgument` if it is longer
 * than providers accept.
 */
export function pathInBucket(
  { store, root, provider }: { readonly store: string; readonly root: string; readonly provider: string },
  key: string,
): string {
  const path = root + key;
  const sizeBytes = Buffer.byteLength(path);
  if (sizeBytes <= PATH_BYTES_MAX) return path;
  const what = `has ${sizeBytes} bytes with the prefix of the store; ${provider} accepts ${PATH_BYTES_MAX}`;
  throw objectError('InvalidArgument', { store, key }, what);
}

/** The same for all providers, so that a run can be copied from any store to any other. */
const PATH_BYTES_MAX = 1024;
