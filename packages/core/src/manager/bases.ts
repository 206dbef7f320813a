/** Checkpoints that a save may refer to, and those it is compared with: their manifests, and the leases that keep them. */

import type { CheckpointId } from '../contract/checkpoint-manager.ts';
import { throwIfAborted, toCheckpointError } from '../contract/errors.ts';
import {
  type CatalogCheckpoint,
  type FileRecord,
  idText,
  type Manifest,
  type State,
} from '../format/index.ts';
import { refersToReceipts } from '../plan/file-lists.ts';
import { type KnownFiles, knownFiles } from '../plan/known-files.ts';
import { checkpointsAtHand } from '../plan/state.ts';
import type { Catalog } from './catalog.ts';
import { withDeadline } from './deadline.ts';
import type { Engine } from './engine.ts';
import { LeaseHolder } from './lease.ts';
import { readManifest } from './manifest.ts';
import { readFiles } from './slices.ts';

/** So far back files are looked for: training changes most of them with each step, and those that it never changes are in the newest one. */
const BASES_MAX = 4;
/** Of those that were found damaged. */
const DISTRUSTED_MAX = 4;

/** Of one writer, about, so many files of bases are held: 1 KB each. The newest base is read whatever it has. */
const FILES_HELD_MAX = 250_000;

interface Listed {
  readonly id: CheckpointId;
  readonly files: readonly FileRecord[];
}

/**
 * What the newest checkpoints hold, each record read once: all files where the manifest repeats them, else those of one writer. A file that
 * another writer had before is then sent again.
 */
export class NewestManifests {
  readonly #engine: Engine;
  /** By manifest key; `null`: it cannot be read. */
  readonly #manifests = new Map<string, Promise<Manifest | null>>();
  /** By manifest key and writer, where the manifest refers to receipts. */
  readonly #shares = new Map<string, Promise<Listed | null>>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** What `writer` need not send again. */
  async known(state: State, writer: number, signal: AbortSignal): Promise<KnownFiles> {
    const path = checkpointsAtHand(state).filter(({ rolledBack }) => !rolledBack);
    const bases = fewEnough(
      path
        .filter((each) => each.state === 'LIVE')
        .slice(-BASES_MAX)
        .reverse(),
      state.worldSize,
    );
    const damaged = path.filter((each) => each.state === 'QUARANTINED').slice(-DISTRUSTED_MAX);
    const [listed, distrusted] = await Promise.all([
      Promise.all(bases.map((each) => this.#list(each, writer, signal))),
      Promise.all(damaged.map((each) => this.#readManifest(each, signal))),
    ]);
    this.#forgetAllBut([...bases, ...damaged]);
    return knownFiles(
      listed.filter((each) => each !== null),
      damaged.map(({ id, bases: refersTo }, index) => {
        const manifest = distrusted[index];
        const files = manifest?.writers.flatMap((share) => share.files) ?? [];
        return {
          id,
          refersToOthers: refersTo.length > 0,
          files: manifest?.receipts.length ? undefined : files,
        };
      }),
    );
  }

  /** The last checkpoint; `null`: there is none, or its records cannot be read. */
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
      const files = await readFiles(this.#engine, manifest, { writer, signal: until });
      return { id, files };
    };
    const key = `${checkpoint.manifestKey} ${writer}`;
    return this.#once(this.#shares, key, checkpoint, read, signal);
  }

  #readManifest(checkpoint: CatalogCheckpoint, signal: AbortSignal): Promise<Manifest | null> {
    const read = (until: AbortSignal) => readManifest(this.#engine, checkpoint, until);
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
    if (value === null) known.delete(key); // the next save may have more luck
    throwIfAborted(signal);
    return value;
  }

  /** `null` if it cannot be read: that is no reason to fail a save, which can do without. */
  async #unlessUnreadable<T>(
    checkpoint: CatalogCheckpoint,
    read: (signal: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T | null> {
    const { clock, settings, logger } = this.#engine;
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

/** The first ones, of which one writer has about as many files as may be held. */
function fewEnough(bases: readonly CatalogCheckpoint[], worldSize: number): readonly CatalogCheckpoint[] {
  let fileCount = 0;
  return bases.filter((base, index) => {
    fileCount += base.fileCount / Math.max(1, worldSize);
    return index === 0 || fileCount <= FILES_HELD_MAX;
  });
}

/** Read leases on the checkpoints that one save refers to. */
export class HeldBases {
  readonly #engine: Engine;
  readonly #catalog: Catalog;
  readonly #leases = new Map<string, { readonly id: CheckpointId; readonly lease: LeaseHolder }>();

  constructor(engine: Engine, catalog: Catalog) {
    this.#engine = engine;
    this.#catalog = catalog;
  }

  get ids(): CheckpointId[] {
    return [...this.#leases.values()].map(({ id }) => id);
  }

  has(id: CheckpointId): boolean {
    return this.#leases.has(idText(id));
  }

  /** A lease on each that is still live then, by a look at the catalog that comes after it. */
  async take(ids: readonly CheckpointId[], signal: AbortSignal): Promise<void> {
    const wanted = new Map(ids.map((id) => [idText(id), id]));
    const taking = await Promise.allSettled([...wanted].map(([text, id]) => this.#take(text, id, signal)));
    // Only once all have settled: a lease that came later would be nobody's.
    for (const taken of taking) if (taken.status === 'rejected') throw taken.reason;
  }

  async #take(text: string, id: CheckpointId, signal: AbortSignal): Promise<void> {
    const lease = await LeaseHolder.take(this.#engine, this.#catalog, id, signal);
    if (lease?.isHeld) this.#leases.set(text, { id, lease });
  }

  async release(): Promise<void> {
    await Promise.all([...this.#leases.values()].map(({ lease }) => lease.release()));
  }

  /** Others may still commit what was delivered: the leases end by themselves. */
  async leave(): Promise<void> {
    await Promise.all([...this.#leases.values()].map(({ lease }) => lease.leave()));
  }
}
