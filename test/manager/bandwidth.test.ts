import { CheckpointError, type CheckpointManagerOptions, type Clock, createThrottle } from '@holdfast/core';
import { type MemoryBucket, MemoryStore, ObservedStore } from '@holdfast/core/store';
import { FAULTS, type FaultPlan, FaultyStore, ManualClock, scriptedFaults } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { failure, newBucket, open, SETTINGS } from './memory-run.ts';

const MIB = 1024 * 1024;
const PART = 64 * 1024;
const KIB = 1024;
/** 80 parts, and the time that they take at the limit. */
const SIZE = 80 * PART;
const LIMIT = 512 * KIB;
const DUE_MS = 10_000;

interface Sent {
  readonly key: string;
  readonly bytes: number;
  readonly atMs: number;
}

/** A manager on a store that records each payload with the time it was sent. */
function setUp(
  options: Partial<CheckpointManagerOptions> & { clock: Clock; bucket?: MemoryBucket; plan?: FaultPlan },
) {
  const { bucket = newBucket(), plan, clock, settings, ...rest } = options;
  const sent: Sent[] = [];
  const observed = new ObservedStore(new MemoryStore(bucket, { capabilities: { maxParts: 2 ** 24 } }), {
    clock,
    onCall({ operation, key, bytes: count }) {
      const isPayload = operation === 'putPart' || (operation === 'create' && !key.endsWith('.json'));
      if (isPayload && count > 0) sent.push({ key, bytes: count, atMs: clock.monotonicMs() });
    },
  });
  const store = plan ? new FaultyStore(observed, plan) : observed;
  const manager = open(bucket, { store, clock, settings: { ...SETTINGS, ...settings }, ...rest });
  return { bucket, manager, sent };
}

/** Bytes that vary with the position. Another seed gives other bytes. */
function bytes(sizeBytes: number, seed = 1): Uint8Array {
  return Buffer.alloc(
    sizeBytes,
    Uint8Array.from({ length: 9973 }, (_, index) => (index * 31 + seed * 17) ^ (index >> 8)),
  );
}

const running = () => new ManualClock({ autoAdvance: true });
const limited = { saveBytesPerSecondMax: LIMIT };
const sum = (sent: readonly Sent[]) => sent.reduce((total, each) => total + each.bytes, 0);

function expectWithin5Percent(foundMs: number, expectedMs: number) {
  expect(foundMs).toBeGreaterThan(expectedMs * 0.95);
  expect(foundMs).toBeLessThan(expectedMs * 1.05);
}

async function* chunks(data: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < data.byteLength; at += 100_000) yield data.subarray(at, at + 100_000);
}

describe('the limit', () => {
  test.each([
    ['a file in parts', { buffers: { a: bytes(SIZE) } }],
    ['small files', { buffers: Object.fromEntries(small(160, SIZE / 160)) }],
    ['a stream', { files: { a: chunks(bytes(SIZE)) } }],
  ])('holds within 5 per cent: %s', async (_, sources) => {
    const clock = running();
    const { manager, sent } = setUp({ clock, settings: limited });
    await manager.save({ version: 1, ...sources });
    expect(sum(sent)).toBe(SIZE);
    // The parts of a stream differ in size. The save does not wait for the last part, nor for
    // anything after it.
    const lastBytes = sent.at(-1)?.bytes ?? 0;
    expectWithin5Percent(sent.at(-1)?.atMs ?? 0, DUE_MS * (1 - lastBytes / SIZE));
    await manager.close();
  });

  test('none by default: a save waits for nothing', async () => {
    const clock = running();
    const { manager } = setUp({ clock });
    await manager.save({ version: 1, buffers: { a: bytes(SIZE) } });
    expect([clock.monotonicMs(), manager.throttle.bytesPerSecondMax]).toEqual([0, null]);
    await manager.close();
  });

  test('files take turns: none waits until another is through', async () => {
    const { manager, sent } = setUp({ clock: running(), settings: limited });
    const sources = { a: bytes(SIZE), b: bytes(SIZE, 2), c: bytes(SIZE, 3) };
    await manager.save({ version: 1, buffers: sources });
    const keys = [...new Set(sent.map(({ key }) => key))];
    expect(keys).toHaveLength(3);
    for (let count = 10; count < sent.length; count += 10) {
      const shares = keys.map((key) => sum(sent.slice(0, count).filter((each) => each.key === key)));
      expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(2 * PART);
    }
    await manager.close();
  });

  test('is shared by managers that were given one throttle', async () => {
    const clock = running();
    const throttle = createThrottle({ bytesPerSecondMax: LIMIT, clock });
    const runs = [setUp({ clock, throttle }), setUp({ clock, throttle })];
    await Promise.all(
      runs.map(({ manager }, index) => manager.save({ version: 1, buffers: { a: bytes(SIZE / 2, index) } })),
    );
    for (const { sent } of runs) expect(sum(sent)).toBe(SIZE / 2);
    const ends = runs.map(({ sent }) => sent.at(-1)?.atMs ?? 0);
    // And neither ends long before the other.
    for (const endMs of ends) expectWithin5Percent(endMs, DUE_MS);
    for (const { manager } of runs) {
      expect(manager.throttle).toBe(throttle);
      await manager.close();
    }
  });

  test('does not hold for restores and verification', async () => {
    const clock = running();
    const { bucket, manager } = setUp({ clock });
    await manager.save({ version: 1, buffers: { a: bytes(SIZE) } });
    await manager.close();
    const reader = setUp({ clock, bucket, settings: { saveBytesPerSecondMax: 1 } }).manager;
    const found = new Uint8Array(SIZE);
    await reader.restore({ to: { a: found } });
    await reader.admin.verify({ record: false });
    expect(Buffer.compare(found, bytes(SIZE))).toBe(0);
    expect(clock.monotonicMs()).toBe(0);
    await reader.close();
  });

  test('holds for what a mirror sends', async () => {
    const clock = running();
    const source = setUp({ clock });
    await source.manager.save({ version: 1, buffers: { a: bytes(SIZE) } });
    const { manager, sent } = setUp({ clock, settings: limited });
    await manager.admin.mirrorFrom(source.manager);
    expect(sum(sent)).toBe(SIZE);
    expectWithin5Percent(sent.at(-1)?.atMs ?? 0, DUE_MS);
    await manager.close();
    await source.manager.close();
  });

  test('files that are there already cost nothing of it', async () => {
    const clock = running();
    const { manager, sent } = setUp({ clock, settings: limited });
    const same = Object.fromEntries(small(40, PART));
    for (const version of [1, 2]) await manager.save({ version, buffers: same });
    const beganMs = clock.monotonicMs();
    const before = sent.length;
    await manager.save({ version: 3, buffers: { ...same, changed: bytes(PART, 99) } });
    expect(sum(sent.slice(before))).toBe(PART);
    // The delay that the second save still owes, and one part.
    expect(clock.monotonicMs() - beganMs).toBeLessThan(300);
    await manager.close();
  });

  test('content of a version that is committed already is compared without it', async () => {
    const clock = running();
    const { manager } = setUp({ clock, settings: limited });
    await manager.save({ version: 1, buffers: { a: bytes(SIZE) } });
    const beganMs = clock.monotonicMs();
    expect(await manager.save({ version: 1, buffers: { a: bytes(SIZE) } })).toMatchObject({
      wasCommittedBefore: true,
    });
    expect(clock.monotonicMs()).toBe(beganMs);
    await manager.close();
  });

  test('parts that a former process has left cost nothing of it', async () => {
    const clock = running();
    const settings = { ...limited, retryCountMax: 0 };
    const plan = scriptedFaults({ operation: 'putPart', skip: 60, times: 1000, fault: FAULTS.stopBefore });
    const bucket = newBucket();
    const dead = setUp({ clock, bucket, settings, plan, attempt: 'one' });
    // Its process is dead.
    dead.manager.save({ version: 1, buffers: { a: bytes(SIZE) } }).catch(() => undefined);
    while (dead.sent.length < 60) await clock.sleep(100);
    const { manager, sent } = setUp({ clock, bucket, settings, attempt: 'one' });
    const beganMs = clock.monotonicMs();
    let keptBytes = 0;
    await manager.save({
      version: 1,
      buffers: { a: bytes(SIZE) },
      onProgress: (event) => {
        if (event.type === 'resumed') keptBytes = event.keptBytes;
      },
    });
    expect(keptBytes).toBeGreaterThanOrEqual(59 * PART);
    expect(sum(sent)).toBe(SIZE - keptBytes);
    expect((sent.at(-1)?.atMs ?? 0) - beganMs).toBeLessThan(((SIZE - keptBytes) * 1050) / LIMIT);
    await manager.close();
  });

  test('repeats count as well', async () => {
    const clock = running();
    const plan = scriptedFaults({ operation: 'putPart', times: 20, fault: FAULTS.loseReply });
    const { manager, sent } = setUp({ clock, settings: { ...limited, retryCountMax: 100 }, plan });
    await manager.save({ version: 1, buffers: { a: bytes(SIZE) } });
    expect(sum(sent)).toBe(SIZE + 20 * PART);
    expect(sent.at(-1)?.atMs).toBeGreaterThan((0.95 * 1000 * (SIZE + 20 * PART)) / LIMIT);
    await manager.close();
  });

  test('a setting and a throttle that is given contradict each other: InvalidConfig names both', () => {
    const throttle = createThrottle();
    const both = () => open(newBucket(), { throttle, settings: { ...SETTINGS, ...limited } });
    expect(both).toThrow(/saveBytesPerSecondMax is 524288, and a throttle is given too/);
    expect(both).toThrow(expect.objectContaining({ code: 'InvalidConfig' }));
  });
});

describe('while a save is going', () => {
  /** A save at the limit after this time, on a manual clock. */
  async function midway(ms: number, options: { signal?: AbortSignal; data?: Uint8Array } = {}) {
    const clock = new ManualClock();
    const rig = setUp({ clock, settings: { ...limited, stallTimeoutMs: 1000, recordTimeoutMs: 5000 } });
    const { signal, data = bytes(SIZE) } = options;
    const retries: string[] = [];
    const saving = rig.manager.save({
      version: 1,
      buffers: { a: data },
      signal,
      onProgress: (event) => {
        if (event.type === 'retry') retries.push(event.detail);
      },
    });
    saving.catch(() => undefined); // a waiting caller gets the error
    while (rig.sent.length === 0) await clock.advance(0);
    await clock.advance(ms);
    return { ...rig, clock, saving, retries };
  }

  test('the limit can be raised and lifted: from then on the new one holds', async () => {
    const { clock, manager, saving, sent } = await midway(2000);
    expectWithin5Percent(sum(sent), 2 * LIMIT + PART);
    manager.throttle.setBytesPerSecondMax(2 * LIMIT);
    await clock.advance(2000);
    expectWithin5Percent(sum(sent), 6 * LIMIT + PART);
    manager.throttle.setBytesPerSecondMax(null);
    await moved(clock, saving);
    expect([sum(sent), sent.at(-1)?.atMs]).toEqual([SIZE, 4000]);
    await manager.close();
  });

  test('it can be paused for hours, is not taken for stalled, and goes on', async () => {
    const { clock, manager, retries, saving, sent } = await midway(2000);
    manager.throttle.pause();
    await clock.advance(100);
    const before = sum(sent);
    expect(before).toBeLessThan(2.5 * LIMIT);
    await clock.advance(5 * 3_600_000);
    expect(sum(sent)).toBe(before);
    manager.throttle.resume();
    const { isCommitted } = await moved(clock, saving);
    expect([isCommitted, sum(sent), retries]).toEqual([true, SIZE, []]);
    expectWithin5Percent((sent.at(-1)?.atMs ?? 0) - 5 * 3_600_000, DUE_MS);
    await manager.close();
  });

  test('parts that are out when it is paused finish, repeats of them too', async () => {
    const clock = running();
    const plan = scriptedFaults({ operation: 'putPart', skip: 3, fault: FAULTS.loseRequest });
    const { manager, sent } = setUp({ clock, plan });
    const paused = new Promise<void>((resolve) => {
      void manager
        .save({
          version: 1,
          buffers: { a: bytes(SIZE) },
          onProgress: ({ type }) => {
            if (type !== 'retry') return;
            manager.throttle.pause();
            resolve();
          },
        })
        .catch(() => undefined);
    });
    await paused;
    const before = sent.length;
    await clock.sleep(60_000);
    const after = sent.length;
    expect(after).toBeGreaterThan(before); // at least the retry
    await clock.sleep(3_600_000);
    expect(sent.length).toBe(after);
    await manager.close();
  });

  test.each(['limit', 'pause'])(
    'it can be stopped while it waits: Aborted, and nothing is left (%s)',
    async (how) => {
      const stop = new AbortController();
      const { bucket, clock, manager, saving, sent } = await midway(2000, { signal: stop.signal });
      if (how === 'pause') manager.throttle.pause();
      await clock.advance(100);
      const before = sent.length;
      stop.abort(new CheckpointError('Aborted', 'enough'));
      expect(await failure(moved(clock, saving))).toBe('Aborted: enough');
      expect(sent.length).toBe(before);
      expect([...bucket.openUploads()]).toEqual([]);
      manager.throttle.setBytesPerSecondMax(null);
      manager.throttle.resume();
      await moved(clock, manager.save({ version: 1, buffers: { a: bytes(100) } }));
      await manager.close();
    },
  );

  test('closing the manager ends it while it is paused', async () => {
    const { clock, manager, saving } = await midway(2000);
    manager.throttle.pause();
    await clock.advance(100);
    await moved(clock, manager.close());
    expect(await failure(saving)).toMatch(/^Aborted: the manager was closed/);
    expect(clock.sleeperCount).toBe(0);
  });

  test('I11: paused, it holds no memory: a restore of the same manager has all of it', async () => {
    const clock = new ManualClock();
    const { manager } = setUp({ clock });
    const large = bytes(24 * MIB); // more than bufferBytes
    await moved(clock, manager.save({ version: 1, buffers: { a: large } }));
    manager.throttle.pause();
    const stop = new AbortController();
    const files = { a: bytes(24 * MIB, 2), ...Object.fromEntries(small(100, PART)) };
    const saving = manager.save({ version: 2, buffers: files, signal: stop.signal, dedupe: 'off' });
    await clock.advance(60_000);
    const found = new Uint8Array(large.byteLength);
    await moved(clock, manager.restore({ version: 1, to: { a: found } }));
    expect(Buffer.compare(found, large)).toBe(0);
    stop.abort();
    expect(await failure(moved(clock, saving))).toMatch(/^Aborted/);
    await manager.close();
  });

  test('a save whose payload is sent commits although it is paused', async () => {
    const clock = new ManualClock();
    const { manager } = setUp({ clock });
    await moved(clock, manager.save({ version: 1, buffers: { a: bytes(10) } }));
    manager.throttle.pause();
    const empty = manager.save({ version: 2, buffers: { empty: new Uint8Array(0) } });
    expect(await moved(clock, empty)).toMatchObject({ isCommitted: true });
    await manager.close();
  });

  test('a throttle of one’s own may fail: the save ends with its error', async () => {
    const broken = {
      ...createThrottle(),
      charge: () => undefined,
      take: () => Promise.reject(new CheckpointError('Denied', 'no budget')),
    };
    const clock = running();
    const { manager } = setUp({ clock, throttle: broken });
    const files = { large: bytes(SIZE), little: bytes(10) };
    expect(await failure(manager.save({ version: 1, buffers: files }))).toMatch(/^Denied: no budget/);
    const streams = { large: chunks(bytes(SIZE)), little: chunks(bytes(10)) };
    expect(await failure(manager.save({ version: 1, files: streams }))).toMatch(/^Denied: no budget/);
    await manager.close();
  });
});

function small(count: number, sizeBytes: number): [string, Uint8Array][] {
  return Array.from({ length: count }, (_, index) => [`f${index}`, bytes(sizeBytes, index + 1)]);
}

/** Advances the clock until this promise has settled. */
async function moved<T>(clock: ManualClock, awaited: Promise<T>): Promise<T> {
  let isSettled = false;
  const settle = () => {
    isSettled = true;
  };
  awaited.then(settle, settle);
  for (let turns = 0; !isSettled && turns < 100_000; turns += 1)
    await clock.advance(turns % 10 === 9 ? 10 : 0);
  return awaited;
}
