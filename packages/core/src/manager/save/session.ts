/**
 * One writer's part in one checkpoint: upload, deliver, finalise. `save()` and `create()` both use
 * it.
 */

import type {
  CheckpointId,
  CommitMeta,
  CommitWaitOptions,
  SaveOptions,
  StaleOptions,
  WaitOptions,
} from '../../contract/checkpoint-manager.ts';
import { CheckpointError } from '../../contract/errors.ts';
import {
  type CatalogCheckpoint,
  type DirectoryRecord,
  type FileRecord,
  hasBlake3,
  payloadKey,
  type State,
  type Taken,
} from '../../format/index.ts';
import type { KnownFiles } from '../../plan/known-files.ts';
import { findSuspicions } from '../../plan/staleness.ts';
import { recordedTimeMs } from '../../plan/times.ts';
import type { TransferOptions, UploadedFile } from '../../transfer/index.ts';
import { deliver, type FinaliseOptions, finalise, finaliseOnce, type Membership } from '../commit/index.ts';
import { ListedSizes, type OwnReceipt } from '../records/index.ts';
import { type RunContext, transferOptions } from '../run/index.ts';
import { HeldBases, type NewestManifests } from './bases.ts';
import { recorderOf } from './left-uploads.ts';
import type { NamedSource } from './sources.ts';

const NONCE_DIGITS = 16;

type Bounded<T> = T & { signal: AbortSignal };

/** What a receipt holds besides files and metadata. */
export interface Beside {
  readonly taken?: Taken | undefined;
  /** Empty directories. */
  readonly directories?: readonly DirectoryRecord[] | undefined;
}

/** The state in which a session begins. */
export interface Start {
  readonly membership: Membership;
  readonly version: bigint;
  /** State of the catalog when the session began. The files are compared with it. */
  readonly state: State;
  readonly manifests: NewestManifests;
}

export class SaveSession {
  readonly id: CheckpointId;
  readonly membership: Membership;
  readonly #run: RunContext;
  readonly #start: Start;
  readonly #bases: HeldBases;
  #receipt: OwnReceipt | undefined;
  #isCommitted = false;

  constructor(run: RunContext, start: Start) {
    this.#run = run;
    this.#start = start;
    this.#bases = new HeldBases(run);
    this.membership = start.membership;
    const { lineage, epoch } = this.membership;
    this.id = { lineage, epoch, version: start.version };
  }

  /**
   * Sends the sources that the store does not have yet. Readers see nothing of it. Every call, and
   * every retry of an object, uses new keys.
   */
  async upload(
    sources: readonly NamedSource[],
    options: Bounded<WaitOptions & Pick<SaveOptions, 'dedupe'> & Pick<TransferOptions, 'endsFast'>>,
  ): Promise<UploadedFile[]> {
    const stored = await this.#knownFiles(sources, options);
    const files = await this.#send(sources, stored, options);
    const bases = files.flatMap(({ known }) => known?.base ?? []);
    if (bases.length === 0) return files;
    // Take the lease first; its holder then reads the catalog. A checkpoint that is live there is
    // protected from then on.
    await this.#bases.take(bases, options.signal);
    const lost = await this.#lostObjects(files, options.signal);
    const isGone = ({ known, key }: UploadedFile) =>
      known !== undefined && (!this.#bases.has(known.base) || lost.has(key));
    if (!files.some(isGone)) return files;
    const again = sources.filter((_, index) => isGone(files[index] as UploadedFile));
    // Without progress events: these files were already reported as done.
    const sent = (await this.#send(again, stored?.withoutReferences(), { signal: options.signal })).values();
    return files.map((file) => (isGone(file) ? (sent.next().value as UploadedFile) : file));
  }

  /**
   * Keys of known objects that the store no longer has as they were recorded. Files that refer to
   * them must be sent again, or no later save could commit. One list page per 1,000 objects.
   */
  async #lostObjects(files: readonly UploadedFile[], signal: AbortSignal): Promise<ReadonlySet<string>> {
    const sizes = new ListedSizes(this.#run, { signal, of: 'share' });
    const known = files.filter((file) => file.known !== undefined && this.#bases.has(file.known.base));
    await sizes.learn(known);
    const lost = new Set<string>();
    for (const { key, name, sizeBytes, known: base } of known) {
      if (sizes.get(key) === sizeBytes) continue;
      lost.add(key);
      const version = base?.base.version;
      const message = `"${name}" is sent again: its object of version ${version} is not as it was committed; run verify`;
      this.#run.logger.log('warn', message, { key });
    }
    return lost;
  }

  /** `undefined`: there is no file to compare, so none is hashed either. */
  async #knownFiles(
    sources: readonly NamedSource[],
    { dedupe = this.#run.dedupe, signal }: Bounded<Pick<SaveOptions, 'dedupe'>>,
  ): Promise<KnownFiles | undefined> {
    if (dedupe === 'off' || sources.every(({ source }) => 'stream' in source)) return undefined;
    if (!hasBlake3()) {
      const why = 'unchanged files are sent again, because this platform has no native BLAKE3';
      this.#run.logger.log('warn', why);
      return undefined;
    }
    return this.#start.manifests.known(this.#start.state, this.membership.writer.index, signal);
  }

  async #send(
    sources: readonly NamedSource[],
    known: KnownFiles | undefined,
    options: WaitOptions & Pick<TransferOptions, 'endsFast'>,
  ): Promise<UploadedFile[]> {
    const { writer, incarnation, life } = this.membership;
    const nonce = this.#run.random.hex(NONCE_DIGITS);
    const owner = { id: this.id, writer: writer.index, incarnation, isShared: life !== undefined };
    const recorderFor = recorderOf(this.#run, owner, options.onProgress);
    const items = sources.map(({ name, source }) => {
      let sends = 0;
      const key = () =>
        payloadKey({
          id: this.id,
          writer: writer.index,
          incarnation,
          nonce: sends++ === 0 ? nonce : this.#run.random.hex(NONCE_DIGITS),
          name,
        });
      return { name, key, source, known, ...recorderFor(name) };
    });
    return this.#run.transfers.upload(items, { ...transferOptions(options), endsFast: options.endsFast });
  }

  /**
   * Writes the receipt. From then on the files of this writer count, even if this process dies.
   * Resolves to the reasons why the files look stale. `Stale`: there are such reasons, the caller
   * wanted an error, and no receipt was written.
   */
  async deliver(
    files: readonly UploadedFile[],
    meta: Required<CommitMeta> & Beside,
    options: Bounded<WaitOptions & StaleOptions>,
  ): Promise<readonly string[]> {
    const records = files.map(fileRecord);
    const suspicions = await this.#suspicions(records, options);
    const share = {
      files: records,
      bases: this.#bases.ids,
      metrics: meta.metrics ?? {},
      metadata: meta.metadata ?? {},
      suspicions,
      taken: meta.taken,
      directories: meta.directories ?? [],
    };
    const { runId, writer, incarnation } = this.membership;
    this.#receipt = await deliver(
      this.#run,
      { runId, writer, incarnation, id: this.id, ...share },
      options.signal,
    );
    return suspicions;
  }

  async #suspicions(
    files: readonly FileRecord[],
    { onStale = 'warn', shouldChange, signal, onProgress }: Bounded<WaitOptions & StaleOptions>,
  ): Promise<readonly string[]> {
    if (onStale === 'off') return [];
    const { index } = this.membership.writer;
    const last = await this.#start.manifests.last(this.#start.state, index, signal);
    const suspicions = last ? findSuspicions(files, last, shouldChange) : [];
    const { version } = this.id;
    if (onStale === 'fail' && suspicions.length > 0) {
      throw new CheckpointError('Stale', `version ${version} was not saved: ${suspicions.join('; ')}`, {
        context: { store: this.#run.store.uri, version },
      });
    }
    for (const reason of suspicions) {
      this.#run.logger.log('warn', `version ${version} is suspect: ${reason}`);
      onProgress?.({ type: 'suspect', version, reason });
    }
    return suspicions;
  }

  /**
   * Ends the session, after success or failure. Other processes may still commit a delivery that is
   * not committed yet, so its bases stay protected for a while. Ends a second after the signal.
   */
  async end(signal?: AbortSignal): Promise<void> {
    if (this.#receipt && !this.#isCommitted) await this.#bases.leave();
    else await this.#bases.release(signal);
  }

  /** Waits for the commit that lists this writer's receipt, or makes that commit. */
  async finalise(options: CommitWaitOptions): Promise<CatalogCheckpoint> {
    const checkpoint = await finalise(this.#run, this.#finaliseOptions(options));
    this.#isCommitted = true;
    options.onProgress?.({ type: 'committed', id: this.id });
    return checkpoint;
  }

  /** Looks once instead of waiting. Commits if this writer was the last. */
  async finaliseOnce(
    options: WaitOptions,
  ): Promise<{ isCommitted: boolean; missingWriters: readonly number[] }> {
    const result = await finaliseOnce(this.#run, this.#finaliseOptions({ ...options, timeoutMs: 0 }));
    const isCommitted = result.kind === 'committed';
    this.#isCommitted = isCommitted;
    const missingWriters = result.kind === 'waiting' ? (result.missing ?? []) : [];
    options.onProgress?.(
      isCommitted
        ? { type: 'committed', id: this.id }
        : { type: 'delivered', version: this.id.version, missingWriters },
    );
    return { isCommitted, missingWriters };
  }

  #finaliseOptions(options: CommitWaitOptions): FinaliseOptions {
    return {
      id: this.id,
      runId: this.membership.runId,
      own: this.#receipt,
      timeoutMs: options.timeoutMs ?? this.#run.settings.commitTimeoutMs,
      signal: options.signal,
      onProgress: options.onProgress,
    };
  }
}

function fileRecord(file: UploadedFile): FileRecord {
  return {
    name: file.name,
    key: file.key,
    sizeBytes: file.sizeBytes,
    crc32c: file.crc32c,
    partSizeBytes: file.partSizeBytes,
    partCrc32c: file.partCrc32c,
    blake3: file.blake3 ?? new Uint8Array(0),
    mode: file.mode ?? 0,
    mtimeMs: recordedTimeMs(file.mtimeMs),
  };
}
