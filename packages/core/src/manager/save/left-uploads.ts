/**
 * Multipart uploads that earlier processes of a writer have left, or that another process of the
 * same life has in progress. They are found by their records. Only uploads of the same checkpoint
 * are used: their bytes are likely those to be saved now, and only this writer may use them. The
 * transfer checks whether the bytes are the same.
 */

import { atATime } from '../../contract/at-a-time.ts';
import type { ProgressEvent } from '../../contract/checkpoint-manager.ts';
import { isCheckpointError, throwIfAborted, toCheckpointError } from '../../contract/errors.ts';
import {
  decodeRecord,
  idEquals,
  parsePayloadKey,
  recordBytesMax,
  type UploadRecord,
  uploadIdPrefix,
  uploadsPrefix,
} from '../../format/index.ts';
import type { LeftUpload, UploadItem } from '../../transfer/index.ts';
import { mayGoOnWith, recordingOf, type UploadOwner, withDeadline } from '../records/index.ts';
import type { RunContext } from '../run/index.ts';
import { LeftObjects } from './left-objects.ts';

/** Further records are ignored: what they would save is not worth an endless search. */
const RECORDS_MAX = 1024;
const READ_AT_ONCE = 16;

type Left = LeftUpload &
  Pick<UploadRecord, 'name' | 'sizeBytes' | 'partSizeBytes' | 'incarnation'> & { readonly recordKey: string };

/**
 * Records the uploads of one save, and resumes uploads that another process left. Bytes that it had
 * finished are not sent again.
 */
export function recorderOf(
  run: RunContext,
  owner: UploadOwner,
  onProgress: ((event: ProgressEvent) => void) | undefined,
): (
  name: string,
) => Pick<UploadItem, 'isShared' | 'onBegun' | 'onEnded' | 'takeLeft' | 'findFinished' | 'onKept'> {
  const { isShared, ...whose } = owner;
  const { version } = owner.id;
  if (owner.incarnation === 0 && !isShared) return (name) => recordingOf(run, { ...whose, name });
  const finished = new LeftObjects(run, owner);
  const left = run.store.capabilities.resumesUploads ? new LeftUploads(run, owner) : undefined;
  return (name) => ({
    isShared,
    ...recordingOf(run, { ...whose, name }),
    takeLeft: left && (({ signal, ...sizes }) => left.take({ name, ...sizes }, signal)),
    findFinished: ({ sizeBytes, signal }) => finished.find(name, sizeBytes, signal),
    onKept: (keptBytes) => {
      run.logger.log('debug', `"${name}": ${keptBytes} bytes that an earlier process had sent are used`);
      onProgress?.({ type: 'resumed', version, name, keptBytes });
    },
  });
}

class LeftUploads {
  readonly #run: RunContext;
  readonly #owner: UploadOwner;
  #found: Promise<Left[]> | undefined;

  constructor(run: RunContext, owner: UploadOwner) {
    this.#run = run;
    this.#owner = owner;
  }

  /**
   * Returns each upload once, those of later incarnations first. The first call reads the records.
   */
  async take(
    wanted: Pick<Left, 'name' | 'sizeBytes' | 'partSizeBytes'>,
    signal: AbortSignal,
  ): Promise<LeftUpload | undefined> {
    this.#found ??= this.#find(signal);
    const found = await this.#found;
    const { uploads } = this.#run;
    const at = found.findIndex(
      ({ name, sizeBytes, partSizeBytes, recordKey }) =>
        name === wanted.name &&
        sizeBytes === wanted.sizeBytes &&
        partSizeBytes === wanted.partSizeBytes &&
        !uploads.isOpenHere(recordKey),
    );
    return at === -1 ? undefined : found.splice(at, 1)[0];
  }

  /** Empty if the store does not answer: the bytes are then sent, if the store takes them. */
  async #find(signal: AbortSignal): Promise<Left[]> {
    const { clock, settings, logger } = this.#run;
    const what = 'looking for interrupted uploads';
    try {
      const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what, signal };
      const found = await withDeadline(bounds, (until) => this.#readAll(until));
      return found.sort((a, b) => b.incarnation - a.incarnation);
    } catch (error) {
      throwIfAborted(signal);
      logger.log('info', `${what} failed: ${toCheckpointError(error).message}`);
      return [];
    }
  }

  async #readAll(signal: AbortSignal): Promise<Left[]> {
    const keys = await this.#listKeys(signal);
    const read = await atATime(keys, READ_AT_ONCE, (key) => this.#read(key, signal));
    return read.filter((left) => left !== null);
  }

  async #listKeys(signal: AbortSignal): Promise<string[]> {
    const keys: string[] = [];
    const { id, writer } = this.#owner;
    const prefix = `${uploadsPrefix}${uploadIdPrefix(id, writer)}`;
    for await (const { objects } of this.#run.records.list(prefix, { signal })) {
      keys.push(...objects.map(({ key }) => key));
      if (keys.length >= RECORDS_MAX) break;
    }
    return keys.slice(0, RECORDS_MAX);
  }

  /** `null`: the record is gone, cannot be read, or is of no use to this process. */
  async #read(key: string, signal: AbortSignal): Promise<Left | null> {
    const { records, store, uploads } = this.#run;
    try {
      const { bytes } = await records.get(key, { maxBytes: recordBytesMax(key), signal });
      const record = decodeRecord('upload', bytes, { key, store: store.uri });
      if (!this.#isOwn(record)) return null;
      return { ...record, recordKey: key, onResumed: (upload) => uploads.adopt(upload, key) };
    } catch (error) {
      if (!isCheckpointError(error) || error.status !== 'permanent') throw error;
      return null;
    }
  }

  /**
   * The key is compared too: collection spares only objects below this checkpoint's prefix while
   * this process may still commit.
   */
  #isOwn({ id, writer, incarnation, name, key }: UploadRecord): boolean {
    const owner = this.#owner;
    const parsed = parsePayloadKey(key);
    return (
      id !== undefined &&
      idEquals(id, owner.id) &&
      writer === owner.writer &&
      mayGoOnWith(owner, incarnation) &&
      parsed !== null &&
      idEquals(parsed.id, owner.id) &&
      parsed.writer === owner.writer &&
      parsed.name === name
    );
  }
}
