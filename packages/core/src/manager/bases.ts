/** Checkpoints that a save may refer to, and those it is compared with: their manifests, and the leases that keep them. */

import type { CheckpointId } from '../contract/checkpoint-manager.ts';
import { throwIfAborted, toCheckpointError } from '../contract/errors.ts';
import { type CatalogCheckpoint, type FileRecord, idText, type State } from '../format/index.ts';
import { type KnownFiles, knownFiles } from '../plan/known-files.ts';
import { newestLive, onPath } from '../plan/state.ts';
import type { Catalog } from './catalog.ts';
import { withDeadline } from './deadline.ts';
import type { Engine } from './engine.ts';
import { LeaseHolder } from './lease.ts';
import { filesOf, readManifest } from './manifest.ts';

/** So far back files are looked for: training changes most of them with each step, and those that it never changes are in the newest one. */
const BASES_MAX = 4;
/** Of those that were found damaged. */
const DISTRUSTED_MAX = 4;

interface Listed {
  readonly id: CheckpointId;
  readonly files: readonly FileRecord[];
}

/** The manifests of the newest checkpoints, each read once. */
export class NewestManifests {
  readonly #engine: Engine;
  /** By key; `null`: it cannot be read. */
  #read = new Map<string, Promise<Listed | null>>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** What need not be sent again. */
  async known(state: State, signal: AbortSignal): Promise<KnownFiles> {
    const path = onPath(state);
    const bases = path
      .filter((each) => each.state === 'LIVE')
      .slice(-BASES_MAX)
      .reverse();
    const damaged = path.filter((each) => each.state === 'QUARANTINED').slice(-DISTRUSTED_MAX);
    const [listed, distrusted] = await Promise.all([
      this.#readAll(bases, signal),
      this.#readAll(damaged, signal),
    ]);
    this.#forgetAllBut([...bases, ...damaged]);
    return knownFiles(
      listed,
      distrusted.flatMap(({ files }) => files),
    );
  }

  /** The last checkpoint; `null`: there is none, or its manifest cannot be read. */
  async last(
    state: State,
    signal: AbortSignal,
  ): Promise<{ version: bigint; files: readonly FileRecord[] } | null> {
    const newest = newestLive(state);
    const [listed] = await this.#readAll(newest ? [newest] : [], signal);
    return listed ? { version: listed.id.version, files: listed.files } : null;
  }

  async #readAll(checkpoints: readonly CatalogCheckpoint[], signal: AbortSignal): Promise<Listed[]> {
    const read = await Promise.all(checkpoints.map((each) => this.#readOnce(each, signal)));
    return read.filter((listed) => listed !== null);
  }

  async #readOnce(checkpoint: CatalogCheckpoint, signal: AbortSignal): Promise<Listed | null> {
    const { manifestKey } = checkpoint;
    const reading = this.#read.get(manifestKey) ?? this.#readOne(checkpoint, signal);
    this.#read.set(manifestKey, reading);
    const listed = await reading;
    if (listed === null) this.#read.delete(manifestKey); // the next save may have more luck
    throwIfAborted(signal);
    return listed;
  }

  /** `null` if it cannot be read: that is no reason to fail a save, which can do without. */
  async #readOne(checkpoint: CatalogCheckpoint, signal: AbortSignal): Promise<Listed | null> {
    const { clock, settings, logger } = this.#engine;
    const what = `reading the manifest of version ${checkpoint.id.version}, to compare with`;
    const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what, signal };
    try {
      const manifest = await withDeadline(bounds, (until) => readManifest(this.#engine, checkpoint, until));
      return { id: manifest.id, files: filesOf(manifest) };
    } catch (error) {
      if (!signal.aborted) logger.log('warn', `${what}, failed: ${toCheckpointError(error).message}`);
      return null;
    }
  }

  #forgetAllBut(checkpoints: readonly CatalogCheckpoint[]): void {
    const kept = new Set(checkpoints.map(({ manifestKey }) => manifestKey));
    for (const key of this.#read.keys()) if (!kept.has(key)) this.#read.delete(key);
  }
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
