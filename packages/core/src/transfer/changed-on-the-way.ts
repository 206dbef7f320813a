/**
 * Bytes that a store rejected by their checksum. The sender's bytes are intact: they were changed
 * on the way to the store.
 */

import { CheckpointError, isCheckpointError } from '../contract/index.ts';
import { crc32c as computeCrc32c } from '../format/checksum.ts';

/**
 * `context.advice` for such uploads: no stored data is damaged, so restoring another version does
 * not help.
 */
export const CHANGED_ADVICE: readonly string[] = [
  'no stored object is damaged: the bytes were changed in transit to the store',
  'try again; if it fails again, find what changes them: a proxy, the network, or the memory of this machine',
];

/**
 * The store received other bytes than ours, and ours still have the right checksum. So sending them
 * again may help.
 */
export function isChangedOnTheWay(
  error: unknown,
  bytes: Uint8Array,
  crc32c: number,
): error is CheckpointError {
  return isCheckpointError(error, 'Corrupt') && computeCrc32c(bytes) === crc32c;
}

/**
 * The same error with its own advice. `status`: `temporary` if the caller sends the bytes again.
 */
export function changedOnTheWay(error: CheckpointError, status: 'temporary' | 'permanent'): CheckpointError {
  const context = { ...error.context, advice: CHANGED_ADVICE };
  return new CheckpointError('Corrupt', error.message, { context, cause: error, status });
}

/** If bytes were changed on the way: a temporary error, so that they are sent again. */
export function blameTransport(error: unknown, bytes: Uint8Array, crc32c: number): unknown {
  if (!isChangedOnTheWay(error, bytes, crc32c) || error.status === 'temporary') return error;
  return changedOnTheWay(error, 'temporary');
}
