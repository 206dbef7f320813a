import { expect, test } from 'vitest';
import { NonRetryableException, RecoverableError, StopIteration } from './errors.ts';
import { LocalCoordinator } from './local-coordinator.ts';
import { State } from './state.ts';
import { train } from './train.ts';

class Watched extends LocalCoordinator {
  readonly errors: unknown[] = [];

  override onError(error: unknown): void {
    this.errors.push(error);
  }
}

class Counter extends State<number> {
  value = 0;
  snapshotCount = 0;
  /** Numbers of the snapshots that fail. */
  failing: readonly number[] = [];
  failsApply = false;

  override async sync(): Promise<void> {
    // A lone worker has nothing to agree on.
  }

  override snapshot(): number {
    this.snapshotCount++;
    if (this.failing.includes(this.snapshotCount)) throw new RecoverableError('no memory');
    return this.value;
  }

  override apply(snapshot: number): void {
    if (this.failsApply) throw new RecoverableError('no memory');
    this.value = snapshot;
  }
}

/** Adds 1 up to 3. `failsAt`: fails once at this value. */
function counting(failsAt?: number) {
  let hasFailed = false;
  return async (state: Counter) => {
    if (state.value === 3) throw new StopIteration();
    state.value++;
    if (state.value === failsAt && !hasFailed) {
      hasFailed = true;
      throw new RecoverableError('a worker is gone');
    }
    return { stats: null };
  };
}

test.each([[[1]], [[2]], [[1, 3, 5]]])(
  'snapshots %j fail: the coordinator hears of each, and training goes on',
  async (failing) => {
    const coordinator = new Watched();
    const state = new Counter();
    state.failing = failing;
    expect(await train(coordinator, counting(), state)).toBe(state);
    expect(state.value).toBe(3);
    expect(coordinator.errors).toEqual(failing.map(() => new RecoverableError('no memory')));
  },
);

test('a snapshot that cannot be applied ends the worker', async () => {
  const coordinator = new Watched();
  const state = new Counter();
  state.failsApply = true;
  await expect(train(coordinator, counting(2), state)).rejects.toThrow(NonRetryableException);
  expect(coordinator.errors).toEqual([
    new RecoverableError('a worker is gone'),
    new RecoverableError('no memory'),
  ]);
});
