/** The two kinds of checkpoint objects: one is being written, the other is committed. */

import type {
  Checkpoint,
  CheckpointDetails,
  CheckpointSummary,
  CommitMeta,
  CommitWaitOptions,
  StaleOptions,
  WaitOptions,
} from '../contract/checkpoint-manager.ts';
import { anyText, checkOptions } from '../contract/checks.ts';
import { abortError, CheckpointError, throwIfAborted } from '../contract/errors.ts';
import type { InputStreamOptions, RandomSource } from '../contract/files.ts';
import { type CatalogCheckpoint, checkLogicalNames } from '../format/index.ts';
import { checkGlobs } from '../plan/staleness.ts';
import { CALL_RULES } from './call-rules.ts';
import { Hold, inputStream, OpenFile, randomSource } from './read/index.ts';
import { readDetails, readManifest } from './records/index.ts';
import { checkMeta, type RunContext, transferOptions, unlessRemovedMeanwhile } from './run/index.ts';
import { OutputFiles, type SaveSession } from './save/index.ts';
import { toldEvents } from './told-events.ts';

type CommitOptions = CommitMeta & CommitWaitOptions & StaleOptions;

/** What a checkpoint needs from its manager. */
interface ManagersPart {
  /** Fires when the manager is closed. */
  readonly closing: AbortSignal;
  readonly summarise: (checkpoint: CatalogCheckpoint) => CheckpointSummary;
}

/** A checkpoint from `create()`. */
export class WritableCheckpoint implements Checkpoint {
  readonly #run: RunContext;
  readonly #session: SaveSession;
  readonly #closing: AbortSignal;
  readonly #summarise: ManagersPart['summarise'];
  readonly #files: OutputFiles;
  readonly #discarded = new AbortController();
  #committing: Promise<void> | undefined;
  summary: CheckpointSummary | null = null;

  constructor(run: RunContext, session: SaveSession, { closing, summarise }: ManagersPart) {
    this.#run = run;
    this.#session = session;
    this.#closing = closing;
    this.#summarise = summarise;
    this.#files = new OutputFiles(run, session);
  }

  get version(): bigint {
    return this.#session.id.version;
  }

  openOutputStream(name: string): WritableStream<Uint8Array> {
    this.#assertWritable();
    if (this.#committing !== undefined) {
      const message = `version ${this.version} is being committed: "${name}" would not be part of it`;
      throw new CheckpointError('InvalidArgument', message);
    }
    return this.#files.open(name);
  }

  openInputStream(): ReadableStream<Uint8Array> {
    throw notReadable();
  }

  async openSource(): Promise<RandomSource> {
    throw notReadable();
  }

  async hold(): Promise<void> {
    throw notReadable();
  }

  async details(): Promise<CheckpointDetails> {
    throw new CheckpointError(
      'InvalidArgument',
      'this checkpoint is being written: call get() or latest() once it is committed',
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
    checkOptions(meta, CALL_RULES.commitCheckpoint, 'what commit is given');
    const files = this.#files.whole();
    checkLogicalNames(files.map(({ name }) => name));
    const checked = checkMeta(meta);
    checkGlobs(meta.shouldChange ?? []);
    const stop = this.#discarded.signal;
    const signal = AbortSignal.any([...(meta.signal ? [meta.signal] : []), stop, this.#closing]);
    const onProgress = toldEvents(meta.onProgress, this.#run.logger);
    const options = { ...meta, signal, onProgress };
    try {
      await this.#session.deliver(files, checked, options);
      const checkpoint = await this.#session.finalise(options);
      this.summary = this.#summarise(checkpoint);
    } finally {
      await this.#run.uploads.settled(signal);
    }
  }

  async discard(): Promise<void> {
    if (this.summary) return;
    const reason = new CheckpointError('Aborted', `version ${this.version} was discarded`);
    this.#discarded.abort(reason);
    this.#files.failAll(reason);
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
  readonly #run: RunContext;
  readonly #checkpoint: CatalogCheckpoint;
  readonly #closed = new AbortController();
  #hold: Hold | undefined;
  readonly summary: CheckpointSummary;

  constructor(run: RunContext, checkpoint: CatalogCheckpoint, summary: CheckpointSummary) {
    this.#run = run;
    this.#checkpoint = checkpoint;
    this.summary = summary;
  }

  get version(): bigint {
    return this.summary.version;
  }

  openOutputStream(): WritableStream<Uint8Array> {
    throw new CheckpointError(
      'InvalidArgument',
      `version ${this.version} is committed: it can no longer be written`,
    );
  }

  openInputStream(name: string, options: InputStreamOptions = {}): ReadableStream<Uint8Array> {
    anyText('name', name);
    checkOptions(options, CALL_RULES.openInputStream, 'what openInputStream is given');
    return inputStream(this.#run, this.#openFile(name), { name, options });
  }

  async openSource(name: string, options: WaitOptions = {}): Promise<RandomSource> {
    anyText('name', name);
    checkOptions(options, CALL_RULES.wait, 'what openSource is given');
    return randomSource(this.#run, this.#openFile(name, options.signal), name, transferOptions(options));
  }

  #openFile(name: string, signal?: AbortSignal): OpenFile {
    const signals = signal ? [this.#closed.signal, signal] : [this.#closed.signal];
    const [run, checkpoint] = [this.#run, this.#checkpoint];
    return new OpenFile({ run, checkpoint, name, hold: this.#hold, signals });
  }

  async hold(): Promise<void> {
    throwIfAborted(this.#closed.signal);
    this.#hold ??= new Hold(this.#run, this.#checkpoint, this);
    const hold = this.#hold;
    try {
      const { lease } = await hold.held;
      if (lease.lost.aborted) throw abortError(lease.lost);
    } catch (error) {
      if (this.#hold === hold) this.#hold = undefined;
      await hold.end(closedError(this.version));
      throw error;
    }
  }

  async details(options: WaitOptions = {}): Promise<CheckpointDetails> {
    checkOptions(options, CALL_RULES.wait, 'what details is given');
    const { signal } = options;
    const [run, checkpoint] = [this.#run, this.#checkpoint];
    const held = await this.#hold?.held;
    try {
      const manifest = held?.manifest ?? (await readManifest(run, checkpoint, signal));
      return await readDetails(run, { checkpoint, manifest }, this.summary, signal);
    } catch (error) {
      throw await unlessRemovedMeanwhile(run, checkpoint, error, signal);
    }
  }

  async commit(): Promise<void> {} // it is committed already

  async discard(): Promise<void> {} // after commit: does nothing

  async [Symbol.asyncDispose](): Promise<void> {
    const why = closedError(this.version);
    this.#closed.abort(why);
    await this.#hold?.end(why);
  }
}

function closedError(version: bigint): CheckpointError {
  return new CheckpointError('Aborted', `version ${version} was released`);
}
