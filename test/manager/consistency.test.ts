/**
 * What a save records about the moment of its bytes: copied while training was paused, or while it
 * continued.
 */

import type { ConsistencyOptions, SaveOptions } from '@holdfast/core';
import type { RunManager } from '@holdfast/core/contract';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';
import { isPayload, MODEL, refusing, START_MS, setUp, Training } from './paused-training.ts';
import { memoryStaging } from './staging-in-memory.ts';

async function writersOf(manager: RunManager, version = 1) {
  return (await (await manager.get(version))?.details())?.writers;
}

/** A source that reports each read, and can be made to wait. */
function heard(content: Uint8Array, onRead: () => unknown): AsyncIterable<Uint8Array> {
  return {
    async *[Symbol.asyncIterator]() {
      await onRead();
      yield content;
    },
  };
}

describe('paused', () => {
  test('training stands still before the first byte is read, and goes on after the last one was, once', async () => {
    const training = new Training();
    const { manager } = setUp();
    const files = { a: heard(bytes(9), () => training.calls.push('read')) };
    const onProgress: SaveOptions['onProgress'] = ({ type }) => void training.calls.push(type);
    const stateVersion = () => {
      training.calls.push('version');
      return 1;
    };
    await manager.save({ version: 1, files, ...training.options, stateVersion, onProgress });
    expect(training.calls.filter((call) => call !== 'bytes')).toEqual([
      'joined',
      'planned',
      'pause',
      'version',
      'read',
      'resume',
      'committed',
    ]);
    expect(await writersOf(manager)).toEqual([
      { writer: 0, consistency: 'paused', stateVersion: 1n, takenAtMs: START_MS },
    ]);
  });

  test('with staging it goes on as soon as all is copied, before the store is asked anything', async () => {
    const { manager, store } = setUp();
    const callCounts: number[] = [];
    const training = new Training({ resuming: () => callCounts.push(store.calls.length) });
    const staging = memoryStaging(() => training.calls.push('copied'));
    await manager.save({ buffers: MODEL, staging, ...training.options });
    expect(training.calls).toEqual(['pause', 'copied', 'resume']);
    expect(callCounts).toEqual([0]);
    expect(await writersOf(manager, 0)).toMatchObject([{ consistency: 'paused', stateVersion: 0n }]);
  });

  test('the catalog is read before training stands still', async () => {
    const calls: string[] = [];
    const { manager, store } = setUp();
    const training = new Training({
      pausing: () => void calls.push(...store.calls.map(({ key }) => key)),
    });
    await manager.save({ version: 1, buffers: MODEL, ...training.options });
    expect(calls.some((key) => key.startsWith('catalog/'))).toBe(true);
    expect(calls.some(isPayload)).toBe(false);
  });

  test('a version that is committed already is compared while training stands still', async () => {
    const training = new Training();
    const { manager } = setUp();
    await manager.save({ version: 1, buffers: MODEL });
    const again = await manager.save({ version: 1, buffers: MODEL, ...training.options });
    expect(again.wasCommittedBefore).toBe(true);
    expect(training.calls).toEqual(['pause', 'resume']);
    // A committed checkpoint does not change.
    expect(await writersOf(manager)).toEqual([
      { writer: 0, consistency: null, stateVersion: null, takenAtMs: null },
    ]);
  });

  test('a state of another version is InvalidArgument, nothing is delivered, and training goes on', async () => {
    const training = new Training();
    const { manager, bucket } = setUp();
    const says =
      'InvalidArgument: the state to be saved as version 7 is of version 8; with consistency "paused" both must be the same';
    const save = (options: Partial<SaveOptions>) =>
      failure(manager.save({ version: 7, buffers: MODEL, ...training.options, ...options }));
    expect(await save({ stateVersion: () => 8 })).toBe(says);
    expect(training.calls).toEqual(['pause', 'resume']);
    const staging = memoryStaging();
    expect(await save({ stateVersion: () => 8n, staging })).toBe(says);
    expect(training.calls).toEqual(['pause', 'resume', 'pause', 'resume']);
    expect(staging).toMatchObject({ heldCount: 0, releaseCount: 0 });
    // The value is checked before anything else.
    expect(await save({ stateVersion: 8 })).toBe(says);
    expect(training.calls).toHaveLength(4);
    expect(bucket.keys().filter((key) => key.startsWith('version_'))).toEqual([]);
  });

  test('so is one of another version than that which is chosen later, with copies too', async () => {
    const { manager, bucket } = setUp();
    for (const staging of [undefined, memoryStaging()]) {
      const training = new Training();
      const saving = manager.save({ buffers: MODEL, staging, ...training.options, stateVersion: 8 });
      expect(await failure(saving)).toMatch(/saved as version \d is of version 8/);
      expect(training.calls).toEqual(['pause', 'resume']);
      expect(staging?.heldCount ?? 0).toBe(0);
    }
    expect(bucket.keys().filter((key) => key.startsWith('version_'))).toEqual([]);
  });
});

describe('training goes on exactly once', () => {
  test.each([
    ['the upload fails', { plan: refusing(isPayload), code: 'Denied' }],
    ['the copy fails', { staging: new Error('the copy failed'), code: 'the copy failed' }],
    ['the state has no version', { stateVersion: new Error('it is not known'), code: 'Unexpected' }],
    ['the version is none', { stateVersion: -1, code: 'InvalidArgument: stateVersion: version -1' }],
  ] as const)('when %s', async (_, { code, ...how }) => {
    const training = new Training();
    const { manager, bucket } = setUp('plan' in how ? { plan: how.plan } : {});
    const options: Partial<SaveOptions> = {};
    if ('staging' in how) options.staging = memoryStaging(() => Promise.reject(how.staging));
    if ('stateVersion' in how) {
      const says = how.stateVersion;
      options.stateVersion = () => {
        if (says instanceof Error) throw says;
        return says;
      };
    }
    const saving = manager.save({ version: 1, buffers: MODEL, ...training.options, ...options });
    await expect(saving).rejects.toThrow();
    expect(String(await saving.catch((error) => `${error.code}: ${error.message}`))).toContain(code);
    expect(training.calls).toEqual(['pause', 'resume']);
    expect(bucket.keys().filter((key) => key.includes('/receipts/'))).toEqual([]);
  });

  test('when the delivery fails afterwards', async () => {
    const training = new Training();
    const { manager } = setUp({ plan: refusing((key) => key.includes('/receipts/')) });
    const saving = manager.save({ version: 1, buffers: MODEL, ...training.options });
    expect(await failure(saving)).toContain('Denied');
    expect(training.calls).toEqual(['pause', 'resume']);
  });

  test('not at all when it did not stop: its error is that of the save', async () => {
    const { manager, bucket } = setUp();
    const cause = new Error('rank 3 is busy');
    const pause = () => Promise.reject(cause);
    const saving = manager.save({ version: 1, buffers: MODEL, consistency: 'paused', pause });
    expect(await failure(saving)).toBe('Unexpected: pause() failed: rank 3 is busy');
    expect(await saving.catch((error: Error) => error.cause)).toBe(cause);
    expect(bucket.keys().filter((key) => key.startsWith('version_'))).toEqual([]);
  });

  test('an error of ours stays as it is, and one that is thrown at once is like any other', async () => {
    const { manager } = setUp();
    const { manager: other } = setUp({ plan: refusing(() => true) });
    const ours = await other.save({ buffers: MODEL }).catch((error: unknown) => error);
    const save = (pause: ConsistencyOptions['pause']) =>
      manager.save({ version: 1, buffers: MODEL, consistency: 'paused', pause });
    expect(await save(() => Promise.reject(ours)).catch((error: unknown) => error)).toBe(ours);
    const thrown = () => {
      throw new TypeError('no barrier');
    };
    expect(await failure(save(thrown))).toBe('Unexpected: pause() failed: no barrier');
  });

  test('what resolves to nothing that lets training go on is refused', async () => {
    const { manager } = setUp();
    const pause = (async () => undefined) as unknown as ConsistencyOptions['pause'];
    const saving = manager.save({ version: 1, buffers: MODEL, consistency: 'paused', pause });
    expect(await failure(saving)).toBe(
      'InvalidArgument: pause() resolved to undefined; it must resolve to a function that resumes training',
    );
  });

  test.each([[undefined], [memoryStaging()]])(
    'if that fails, so does the save, and nothing is delivered (%#)',
    async (staging) => {
      const training = new Training({ resuming: () => Promise.reject(new Error('the barrier broke')) });
      const { manager, bucket } = setUp();
      const saving = manager.save({ version: 1, buffers: MODEL, staging, ...training.options });
      expect(await failure(saving)).toBe(
        'Unexpected: resuming training after pause() failed: the barrier broke',
      );
      expect(training.calls).toEqual(['pause', 'resume']);
      expect(bucket.keys().filter((key) => key.includes('/receipts/'))).toEqual([]);
      expect(staging?.heldCount ?? 0).toBe(0);
    },
  );

  test('if that fails after another failure, it is logged, and the first error is that of the save', async () => {
    const training = new Training({ resuming: () => Promise.reject(new Error('the barrier broke')) });
    const { manager, logged } = setUp({ plan: refusing(isPayload) });
    const saving = manager.save({ version: 1, buffers: MODEL, ...training.options });
    expect(await failure(saving)).toContain('Denied');
    expect(logged).toContain('resuming training after pause() failed: the barrier broke');
  });
});

describe('polluted', () => {
  test('each writer has its own version and time, and they are in the manifest, in a mirror and in a fork', async () => {
    const bucket = newBucket();
    const writers = [0, 1, 2].map((index) => setUp({ bucket, attempt: 'job', writer: { index, count: 3 } }));
    for (const [index, { manager, clock }] of writers.entries()) {
      await clock.advance(index * 700);
      const stateVersion = index === 1 ? () => 2n ** 63n - 1n : 1200 - index;
      const buffers = { [`model-${index}`]: bytes(9, index) };
      await manager.save({ version: 1200, buffers, consistency: 'polluted', stateVersion, noWait: true });
    }
    const wanted = [
      { writer: 0, consistency: 'polluted', stateVersion: 1200n, takenAtMs: START_MS },
      { writer: 1, consistency: 'polluted', stateVersion: 2n ** 63n - 1n, takenAtMs: START_MS + 700 },
      { writer: 2, consistency: 'polluted', stateVersion: 1198n, takenAtMs: START_MS + 1400 },
    ];
    await using reader = open(bucket);
    expect(await writersOf(reader, 1200)).toEqual(wanted);
    await using mirror = open(newBucket());
    await mirror.admin.mirrorFrom(reader);
    expect(await writersOf(mirror, 1200)).toEqual(wanted);
    await using fork = open(newBucket());
    await fork.admin.forkFrom(reader);
    expect(await writersOf(fork, 1200)).toEqual(wanted);
  });

  test('without a version of its own the state is of the checkpoint, also where that is chosen later', async () => {
    const { manager } = setUp();
    await manager.save({ version: 6, buffers: MODEL, consistency: 'polluted' });
    await manager.save({ buffers: MODEL, consistency: 'polluted', staging: memoryStaging() });
    expect(await writersOf(manager, 6)).toMatchObject([{ stateVersion: 6n }]);
    expect(await writersOf(manager, 7)).toMatchObject([{ stateVersion: 7n }]);
  });

  test('the time is that of the copy, not of the upload', async () => {
    const { manager, clock } = setUp();
    const staging = memoryStaging(() => clock.advance(90_000));
    await manager.save({ version: 1, buffers: MODEL, consistency: 'polluted', staging });
    expect(await writersOf(manager)).toMatchObject([{ takenAtMs: START_MS }]);
  });

  test('a writer that delivers the same again is known by what it said at first', async () => {
    const bucket = newBucket();
    const { manager } = setUp({ bucket, attempt: 'job', writer: { index: 0, count: 2 } });
    const save = (stateVersion: number) =>
      manager.save({ version: 1, buffers: MODEL, consistency: 'polluted', stateVersion, noWait: true });
    await save(5);
    await save(6);
    await using last = open(bucket, { attempt: 'job', writer: { index: 1, count: 2 } });
    await last.save({ version: 1, buffers: { b: bytes(1) } });
    expect(await writersOf(last)).toMatchObject([
      { writer: 0, stateVersion: 5n },
      { writer: 1, consistency: null, stateVersion: null, takenAtMs: null },
    ]);
  });
});

describe('options that contradict each other are InvalidArgument, and no request is sent', () => {
  const pause = async () => () => undefined;
  test.each<[string, ConsistencyOptions, string]>([
    ['an unknown consistency', { consistency: 'exact' as 'paused' }, 'it takes paused, polluted'],
    ['paused without pause', { consistency: 'paused' }, 'needs a function `pause`, which is undefined'],
    ['pause without paused', { pause }, '`pause` and `pauseTimeoutMs` are for consistency "paused"'],
    ['pause with polluted', { consistency: 'polluted', pause }, 'are for consistency "paused"'],
    ['a limit without paused', { pauseTimeoutMs: 5 }, 'are for consistency "paused"'],
    ['a limit with polluted', { consistency: 'polluted', pauseTimeoutMs: 5 }, 'are for consistency "paused"'],
    ['a version without consistency', { stateVersion: 1 }, 'a save that says its `consistency`'],
    ['a limit of 0', { consistency: 'paused', pause, pauseTimeoutMs: 0 }, 'pauseTimeoutMs is 0'],
    [
      'a limit of half',
      { consistency: 'paused', pause, pauseTimeoutMs: 0.5 },
      'it takes a whole number from 1',
    ],
    ['a limit beyond a week', { consistency: 'paused', pause, pauseTimeoutMs: 604_800_001 }, 'to 604800000'],
    ['a negative version', { consistency: 'polluted', stateVersion: -1 }, 'stateVersion: version -1'],
    ['another version', { consistency: 'paused', pause, stateVersion: 2 }, 'as version 1 is of version 2'],
  ])('%s', async (_, options, message) => {
    const { manager, store } = setUp();
    const saving = manager.save({ version: 1, buffers: MODEL, ...options });
    expect(await failure(saving)).toMatch(/^InvalidArgument: /);
    expect(await failure(saving)).toContain(message);
    expect(store.calls).toEqual([]);
  });

  test('several writers without a version are not asked to pause', async () => {
    const training = new Training();
    const { manager, store } = setUp({ attempt: 'job', writer: { index: 0, count: 2 } });
    expect(await failure(manager.save({ buffers: MODEL, ...training.options }))).toContain(
      'each save must name its version',
    );
    expect(training.calls).toEqual([]);
    expect(store.calls).toEqual([]);
  });
});
