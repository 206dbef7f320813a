/** The two faces of a checkpoint object: one that is being written, and one that is committed. */

import type {
  Checkpoint,
  CheckpointDetails,
  CheckpointSummary,
  CommitMeta,
  CommitWaitOptions,
  StaleOptions,
  WaitOptions,
} from '../contract/checkpoint-manager.ts';
import { CheckpointError } from '../contract/errors.ts';
import type { RandomSource } from '../contract/files.ts';
import {
  type CatalogCheckpoint,
  checkLogicalName,
  checkLogicalNames,
  type FileRecord,
} from '../format/index.ts';
import { planStream } from '../plan/parts.ts';
import { requireById } from '../plan/select.ts';
import type { UploadedFile } from '../transfer/index.ts';
import type { Catalog, Head } from './catalog.ts';
import type { Engine } from './engine.ts';
import { Handoff } from './handoff.ts';
import type { LeaseHolder } from './lease.ts';
import { readDetails, readManifest } from './manifest.ts';
import { leaseCheckpoint } from './restore.ts';
import { type SaveSession, transferOptions } from './session.ts';
import { findFile } from './slices.ts';
import { checkFileCount, checkMeta, checkStaleOptions } from './sources.ts';

type CommitOptions = CommitMeta & CommitWaitOptions & StaleOptions;

/** What a checkpoint has of its manager. */
interface ManagersPart {
  /** Fires when the manager is closed. */
  readonly closing: AbortSignal;
  readonly summarise: (checkpoint: CatalogCheckpoint) => CheckpointSummary;
}

/** A checkpoint from `create()`. */
export class WritableCheckpoint implements Checkpoint {
  readonly #engine: Engine;
  readonly #session: SaveSession;
  readonly #closing: AbortSignal;
  readonly #summarise: ManagersPart['summarise'];
  readonly #files = new Map<string, UploadedFile>();
  readonly #open = new Map<Handoff, string>();
  readonly #discarded = new AbortController();
  #committing: Promise<void> | undefined;
  summary: CheckpointSummary | null = null;

  constructor(engine: Engine, session: SaveSession, { closing, summarise }: ManagersPart) {
    this.#engine = engine;
    this.#session = session;
    this.#closing = closing;
    this.#summarise = summarise;
  }

  get version(): bigint {
    return this.#session.id.version;
  }

  openOutputStream(name: string): WritableStream<Uint8Array> {
    this.#assertWritable();
    checkLogicalName(name);
    checkFileCount(this.#files.size + this.#open.size + 1);
    const openMax = planStream(this.#engine.settings, this.#engine.store.capabilities).streamCountMax;
    if (this.#open.size >= openMax) {
      throw new CheckpointError(
        'InvalidArgument',
        `${openMax} output streams are open already: close one first, or raise bufferBytes`,
      );
    }
    const handoff = new Handoff();
    this.#open.set(handoff, name);
    const uploaded = this.#session
      .upload([{ name, sizeBytes: 0, source: { stream: handoff } }], { signal: this.#discarded.signal })
      .catch((error: unknown) => {
        handoff.fail(error);
        throw error;
      });
    uploaded.catch(() => undefined); // the stream reports it: at write, close or abort
    const settle = () => this.#open.delete(handoff);
    return new WritableStream<Uint8Array>({
      write: (chunk) => handoff.push(chunk),
      close: async () => {
        handoff.end();
        try {
          for (const file of await uploaded) this.#files.set(name, file);
        } finally {
          settle();
        }
      },
      abort: async (reason) => {
        handoff.fail(reason ?? new CheckpointError('Aborted', 'the output stream was aborted'));
        await uploaded.catch(() => undefined); // the caller wanted it to fail
        settle();
      },
    });
  }

  openInputStream(): ReadableStream<Uint8Array> {
    throw notReadable();
  }

  async openSource(): Promise<RandomSource> {
    throw notReadable();
  }

  async details(): Promise<CheckpointDetails> {
    throw new CheckpointError(
      'InvalidArgument',
      'this checkpoint is being written: ask get() or latest() once it is committed',
    );
  }

  commit(meta: CommitOptions = {}): Promise<void> {
    if (this.summary) return Promise.resolve();
    this.#committing ??= this.#commit(meta).finally(() => {
      this.#committing = undefined;
    });
    return this.#committing;
  }

  async #commit(meta: CommitOptions): Promise<void> {
    this.#assertWritable();
    const stillOpen = [...this.#open.values()];
    if (stillOpen.length > 0) {
      throw new CheckpointError('InvalidArgument', `an output stream is still open: ${stillOpen.join(', ')}`);
    }
    if (this.#files.size === 0) throw new CheckpointError('InvalidArgument', 'there is no file to commit');
    checkLogicalNames([...this.#files.keys()]);
    const checked = checkMeta(meta);
    checkStaleOptions(meta);
    const stop = this.#discarded.signal;
    const signal = AbortSignal.any([...(meta.signal ? [meta.signal] : []), stop, this.#closing]);
    try {
      await this.#session.deliver([...this.#files.values()], checked, { ...meta, signal });
      const checkpoint = await this.#session.finalise({ ...meta, signal });
      this.summary = this.#summarise(checkpoint);
    } finally {
      await this.#engine.uploads.settled();
    }
  }

  async discard(): Promise<void> {
    if (this.summary) return;
    const reason = new CheckpointError('Aborted', `version ${this.version} was discarded`);
    this.#discarded.abort(reason);
    for (const handoff of this.#open.keys()) handoff.fail(reason);
    this.#open.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.discard();
  }

  #assertWritable(): void {
    if (this.summary)
      throw new CheckpointError('InvalidArgument', `version ${this.version} is committed already`);
    if (this.#discarded.signal.aborted)
      throw new CheckpointError('InvalidArgument', `version ${this.version} was discarded`);
  }
}

function notReadable(): CheckpointError {
  return new CheckpointError(
    'InvalidArgument',
    'this checkpoint is being written: read it through get() or latest() once it is committed',
  );
}

/** A checkpoint from `get()` or `latest()`. */
export class CommittedCheckpoint implements Checkpoint {
  readonly #engine: Engine;
  readonly #catalog: Catalog;
  readonly #checkpoint: CatalogCheckpoint;
  readonly #closed = new AbortController();
  readonly summary: CheckpointSummary;

  constructor(engine: Engine, catalog: Catalog, checkpoint: CatalogCheckpoint, summary: CheckpointSummary) {
    this.#engine = engine;
    this.#catalog = catalog;
    this.#checkpoint = checkpoint;
    this.summary = summary;
  }

  get version(): bigint {
    return this.summary.version;
  }

  openOutputStream(): WritableStream<Uint8Array> {
    throw new CheckpointError(
      'InvalidArgument',
      `version ${this.version} is committed: it cannot be written any more`,
    );
  }

  openInputStream(name: string): ReadableStream<Uint8Array> {
    return ReadableStream.from(this.#read(name));
  }

  /** Holds a read lease from the first chunk to the last. */
  async *#read(name: string): AsyncGenerator<Uint8Array, void, void> {
    const { lease, signal } = await this.#lease(this.#closed.signal);
    try {
      yield* this.#engine.transfer.stream(await this.#find(name, signal), { signal });
    } finally {
      await lease.release();
    }
  }

  async openSource(name: string, options: WaitOptions = {}): Promise<RandomSource> {
    const closed = this.#closed.signal;
    const { lease, signal } = await this.#lease(
      options.signal ? AbortSignal.any([options.signal, closed]) : closed,
    );
    try {
      const file = await this.#find(name, signal);
      const onEnd = () => lease.release();
      return this.#engine.transfer.source(file, { ...transferOptions({ ...options, signal }), onEnd });
    } catch (error) {
      await lease.release();
      throw error;
    }
  }

  /** `signal`: fires with the one given, and when the lease is lost. */
  async #lease(stop: AbortSignal): Promise<{ lease: LeaseHolder; signal: AbortSignal }> {
    const { id } = this.summary;
    const wanted = (head: Head) => requireById(head.state, id);
    const { lease } = await leaseCheckpoint(this.#engine, this.#catalog, wanted, stop);
    return { lease, signal: AbortSignal.any([stop, lease.lost]) };
  }

  async #find(name: string, signal: AbortSignal): Promise<FileRecord> {
    const manifest = await readManifest(this.#engine, this.#checkpoint, signal);
    const file = await findFile(this.#engine, manifest, name, signal);
    if (file) return file;
    throw new CheckpointError('NotFound', `version ${this.version} has no file "${name}"`, {
      context: { name, version: this.version },
    });
  }

  async details(options: WaitOptions = {}): Promise<CheckpointDetails> {
    return readDetails(this.#engine, this.#checkpoint, this.summary, options.signal);
  }

  async commit(): Promise<void> {} // it is

  async discard(): Promise<void> {} // after commit: does nothing

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort(new CheckpointError('Aborted', `version ${this.version} was released`));
  }
}
