/**
 * Multipart uploads that no process can finish any more. The records of the run and the store's own
 * list show them.
 */

import { atATime } from '../../contract/at-a-time.ts';
import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import type { CallOptions, OpenUpload, Upload } from '../../contract/object-store.ts';
import { decodeRecord, type State, type UploadRecord } from '../../format/index.ts';
import { isUploadOver } from '../../plan/sweep.ts';
import { retrying } from '../../transfer/index.ts';
import { getOrNull, isUnreadable, withDeadline } from '../records/index.ts';
import type { RunContext, WholeListing } from '../run/index.ts';

export interface StrayUpload {
  /** Absent: the upload has no record. */
  readonly recordKey?: string | undefined;
  /** Key of the payload object that the upload would make. */
  readonly key: string;
  /** May be a secret. */
  readonly token: string;
}

export interface StrayUploads {
  readonly strays: readonly StrayUpload[];
  /** Uploads that their writers can still finish. */
  readonly unfinishedCount: number;
  /** Records that this release cannot read, and why. They are kept. */
  readonly unreadable: readonly { readonly key: string; readonly reason: string }[];
}

/**
 * One GET per record. `StoreRegressed`: a record is of a lineage or epoch that the catalog has not
 * reached.
 */
export async function findStrayUploads(
  run: RunContext,
  { uploadRecords, openUploads }: Pick<WholeListing, 'uploadRecords' | 'openUploads'>,
  state: State,
  signal: AbortSignal | undefined,
): Promise<StrayUploads> {
  const { preferredConcurrency } = run.store.capabilities;
  const read = await atATime(uploadRecords, preferredConcurrency, (key) => readUpload(run, key, signal));
  const strays: StrayUpload[] = [];
  const unreadable: { key: string; reason: string }[] = [];
  let unfinishedCount = 0;
  // A store may list an upload under another token than the recorded one, so uploads are matched by
  // key. A key normally has one upload. If a request arrived twice and began two, this sweep stops
  // one of them, and the next sweep the other.
  const recorded = new Set<string>();
  const add = (recordKey: string | undefined, upload: Pick<OpenUpload, 'key' | 'token'>, isOver: boolean) => {
    if (recordKey !== undefined) recorded.add(upload.key);
    if (isOver) strays.push({ recordKey, key: upload.key, token: upload.token });
    else unfinishedCount++;
  };
  for (const found of read) {
    if (found === null) continue; // its writer has ended it meanwhile
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
  run: RunContext,
  key: string,
  signal: AbortSignal | undefined,
): Promise<{ key: string; record: UploadRecord } | { key: string; reason: string } | null> {
  try {
    const bytes = await getOrNull(run.records, key, signal);
    return bytes && { key, record: decodeRecord('upload', bytes, { key, store: run.store.uri }) };
  } catch (error) {
    if (isUnreadable(error)) return { key, reason: error.message };
    throw error;
  }
}

/** Bytes of the parts that the store holds; `null`: the upload has ended. Cost: two requests. */
export function measureUpload(
  run: RunContext,
  stray: StrayUpload,
  signal: AbortSignal | undefined,
): Promise<number | null> {
  return withUpload(run, stray, signal, async () => undefined);
}

/**
 * Aborts the upload. Resolves to the bytes of its parts; `null`: it had ended before. Cost: three
 * requests.
 */
export function stopUpload(
  run: RunContext,
  stray: StrayUpload,
  signal: AbortSignal | undefined,
): Promise<number | null> {
  return withUpload(run, stray, signal, (upload, options) => upload.abort(options));
}

/**
 * Runs `work` on the upload. Resolves to the bytes that its parts had before `work`; `null`: the
 * upload had ended before. If an abort took effect but its answer was lost, the next try finds no
 * upload. That is no error.
 */
async function withUpload(
  run: RunContext,
  { key, token }: StrayUpload,
  signal: AbortSignal | undefined,
  work: (upload: Upload, options: CallOptions) => Promise<void>,
): Promise<number | null> {
  const { clock, settings, store } = run;
  const what = `checking the upload of ${key}`;
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
      retrying(() => unlessSilent(run, until, tryOnce), run.transfers.retryPolicy(what, { signal: until })),
    );
  } catch (error) {
    if (!isCheckpointError(error, 'NotFound')) throw error;
  }
  return sizeBytes;
}

/** Turns silence of the store into an error that is retried. */
async function unlessSilent(
  { clock, settings }: RunContext,
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
