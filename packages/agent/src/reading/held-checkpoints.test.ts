import { type Checkpoint, CheckpointError, type RunManager } from '@holdfast/core';
import { expect, test } from 'vitest';
import { findCheckpoint, HELD_IDLE_MS, HeldCheckpoints, IDLE_MAX, type Wanted } from './held-checkpoints.ts';

const LATEST: Wanted = { uri: 'a', version: 'latest', lineage: undefined };

function number(version: number): Wanted {
  return { uri: 'a', version: String(version), lineage: 1 };
}

/** A run whose checkpoints tell when they are held and released. */
function run() {
  const told: string[] = [];
  const retired = new Set<number>();
  const clock = { nowMs: 0, monotonicMs: () => clock.nowMs };
  const checkpoint = (version: number) =>
    ({
      version: BigInt(version),
      summary: { id: { lineage: 1, epoch: 1, version: BigInt(version) } },
      hold: async () => {
        if (retired.has(version)) throw new CheckpointError('NotFound', 'it is retired');
        told.push(`hold ${version}`);
      },
      [Symbol.asyncDispose]: async () => void told.push(`release ${version}`),
    }) as unknown as Checkpoint;
  let latest = 1;
  const manager = {
    get: async ({ version }: { version: bigint }) => {
      told.push(`get ${version}`);
      return checkpoint(Number(version));
    },
    latest: async () => checkpoint(latest++),
  } as unknown as RunManager;
  const held = new HeldCheckpoints(clock);
  const read = (wanted: Wanted) => held.read(manager, wanted, async ({ version }) => version);
  const describe = (wanted: Wanted) => held.describe(manager, wanted, async ({ version }) => version);
  return { told, retired, clock, held, manager, read, describe };
}

test('one hold for all reads, until none has come for a while', async () => {
  const { told, clock, held, read, describe } = run();
  await Promise.all([read(number(7)), read(number(7)), describe(number(7))]);
  clock.nowMs = HELD_IDLE_MS - 1;
  await held.releaseIdle();
  await read(number(7));
  clock.nowMs += HELD_IDLE_MS - 1;
  await held.releaseIdle();
  expect(told.filter((each) => !each.startsWith('get'))).toEqual(['hold 7']);
  clock.nowMs += 1;
  await held.releaseIdle();
  expect(told.at(-1)).toBe('release 7');
  await read(number(7));
  expect(told.at(-1)).toBe('hold 7');
});

test('a read keeps its checkpoint, however long it takes', async () => {
  const { told, clock, held, manager } = run();
  const reading = Promise.withResolvers<void>();
  const working = held.read(manager, number(3), () => reading.promise);
  await expect.poll(() => told).toContain('hold 3');
  clock.nowMs = 10 * HELD_IDLE_MS;
  await held.releaseIdle();
  expect(told).not.toContain('release 3');
  reading.resolve();
  await working;
});

test('only the last used of those that are not read are held', async () => {
  const { told, read } = run();
  const many = Array.from({ length: IDLE_MAX }, (_, index) => index + 1);
  for (const version of [...many, 1, IDLE_MAX + 1]) await read(number(version));
  expect(told.filter((each) => each.startsWith('release'))).toEqual(['release 2']);
});

test('the latest is looked for again if it was retired before it was held', async () => {
  const { told, retired, read, describe } = run();
  for (const version of [1, 2, 4]) retired.add(version);
  expect(await read(LATEST)).toBe(3n);
  expect(await describe(LATEST)).toBe(5n);
  expect(told).toEqual(['hold 3', 'hold 5']);
});

test('a retired checkpoint is described, and not read', async () => {
  const { told, retired, read, describe } = run();
  retired.add(6);
  expect(await describe(number(6))).toBe(6n);
  await expect(read(number(6))).rejects.toMatchObject({ code: 'NotFound' });
  expect(told).toEqual(['get 6', 'get 6']);
});

test.each([
  ['none', [], { code: 'NotFound' }],
  ['one that cannot be loaded', [{ isLatest: false }], { code: 'Corrupt' }],
])('there is no latest, and the list has %s', async (_, list, error) => {
  const manager = { latest: async () => null, list: async () => list } as unknown as RunManager;
  await expect(findCheckpoint(manager, LATEST)).rejects.toMatchObject(error);
});

test('the first checkpoint was committed just after the latest was looked for', async () => {
  const { manager } = run();
  const id = { lineage: 1, epoch: 1, version: 9n };
  const late = { ...manager, latest: async () => null, list: async () => [{ isLatest: true, id }] };
  const found = await findCheckpoint(late as unknown as RunManager, LATEST);
  expect(found.version).toBe(9n);
});
