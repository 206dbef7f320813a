/** Verified bytes of stored files. Readers that ask for the same bytes share one read. */

import { type Checkpoint, CheckpointError, type CheckpointId, SETTINGS } from '@holdfast/core';
import { ChunkMemory } from './chunk-memory.ts';
import { assertManifest, type Wanted } from './held-checkpoints.ts';
import type { Readers } from './readers.ts';
import { KEPT_BYTES_MAX, SharedStream } from './shared-stream.ts';
import { Turns } from './turns.ts';

/** Parts are read and verified whole. */
const PART_BYTES = SETTINGS.partSizeBytesMin.default;
/** The most that one stream takes: chunks that it keeps for its readers, and the one on its way. */
export const STREAM_BYTES = KEPT_BYTES_MAX + PART_BYTES;

export interface FileRead extends Wanted {
  readonly name: string;
  readonly offset: number;
  readonly length: number | undefined;
}

export interface OpenedRead {
  readonly sizeBytes: number;
  readonly id: CheckpointId;
  readonly manifestKey: string;
  chunks(): AsyncGenerator<Uint8Array, void, void>;
  /** Fires if the caller takes no chunk while other reads wait: then it must end. */
  readonly cut: AbortSignal;
}

interface Chunks {
  readonly name: string;
  readonly range: { readonly offsetBytes: number; readonly lengthBytes: number };
  readonly cut: AbortController;
}

interface Sizes {
  readonly number: number;
  readonly manifestKey: string;
  readonly byName: ReadonlyMap<string, number>;
}

export class FileReads {
  readonly #readers: Readers;
  readonly #memory = new ChunkMemory();
  readonly #shared = new Map<string, SharedStream>();
  readonly #turns: Turns<SharedStream>;
  /**
   * Sizes by name, of the checkpoint that was asked for last: a trainer loads one checkpoint at a
   * time, and a committed checkpoint never changes.
   */
  #sizes: Sizes | undefined;
  /**
   * They tell checkpoints apart. A run that was begun again uses its lineages and versions again.
   */
  readonly #numbers = new WeakMap<Checkpoint, number>();
  #numberCount = 0;

  /**
   * `streamBytes`: memory for what has been read and not been taken yet. Streams that find no room
   * wait for their turn.
   */
  constructor(readers: Readers, streamBytes: number) {
    this.#readers = readers;
    this.#turns = new Turns(streamBytes);
  }

  /**
   * `use` keeps the manager open as long as the bytes flow. `NotFound`: no such version or file, or
   * the version has another manifest.
   * `InvalidArgument`: bytes outside the file.
   */
  async read(wanted: FileRead, use: (opened: OpenedRead) => Promise<void>): Promise<void> {
    await this.#readers.read(wanted, async (checkpoint) => {
      const id = checkpoint.summary?.id as CheckpointId;
      const { fileBytes, manifestKey } = await this.#find(wanted, checkpoint, id);
      const { offset, length = fileBytes - offset } = wanted;
      if (offset > fileBytes || offset + length > fileBytes)
        throw outside(wanted.name, { offset, length, fileBytes });
      const range = { offsetBytes: offset, lengthBytes: length };
      const cut = new AbortController();
      await use({
        sizeBytes: length,
        id,
        manifestKey,
        chunks: () => this.#chunks(checkpoint, { name: wanted.name, range, cut }),
        cut: cut.signal,
      });
    });
  }

  async *#chunks(checkpoint: Checkpoint, wanted: Chunks): AsyncGenerator<Uint8Array, void, void> {
    const { name, range, cut } = wanted;
    let doneBytes = 0;
    const memory = (sizeBytes: number) => this.#memory.take(sizeBytes);
    const key = JSON.stringify([this.#numberOf(checkpoint), name, range.offsetBytes, range.lengthBytes]);
    const open = () => checkpoint.openInputStream(name, { ...range, memory });
    const shared = this.#join(key, range.lengthBytes, open);
    const onCut = () => cut.abort(shared.cut.reason);
    shared.cut.addEventListener('abort', onCut, { once: true });
    try {
      for await (const chunk of shared.read()) {
        if (chunk === null) break;
        doneBytes += chunk.byteLength;
        yield chunk;
      }
    } finally {
      shared.cut.removeEventListener('abort', onCut);
      if (!shared.hasReaders && this.#shared.get(key) === shared) this.#shared.delete(key);
    }
    if (doneBytes === range.lengthBytes) return;
    const offsetBytes = range.offsetBytes + doneBytes;
    const lengthBytes = range.lengthBytes - doneBytes;
    yield* this.#chunks(checkpoint, { ...wanted, range: { offsetBytes, lengthBytes } });
  }

  #join(key: string, lengthBytes: number, open: () => AsyncIterable<Uint8Array>): SharedStream {
    const found = this.#shared.get(key);
    if (found?.isOpen) return found;
    const inTurn = async function* (begin: () => Promise<void>) {
      await begin();
      yield* open();
    };
    const chunks = inTurn(() => this.#turns.begin(shared));
    const shared: SharedStream = new SharedStream(chunks, {
      giveBack: (bytes) => this.#memory.giveBack(bytes),
      onClose: () => this.#turns.end(shared),
      sizeBytesMax: Math.min(STREAM_BYTES, Math.ceil(lengthBytes / PART_BYTES) * PART_BYTES),
    });
    this.#shared.set(key, shared);
    return shared;
  }

  #numberOf(checkpoint: Checkpoint): number {
    const known = this.#numbers.get(checkpoint);
    if (known !== undefined) return known;
    this.#numberCount += 1;
    this.#numbers.set(checkpoint, this.#numberCount);
    return this.#numberCount;
  }

  async #find(
    { name, manifestKey: wantedKey }: FileRead,
    checkpoint: Checkpoint,
    { version }: CheckpointId,
  ): Promise<{ fileBytes: number; manifestKey: string }> {
    const { byName, manifestKey } = await this.#sizesOf(checkpoint);
    const context = { name, version };
    assertManifest({ version, manifestKey }, wantedKey);
    const fileBytes = byName.get(name);
    if (fileBytes !== undefined) return { fileBytes, manifestKey };
    throw new CheckpointError('NotFound', `version ${version} has no file "${name}"`, { context });
  }

  async #sizesOf(checkpoint: Checkpoint): Promise<Sizes> {
    const number = this.#numberOf(checkpoint);
    if (this.#sizes?.number === number) return this.#sizes;
    const { files, manifestKey } = await checkpoint.details();
    const byName = new Map(files.map((file) => [file.name, file.sizeBytes]));
    this.#sizes = { number, manifestKey, byName };
    return this.#sizes;
  }
}

function outside(
  name: string,
  { offset, length, fileBytes }: { offset: number; length: number; fileBytes: number },
): CheckpointError {
  const message = `bytes ${offset} to ${Math.max(offset, offset + length)} are outside "${name}", which has ${fileBytes} bytes`;
  return new CheckpointError('InvalidArgument', message, { context: { name } });
}
