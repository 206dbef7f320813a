/**
 * Several processes act as one writer because they name one life: what they share, and what a later
 * life takes over from them.
 */

import type { CheckpointManagerOptions, Logger, ProgressEvent, RunManager } from '@holdfast/core';
import { isCheckpointError } from '@holdfast/core';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FAULTS, type FaultPlan, FaultyStore, ManualClock } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

interface Whose extends Partial<CheckpointManagerOptions> {
  /** The writer's index, of two. */
  readonly index?: number;
  readonly plan?: FaultPlan;
}

/** A process that a trainer starts for one call. */
function processOf(bucket: MemoryBucket, life: string | undefined, { index = 0, plan, ...rest }: Whose = {}) {
  const store = new FaultyStore(new MemoryStore(bucket), plan);
  const writer = { index, count: 2 };
  return open(bucket, { store, attempt: 'job-1', life, writer, process: { host: 'vm', pid: 7 }, ...rest });
}

const deliver = (manager: RunManager, version: number, seed = version) =>
  manager.save({ version, buffers: { 'part-0': bytes(50, seed) }, noWait: true });

/** Delivers from a new process. */
async function save(bucket: MemoryBucket, life: string | undefined, version: number, whose: Whose = {}) {
  await using manager = processOf(bucket, life, whose);
  const events: ProgressEvent[] = [];
  const name = `part-${whose.index ?? 0}`;
  const result = await manager.save({
    version,
    buffers: { [name]: bytes(50, version) },
    noWait: true,
    onProgress: (event) => events.push(event),
  });
  return { ...result, voided: events.filter(({ type }) => type === 'voided') };
}

const claimsIn = (bucket: MemoryBucket) => bucket.keys().filter((key) => key.startsWith('writers/'));

async function versionsIn(bucket: MemoryBucket): Promise<bigint[]> {
  await using manager = open(bucket);
  return (await manager.list()).map(({ version }) => version);
}

async function overtaken(promise: Promise<unknown>): Promise<unknown> {
  const error = await promise.catch((caught: unknown) => caught);
  if (!isCheckpointError(error, 'Fenced')) throw error;
  return error.context.overtakenBy;
}

/** A later life, `ps-0`, has made its claim and was killed before it registered. */
async function withClaimAlone(): Promise<MemoryBucket> {
  const bucket = newBucket();
  await save(bucket, 'former', 1);
  const killed = processOf(bucket, 'ps-0', {
    clock: new ManualClock(),
    plan: ({ operation, key }) =>
      operation === 'create' && key.startsWith('catalog/') ? FAULTS.stopBefore : undefined,
  });
  void deliver(killed, 2);
  await expect.poll(() => claimsIn(bucket)).toContain('writers/1.1/0.1.json');
  return bucket;
}

describe('processes of one life', () => {
  test('writers of which one is a version ahead commit each version, with one claim for each writer', async () => {
    const bucket = newBucket();
    for (let version = 1; version <= 5; version++) {
      await save(bucket, 'ps-0', version);
      if (version > 1) await save(bucket, 'ps-1', version - 1, { index: 1 });
    }
    expect(await versionsIn(bucket)).toEqual([4n, 3n, 2n, 1n]);
    expect(claimsIn(bucket)).toEqual(['writers/1.1/0.0.json', 'writers/1.1/1.0.json']);
  });

  test('that join at the same time share the claim that one of them made', async () => {
    const bucket = newBucket();
    await save(bucket, 'former', 1);
    const saved = await Promise.all([2, 3, 4].map((version) => save(bucket, 'ps-0', version)));
    expect(saved.flatMap(({ voided }) => voided)).toHaveLength(1);
    expect(claimsIn(bucket)).toEqual(['writers/1.1/0.0.json', 'writers/1.1/0.1.json']);
    for (const version of [2, 3, 4]) {
      const last = await save(bucket, 'ps-1', version, { index: 1 });
      expect(last.isCommitted).toBe(true);
    }
  });

  test('deliver the same content twice as one, and refuse other content', async () => {
    const bucket = newBucket();
    await save(bucket, 'ps-0', 1);
    expect(await save(bucket, 'ps-0', 1)).toMatchObject({ isCommitted: false, missingWriters: [1] });
    await using other = processOf(bucket, 'ps-0');
    expect(await failure(deliver(other, 1, 99))).toBe(
      'Conflict: writer 0 has already delivered version 1, with other content',
    );
  });

  test('go on where one was killed between its claim and its registration', async () => {
    const bucket = await withClaimAlone();
    await save(bucket, 'ps-0', 2);
    expect(await save(bucket, 'ps-1', 2, { index: 1 })).toMatchObject({ isCommitted: true });
  });
});

describe('a new life of the writer', () => {
  test('takes its place for good: the former one is fenced, and claims no other incarnation', async () => {
    const bucket = newBucket();
    const before = processOf(bucket, 'old');
    await deliver(before, 1);
    await save(bucket, 'new', 2);
    expect(await overtaken(deliver(before, 3))).toBe('process');
    expect(await overtaken(save(bucket, 'old', 3))).toBe('process');
    expect(claimsIn(bucket)).toEqual(['writers/1.1/0.0.json', 'writers/1.1/0.1.json']);
    await save(bucket, 'new', 3);
    expect(await save(bucket, 'ps-1', 3, { index: 1 })).toMatchObject({ isCommitted: true });
  });

  test('joins before it restores: what the former life has delivered is not committed afterwards', async () => {
    const bucket = newBucket();
    await save(bucket, 'old', 1);
    await save(bucket, 'ps-1', 1, { index: 1 });
    await save(bucket, 'old', 2);
    await using restoring = processOf(bucket, 'new');
    const events: ProgressEvent[] = [];
    const to = { 'part-0': new Uint8Array(50) };
    const restored = await restoring.restore({ to, onProgress: (event) => events.push(event) });
    expect(restored.version).toBe(1n);
    expect(events).toContainEqual(expect.objectContaining({ type: 'voided', versions: [2n], life: 'old' }));
    expect(await save(bucket, 'ps-1', 2, { index: 1 })).toMatchObject({
      isCommitted: false,
      missingWriters: [0],
    });
  });

  test('after a rollback: a life that began before it is refused, also once the run was swept', async () => {
    const bucket = newBucket();
    for (const index of [0, 1]) await save(bucket, `ps-${index}`, 1, { index });
    await using person = open(bucket);
    await person.admin.rollback({ to: 1, reason: 'the loss went up' });
    expect(await overtaken(save(bucket, 'ps-0', 2))).toBe('rollback');
    await person.admin.collect({ force: true });
    expect(await overtaken(save(bucket, 'ps-0', 2))).toBe('rollback');
    for (const index of [0, 1]) await save(bucket, `ps-${index} again`, 2, { index });
    expect((await versionsIn(bucket))[0]).toBe(2n);
  });

  test('claims are swept once their epoch has passed, those of an earlier lineage too', async () => {
    const bucket = newBucket();
    for (const index of [0, 1]) await save(bucket, `ps-${index}`, 1, { index });
    await using person = open(bucket);
    await person.admin.rollback({ to: 1, reason: 'the loss went up' });
    await save(bucket, 'later', 2);
    await person.admin.collect({ force: true });
    expect(claimsIn(bucket)).toHaveLength(3);
    await using next = open(bucket, { attempt: 'job-2' });
    await next.save({ version: 3, buffers: { a: bytes(10) } });
    await person.admin.collect({ force: true });
    expect(claimsIn(bucket)).toEqual(['writers/2.2/0.0.json']);
  });
});

describe('a process that is refused', () => {
  async function committed() {
    const bucket = newBucket();
    for (const index of [0, 1]) await save(bucket, `ps-${index}`, 1, { index });
    return bucket;
  }

  async function takeOver(bucket: MemoryBucket) {
    await using next = open(bucket, { attempt: 'job-2' });
    await next.join();
  }

  test.each(['the attempt has passed', 'a later life has come', 'the run was rolled back'])(
    'but whose very files are committed learns so: %s',
    async (how) => {
      const bucket = await committed();
      await using person = open(bucket);
      if (how === 'the attempt has passed') await takeOver(bucket);
      else if (how === 'a later life has come') await save(bucket, 'later', 2);
      else await person.admin.rollback({ to: 1, reason: 'the loss went up' });
      expect(await save(bucket, 'ps-0', 1)).toMatchObject({ isCommitted: true, wasCommittedBefore: true });
      const other = processOf(bucket, 'ps-0');
      const code = how === 'the attempt has passed' ? 'Fenced' : 'Conflict';
      expect(await failure(deliver(other, 1, 99))).toContain(`${code}: `);
    },
  );

  test('hears of the rollback where that has left its very files behind', async () => {
    const bucket = await committed();
    for (const index of [0, 1]) await save(bucket, `ps-${index}`, 2, { index });
    await using person = open(bucket);
    await person.admin.rollback({ to: 1, reason: 'the loss went up' });
    expect(await overtaken(save(bucket, 'ps-0', 2))).toBe('rollback');
  });

  test('asks once more what is committed when it is refused while it joins', async () => {
    const bucket = newBucket();
    for (const index of [0, 1]) await save(bucket, `ps-${index}`, 1, { index });
    await save(bucket, 'ps-0', 2);
    const store = new MemoryStore(bucket);
    const list = store.list.bind(store);
    let isDone = false;
    store.list = async function* (prefix, options) {
      // By now it has read the catalog and found version 2 open.
      if (prefix.startsWith('writers/') && !isDone) {
        isDone = true;
        await save(bucket, 'ps-1', 2, { index: 1 });
        await takeOver(bucket);
      }
      yield* list(prefix, options);
    };
    await using again = open(bucket, {
      store,
      attempt: 'job-1',
      life: 'ps-0',
      writer: { index: 0, count: 2 },
    });
    expect(await deliver(again, 2)).toMatchObject({ isCommitted: true, wasCommittedBefore: true });
    expect(isDone).toBe(true);
    expect(await overtaken(deliver(again, 3))).toBe('attempt');
  });
});

test.each(['save', 'commit'] as const)(
  '%s: whose claim is swept while it registers is Fenced, and does not list for ever',
  async (call) => {
    const bucket = await withClaimAlone();
    const store = new MemoryStore(bucket);
    const list = store.list.bind(store);
    let lists = 0;
    store.list = async function* (prefix, options) {
      if (prefix === 'writers/1.1/' && lists++ === 0) {
        await using next = open(bucket, { attempt: 'job-2' });
        await next.join();
        await next.admin.collect({ force: true });
      }
      if (lists > 9) throw new Error('it lists for ever');
      yield* list(prefix, options);
    };
    await using late = open(bucket, {
      store,
      attempt: 'job-1',
      life: 'ps-0',
      writer: { index: 0, count: 2 },
    });
    expect(await overtaken(call === 'save' ? deliver(late, 2) : late.commit({ version: 2 }))).toBe('attempt');
    expect([lists, claimsIn(bucket)]).toEqual([1, ['writers/1.2/0.0.json']]);
  },
);

describe('commit for a life', () => {
  test('waits for its files, and is a success only with them', async () => {
    const bucket = newBucket();
    await save(bucket, 'ps-0', 1);
    await using own = processOf(bucket, 'ps-0');
    expect(await failure(own.commit({ version: 1 }))).toContain(
      'Incomplete: version 1 is not complete: writer 1',
    );
    const waiting = own.commit({ version: 1, timeoutMs: 60_000 });
    await save(bucket, 'ps-1', 1, { index: 1 });
    expect(await waiting).toMatchObject({ version: 1n });
    expect(await own.commit({ version: 1 })).toMatchObject({ version: 1n });
    await save(bucket, 'later', 2);
    expect(await own.commit({ version: 1 })).toMatchObject({ version: 1n });
    await using later = processOf(bucket, 'later');
    expect(await failure(later.commit({ version: 1 }))).toBe(
      'Conflict: version 1 is committed already, without the files of life "later" of writer 0',
    );
    expect(await overtaken(own.commit({ version: 2 }))).toBe('process');
  });

  test('ends as fenced once a later life delivers in its place', async () => {
    const bucket = newBucket();
    await save(bucket, 'ps-0', 1);
    await using own = processOf(bucket, 'ps-0');
    const waiting = overtaken(own.commit({ version: 1, timeoutMs: 60_000 }));
    await save(bucket, 'later', 1);
    await save(bucket, 'ps-1', 1, { index: 1 });
    expect(await versionsIn(bucket)).toEqual([1n]);
    expect(await waiting).toBe('process');
  });

  test('registers the claim of a process that was killed before it did', async () => {
    const bucket = await withClaimAlone();
    await using own = processOf(bucket, 'ps-0');
    expect(await failure(own.commit({ version: 1 }))).toContain('NotFound: ');
    expect(await save(bucket, 'ps-1', 1, { index: 1 })).toMatchObject({ missingWriters: [0] });
  });

  test('a life that has delivered nothing is NotFound, and voids nothing', async () => {
    const bucket = newBucket();
    await save(bucket, 'ps-0', 1);
    await using never = processOf(bucket, 'never');
    expect(await failure(never.commit({ version: 1 }))).toBe(
      'NotFound: life "never" of writer 0 has not delivered version 1 in attempt "job-1"',
    );
    await using early = processOf(bucket, 'ps-0', { attempt: 'job-2' });
    expect(await failure(early.commit({ version: 1 }))).toContain('NotFound: ');
    expect(await save(bucket, 'ps-1', 1, { index: 1 })).toMatchObject({ isCommitted: true });
  });

  test('whose claims are swept is a Conflict: which files they are is not known any more', async () => {
    const bucket = newBucket();
    for (const index of [0, 1]) await save(bucket, `ps-${index}`, 1, { index });
    await using next = open(bucket, { attempt: 'job-2' });
    await next.join();
    await next.admin.collect({ force: true });
    await using own = processOf(bucket, 'ps-0');
    expect(await failure(own.commit({ version: 1 }))).toContain(
      'Conflict: version 1 is committed already, and',
    );
  });

  test('a life in an attempt that is no longer current is Fenced', async () => {
    const bucket = newBucket();
    await save(bucket, 'ps-0', 1);
    await using next = open(bucket, { attempt: 'job-2' });
    await next.join();
    await using own = processOf(bucket, 'ps-0');
    expect(await overtaken(own.commit({ version: 1 }))).toBe('attempt');
  });
});

describe('what a joining process voids', () => {
  test('is told once, with versions and process; those of still earlier ones were told before', async () => {
    const bucket = newBucket();
    await save(bucket, undefined, 1, { process: { host: 'node-7', pid: 42 } });
    const second = await save(bucket, undefined, 2);
    const first = { writer: 0, isComplete: true, life: '' };
    expect(second.voided).toEqual([
      { type: 'voided', ...first, versions: [1n], process: { host: 'node-7', pid: 42 } },
    ]);
    const third = await save(bucket, 'ps-0', 3);
    expect(third.voided).toEqual([
      { type: 'voided', ...first, versions: [2n], process: { host: 'vm', pid: 7 } },
    ]);
    expect((await save(bucket, 'ps-0', 4)).voided).toEqual([]);
    const fourth = await save(bucket, 'next', 5);
    expect(fourth.voided).toEqual([
      { type: 'voided', ...first, versions: [3n, 4n], life: 'ps-0', process: { host: 'vm', pid: 7 } },
    ]);
  });

  test('is nothing of other writers, of other epochs, or of what is committed', async () => {
    const bucket = newBucket();
    for (const index of [0, 1]) await save(bucket, `ps-${index}`, 1, { index });
    await save(bucket, 'ps-1', 2, { index: 1 });
    expect((await save(bucket, 'later', 2)).voided).toEqual([]);
    expect(await versionsIn(bucket)).toEqual([2n, 1n]);
  });

  test('is logged, where a log is kept', async () => {
    const bucket = newBucket();
    await save(bucket, undefined, 1);
    const lines: string[] = [];
    const logger: Logger = { log: (level, message) => lines.push(`${level}: ${message}`) };
    await using next = processOf(bucket, 'ps-0', { logger });
    await next.join();
    expect(lines).toContain(
      'warn: version 1, which process 7 on vm had delivered as writer 0 can no longer be committed: this process replaced it',
    );
  });

  test('a run too large to list: reported as not known', async () => {
    const bucket = newBucket();
    await save(bucket, 'ps-0', 1);
    const events: ProgressEvent[] = [];
    const store = new MemoryStore(bucket, { capabilities: { maxListKeys: 1 } });
    await using crowded = processOf(bucket, 'ps-0');
    const buffers = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`a-${at}`, bytes(1)]));
    await crowded.save({ version: 0, buffers, noWait: true });
    await using next = processOf(bucket, 'later', { store });
    await next.join({ onProgress: (event) => events.push(event) });
    expect(events).toEqual([
      {
        type: 'voided',
        writer: 0,
        versions: [],
        isComplete: false,
        process: { host: 'vm', pid: 7 },
        life: 'ps-0',
      },
    ]);
  });

  test('cannot be looked for: the join goes on, and a log says so', async () => {
    const bucket = newBucket();
    await save(bucket, 'ps-0', 1);
    const lines: string[] = [];
    const logger: Logger = { log: (level, message) => lines.push(`${level}: ${message}`) };
    await using next = processOf(bucket, 'later', {
      logger,
      clock: new ManualClock({ autoAdvance: true }),
      plan: ({ operation, key }) =>
        operation === 'list' && key === 'version_' ? FAULTS.loseRequest : undefined,
    });
    await next.join();
    expect(lines.join('\n')).toContain(
      'warn: the deliveries of earlier processes of this writer are not known',
    );
  });
});

test('recover: what a superseded process had delivered will never be committed', async () => {
  const bucket = newBucket();
  const killed = processOf(bucket, 'old', {
    clock: new ManualClock({ autoAdvance: true }),
    plan: ({ operation, key }) =>
      operation === 'list' && key.includes('/receipts/') ? FAULTS.loseRequest : undefined,
  });
  const error = await deliver(killed, 1).catch((caught: unknown) => caught);
  if (!isCheckpointError(error, 'OutcomeUnknown')) throw error;
  const token = error.context.token as string;
  await using asking = open(bucket);
  expect(await asking.recover(token)).toMatchObject({ outcome: 'pending', isDelivered: true });
  await save(bucket, 'new', 2);
  expect(await asking.recover(token)).toMatchObject({
    outcome: 'not-committed',
    detail: 'a newer process of writer 0 has registered',
  });
});

describe('a life that cannot be used is refused before anything is sent', () => {
  test.each(['', '  ', 'x'.repeat(257), 'a\nb', '\ud800', 'parent'])('%j', (life) => {
    expect(() => processOf(newBucket(), life)).toThrow(
      '1 to 256 characters, not only spaces, without control characters, and not "parent"',
    );
  });

  test('a life in an attempt that the process draws', () => {
    expect(() => open(newBucket(), { life: 'a' })).toThrow('life "a" needs an attempt id');
  });

  test('256 characters are accepted', async () => {
    expect(await save(newBucket(), 'é'.repeat(256), 1)).toMatchObject({ isCommitted: false });
  });
});
