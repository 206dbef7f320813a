/** Checks and errors that reads of objects share in all cloud stores. */

import type { CheckpointError } from '@holdfast/core/contract';
import { DirectHttpError } from '@holdfast/direct-http';
import { objectError, type StoreSubject } from './errors.ts';

/** The key as the engine knows it, and as it is in the bucket. */
export interface ObjectPlace {
  readonly key: string;
  readonly path: string;
}

/** A proxy may compress an answer, or send a part of it from its cache. */
export function assertUntouched(status: number, headers: Readonly<Record<string, string>>): void {
  const encoding = headers['content-encoding'] ?? 'identity';
  if (status === 200 && encoding.toLowerCase() === 'identity') return;
  const what = status === 200 ? `is encoded with ${encoding}` : `has the status ${status}`;
  throw new DirectHttpError('BAD_BODY', `the answer ${what}; a proxy may have changed it`, { phase: 'head' });
}

/**
 * For `catch` of a read of at most `maxBytes`: a larger object is `Corrupt`. Any other error is
 * thrown unchanged.
 */
export function refuseLarger(subject: StoreSubject, maxBytes: number): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof DirectHttpError) || error.code !== 'TOO_LARGE') throw error;
    throw objectError('Corrupt', subject, `is larger than the ${maxBytes} bytes that were expected`, error);
  };
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
