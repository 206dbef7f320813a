/** A program may load two copies of this package, such as its own and that of a dependency. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest';

const one = await import('./index.ts');
let two: typeof one;
beforeEach(async () => {
  vi.resetModules();
  two = await import('./index.ts');
});
afterEach(() => one.setCheckpointManager(null));

class Counter extends one.State<number> {
  value = 0;
  override async sync(): Promise<void> {} // one worker counts
  override snapshot = () => this.value;
  override apply = (value: number) => {
    this.value = value;
  };
}

test('the other copy finds the manager', () => {
  expect(two.setCheckpointManager).not.toBe(one.setCheckpointManager);
  expect(two.getCheckpointManager()).toBe(null);
  const opener = () => expect.unreachable('no world begins');
  one.setCheckpointManager(opener);
  expect(two.getCheckpointManager()).toBe(opener);
  two.setCheckpointManager(null);
  expect(one.getCheckpointManager()).toBe(null);
});

test.each(['RecoverableError', 'NonRetryableException', 'StopException', 'StopIteration'] as const)(
  'the other copy knows a %s, and no other error',
  (name) => {
    class Derived extends one[name] {}
    expect(two[name]).not.toBe(one[name]);
    for (const error of [new one[name](), new Derived()]) {
      expect(error).toBeInstanceOf(two[name]);
      expect(error).toBeInstanceOf(Error);
    }
    expect(new Derived()).toBeInstanceOf(Derived);
    expect(new one[name]()).not.toBeInstanceOf(Derived);
    const others = [one.RecoverableError, one.StopException].filter((each) => each.name !== name);
    for (const other of [Error, ...others]) expect(new other()).not.toBeInstanceOf(two[name]);
    for (const value of [null, undefined, name, { name }]) expect(value instanceof two[name]).toBe(false);
  },
);

test('the loop of the other copy undoes a failed step, and ends when no data is left', async () => {
  const state = new Counter();
  let stepCount = 0;
  await two.train(
    new one.LocalCoordinator(),
    async (counter: Counter) => {
      stepCount += 1;
      if (counter.value === 2) throw new one.StopIteration();
      counter.value += 1;
      if (stepCount === 1) throw new one.RecoverableError('a worker is gone');
    },
    state,
    { logger: { log: () => undefined } },
  );
  expect([state.value, stepCount]).toEqual([2, 4]);
});
