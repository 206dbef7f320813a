/** Creates and reads single records when replies may be lost. */

import { CheckpointError, isCheckpointError, toCheckpointError } from '../../contract/errors.ts';
import type { ObjectStore } from '../../contract/object-store.ts';
import { bytesEqual, crc32c, recordBytesMax, sha256, toHex } from '../../format/index.ts';
import { differenceFrom } from '../../plan/ranges.ts';
import { pauseBeforeRepeat, repeatDelayMs } from '../../transfer/index.ts';
import { withDeadline, withLastLook } from './deadline.ts';

import type { RecordIo } from './record-io.ts';
import { writeToken } from './tokens.ts';

/** Result of a create: our record is there, or another process's. */
export type Created = { readonly isOurs: true } | { readonly isOurs: false; readonly bytes: Uint8Array };

/**
 * Creates a record whose bytes only this caller can have written, or which all callers write alike.
 * Safe against lost replies: after every unclear answer the object is read and compared. Repeats
 * until the signal fires.
 *
 * `decides`: for records that other processes act on. If the record may be there when the call
 * fails, the caller must know: this function then makes an `OutcomeUnknown` from the error. Records
 * that decide nothing omit it, and the call fails with the error itself.
 */
export async function createRecord(
  run: RecordIo,
  key: string,
  bytes: Uint8Array,
  signal: AbortSignal | undefined,
  decides?: (cause: unknown) => CheckpointError,
): Promise<Created> {
  const sent = { mayBeThere: false };
  try {
    return await createAndCompare(run, { key, bytes, sent }, signal);
  } catch (error) {
    const cause = endOf(error);
    throw decides && sent.mayBeThere ? decides(cause) : cause;
  }
}

/** For `createRecord`, if the record itself is the decision. `what`: for messages, "the grant". */
export function unknownRecord(
  run: RecordIo,
  { what, key, bytes }: { readonly what: string; readonly key: string; readonly bytes: Uint8Array },
): (cause: unknown) => CheckpointError {
  return (cause) => {
    const token = writeToken({ of: 'record', key, sha256: sha256(bytes) });
    const context = { store: run.records.uri, key, token };
    return new CheckpointError('OutcomeUnknown', `it is not known whether ${what} was written`, {
      context,
      cause,
    });
  };
}

/** The cause of an unknown outcome: a stop, a deadline, or the store. */
export function endOf(error: unknown): unknown {
  return isCheckpointError(error, 'OutcomeUnknown') && error.cause !== undefined ? error.cause : error;
}

/**
 * Creates an object. `Corrupt` of status `exhausted`: by the checksum in its answer the store has
 * other bytes, so the effect is that of an answer that was lost.
 */
export async function createAsSent(
  { records }: Pick<RecordIo, 'records'>,
  key: string,
  bytes: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<void> {
  const sent = crc32c(bytes);
  const difference = differenceFrom(sent, await records.create(key, bytes, { crc32c: sent, signal }));
  if (difference === null) return;
  throw new CheckpointError('Corrupt', difference.message, {
    context: { store: records.uri, ...difference.context },
    status: 'exhausted',
  });
}

async function createAndCompare(
  run: RecordIo,
  { key, bytes, sent }: { key: string; bytes: Uint8Array; sent: { mayBeThere: boolean } },
  signal: AbortSignal | undefined,
): Promise<Created> {
  for (let repeats = 0; ; repeats++) {
    try {
      await createAsSent(run, key, bytes, signal);
      return { isOurs: true };
    } catch (error) {
      const mayBeThere = isCheckpointError(error, 'AlreadyExists') || isUnanswered(error);
      if (!mayBeThere) throw error;
      sent.mayBeThere = true; // stays set: a request that has not arrived yet may still arrive
      const found = await getOrNull(run.records, key, signal);
      if (found) return bytesEqual(found, bytes) ? { isOurs: true } : { isOurs: false, bytes: found };
      // A server of another kind answered. It will answer so again.
      if (isCheckpointError(error, 'InvalidConfig')) throw error;
      // Not there. Either the request was lost, or a collector deleted the object at once, which
      // happens only to records of a passed epoch.
      await backOff(run, repeats, signal, toCheckpointError(error));
    }
  }
}

/**
 * The store did not answer, or rejected the request for now. A write may have taken effect, or may
 * still do so.
 */
export function isUnanswered(error: unknown): error is CheckpointError {
  return isCheckpointError(error) && error.status !== 'permanent';
}

/**
 * The record is there but this release cannot read it: it is damaged, or a newer Holdfast wrote it.
 */
export function isUnreadable(error: unknown): error is CheckpointError {
  return isCheckpointError(error, 'Corrupt') || isCheckpointError(error, 'UnsupportedFormat');
}

/** Waits between the calls of a loop that a deadline bounds. `error`: of the last call. */
export async function backOff(
  run: RecordIo,
  repeats: number,
  signal: AbortSignal | undefined,
  error?: CheckpointError,
): Promise<void> {
  const { clock, random, settings, logger } = run;
  const { retryDelayMsBase: delayMsBase, retryDelayMsMax: delayMsMax } = settings;
  const delayMs = repeatDelayMs(error, repeats, { delayMsBase, delayMsMax, random });
  if (isUnanswered(error)) {
    logger.log('info', `${error.code}: ${error.message}; try ${repeats + 2} in ${Math.round(delayMs)} ms`);
  }
  await pauseBeforeRepeat(error, delayMs, { clock, signal });
}

export interface TidinessLimits {
  /** Default: `stallTimeoutMs`. */
  readonly timeoutMs?: number | undefined;
  /** The deletion is given up a second after it fires. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Deletes records that would do no harm if they stayed. Errors are only logged, and a silent store
 * is waited for within the limits.
 */
export async function deleteForTidiness(
  run: RecordIo,
  keys: readonly string[],
  what: string,
  { timeoutMs = run.settings.stallTimeoutMs, signal }: TidinessLimits = {},
): Promise<void> {
  const { clock, records, logger } = run;
  try {
    const results = await withLastLook(clock, signal, (late) =>
      withDeadline({ clock, timeoutMs, what, signal: late }, (until) =>
        records.deleteMany(keys, { signal: until }),
      ),
    );
    for (const { error } of results) if (error) throw error;
  } catch (error) {
    logger.log('debug', `${what} failed, which is harmless`, { error: String(error) });
  }
}

export async function getOrNull(
  store: ObjectStore,
  key: string,
  signal: AbortSignal | undefined,
): Promise<Uint8Array | null> {
  try {
    const { bytes } = await store.get(key, { maxBytes: recordBytesMax(key), signal });
    return bytes;
  } catch (error) {
    if (isCheckpointError(error, 'NotFound')) return null;
    throw error;
  }
}

/**
 * Reads a record whose digest is known. A missing or different record is `Corrupt`, because the
 * catalog refers only to records that exist.
 */
export async function getByDigest(
  run: RecordIo & { readonly store: ObjectStore },
  key: string,
  digest: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const bytes = await getOrNull(run.records, key, signal);
  const context = { store: run.store.uri, key };
  if (!bytes) throw new CheckpointError('Corrupt', `${key} is missing`, { context });
  const found = sha256(bytes);
  if (!bytesEqual(found, digest)) {
    throw new CheckpointError(
      'Corrupt',
      `${key} does not match its checksum (expected sha256 ${toHex(digest)}, found ${toHex(found)})`,
      { context: { ...context, expected: toHex(digest), found: toHex(found) } },
    );
  }
  return bytes;
}
