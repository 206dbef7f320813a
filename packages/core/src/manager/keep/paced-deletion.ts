/**
 * Deletes many objects: in batches, at a pace that leaves room for saves. It reports what was
 * deleted and what was not.
 */

import { CheckpointError, toCheckpointError } from '../../contract/errors.ts';
import type { ListedObject } from '../../plan/sweep.ts';
import { backOff, isUnanswered } from '../records/index.ts';
import type { RunContext } from '../run/index.ts';

/** Maximum number of undeleted objects that are listed by key. */
const HELD_MAX = 100;
const NOT_OURS = ['Denied', 'ReadOnly'] as const;

export class PacedDeletion {
  readonly #run: RunContext;
  readonly #signal: AbortSignal | undefined;
  readonly held: { readonly key: string; readonly reason: string }[] = [];
  heldCount = 0;
  objectCount = 0;
  freedBytes = 0;
  #firstHeld: CheckpointError | undefined;
  #dueAtMs = 0;

  constructor(run: RunContext, signal: AbortSignal | undefined) {
    this.#run = run;
    this.#signal = signal;
  }

  /**
   * One request per `capabilities.maxDeleteKeys` objects. An object that the store refuses to
   * delete is recorded in `held`, and deletion continues. Resolves to the number of deleted
   * objects. Throws if a request fails as a whole.
   */
  async delete(objects: readonly ListedObject[]): Promise<number> {
    const { store, settings } = this.#run;
    const batchSize = Math.min(store.capabilities.maxDeleteKeys, settings.deletesPerSecondMax);
    const before = this.objectCount;
    for (let at = 0; at < objects.length; at += batchSize) {
      await this.#deleteBatch(objects.slice(at, at + batchSize));
    }
    return this.objectCount - before;
  }

  /** Records an object or upload that could not be deleted or stopped, for a permanent reason. */
  hold(key: string, error: unknown): void {
    const known = toCheckpointError(error);
    this.#firstHeld ??= known;
    this.heldCount++;
    if (this.held.length < HELD_MAX) this.held.push({ key, reason: `${known.code}: ${known.message}` });
  }

  /** Throws the first refusal if it is `Denied` or `ReadOnly` and nothing was deleted. */
  assertAllowed(): void {
    const error = this.#firstHeld;
    if (!error || this.objectCount > 0 || !NOT_OURS.some((code) => code === error.code)) return;
    const what = this.heldCount === 1 ? 'the object' : `all ${this.heldCount} objects`;
    throw new CheckpointError(
      error.code,
      `the store refused the deletion of ${what} to collect: ${error.message}`,
      { context: error.context, cause: error },
    );
  }

  async #deleteBatch(batch: readonly ListedObject[]): Promise<void> {
    await this.#waitForTurn(batch.length);
    const { clock, settings } = this.#run;
    const untilMs = clock.monotonicMs() + settings.retryTimeoutMs;
    let left = batch;
    for (let repeats = 0; ; repeats++) {
      const failed = await this.#send(left);
      const repeatable = failed.filter(({ error }) => isUnanswered(error));
      const isLast = repeats >= settings.retryCountMax || clock.monotonicMs() >= untilMs;
      for (const each of failed)
        if (isLast || !isUnanswered(each.error)) this.hold(each.object.key, each.error);
      if (isLast || repeatable.length === 0) return;
      left = repeatable.map(({ object }) => object);
      await backOff(this.#run, repeats, this.#signal, repeatable[0]?.error);
    }
  }

  async #send(batch: readonly ListedObject[]): Promise<{ object: ListedObject; error: CheckpointError }[]> {
    const keys = batch.map(({ key }) => key);
    const results = await this.#run.records.deleteMany(keys, { signal: this.#signal });
    const failed: { object: ListedObject; error: CheckpointError }[] = [];
    for (const [index, object] of batch.entries()) {
      const error = results[index]?.error;
      if (error) failed.push({ object, error });
      else {
        this.objectCount++;
        this.freedBytes += object.sizeBytes;
      }
    }
    return failed;
  }

  /** The first batch goes at once. Each batch delays the next by its number of keys. */
  async #waitForTurn(keyCount: number): Promise<void> {
    const { clock, settings } = this.#run;
    const nowMs = clock.monotonicMs();
    if (this.#dueAtMs > nowMs) await clock.sleep(this.#dueAtMs - nowMs, this.#signal);
    this.#dueAtMs = Math.max(this.#dueAtMs, nowMs) + (keyCount * 1000) / settings.deletesPerSecondMax;
  }
}
