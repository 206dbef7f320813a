/**
 * Earlier checkpoints that a save may refer to or is compared with: their manifests, and the leases
 * that protect them.
 */

import type { CheckpointId } from '../../contract/checkpoint-manager.ts';
import { throwIfAborted, toCheckpointError } from '../../contract/errors.ts';
import {
  type CatalogCheckpoint,
  type FileRecord,
  idText,
  type Manifest,
  type State,
} from '../../format/index.ts';
import { refersToReceipts } from '../../plan/file-lists.ts';
import { type KnownFiles, knownFiles } from '../../plan/known-files.ts';
import { checkpointsAtHand, newestOfMixedPages } from '../../plan/state.ts';
import { LeaseHolder } from '../read/index.ts';
import { readFiles, readManifest, withDeadline } from '../records/index.ts';
import type { RunContext } from '../run/index.ts';

/**
 * Newest checkpoints that are searched for files. Training changes most files with each step. Files
 * that it never changes are in the newest checkpoint.
 */
const BASES_MAX = 4;
/**
 * Newest quarantined checkpoints that are read, so that only their files are sent again. For older
 * ones, every file that may have existed before them is sent again, once.
 */
const DISTRUSTED_MAX = 4;

/**
 * Files of bases that are held for one writer, approximately; each takes 1 KB. The newest base is
 * read whatever its number of files.
 */
const FILES_HELD_MAX = 250_000;

interface Listed {
  readonly id: CheckpointId;
  readonly files: readonly FileRecord[];
}

/**
 * The files of the newest checkpoints. Each record is read once. If a manifest repeats the file
 * records, the files of all writers are known. Otherwise only those of one writer are known, and a
 * file that another writer had before is sent again.
 */
export class NewestManifests {
  readonly #run: RunContext;
  /** By manifest key. `null`: the manifest cannot be read. */
  readonly #manifests = new Map<string, Promise<Manifest | null>>();
  /** By manifest key and writer, for manifests that refer to receipts. */
  readonly #shares = new Map<string, Promise<Listed | null>>();

  constructor(run: RunContext) {
    this.#run = run;
  }

  /** Files that `writer` need not send again. */
  async known(state: State, writer: number, signal: AbortSignal): Promise<KnownFiles> {
    const atHand = checkpointsAtHand(state);
    const bases = fewEnough(
      atHand
        .filter((each) => each.state === 'LIVE' && !each.rolledBack)
        .slice(-BASES_MAX)
        .reverse(),
      state.worldSize,
    );
    // A checkpoint that a rollback left behind can share a damaged object with those on the path.
    const quarantined = atHand.filter((each) => each.state === 'QUARANTINED');
    const damaged = quarantined.slice(-DISTRUSTED_MAX);
    const [listed, distrusted] = await Promise.all([
      Promise.all(bases.map((each) => this.#list(each, writer, signal))),
      Promise.all(damaged.map((each) => this.#readManifest(each, signal))),
    ]);
    this.#forgetAllBut([...bases, ...damaged]);
    const read = damaged.map(({ id, bases: refersTo }, index) => {
      const manifest = distrusted[index];
      const isRead = manifest !== null && manifest !== undefined && !refersToReceipts(manifest);
      const files = isRead ? manifest.writers.flatMap((share) => share.files) : undefined;
      return { id, refersToOthers: refersTo.length > 0, files };
    });
    const unread = [
      ...quarantined.slice(0, -DISTRUSTED_MAX).map(({ id }) => id),
      ...newestOfMixedPages(state),
    ].map((id) => ({ id, refersToOthers: true, files: undefined }));
    return knownFiles(
      listed.filter((each) => each !== null),
      [...read, ...unread],
    );
  }

  /** The last checkpoint. `null`: there is no checkpoint, or its records cannot be read. */
  async last(
    state: State,
    writer: number,
    signal: AbortSignal,
  ): Promise<{ version: bigint; files: readonly FileRecord[] } | null> {
    const newest = checkpointsAtHand(state).findLast((each) => !each.rolledBack && each.state === 'LIVE');
    const listed = newest ? await this.#list(newest, writer, signal) : null;
    return listed && { version: listed.id.version, files: listed.files };
  }

  async #list(checkpoint: CatalogCheckpoint, writer: number, signal: AbortSignal): Promise<Listed | null> {
    const manifest = await this.#readManifest(checkpoint, signal);
    if (manifest === null) return null;
    const { id } = checkpoint;
    if (!refersToReceipts(manifest)) return { id, files: manifest.writers.flatMap((share) => share.files) };
    const read = async (until: AbortSignal) => {
      const files = await readFiles(this.#run, manifest, { writer, signal: until });
      return { id, files };
    };
    const key = `${checkpoint.manifestKey} ${writer}`;
    return this.#once(this.#shares, key, checkpoint, read, signal);
  }

  #readManifest(checkpoint: CatalogCheckpoint, signal: AbortSignal): Promise<Manifest | null> {
    const read = (until: AbortSignal) => readManifest(this.#run, checkpoint, until);
    return this.#once(this.#manifests, checkpoint.manifestKey, checkpoint, read, signal);
  }

  async #once<T>(
    known: Map<string, Promise<T | null>>,
    key: string,
    checkpoint: CatalogCheckpoint,
    read: (signal: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T | null> {
    const reading = known.get(key) ?? this.#unlessUnreadable(checkpoint, read, signal);
    known.set(key, reading);
    const value = await reading;
    if (value === null) known.delete(key); // the next save tries again
    throwIfAborted(signal);
    return value;
  }

  /** Resolves to `null` if the record cannot be read: a save can do without it. */
  async #unlessUnreadable<T>(
    checkpoint: CatalogCheckpoint,
    read: (signal: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T | null> {
    const { clock, settings, logger } = this.#run;
    const what = `reading what version ${checkpoint.id.version} holds, to compare with`;
    const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what, signal };
    try {
      return await withDeadline(bounds, read);
    } catch (error) {
      if (!signal.aborted) logger.log('warn', `${what}, failed: ${toCheckpointError(error).message}`);
      return null;
    }
  }

  #forgetAllBut(checkpoints: readonly CatalogCheckpoint[]): void {
    const kept = new Set(checkpoints.map(({ manifestKey }) => manifestKey));
    for (const known of [this.#manifests, this.#shares])
      for (const key of known.keys()) if (!kept.has(key.split(' ', 1)[0] ?? '')) known.delete(key);
  }
}

/**
 * The first base, and those after it while the files of one writer stay within `FILES_HELD_MAX`.
 */
function fewEnough(bases: readonly CatalogCheckpoint[], worldSize: number): readonly CatalogCheckpoint[] {
  let fileCount = 0;
  return bases.filter((base, index) => {
    fileCount += base.fileCount / Math.max(1, worldSize);
    return index === 0 || fileCount <= FILES_HELD_MAX;
  });
}

/** Read leases on the checkpoints that one save refers to. */
export class HeldBases {
  readonly #run: RunContext;
  readonly #leases = new Map<string, { readonly id: CheckpointId; readonly lease: LeaseHolder }>();

  constructor(run: RunContext) {
    this.#run = run;
  }

  get ids(): CheckpointId[] {
    return [...this.#leases.values()].map(({ id }) => id);
  }

  has(id: CheckpointId): boolean {
    return this.#leases.has(idText(id));
  }

  /**
   * Takes a lease on each checkpoint, then reads the catalog. Keeps only leases on checkpoints that
   * are still live in that read.
   */
  async take(ids: readonly CheckpointId[], signal: AbortSignal): Promise<void> {
    const wanted = new Map(ids.map((id) => [idText(id), id]));
    const taking = await Promise.allSettled([...wanted].map(([text, id]) => this.#take(text, id, signal)));
    // Throw only after all have settled. Otherwise a lease that is taken later would not be
    // released.
    for (const taken of taking) if (taken.status === 'rejected') throw taken.reason;
  }

  async #take(text: string, id: CheckpointId, signal: AbortSignal): Promise<void> {
    const lease = await LeaseHolder.take(this.#run, id, signal);
    if (lease?.isHeld) this.#leases.set(text, { id, lease });
  }

  async release(signal?: AbortSignal): Promise<void> {
    await Promise.all([...this.#leases.values()].map(({ lease }) => lease.release({ signal })));
  }

  /**
   * Stops renewal and lets the leases expire: other processes may still commit what was delivered.
   */
  async leave(): Promise<void> {
    await Promise.all([...this.#leases.values()].map(({ lease }) => lease.leave()));
  }
}
