/**
 * A file of a committed checkpoint that a caller reads at its own pace, and may forget to close.
 */

import type { CheckpointId } from '../../contract/checkpoint-manager.ts';
import { whenDropped } from '../../contract/dropped.ts';
import { abortError, CheckpointError, throwIfAborted } from '../../contract/errors.ts';
import type { InputStreamOptions, RandomSource } from '../../contract/files.ts';
import type { CatalogCheckpoint, FileRecord, Manifest } from '../../format/index.ts';
import { requireById } from '../../plan/select.ts';
import type { TransferOptions } from '../../transfer/index.ts';
import { findFile, readManifest, waitAtMost } from '../records/index.ts';
import { type RunContext, unlessRemovedMeanwhile } from '../run/index.ts';
import type { Hold } from './hold.ts';
import type { LeaseHolder } from './lease.ts';
import { leaseCheckpoint } from './restore.ts';

/** Longest wait of the caller for open reads to end, whatever the store does. */
const END_TIMEOUT_MS = 800;
/** If the lease cannot be deleted within this time, it is left to expire. */
const RELEASE_TIMEOUT_MS = 1000;

export interface OpenFileParts {
  readonly run: RunContext;
  readonly checkpoint: CatalogCheckpoint;
  readonly name: string;
  /** If the checkpoint is held, its lease is used, and no other one taken. */
  readonly hold: Hold | undefined;
  /** If one of them fires, the file is closed. */
  readonly signals: readonly AbortSignal[];
}

/**
 * Holds a read lease from the first use to the end, and renews it while a read is in progress. The
 * file is closed by `end`, by a signal, with its manager, when the lease is lost, or when the
 * caller's handle is garbage-collected. So it must never refer to that handle.
 */
export class OpenFile {
  readonly #parts: OpenFileParts;
  readonly #stop = new AbortController();
  readonly #underWay = new Set<Promise<unknown>>();
  #opened: Promise<{ readonly lease: LeaseHolder; readonly file: FileRecord }> | undefined;
  #ownedLease: LeaseHolder | undefined;
  #lost: AbortSignal | undefined;
  #ended: Promise<void> | undefined;
  #forgetHandle: () => void = () => undefined;

  constructor(parts: OpenFileParts) {
    this.#parts = parts;
    parts.run.openFiles.add(this);
    for (const signal of parts.signals) {
      if (signal.aborted) void this.end(abortError(signal));
      else signal.addEventListener('abort', this.#onAbort, { once: true });
    }
  }

  /** Fires at the end. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /**
   * Runs `work` on the file and keeps the lease meanwhile. The first call takes the lease and reads
   * the manifest.
   */
  during<T>(work: (file: FileRecord) => Promise<T>): Promise<T> {
    const call = this.#during(work);
    this.#underWay.add(call);
    const settled = () => this.#underWay.delete(call);
    call.then(settled, settled);
    return call;
  }

  /**
   * Stops reads in progress and releases the lease. Returns within a second: slower work ends in
   * the background. Never rejects.
   */
  end(why: CheckpointError): Promise<void> {
    this.#ended ??= this.#end(why);
    return this.#ended;
  }

  /** Ends the file when the caller no longer refers to `handle`. */
  endWith(handle: object): void {
    if (this.signal.aborted) return;
    const { run, name } = this.#parts;
    this.#forgetHandle = whenDropped(handle, () => {
      run.logger.log(
        'info',
        `"${name}" was dropped while it was open; close or cancel it to free its memory sooner`,
      );
      void this.end(new CheckpointError('Aborted', `"${name}" was dropped`));
    });
  }

  async #during<T>(work: (file: FileRecord) => Promise<T>): Promise<T> {
    throwIfAborted(this.signal);
    this.#opened ??= this.#open();
    const { lease, file } = await this.#opened;
    await lease.use();
    try {
      throwIfAborted(this.signal);
      return await work(file);
    } catch (error) {
      const { run, checkpoint } = this.#parts;
      throw await unlessRemovedMeanwhile(run, checkpoint, error, this.signal);
    } finally {
      lease.rest();
    }
  }

  async #open(): Promise<{ lease: LeaseHolder; file: FileRecord }> {
    const held = await this.#parts.hold?.held;
    const lease = held?.lease ?? (await this.#ownLease());
    lease.lost.addEventListener('abort', this.#onAbort, { once: true });
    this.#lost = lease.lost;
    if (lease.lost.aborted) throw abortError(lease.lost);
    return { lease, file: await this.#find(held?.manifest) };
  }

  async #ownLease(): Promise<LeaseHolder> {
    const { run, checkpoint } = this.#parts;
    const { lease } = await leaseCheckpoint(
      run,
      ({ state }) => requireById(state, checkpoint.id),
      this.signal,
    );
    this.#ownedLease = lease;
    lease.rest();
    return lease;
  }

  async #find(known: Manifest | undefined): Promise<FileRecord> {
    const { run, checkpoint, name } = this.#parts;
    const manifest = known ?? (await readManifest(run, checkpoint, this.signal));
    const file = await findFile(run, manifest, name, this.signal);
    if (file) return file;
    throw noSuchFile(checkpoint.id, name);
  }

  async #end(why: CheckpointError): Promise<void> {
    const { run, signals } = this.#parts;
    for (const signal of signals) signal.removeEventListener('abort', this.#onAbort);
    this.#lost?.removeEventListener('abort', this.#onAbort);
    this.#forgetHandle(); // the stack of `why` may refer to the handle
    this.#stop.abort(why);
    await waitAtMost(run.clock, END_TIMEOUT_MS, this.#release());
    run.openFiles.delete(this);
  }

  async #release(): Promise<void> {
    await Promise.allSettled(this.#underWay);
    await this.#ownedLease?.release({ timeoutMs: RELEASE_TIMEOUT_MS });
  }

  readonly #onAbort = (event: Event): void => void this.end(abortError(event.target as AbortSignal));
}

function noSuchFile({ version }: CheckpointId, name: string): CheckpointError {
  return new CheckpointError('NotFound', `version ${version} has no file "${name}"`, {
    context: { name, version },
  });
}

interface WhatToRead {
  readonly name: string;
  readonly options: InputStreamOptions;
}

/**
 * The bytes of the file in order. The stream ends after the last byte, at the first error, or by
 * `cancel`.
 */
export function inputStream(run: RunContext, open: OpenFile, what: WhatToRead): ReadableStream<Uint8Array> {
  const stream = new InputStream(run, open, what);
  open.endWith(stream);
  return stream;
}

/** For `openSource`. The lease is held when it resolves. */
export async function randomSource(
  run: RunContext,
  open: OpenFile,
  name: string,
  options: Pick<TransferOptions, 'onRetry'>,
): Promise<RandomSource> {
  try {
    const source = await open.during(async (file) =>
      run.transfers.source(file, { ...options, signal: open.signal }),
    );
    const handle: RandomSource = {
      sizeBytes: source.sizeBytes,
      readInto: (offsetBytes, buffer) => open.during(() => source.readInto(offsetBytes, buffer)),
      assertUnchanged: () => open.during(() => source.assertUnchanged()),
      close: () => open.end(new CheckpointError('Aborted', `"${name}" was closed`)),
    };
    open.endWith(handle);
    return handle;
  } catch (error) {
    await open.end(closing(name));
    throw error;
  }
}

type Chunks = ReturnType<ReadableStream<Uint8Array>['values']>;
type IteratorOptions = Parameters<ReadableStream<Uint8Array>['values']>[0];

class InputStream extends ReadableStream<Uint8Array> {
  readonly #stop: () => Promise<void>;

  constructor(run: RunContext, open: OpenFile, what: WhatToRead) {
    const stop = () => open.end(new CheckpointError('Aborted', `the stream of "${what.name}" was cancelled`));
    super({ pull: pullFrom(run, open, what), cancel: stop }, { highWaterMark: 0 });
    this.#stop = stop;
  }

  /** The platform's iterator would wait for a pending read before it cancels. */
  override values(options?: IteratorOptions): Chunks {
    const chunks = super.values(options);
    if (options?.preventCancel) return chunks;
    const end = chunks.return?.bind(chunks);
    return Object.assign(chunks, {
      return: async () => {
        await this.#stop();
        await end?.();
        return { done: true as const, value: undefined };
      },
    });
  }

  override [Symbol.asyncIterator](options?: IteratorOptions): Chunks {
    return this.values(options);
  }
}

function pullFrom(run: RunContext, open: OpenFile, { name, options }: WhatToRead) {
  let chunks: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const next = (file: FileRecord) => {
    chunks ??= run.transfers.stream(file, { signal: open.signal, part: options }).getReader();
    return chunks.read();
  };
  return async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    try {
      const { done, value } = await open.during(next);
      if (!done) return controller.enqueue(value);
      await open.end(closing(name));
      controller.close();
    } catch (error) {
      await open.end(closing(name));
      throw error;
    }
  };
}

function closing(name: string): CheckpointError {
  return new CheckpointError('Aborted', `"${name}" was closed`);
}
