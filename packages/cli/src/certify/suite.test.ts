import { crc32c } from '@holdfast/core';
import { CheckpointError, type ObjectStore, systemClock, systemRandom } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import {
  type ConformanceCheck,
  conformanceChecks,
  FAULTS,
  FaultyStore,
  ManualClock,
} from '@holdfast/testkit';
import { describe, expect, it } from 'vitest';
import { type CheckResult, Suite, type SuiteOptions } from './suite.ts';

const PREFIX = 'certify-0123456789abcdef/';
const RACE =
  'create: of 32 concurrent creates of one key exactly one succeeds, and the others are AlreadyExists';
const SIMPLE = conformanceChecks.filter(({ group }) => group === 'delete');

const named = (name: string): ConformanceCheck =>
  conformanceChecks.find((check) => check.name === name) as ConformanceCheck;

async function runSuite(
  checks: readonly ConformanceCheck[],
  wrap: (store: ObjectStore) => ObjectStore = (store) => store,
  options: Partial<SuiteOptions> = {},
) {
  const bucket = new MemoryBucket({ crc32c });
  await new MemoryStore(bucket).create('mine', Uint8Array.of(1));
  const told: CheckResult[] = [];
  const started: string[] = [];
  const suite = new Suite({
    checks,
    open: async () => wrap(new MemoryStore(bucket)),
    prefix: PREFIX,
    seed: 1,
    clock: systemClock,
    timeoutMs: 30_000,
    signal: new AbortController().signal,
    onStart: ({ name }) => started.push(name),
    onResult: (result) => told.push(result),
    ...options,
  });
  const results = await suite.run();
  expect(told).toEqual(results);
  const removal = await suite.remove(systemRandom, new AbortController().signal);
  await suite.close();
  return { bucket, results, started, removal };
}

describe('the suite', () => {
  it('passes on a sound store, one result for each promise in order, and nothing is left', async () => {
    const { results, bucket, removal } = await runSuite(conformanceChecks);
    expect(results.map(({ name }) => name)).toEqual(conformanceChecks.map(({ name }) => name));
    for (const result of results)
      expect(result).toMatchObject({ status: 'passed', attempts: 1, seen: '', code: null });
    expect(removal).toEqual({ leftCount: 0, error: null });
    expect(bucket.keys()).toEqual(['mine']);
    expect(bucket.openUploads()).toEqual([]);
  });

  it('a promise that is broken is Unsupported, asked once, and told with what was expected and found', async () => {
    const wrap = (store: ObjectStore) => {
      const create = store.create.bind(store);
      return Object.assign(store, {
        create: (...args: Parameters<typeof create>) => create(...args).catch(() => store.head(args[0])),
      });
    };
    const { results, bucket } = await runSuite([named(RACE)], wrap);
    expect(results).toEqual([
      {
        group: 'races',
        name: RACE,
        status: 'failed',
        durationMs: expect.any(Number),
        attempts: 1,
        seen: 'in round 1, 32 of 32 creates of one key succeeded',
        code: 'Unsupported',
      },
    ]);
    expect(bucket.keys()).toEqual(['mine']);
  });

  it('a check that meets a temporary error is run again, and may pass', async () => {
    const clock = new ManualClock({ autoAdvance: true });
    let failuresLeft = 4; // Two per attempt: of the check, and of its clean-up.
    const wrap = (store: ObjectStore) =>
      new FaultyStore(store, ({ operation }) => {
        if (operation !== 'deleteMany' || failuresLeft === 0) return undefined;
        failuresLeft -= 1;
        return FAULTS.loseReply;
      });
    const { results } = await runSuite(SIMPLE, wrap, { clock });
    expect(results.map(({ status }) => status)).toEqual(SIMPLE.map(() => 'passed'));
    expect(results.map(({ attempts }) => attempts)).toEqual([3, ...SIMPLE.slice(1).map(() => 1)]);
  });

  it('a missing permission is Denied and not a broken promise', async () => {
    const error = new CheckpointError('Denied', 'not permitted');
    const wrap = (store: ObjectStore) => Object.assign(store, { beginUpload: () => Promise.reject(error) });
    const checks = conformanceChecks.filter(({ group }) => group === 'upload').slice(0, 2);
    const { results } = await runSuite(checks, wrap);
    for (const result of results)
      expect(result).toMatchObject({ status: 'failed', attempts: 1, code: 'Denied' });
  });

  it('a store that is gone is left alone after three checks', async () => {
    const clock = new ManualClock({ autoAdvance: true });
    const wrap = (store: ObjectStore) =>
      Object.assign(store, {
        create: () => Promise.reject(new CheckpointError('Unavailable', 'nobody answers')),
      });
    const { results, started } = await runSuite(SIMPLE, wrap, { clock });
    expect(results.map(({ status, attempts }) => `${status} ${attempts}`)).toEqual([
      'failed 3',
      'failed 3',
      'failed 3',
      'not-run 0',
      'not-run 0',
    ]);
    expect(results[0]).toMatchObject({
      code: 'Unavailable',
      seen: expect.stringContaining('nobody answers'),
    });
    expect(started).toHaveLength(3);
  });
});

describe('a check that is stopped', () => {
  /** Begins an upload and never ends it. */
  const hanging: ConformanceCheck = {
    group: 'hanging',
    name: 'hangs',
    run: async ({ store, prefix, onUpload }) => {
      await store.create(`${prefix}hanging/${systemRandom.hex(16)}`, Uint8Array.of(1));
      const upload = store.beginUpload(`${prefix}hanging/upload`, { partSizeBytes: 8 * 1024 * 1024 });
      onUpload?.(upload);
      await upload;
      await new Promise(() => undefined);
    },
  };

  it('by its time: TimedOut after three attempts; the next check has an open store; nothing is left', async () => {
    const clock = new ManualClock({ autoAdvance: true });
    const next = SIMPLE[0] as ConformanceCheck;
    const { results, removal, bucket } = await runSuite([hanging, next], undefined, { clock });
    expect(results.map(({ status, code }) => [status, code])).toEqual([
      ['failed', 'TimedOut'],
      ['passed', null],
    ]);
    expect(results[0]?.seen).toBe('not done within 30.0 s');
    expect(removal).toEqual({ leftCount: 0, error: null });
    expect(bucket.keys()).toEqual(['mine']);
    expect(bucket.openUploads()).toEqual([]);
  });

  it('by an interrupt: what is known is told, its clients are closed, and nothing is left', async () => {
    const controller = new AbortController();
    const clock = new ManualClock({ autoAdvance: true });
    let storeOfCheck: ObjectStore | undefined;
    const interrupted: ConformanceCheck = {
      ...hanging,
      run: (context) => {
        storeOfCheck = context.store;
        controller.abort(new CheckpointError('Aborted', 'interrupted'));
        return hanging.run(context);
      },
    };
    const [first, last] = SIMPLE as [ConformanceCheck, ConformanceCheck];
    const { results, bucket } = await runSuite([first, interrupted, last], undefined, {
      clock,
      signal: controller.signal,
    });
    expect(results.map(({ name }) => name)).toEqual([first.name]);
    await expect(storeOfCheck?.head('mine')).rejects.toMatchObject({ code: 'InvalidArgument' });
    expect(bucket.keys()).toEqual(['mine']);
    expect(bucket.openUploads()).toEqual([]);
  });
});

describe('an upload that is being begun', () => {
  /** A store that answers `beginUpload` only after `delayMs`. */
  const late = (clock: ManualClock, delayMs: number) => (store: ObjectStore) => {
    const begin = store.beginUpload.bind(store);
    return Object.assign(store, {
      beginUpload: async (...args: Parameters<typeof begin>) => {
        const upload = await begin(...args);
        await clock.sleep(delayMs);
        return upload;
      },
    });
  };
  const beginning = (controller: AbortController): ConformanceCheck => ({
    group: 'beginning',
    name: 'begins an upload',
    run: async ({ store, prefix, onUpload }) => {
      const upload = store.beginUpload(`${prefix}u`, { partSizeBytes: 8 * 1024 * 1024 });
      onUpload?.(upload);
      controller.abort(new CheckpointError('Aborted', 'interrupted'));
      await upload;
      await store.head(`${prefix}u`);
    },
  });

  it('when all is stopped is waited for, and ended', async () => {
    const controller = new AbortController();
    const clock = new ManualClock({ autoAdvance: true });
    const options = { clock, signal: controller.signal };
    const { bucket } = await runSuite([beginning(controller)], late(clock, 1000), options);
    expect(bucket.openUploads()).toEqual([]);
  });
});

describe('removal', () => {
  it('that may not list says so, and claims nothing', async () => {
    const wrap = (store: ObjectStore) =>
      Object.assign(store, {
        // biome-ignore lint/correctness/useYield: it fails before its first page
        list: async function* () {
          throw new CheckpointError('Denied', 'not permitted');
        },
      });
    const { removal } = await runSuite([], wrap);
    expect(removal).toMatchObject({ leftCount: 0, error: { code: 'Denied' } });
  });
});
