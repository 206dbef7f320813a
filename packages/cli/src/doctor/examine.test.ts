import { crc32c } from '@holdfast/core';
import {
  CheckpointError,
  type Clock,
  type ObjectStore,
  type StoreCapabilities,
  systemClock,
  systemRandom,
} from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore, type StoreOperation } from '@holdfast/core/store';
import { FAULTS, type FaultPlan, FaultyStore, ManualClock, refuse } from '@holdfast/testkit';
import { describe, expect, it } from 'vitest';
import type { Check } from './check.ts';
import { CHECKS } from './checks.ts';
import { examine } from './examine.ts';
import type { Finding } from './finding.ts';
import { errorOf, verdictOf } from './verdict.ts';

const QUICK = CHECKS.filter(({ isLong }) => !isLong);
const PREFIX = 'doctor-0123456789abcdef/';

type Changes = { -readonly [name in keyof ObjectStore]?: ObjectStore[name] };
interface Parts {
  readonly bucket: MemoryBucket;
  readonly sound: MemoryStore;
  /** Number of clients opened before this one. */
  readonly clientCount: number;
}

interface ExamineTestOptions {
  readonly checks?: readonly Check[];
  readonly clock?: Clock;
  readonly bucket?: MemoryBucket;
  readonly capabilities?: Partial<StoreCapabilities>;
  readonly signal?: AbortSignal;
  readonly wrap?: (store: ObjectStore) => ObjectStore;
  readonly onFinding?: (finding: Finding) => void;
}

/** Examines a memory store with some of its members replaced. */
async function examineStore(
  change: (parts: Parts) => Changes = () => ({}),
  options: ExamineTestOptions = {},
) {
  const { bucket = new MemoryBucket({ crc32c }), wrap = (store) => store, capabilities } = options;
  let clientCount = 0;
  const open = async () => {
    const sound = new MemoryStore(bucket, { capabilities });
    const store = new MemoryStore(bucket, { capabilities });
    Object.assign(store, change({ bucket, sound, clientCount: clientCount++ }));
    return wrap(store);
  };
  const { findings, repeatCount } = await examine({
    checks: options.checks ?? QUICK,
    open,
    clock: options.clock ?? systemClock,
    random: systemRandom,
    prefix: PREFIX,
    timeoutMs: 30_000,
    signal: options.signal ?? new AbortController().signal,
    ...(options.onFinding && { onFinding: options.onFinding }),
  });
  const of = (id: string) => findings.find((finding) => finding.id === id) as Finding;
  return {
    bucket,
    findings,
    of,
    repeatCount,
    verdict: verdictOf(findings),
    error: errorOf(findings, 's3://b'),
  };
}

const failing = (findings: readonly Finding[]) =>
  findings.filter(({ status }) => status === 'failed' || status === 'degraded').map(({ id }) => id);

/** A plan that rejects the operations with a code, every time. */
function refusing(code: CheckpointError['code'], ...operations: StoreOperation[]): FaultPlan {
  return ({ operation }) => (operations.includes(operation) ? refuse(code) : undefined);
}

const faulty = (plan: FaultPlan) => (store: ObjectStore) => new FaultyStore(store, plan);

describe('a sound store', () => {
  it('passes every check and is as empty as before', async () => {
    const bucket = new MemoryBucket({ crc32c });
    await new MemoryStore(bucket).create('run.json', new Uint8Array(3));
    const { findings, verdict, error, repeatCount } = await examineStore(undefined, {
      bucket,
      checks: CHECKS,
    });
    expect(findings.map(({ id, status }) => `${id} ${status}`)).toEqual(
      [...CHECKS.map(({ id }) => id), 'clean-up'].map((id) => `${id} ok`),
    );
    expect({ verdict, error, repeatCount }).toEqual({ verdict: 'safe', error: null, repeatCount: 0 });
    expect(bucket.keys()).toEqual(['run.json']);
    expect(bucket.openUploads()).toEqual([]);
  });

  it('everything happens below the prefix', async () => {
    const keys: string[] = [];
    const wrap = (store: ObjectStore) => {
      const faultyStore = new FaultyStore(store, ({ key, operation }) => {
        if (!['list', 'deleteMany', 'resumeUpload'].includes(operation)) keys.push(key);
        return undefined;
      });
      return faultyStore;
    };
    await examineStore(undefined, { wrap });
    expect(keys.length).toBeGreaterThan(100);
    expect(keys.filter((key) => !key.startsWith(PREFIX))).toEqual([]);
  });

  it('no timer is left behind that would keep the process', async () => {
    const clock = new ManualClock();
    await examineStore(undefined, { clock, bucket: new MemoryBucket({ crc32c, clock }) });
    expect(clock.sleeperCount).toBe(0);
  });

  it('measures: figures of clock, round trip and throughput', async () => {
    const { of } = await examineStore(undefined, { checks: CHECKS });
    expect(of('clock').figures).toEqual({ skewMs: expect.any(Number), errorMs: expect.any(Number) });
    expect(of('round-trip').figures).toEqual({ getMs: expect.any(Number), createMs: expect.any(Number) });
    const { uploadBytesPerSecond, downloadBytesPerSecond, ...rest } = of('throughput').figures;
    expect(rest).toEqual({ inFlight: 8, partSizeBytes: 8 * 1024 * 1024 });
    expect(uploadBytesPerSecond).toBeGreaterThan(0);
    expect(downloadBytesPerSecond).toBeGreaterThan(0);
  });

  it('small limits are respected', async () => {
    const capabilities = {
      maxCreateBytes: 20_000,
      minPartBytes: 8,
      maxPartBytes: 4096,
      maxParts: 3,
      maxListKeys: 2,
    };
    const { findings } = await examineStore(undefined, { capabilities, checks: CHECKS });
    expect(failing(findings)).toEqual([]);
  });

  it('a store that keeps no checksums is not blamed for it', async () => {
    const { of } = await examineStore(undefined, { bucket: new MemoryBucket() });
    expect(of('checksums')).toMatchObject({ status: 'ok', seen: expect.stringContaining('not stored here') });
  });

  it('temporary errors are repeated, counted, and change nothing', async () => {
    const counts = new Map<string, number>();
    const wrap = faulty(({ operation, key, partIndex }) => {
      const call = `${operation} ${key} ${partIndex}`;
      counts.set(call, (counts.get(call) ?? 0) + 1);
      const isRepeated = ['create', 'get', 'putPart', 'list', 'deleteMany'].includes(operation);
      return isRepeated && (counts.get(call) as number) <= 2 ? FAULTS.loseReply : undefined;
    });
    const clock = new ManualClock({ autoAdvance: true });
    const bucket = new MemoryBucket({ crc32c, clock });
    const { findings, repeatCount } = await examineStore(undefined, { wrap, clock, bucket });
    expect(failing(findings)).toEqual([]);
    expect(repeatCount).toBeGreaterThan(50);
    expect(bucket.keys()).toEqual([]);
  });
});

describe('permissions', () => {
  it.each<[string, StoreOperation[], string[]]>([
    ['list', ['list'], ['may-list']],
    ['put', ['create', 'beginUpload'], ['may-create']],
    ['get', ['get', 'head', 'readInto'], ['may-read']],
    ['delete', ['deleteMany'], ['may-delete', 'clean-up']],
  ])('without permission to %s: Denied, exit 8, and the finding names it', async (_, operations, found) => {
    const { findings, of, verdict, error } = await examineStore(undefined, {
      wrap: faulty(refusing('Denied', ...operations)),
    });
    expect(failing(findings)).toEqual(found);
    expect(of(found[0] as string)).toMatchObject({ status: 'failed', code: 'Denied' });
    expect(verdict).toBe('unknown');
    expect(error).toMatchObject({ code: 'Denied', exitCode: 8 });
  });

  it('with none at all the store is reached, and each is named', async () => {
    const all = refusing('Denied', 'list', 'create', 'get', 'deleteMany', 'beginUpload');
    const { findings, error } = await examineStore(undefined, { wrap: faulty(all) });
    expect(findings.filter(({ status }) => status === 'ok').map(({ id }) => id)).toEqual([
      'reachable',
      'settings', // There are none.
      'clean-up', // Nothing was created.
    ]);
    expect(failing(findings)).toEqual(['may-list', 'may-create', 'may-delete']);
    expect(error?.message).toContain('"may list", "may create", "may delete" failed');
  });

  it('without permission to list, what was created is removed by its keys', async () => {
    const { bucket } = await examineStore(undefined, { wrap: faulty(refusing('Denied', 'list')) });
    expect(bucket.keys()).toEqual([]);
  });

  it('a store that says that it cannot create if absent is not safe', async () => {
    const { of, verdict, error } = await examineStore(undefined, {
      wrap: faulty(refusing('Unsupported', 'create')),
    });
    expect(of('may-create')).toMatchObject({ status: 'failed', code: 'Unsupported' });
    expect(verdict).toBe('unsafe');
    expect(error).toMatchObject({
      exitCode: 2,
      message: 's3://b is not safe for checkpoints: objects with new names cannot be created',
    });
  });

  it('a broken promise counts more than a missing permission', async () => {
    const { error } = await examineStore(
      ({ sound }) => ({ create: (key, bytes) => sound.create(key, bytes).catch(() => sound.head(key)) }),
      { wrap: faulty(refusing('Denied', 'list')) },
    );
    expect(error?.code).toBe('Unsupported');
  });
});

describe('settings', () => {
  const facts = [
    { id: 'versioning', title: 'versioning', seen: 'off' },
    {
      id: 'lifecycle',
      title: 'lifecycle rules',
      seen: 'objects are deleted after 7 days',
      concern: { meaning: 'checkpoints vanish', advice: 'take the rule away' },
    },
  ];
  const settings = CHECKS.filter(({ id }) => ['reachable', 'settings'].includes(id));

  it('facts are findings of their own; what is of concern is degraded, and the store is safe', async () => {
    const change = () => ({ inspect: async () => facts });
    const { findings, of, verdict, error } = await examineStore(change, { checks: settings });
    expect(findings.map(({ id, status }) => `${id} ${status}`)).toEqual([
      'reachable ok',
      'versioning ok',
      'lifecycle degraded',
      'clean-up ok',
    ]);
    expect(of('lifecycle')).toMatchObject({
      title: 'lifecycle rules',
      seen: 'objects are deleted after 7 days',
      meaning: 'checkpoints vanish',
      advice: 'take the rule away',
      code: null,
    });
    expect({ verdict, error }).toEqual({ verdict: 'safe', error: null });
  });

  it.each([
    ['cannot', undefined],
    ['has nothing to', async () => []],
  ])('a store that %s tell any says so', async (_, inspect) => {
    const { of } = await examineStore(() => (inspect === undefined ? {} : { inspect }), { checks: settings });
    expect(of('settings')).toMatchObject({ status: 'ok', seen: expect.stringContaining('no settings') });
  });

  it('a look that fails is repeated while it may pass, and then degraded: it never makes a store unsafe', async () => {
    let callCount = 0;
    const inspect = async () => {
      callCount += 1;
      throw new CheckpointError('Unavailable', 'HTTP 503');
    };
    const clock = new ManualClock({ autoAdvance: true });
    const { of, verdict } = await examineStore(() => ({ inspect }), { checks: settings, clock });
    expect(callCount).toBe(5);
    expect(of('settings')).toMatchObject({ status: 'degraded', code: 'Unavailable', seen: 'HTTP 503' });
    expect(verdict).toBe('safe');
  });
});

describe('a store that cannot be reached', () => {
  it('Unavailable, exit 75; nothing else is tried', async () => {
    const stores: FaultyStore[] = [];
    const wrap = (store: ObjectStore) => {
      const silent = new FaultyStore(store, () => refuse('Unavailable'));
      stores.push(silent);
      return silent;
    };
    const clock = new ManualClock({ autoAdvance: true });
    const { findings, error, of } = await examineStore(undefined, { wrap, clock });
    expect(error).toMatchObject({ code: 'Unavailable', exitCode: 75 });
    expect(of('reachable').status).toBe('failed');
    expect(findings.filter(({ because }) => because === 'reachable')).toHaveLength(QUICK.length - 1);
    expect(stores.flatMap(({ calls }) => calls.map(({ operation }) => operation))).toEqual(
      Array(8).fill('list'),
    );
  });

  it('one that begins to answer within seconds is examined', async () => {
    let refusedCount = 0;
    const wrap = faulty(() => (refusedCount++ < 7 ? refuse('Unavailable') : undefined));
    const clock = new ManualClock({ autoAdvance: true });
    const { of, verdict } = await examineStore(undefined, { wrap, clock });
    expect(of('reachable').status).toBe('ok');
    expect(verdict).toBe('safe');
  });

  it('one that never answers is given up after the timeout', async () => {
    const clock = new ManualClock({ autoAdvance: true });
    const { of, error } = await examineStore(undefined, { wrap: faulty(() => FAULTS.stall), clock });
    expect(of('reachable')).toMatchObject({
      code: 'TimedOut',
      seen: 'not done within 30.0 s',
      durationMs: 30_000,
    });
    expect(error?.exitCode).toBe(75);
  });

  it('one that hears no signal, at any operation, is given up too', async () => {
    const clock = new ManualClock({ autoAdvance: true });
    const { of, bucket } = await examineStore(
      ({ sound }) => ({
        readInto: () => new Promise(() => undefined),
        create: (...args) => sound.create(...args),
      }),
      { clock },
    );
    expect(of('ranges')).toMatchObject({ status: 'failed', code: 'TimedOut' });
    expect(of('delete').status).toBe('ok');
    expect(bucket.keys()).toEqual([]);
  });

  it('a bucket that is not there: NotFound, exit 6', async () => {
    const { error } = await examineStore(undefined, { wrap: faulty(() => refuse('NotFound')) });
    expect(error).toMatchObject({ code: 'NotFound', exitCode: 6 });
  });
});

describe('clock', () => {
  it.each([
    [200_000, 'degraded', '3 min 20 s ahead of this machine'],
    [-7_200_000, 'degraded', '2 h behind this machine'],
    [-5000, 'ok', '5.0 s behind this machine'],
    [0, 'ok', 'the same as here'],
  ])('a store that is %i ms ahead', async (aheadMs, status, seen) => {
    const bucket = new MemoryBucket({ crc32c, clock: { nowMs: () => 1_800_000_000_123 + aheadMs } });
    const clock = new ManualClock({ nowMs: 1_800_000_000_123 });
    const { of, verdict } = await examineStore(undefined, { bucket, clock });
    expect(of('clock')).toMatchObject({ status, seen: expect.stringContaining(seen) });
    expect(verdict).toBe('safe');
  });

  it.each([
    [21_600_000, 'degraded', 'answers are 6 h ahead of the times of objects'],
    [-7_200_000, 'degraded', 'answers are 2 h behind the times of objects'],
    [900, 'ok', 'ms ahead of this machine'],
  ])('a proxy that sets the time of answers %i ms ahead', async (aheadMs, status, seen) => {
    const clock = new ManualClock({ nowMs: 1_800_000_000_123 });
    const bucket = new MemoryBucket({ crc32c, clock });
    const change = ({ sound }: Parts): Changes => ({
      async *list(...args) {
        for await (const page of sound.list(...args))
          yield { ...page, storeTimeMs: page.storeTimeMs + aheadMs };
      },
    });
    const { of } = await examineStore(change, { bucket, clock });
    expect(of('clock')).toMatchObject({ status, seen: expect.stringContaining(seen) });
  });

  it('a store that tells whole seconds is believed within a second', async () => {
    const bucket = new MemoryBucket({ crc32c, clock: { nowMs: () => 1_800_000_000_000 } });
    const clock = new ManualClock({ nowMs: 1_800_000_000_999 });
    const { of } = await examineStore(undefined, { bucket, clock });
    expect(of('clock').seen).toBe('the same as here (± 500 ms)');
  });
});

describe('speed', () => {
  const slowStore = (clock: ManualClock, ms: number) => (store: ObjectStore) => {
    const slow = new FaultyStore(store);
    const { create } = slow;
    slow.create = async (...args) => {
      await clock.sleep(ms);
      return create.apply(slow, args);
    };
    return slow;
  };

  it('a store that takes seconds for a small object is degraded, and safe', async () => {
    const clock = new ManualClock({ autoAdvance: true });
    const bucket = new MemoryBucket({ crc32c, clock });
    const checks = QUICK.filter(({ id }) =>
      ['reachable', 'may-create', 'may-read', 'round-trip'].includes(id),
    );
    const examined = await examineStore(undefined, { clock, bucket, checks, wrap: slowStore(clock, 1500) });
    expect(examined.of('round-trip')).toMatchObject({
      status: 'degraded',
      seen: 'get 0.0 ms, create 1.5 s (median of 3)',
      figures: { getMs: 0, createMs: 1500 },
    });
    expect(examined.verdict).toBe('safe');
  });

  it('a store on another continent is degraded, and told how far it is', async () => {
    const clock = new ManualClock({ autoAdvance: true });
    const bucket = new MemoryBucket({ crc32c, clock });
    const change = ({ sound }: Parts): Changes => ({
      get: async (...args) => {
        await clock.sleep(180);
        return sound.get(...args);
      },
    });
    const { of, verdict } = await examineStore(change, { clock, bucket });
    expect(of('round-trip')).toMatchObject({
      status: 'degraded',
      seen: 'get 180 ms, create 0.0 ms (median of 17)',
      advice: 'use a bucket in the region of the job',
    });
    expect(verdict).toBe('safe');
  });

  it('parts that take long are degraded, and what they took is told for 10 GiB', async () => {
    const clock = new ManualClock({ autoAdvance: true });
    const bucket = new MemoryBucket({ crc32c, clock });
    const change = ({ sound }: Parts): Changes => ({
      readInto: async (...args) => {
        await clock.sleep(args[2].byteLength > 1_000_000 ? 16_000 : 1);
        return sound.readInto(...args);
      },
    });
    const capabilities = { preferredPartConcurrency: 1 };
    const { of, verdict } = await examineStore(change, { clock, bucket, checks: CHECKS, capabilities });
    expect(of('throughput')).toMatchObject({
      status: 'degraded',
      seen: expect.stringContaining('512 KiB/s down (1 × 8.0 MiB)'),
      meaning: 'a checkpoint of 10 GiB would take 5 h 41 min one way',
    });
    expect(verdict).toBe('safe');
  });
});

describe('interrupted', () => {
  it('stops, removes everything, and rejects with the reason', async () => {
    const bucket = new MemoryBucket({ crc32c });
    const controller = new AbortController();
    const reason = new CheckpointError('Aborted', 'interrupted');
    const told: string[] = [];
    const wrap = faulty(({ key }) => {
      if (key.includes('/race/crowd-3')) controller.abort(reason);
      return undefined;
    });
    const onFinding = ({ id, status }: Finding) => told.push(`${id} ${status}`);
    const examined = examineStore(undefined, { bucket, wrap, signal: controller.signal, onFinding });
    await expect(examined).rejects.toBe(reason);
    expect(told.slice(-2)).toEqual(['create-if-absent ok', 'clean-up ok']);
    expect(bucket.keys()).toEqual([]);
    expect(bucket.openUploads()).toEqual([]);
  });

  it('an upload that is being begun is waited for, and ended', async () => {
    const bucket = new MemoryBucket({ crc32c });
    const controller = new AbortController();
    const reason = new CheckpointError('Aborted', 'interrupted');
    const change = ({ sound }: Parts): Changes => ({
      beginUpload: async (key, options) => {
        const upload = await sound.beginUpload(key, options);
        controller.abort(reason);
        options.signal?.throwIfAborted();
        return upload;
      },
    });
    await expect(examineStore(change, { bucket, signal: controller.signal })).rejects.toBe(reason);
    expect(bucket.openUploads()).toEqual([]);
    expect(bucket.keys()).toEqual([]);
  });
});
