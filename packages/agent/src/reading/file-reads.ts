/** Verified bytes of stored files. Readers that ask for the same bytes share one read. */

import { type Checkpoint, CheckpointError, type CheckpointId } from '@holdfast/core';
import { ChunkMemory } from './chunk-memory.ts';
import type { Wanted } from './held-checkpoints.ts';
import type { Readers } from './readers.ts';
import { SharedStream } from './shared-stream.ts';
import { Turns } from './turns.ts';

/** With what each keeps, they take as much memory as the saves may. */
export const STREAMS_MAX = 16;

export interface FileRead extends Wanted {
  readonly name: string;
  readonly offset: number;
  readonly length: number | undefined;
}

export interface OpenedRead {
  readonly sizeBytes: number;
  readonly id: CheckpointId;
  chunks(): AsyncGenerator<Uint8Array, void, void>;
  /** Fires if the caller takes no chunk while other reads wait: then it must end. */
  readonly cut: AbortSignal;
}

interface Chunks {
  readonly name: string;
  readonly range: { readonly offsetBytes: number; readonly lengthBytes: number };
  readonly cut: AbortController;
}

export class FileReads {
  readonly #readers: Readers;
  readonly #memory = new ChunkMemory();
  readonly #shared = new Map<string, SharedStream>();
  /** Each stream keeps some chunks; more of them wait for their turn. */
  readonly #turns = new Turns<SharedStream>(STREAMS_MAX);
  /**
   * Sizes by name, of the checkpoint that was asked for last: a trainer loads one checkpoint at a
   * time, and a committed checkpoint never changes.
   */
  #sizes: { readonly number: number; readonly byName: ReadonlyMap<string, number> } | undefined;
  /**
   * They tell checkpoints apart. A run that was begun again uses its lineages and versions again.
   */
  readonly #numbers = new WeakMap<Checkpoint, number>();
  #numberCount = 0;

  constructor(readers: Readers) {
    this.#readers = readers;
  }

  /**
   * `use` keeps the manager open as long as the bytes flow. `NotFound`: no such version or file.
   * `InvalidArgument`: bytes outside the file.
   */
  async read(wanted: FileRead, use: (opened: OpenedRead) => Promise<void>): Promise<void> {
    await this.#readers.read(wanted, async (checkpoint) => {
      const id = checkpoint.summary?.id as CheckpointId;
      const fileBytes = await this.#sizeOf(wanted.name, checkpoint, id);
      const { offset, length = fileBytes - offset } = wanted;
      if (offset > fileBytes || offset + length > fileBytes)
        throw outside(wanted.name, { offset, length, fileBytes });
      const range = { offsetBytes: offset, lengthBytes: length };
      const cut = new AbortController();
      await use({
        sizeBytes: length,
        id,
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
    const shared = this.#join(key, () => checkpoint.openInputStream(name, { ...range, memory }));
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

  #join(key: string, open: () => AsyncIterable<Uint8Array>): SharedStream {
    const found = this.#shared.get(key);
    if (found?.isOpen) return found;
    const giveBack = (bytes: Uint8Array) => this.#memory.giveBack(bytes);
    const inTurn = async function* (begin: () => Promise<void>) {
      await begin();
      yield* open();
    };
    const shared: SharedStream = new SharedStream(
      inTurn(() => this.#turns.begin(shared)),
      giveBack,
      () => this.#turns.end(shared),
    );
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

  async #sizeOf(name: string, checkpoint: Checkpoint, id: CheckpointId): Promise<number> {
    const number = this.#numberOf(checkpoint);
    if (this.#sizes?.number !== number) {
      const { files } = await checkpoint.details();
      const byName = new Map(files.map((file) => [file.name, file.sizeBytes]));
      this.#sizes = { number, byName };
    }
    const sizeBytes = this.#sizes.byName.get(name);
    if (sizeBytes !== undefined) return sizeBytes;
    const context = { name, version: id.version };
    throw new CheckpointError('NotFound', `version ${id.version} has no file "${name}"`, { context });
  }
}

function outside(
  name: string,
  { offset, length, fileBytes }: { offset: number; length: number; fileBytes: number },
): CheckpointError {
  const message = `bytes ${offset} to ${Math.max(offset, offset + length)} are outside "${name}", which has ${fileBytes} bytes`;
  return new CheckpointError('InvalidArgument', message, { context: { name } });
}
