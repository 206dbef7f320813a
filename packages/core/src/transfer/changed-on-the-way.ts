/** Bytes that a store refused by their checksum. Its own are intact: what it was sent was changed on the way there. */

import { CheckpointError, isCheckpointError } from '../contract/index.ts';
import { crc32c as computeCrc32c } from '../format/checksum.ts';

/** `context.advice` of what an upload fails with: no other version is to be restored for it. */
export const CHANGED_ADVICE: readonly string[] = [
  'nothing that is stored is damaged: the bytes were changed on their way to the store',
  'repeat the call; if it fails again, look for what changes them: a proxy, a network, or the memory of this machine',
];

/** The store refused other bytes than we have, if ours are still what they were: sending them again may help. */
export function isChangedOnTheWay(
  error: unknown,
  bytes: Uint8Array,
  crc32c: number,
): error is CheckpointError {
  return isCheckpointError(error, 'Corrupt') && computeCrc32c(bytes) === crc32c;
}

/** That refusal, with advice of its own. `status`: `temporary` where whoever sees it sends the bytes again. */
export function changedOnTheWay(error: CheckpointError, status: 'temporary' | 'permanent'): CheckpointError {
  const context = { ...error.context, advice: CHANGED_ADVICE };
  return new CheckpointError('Corrupt', error.message, { context, cause: error, status });
}

/** For requests that are repeated after temporary errors. What is no such refusal stays as it is. */
export function blameTransport(error: unknown, bytes: Uint8Array, crc32c: number): unknown {
  if (!isChangedOnTheWay(error, bytes, crc32c) || error.status === 'temporary') return error;
  return changedOnTheWay(error, 'temporary');
}
