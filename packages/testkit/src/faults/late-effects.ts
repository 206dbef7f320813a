import { isCheckpointError } from '@holdfast/core/contract';

interface LateEffect {
  readonly apply: () => Promise<unknown>;
  /** `undefined`: only released by hand. */
  callsLeft: number | undefined;
}

/**
 * Requests that stay in the network after their callers gave up or died. Processes of one test may
 * share it.
 */
export class LateEffects {
  readonly #waiting: LateEffect[] = [];

  get count(): number {
    return this.#waiting.length;
  }

  /**
   * `apply` is called once, at the latest when the test releases everything. It must not use the
   * caller's buffers.
   */
  add(apply: () => Promise<unknown>, afterCalls?: number): void {
    this.#waiting.push({ apply, callsLeft: afterCalls });
  }

  /** Called before each call: applies the effects that are due. */
  async tick(): Promise<void> {
    for (const effect of [...this.#waiting]) {
      if (effect.callsLeft === undefined) continue;
      effect.callsLeft--;
      if (effect.callsLeft <= 0) await this.#release(effect);
    }
  }

  /** Applies one effect, by default the oldest. */
  async releaseOne(index = 0): Promise<void> {
    const effect = this.#waiting[index];
    if (effect === undefined) throw new Error(`there is no late effect ${index}; ${this.count} are waiting`);
    await this.#release(effect);
  }

  async releaseAll(): Promise<void> {
    while (this.count > 0) await this.releaseOne();
  }

  async #release(effect: LateEffect): Promise<void> {
    const index = this.#waiting.indexOf(effect);
    if (index === -1) return;
    this.#waiting.splice(index, 1);
    try {
      await effect.apply();
    } catch (error) {
      // No caller receives the provider's refusal. Any other error is a bug, and the test must see
      // it.
      if (!isCheckpointError(error)) throw error;
    }
  }
}
