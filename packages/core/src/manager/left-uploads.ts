/**
 * Uploads in parts that former lives of a writer have left, by their records. Only those of the same checkpoint: what they sent then is
 * likely to be what is saved now, and nobody but this writer may use it. Whether it is the same is for the transfer to compare.
 */

import type { ProgressEvent } from '../contract/checkpoint-manager.ts';
import { isCheckpointError, throwIfAborted, toCheckpointError } from '../contract/errors.ts';
import {
  decodeRecord,
  idEquals,
  parsePayloadKey,
  recordBytesMax,
  type UploadRecord,
  uploadIdPrefix,
  uploadsPrefix,
} from '../format/index.ts';
import type { LeftUpload, UploadItem } from '../transfer/index.ts';
import { withDeadline } from './deadline.ts';
import type { Engine } from './engine.ts';
import { inBatches } from './in-batches.ts';
import { LeftObjects } from './left-objects.ts';
import { recordingOf, type UploadPurpose } from './upload-records.ts';

/** Records beyond these are not looked at: what they would save is not worth an endless search. */
const RECORDS_MAX = 1024;
const READ_AT_ONCE = 16;

/** Whose uploads, for which checkpoint. */
type Life = Pick<UploadPurpose, 'id' | 'writer' | 'incarnation'>;
type Left = LeftUpload & Pick<UploadRecord, 'name' | 'sizeBytes' | 'partSizeBytes' | 'incarnation'>;

/** How the uploads of one save are recorded, and go on where a former life was interrupted; nothing is sent that it had finished. */
export function recorderOf(
  engine: Engine,
  life: Life,
  onProgress: ((event: ProgressEvent) => void) | undefined,
): (name: string) => Pick<UploadItem, 'onBegun' | 'onEnded' | 'takeLeft' | 'findFinished' | 'onKept'> {
  const { version } = life.id;
  if (life.incarnation === 0) return (name) => recordingOf(engine, { ...life, name });
  const finished = new LeftObjects(engine, life);
  const left = engine.store.capabilities.resumesUploads ? new LeftUploads(engine, life) : undefined;
  return (name) => ({
    ...recordingOf(engine, { ...life, name }),
    takeLeft: left && (({ signal, ...sizes }) => left.take({ name, ...sizes }, signal)),
    findFinished: ({ sizeBytes, signal }) => finished.find(name, sizeBytes, signal),
    onKept: (keptBytes) => {
      engine.logger.log('debug', `"${name}": ${keptBytes} bytes that a former process had sent were kept`);
      onProgress?.({ type: 'resumed', version, name, keptBytes });
    },
  });
}

class LeftUploads {
  readonly #engine: Engine;
  readonly #life: Life;
  #found: Promise<Left[]> | undefined;

  constructor(engine: Engine, life: Life) {
    this.#engine = engine;
    this.#life = life;
  }

  /** Each is given once; those of younger lives first. The records are read at the first call. */
  async take(
    wanted: Pick<Left, 'name' | 'sizeBytes' | 'partSizeBytes'>,
    signal: AbortSignal,
  ): Promise<LeftUpload | undefined> {
    this.#found ??= this.#find(signal);
    const found = await this.#found;
    const at = found.findIndex(
      ({ name, sizeBytes, partSizeBytes }) =>
        name === wanted.name && sizeBytes === wanted.sizeBytes && partSizeBytes === wanted.partSizeBytes,
    );
    return at === -1 ? undefined : found.splice(at, 1)[0];
  }

  /** Without an answer of the store, none: the bytes are sent then, if it takes them. */
  async #find(signal: AbortSignal): Promise<Left[]> {
    const { clock, settings, logger } = this.#engine;
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
    const read = await inBatches(keys, READ_AT_ONCE, (key) => this.#read(key, signal));
    return read.filter((left) => left !== null);
  }

  async #listKeys(signal: AbortSignal): Promise<string[]> {
    const keys: string[] = [];
    const { id, writer } = this.#life;
    const prefix = `${uploadsPrefix}${uploadIdPrefix(id, writer)}`;
    for await (const { objects } of this.#engine.records.list(prefix, { signal })) {
      keys.push(...objects.map(({ key }) => key));
      if (keys.length >= RECORDS_MAX) break;
    }
    return keys.slice(0, RECORDS_MAX);
  }

  /** `null`: it is gone by now, nobody can read it, or it is of no use to this life. */
  async #read(key: string, signal: AbortSignal): Promise<Left | null> {
    const { records, store, uploads } = this.#engine;
    try {
      const { bytes } = await records.get(key, { maxBytes: recordBytesMax(key), signal });
      const record = decodeRecord('upload', bytes, { key, store: store.uri });
      if (!this.#isOwn(record)) return null;
      return { ...record, onResumed: (upload) => uploads.adopt(upload, key) };
    } catch (error) {
      if (!isCheckpointError(error) || error.status !== 'permanent') throw error;
      return null;
    }
  }

  /** The key is compared too: only below it nothing can be collected while this life may still commit. */
  #isOwn({ id, writer, incarnation, name, key }: UploadRecord): boolean {
    const life = this.#life;
    const parsed = parsePayloadKey(key);
    return (
      id !== undefined &&
      idEquals(id, life.id) &&
      writer === life.writer &&
      incarnation < life.incarnation &&
      parsed !== null &&
      idEquals(parsed.id, life.id) &&
      parsed.writer === life.writer &&
      parsed.name === name
    );
  }
}
