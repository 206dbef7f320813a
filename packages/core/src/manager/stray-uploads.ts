/** Uploads in parts that nobody can finish any more: by the records of the run, and by what the store shows itself. */

import { CheckpointError, isCheckpointError } from '../contract/errors.ts';
import type { CallOptions, OpenUpload, Upload } from '../contract/object-store.ts';
import { decodeRecord, type State, type UploadRecord } from '../format/index.ts';
import { isUploadOver } from '../plan/sweep.ts';
import { retrying } from '../transfer/index.ts';
import { withDeadline } from './deadline.ts';
import type { Engine } from './engine.ts';
import { inBatches } from './in-batches.ts';
import { getOrNull, isUnreadable } from './records.ts';
import type { WholeListing } from './run-listing.ts';

export interface StrayUpload {
  /** Absent: there is no record of it. */
  readonly recordKey?: string | undefined;
  /** Of the payload it would make. */
  readonly key: string;
  /** May be a secret. */
  readonly token: string;
}

export interface StrayUploads {
  readonly strays: readonly StrayUpload[];
  /** Their writers can still finish them. */
  readonly unfinishedCount: number;
  /** Records that nobody here can read, and why: they stay. */
  readonly unreadable: readonly { readonly key: string; readonly reason: string }[];
}

/** One GET per record. `StoreRegressed`: one is of a lineage or epoch that the catalog has not come to. */
export async function findStrayUploads(
  engine: Engine,
  { uploadRecords, openUploads }: Pick<WholeListing, 'uploadRecords' | 'openUploads'>,
  state: State,
  signal: AbortSignal | undefined,
): Promise<StrayUploads> {
  const { preferredConcurrency } = engine.store.capabilities;
  const read = await inBatches(uploadRecords, preferredConcurrency, (key) => readUpload(engine, key, signal));
  const strays: StrayUpload[] = [];
  const unreadable: { key: string; reason: string }[] = [];
  let unfinishedCount = 0;
  // A store may show an upload under another token than the one that was recorded. A key has one upload; should a request have come twice
  // and begun two, the other is found by the next sweep.
  const recorded = new Set<string>();
  const add = (recordKey: string | undefined, upload: Pick<OpenUpload, 'key' | 'token'>, isOver: boolean) => {
    if (recordKey !== undefined) recorded.add(upload.key);
    if (isOver) strays.push({ recordKey, key: upload.key, token: upload.token });
    else unfinishedCount++;
  };
  for (const found of read) {
    if (found === null) continue; // its writer has ended meanwhile
    if ('reason' in found) unreadable.push(found);
    else add(found.key, found.record, isUploadOver(found.record, state, found.key));
  }
  for (const upload of openUploads) {
    if (recorded.has(upload.key)) continue;
    add(undefined, upload, isUploadOver(upload, state));
  }
  return { strays, unfinishedCount, unreadable };
}

async function readUpload(
  engine: Engine,
  key: string,
  signal: AbortSignal | undefined,
): Promise<{ key: string; record: UploadRecord } | { key: string; reason: string } | null> {
  try {
    const bytes = await getOrNull(engine.records, key, signal);
    return bytes && { key, record: decodeRecord('upload', bytes, { key, store: engine.store.uri }) };
  } catch (error) {
    if (isUnreadable(error)) return { key, reason: error.message };
    throw error;
  }
}

/** Bytes of the parts that the store has of it; `null`: it has ended. Two requests. */
export function measureUpload(
  engine: Engine,
  stray: StrayUpload,
  signal: AbortSignal | undefined,
): Promise<number | null> {
  return withUpload(engine, stray, signal, async () => undefined);
}

/** Nothing comes of it any more. Resolves to the bytes of its parts; `null`: it had ended before. Three requests. */
export function stopUpload(
  engine: Engine,
  stray: StrayUpload,
  signal: AbortSignal | undefined,
): Promise<number | null> {
  return withUpload(engine, stray, signal, (upload, options) => upload.abort(options));
}

/** Resolves to the bytes of its parts before `work`, which may be repeated: then it has ended, and that is what was wanted. */
async function withUpload(
  engine: Engine,
  { key, token }: StrayUpload,
  signal: AbortSignal | undefined,
  work: (upload: Upload, options: CallOptions) => Promise<void>,
): Promise<number | null> {
  const { clock, settings, store } = engine;
  const what = `looking after the upload of ${key}`;
  let sizeBytes: number | null = null;
  const tryOnce = async (options: CallOptions) => {
    const upload = await store.resumeUpload(token, options);
    const parts = await upload.listParts(options);
    sizeBytes = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
    await work(upload, options);
  };
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what, signal };
  try {
    await withDeadline(bounds, (until) =>
      retrying(
        () => unlessSilent(engine, until, tryOnce),
        engine.transfer.retryPolicy(what, { signal: until }),
      ),
    );
  } catch (error) {
    if (!isCheckpointError(error, 'NotFound')) throw error;
  }
  return sizeBytes;
}

/** A store that is silent for too long is asked again. */
async function unlessSilent(
  { clock, settings }: Engine,
  signal: AbortSignal,
  work: (options: CallOptions) => Promise<void>,
): Promise<void> {
  const bounds = { clock, timeoutMs: settings.stallTimeoutMs, what: 'the store', signal };
  try {
    await withDeadline(bounds, (until) => work({ signal: until }));
  } catch (error) {
    if (!isCheckpointError(error, 'TimedOut')) throw error;
    throw new CheckpointError('Unavailable', error.message, { cause: error });
  }
}
