/** For tests of saves that pause the training. */

import type { CheckpointManagerOptions, ConsistencyOptions } from '@holdfast/core';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { type FaultPlan, FaultyStore, ManualClock, refuse } from '@holdfast/testkit';
import { bytes, newBucket, open } from './memory-run.ts';

/** One object, sent in one request. */
export const MODEL = { model: bytes(9000) };
export const START_MS = Date.UTC(2026, 0, 1);

/** A training that a save can pause. Records the calls. */
export class Training {
  readonly calls: string[] = [];
  readonly #hooks: { pausing?: () => unknown; resuming?: () => unknown };
  signal: AbortSignal | undefined;

  constructor(hooks: { pausing?: () => unknown; resuming?: () => unknown } = {}) {
    this.#hooks = hooks;
  }

  readonly pause: NonNullable<ConsistencyOptions['pause']> = async (signal) => {
    this.signal = signal;
    this.calls.push('pause');
    await this.#hooks.pausing?.();
    return async () => {
      this.calls.push('resume');
      await this.#hooks.resuming?.();
    };
  };

  get options() {
    return { consistency: 'paused', pause: this.pause } as const;
  }
}

/** A manager on a store whose calls the test can see. */
export function setUp(
  options: Partial<CheckpointManagerOptions> & {
    bucket?: MemoryBucket;
    plan?: FaultPlan;
  } = {},
) {
  const { bucket = newBucket(), plan, ...rest } = options;
  const clock = new ManualClock({ nowMs: START_MS });
  const store = new FaultyStore(new MemoryStore(bucket), plan);
  const logged: string[] = [];
  const logger = { log: (_: string, message: string) => void logged.push(message) };
  return { bucket, clock, store, logged, manager: open(bucket, { store, clock, logger, ...rest }) };
}

export const isPayload = (key: string) => /\/\d+\.\d+-/.test(key);

export function refusing(isHit: (key: string) => boolean): FaultPlan {
  return ({ operation, key }) => (operation === 'create' && isHit(key) ? refuse('Denied') : undefined);
}
