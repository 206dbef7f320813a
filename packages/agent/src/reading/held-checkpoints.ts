/**
 * Checkpoints of one run that trainers read, each with its lease. A trainer reads by many requests,
 * so a checkpoint stays held for a while after each. Only the first request looks it up and takes a
 * lease, and retention removes no checkpoint that a trainer has begun to read.
 */

import {
  type Checkpoint,
  CheckpointError,
  type CheckpointReference,
  type CheckpointSummary,
  type Clock,
  isCheckpointError,
  type RunManager,
  toVersion,
} from '@holdfast/core';

/** From the end of the last request on. */
export const HELD_IDLE_MS = 60_000;
/**
 * At most so many checkpoints of a run stay held while no request uses them: enough for some slow
 * readers beside those that follow a trainer. More would take room that retention could free.
 */
export const IDLE_MAX = 8;
/** Attempts to hold the latest checkpoint. One fails if the checkpoint is retired meanwhile. */
const TRIES_MAX = 5;

export interface Wanted {
  readonly uri: string;
  /** A whole number, or `latest`. */
  readonly version: string;
  readonly lineage: number | undefined;
  /** Only the checkpoint with this manifest. */
  readonly manifestKey?: string | undefined;
}

interface Held {
  readonly key: string;
  readonly checkpoint: Checkpoint;
  readonly begun: Promise<void>;
  useCount: number;
  usedAtMs: number;
}

export class HeldCheckpoints {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #held = new Map<string, Held>();

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /**
   * Reads a checkpoint that is held meanwhile, and for `HELD_IDLE_MS` afterwards. `NotFound`: there
   * is none, or retention has retired it. `Corrupt`: there is one, and it cannot be loaded.
   */
  async read<T>(
    manager: RunManager,
    wanted: Wanted,
    work: (checkpoint: Checkpoint) => Promise<T>,
  ): Promise<T> {
    const key = keyOf(wanted);
    const held = (key && this.#take(key, wanted.manifestKey)) || (await this.#find(manager, wanted)).held;
    return this.#use(held, async () => {
      await held.begun;
      return work(held.checkpoint);
    });
  }

  /**
   * A checkpoint as the catalog has it now. It is held for the reads that follow, unless it is
   * retired.
   */
  async describe<T>(
    manager: RunManager,
    wanted: Wanted,
    work: (checkpoint: Checkpoint) => Promise<T>,
  ): Promise<T> {
    const { found, held } = await this.#find(manager, wanted);
    return this.#use(held, () => work(found));
  }

  /** Releases those that were not used for a while; `all`: every one. Never rejects. */
  async releaseIdle(all = false): Promise<void> {
    const until = this.#clock.monotonicMs() - HELD_IDLE_MS;
    const old = [...this.#held.values()].filter(
      ({ useCount, usedAtMs }) => all || (useCount === 0 && usedAtMs <= until),
    );
    await Promise.all(old.map((held) => this.#release(held)));
  }

  /** Call `#use` with the result. If the checkpoint is retired, its `held.begun` has rejected. */
  async #find(manager: RunManager, wanted: Wanted): Promise<{ found: Checkpoint; held: Held }> {
    for (let tryCount = 1; ; tryCount += 1) {
      const found = await findCheckpoint(manager, wanted);
      const held = this.#take(keyOf(found.summary?.id) ?? '') ?? this.#hold(found);
      try {
        await held.begun;
        return { found, held };
      } catch (error) {
        const isRetired = isCheckpointError(error, 'NotFound');
        if (isRetired && (wanted.version !== 'latest' || tryCount === TRIES_MAX)) return { found, held };
        this.#giveBack(held);
        if (!isRetired) throw error;
      }
    }
  }

  /** `manifestKey`: if it has another one, its run may have been begun again since. */
  #take(key: string, manifestKey?: string): Held | undefined {
    const held = this.#held.get(key);
    if (!held) return undefined;
    if (manifestKey !== undefined && held.checkpoint.summary?.manifestKey !== manifestKey) return undefined;
    held.useCount += 1;
    return held;
  }

  #hold(checkpoint: Checkpoint): Held {
    const key = keyOf(checkpoint.summary?.id) ?? '';
    const begun = checkpoint.hold();
    const held: Held = { key, checkpoint, begun, useCount: 1, usedAtMs: this.#clock.monotonicMs() };
    this.#held.set(key, held);
    begun.catch(() => this.#forget(held));
    return held;
  }

  async #use<T>(held: Held, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } finally {
      this.#giveBack(held);
    }
  }

  #giveBack(held: Held): void {
    held.useCount -= 1;
    held.usedAtMs = this.#clock.monotonicMs();
    // The order of the map is that of the last uses.
    if (this.#forget(held)) this.#held.set(held.key, held);
    const idle = [...this.#held.values()].filter(({ useCount }) => useCount === 0);
    for (const old of idle.slice(0, -IDLE_MAX)) void this.#release(old);
  }

  #forget(held: Held): boolean {
    return this.#held.get(held.key) === held && this.#held.delete(held.key);
  }

  async #release(held: Held): Promise<void> {
    this.#forget(held);
    await held.checkpoint[Symbol.asyncDispose]();
  }
}

/** Without a lineage: the version of this number that the run has now. */
export function referenceTo(version: string, lineage: number | undefined): CheckpointReference {
  const number = toVersion(BigInt(version));
  return lineage === undefined ? number : { version: number, lineage };
}

/** `undefined`: it may be of any lineage. */
function keyOf(which: { lineage?: number | undefined; version: string | bigint } | undefined) {
  return which?.lineage === undefined ? undefined : `${which.lineage} ${which.version}`;
}

/** `NotFound`: it has another manifest than is wanted, so it is another checkpoint. */
export function assertManifest(
  { version, manifestKey }: Pick<CheckpointSummary, 'version' | 'manifestKey'>,
  wanted: string | undefined,
): void {
  if (wanted === undefined || wanted === manifestKey) return;
  const message = `version ${version} is another checkpoint now: the run was removed and begun again`;
  throw new CheckpointError('NotFound', message, { context: { version } });
}

/** `NotFound`: there is no such checkpoint. `Corrupt`: there is one, and it cannot be loaded. */
export async function findCheckpoint(
  manager: RunManager,
  { uri, version, lineage, manifestKey }: Wanted,
): Promise<Checkpoint> {
  if (version !== 'latest') {
    if (!/^\d{1,19}$/.test(version))
      throw new CheckpointError('InvalidArgument', `version: "${version}" is not a whole number`);
    const found = await manager.get(referenceTo(version, lineage));
    if (found?.summary) assertManifest(found.summary, manifestKey);
    if (found) return found;
    throw new CheckpointError('NotFound', `no version ${version} in ${uri}`, {
      context: { version: toVersion(BigInt(version)) },
    });
  }
  const latest = await manager.latest();
  if (latest) return latest;
  const there = await manager.list();
  if (there.length === 0) throw new CheckpointError('NotFound', `nothing was committed to ${uri} yet`);
  // The run's first checkpoint may have been committed between the two calls.
  const first = there.find(({ isLatest }) => isLatest);
  const found = first && (await manager.get(first.id));
  if (found) return found;
  throw new CheckpointError('Corrupt', `${uri} has checkpoints, and none that can be loaded`);
}
