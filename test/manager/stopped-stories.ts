/**
 * Calls that decide something, each with a check whether it has taken effect. The tests compare the
 * result of a stopped call with this check.
 */

import {
  type CheckpointManagerOptions,
  crc32c,
  createCheckpointManager,
  isCheckpointError,
  type RunManager,
  systemClock,
  withGrants,
} from '@holdfast/core';
import type { ObjectStore } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { bytes, SETTINGS } from './memory-run.ts';

/** A clock on which a second takes 10 ms, so that timeouts end soon. */
const SHORT_CLOCK = {
  ...systemClock,
  monotonicMs: () => systemClock.monotonicMs() * 100,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 100, signal),
};

const PAIR = { attempt: 'job', count: 2 };

export interface Story {
  /** Prepares the run. */
  prepare(bucket: MemoryBucket): Promise<void>;
  /** The call that is stopped: by its signal, or by the end of its manager. */
  act(manager: RunManager, signal: AbortSignal, store: ObjectStore): Promise<unknown>;
  /** Whether the call took effect, as later processes see it. */
  isDone(bucket: MemoryBucket): Promise<boolean>;
  /** Options of its manager. */
  readonly options?: Partial<CheckpointManagerOptions>;
  /** Keys of the records that decide the call. */
  readonly decides: RegExp;
}

/** A manager with distant deadlines, whose final checks end soon. */
export function patient(
  place: MemoryBucket | ObjectStore,
  options: Partial<CheckpointManagerOptions> = {},
): RunManager {
  const store = 'list' in place ? place : new MemoryStore(place);
  const settings = { ...SETTINGS, deletesPerSecondMax: 1_000_000, recordTimeoutMs: 600_000 };
  return createCheckpointManager({ store, clock: SHORT_CLOCK, settings, ...options });
}

async function saveAs(bucket: MemoryBucket, index: number, noWait = true): Promise<void> {
  const { attempt, count } = PAIR;
  await using manager = patient(bucket, { attempt, writer: { index, count } });
  await manager.save({ version: 1, buffers: { [`w${index}`]: bytes(100, index) }, noWait });
}

async function saveVersions(bucket: MemoryBucket, ...versions: number[]): Promise<void> {
  await using manager = patient(bucket, { attempt: 'first' });
  for (const version of versions) await manager.save({ version, buffers: { a: bytes(100, version) } });
}

async function look<T>(bucket: MemoryBucket, at: (manager: RunManager) => Promise<T>): Promise<T> {
  await using manager = patient(bucket);
  return await at(manager);
}

/**
 * True if the version is committed, or if any process can commit it because its writers have
 * delivered.
 */
async function canBeHad(bucket: MemoryBucket, version: number): Promise<boolean> {
  return look(bucket, async (manager) => {
    try {
      await manager.commit({ version });
      return true;
    } catch (error) {
      if (isCheckpointError(error, 'Incomplete') || isCheckpointError(error, 'NotFound')) return false;
      throw error;
    }
  });
}

const summary = (bucket: MemoryBucket, version: number) =>
  look(bucket, async (manager) => (await manager.list()).find((each) => each.version === BigInt(version)));

/** A run to copy from. It is only read. */
let source: Promise<MemoryBucket> | undefined;
async function copyFrom<T>(copy: (from: RunManager) => Promise<T>): Promise<T> {
  source ??= (async () => {
    const bucket = new MemoryBucket({ crc32c });
    await two(bucket);
    return bucket;
  })();
  return look(await source, copy);
}

const COMMIT = /^catalog\/|\/receipts\//;
const DECISION = /^catalog\//;
const save = (version: number) => (manager: RunManager, signal: AbortSignal) =>
  manager.save({ version, buffers: { b: bytes(100, 50 + version) }, signal });

/** Objects of a run with versions 1 and 2. Saving them in each round takes most of its time. */
let savedTwo: Promise<readonly (readonly [key: string, bytes: Uint8Array])[]> | undefined;
async function two(bucket: MemoryBucket): Promise<void> {
  savedTwo ??= (async () => {
    const saved = new MemoryBucket({ crc32c });
    await saveVersions(saved, 1, 2);
    return saved.keys().map((key) => [key, saved.find(key)?.bytes ?? new Uint8Array()] as const);
  })();
  for (const [key, bytes] of await savedTwo) bucket.insert(key, bytes);
}

/** Key of the manifest of version 2 in the run that `two` makes. */
async function manifestOfTwo(): Promise<string> {
  const keys = (await (savedTwo ?? [])).map(([key]) => key);
  return keys.find((key) => /^version_2\/.*\/manifest-/.test(key)) ?? '';
}

/** Loses the catalog, and rebuilds it without version 2, whose manifest is damaged. */
async function rebuildWithoutTwo(bucket: MemoryBucket): Promise<void> {
  await two(bucket);
  const key = await manifestOfTwo();
  bucket.damage(key, (damaged) => damaged.fill(0, 0, 8));
  for (const each of bucket.keys()) if (each.startsWith('catalog/')) bucket.remove(each);
  await look(bucket, (manager) => manager.admin.rebuildCatalog({ skip: [key] }));
}

export const STORIES: Readonly<Record<string, Story>> = {
  'save, into a new run': {
    prepare: async () => undefined,
    act: save(1),
    isDone: (bucket) => canBeHad(bucket, 1),
    decides: COMMIT,
  },
  'save, by a new attempt': {
    prepare: two,
    act: save(3),
    isDone: (bucket) => canBeHad(bucket, 3),
    decides: COMMIT,
  },
  'save, by a new life of a writer': {
    prepare: two,
    act: save(3),
    isDone: (bucket) => canBeHad(bucket, 3),
    options: { attempt: 'first' },
    decides: COMMIT,
  },
  'save of one of two writers that does not wait': {
    prepare: async () => undefined,
    act: (manager, signal) =>
      manager.save({ version: 1, buffers: { w0: bytes(100, 0) }, noWait: true, signal }),
    // The other writer delivers later. That shows whether this one has delivered.
    isDone: async (bucket) => {
      await saveAs(bucket, 1);
      return canBeHad(bucket, 1);
    },
    options: { attempt: PAIR.attempt, writer: { index: 0, count: PAIR.count } },
    decides: COMMIT,
  },
  'save of the last of two writers': {
    prepare: (bucket) => saveAs(bucket, 0),
    act: (manager, signal) => manager.save({ version: 1, buffers: { w1: bytes(100, 1) }, signal }),
    isDone: (bucket) => canBeHad(bucket, 1),
    options: { attempt: PAIR.attempt, writer: { index: 1, count: PAIR.count } },
    decides: COMMIT,
  },
  'a checkpoint of streams': {
    prepare: two,
    act: async (manager, signal) => {
      const checkpoint = await manager.create(3, { signal });
      const writer = checkpoint.openOutputStream('a').getWriter();
      await writer.write(bytes(100));
      await writer.close();
      await checkpoint.commit({ signal });
    },
    isDone: (bucket) => canBeHad(bucket, 3),
    decides: COMMIT,
  },
  'commit by a survivor': {
    prepare: async (bucket) => {
      await saveAs(bucket, 0);
      await deliverAndDie(bucket);
    },
    act: (manager, signal) => manager.commit({ version: 1, signal }),
    isDone: async (bucket) => (await summary(bucket, 1)) !== undefined,
    decides: DECISION,
  },
  join: {
    prepare: two,
    act: (manager, signal) => manager.join({ signal }),
    isDone: (bucket) => look(bucket, async (manager) => (await manager.admin.log())[0]?.kind === 'takeover'),
    options: { attempt: 'second' },
    decides: DECISION,
  },
  pin: {
    prepare: two,
    act: (manager, signal) => manager.admin.pin(1, 'best', { signal }),
    isDone: async (bucket) => (await summary(bucket, 1))?.pins.length === 1,
    decides: DECISION,
  },
  annotate: {
    prepare: two,
    act: (manager, signal) => manager.admin.annotate(1, { metrics: { auc: 0.9 }, signal }),
    isDone: async (bucket) => (await summary(bucket, 1))?.metrics['auc'] === 0.9,
    decides: DECISION,
  },
  unpin: {
    prepare: async (bucket) => {
      await two(bucket);
      await look(bucket, (manager) => manager.admin.pin(1, 'best'));
    },
    act: (manager, signal) => manager.admin.unpin(1, 'best', { signal }),
    isDone: async (bucket) => (await summary(bucket, 1))?.pins.length === 0,
    decides: DECISION,
  },
  rollback: {
    prepare: two,
    act: (manager, signal) => manager.admin.rollback({ to: 1, reason: 'a test', signal }),
    isDone: async (bucket) => (await summary(bucket, 2))?.isLeftBehind === true,
    decides: DECISION,
  },
  'verify, which records that all is well': {
    prepare: two,
    act: (manager, signal) => manager.admin.verify({ version: 1, signal }),
    isDone: async (bucket) => (await summary(bucket, 1))?.isVerified === true,
    decides: DECISION,
  },
  'verify, which quarantines': {
    prepare: async (bucket) => {
      await two(bucket);
      const [payload] = bucket.keys().filter((key) => key.startsWith('version_1/') && key.endsWith('/a'));
      bucket.remove(payload ?? '');
    },
    act: (manager, signal) => manager.admin.verify({ version: 1, quarantine: true, signal }),
    isDone: async (bucket) => (await summary(bucket, 1))?.state === 'quarantined',
    decides: DECISION,
  },
  'collect, which retires': {
    prepare: two,
    act: (manager, signal) => manager.admin.collect({ policy: { keepLast: 1 }, signal }),
    isDone: async (bucket) => (await summary(bucket, 1))?.state === 'retiring',
    decides: DECISION,
  },
  'collect, which removes': {
    prepare: async (bucket) => {
      await two(bucket);
      await look(bucket, (manager) => manager.admin.collect({ policy: { keepLast: 1 } }));
    },
    act: (manager, signal) => manager.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, signal }),
    isDone: async (bucket) => (await summary(bucket, 1)) === undefined,
    decides: DECISION,
  },
  undelete: {
    prepare: async (bucket) => {
      await two(bucket);
      await look(bucket, (manager) => manager.admin.collect({ policy: { keepLast: 1 } }));
    },
    act: (manager, signal) => manager.admin.undelete(1, { signal }),
    isDone: async (bucket) => (await summary(bucket, 1))?.state === 'live',
    decides: DECISION,
  },
  'the rules of the run': {
    prepare: two,
    act: (manager, signal) => manager.admin.setRetention({ keepLast: 5 }, { signal }),
    isDone: (bucket) => look(bucket, async (manager) => (await manager.admin.retention())?.keepLast === 5),
    decides: DECISION,
  },
  fork: {
    prepare: async () => undefined,
    act: (manager, signal) => copyFrom((from) => manager.admin.forkFrom(from, { signal })),
    isDone: (bucket) => canBeHad(bucket, 2),
    decides: COMMIT,
  },
  mirror: {
    prepare: async () => undefined,
    act: (manager, signal) => copyFrom((from) => manager.admin.mirrorFrom(from, { versions: [2], signal })),
    isDone: (bucket) => canBeHad(bucket, 2),
    decides: COMMIT,
  },
  'a new catalog': {
    prepare: async (bucket) => {
      await two(bucket);
      for (const key of bucket.keys()) if (key.startsWith('catalog/')) bucket.remove(key);
    },
    act: (manager, signal) => manager.admin.rebuildCatalog({ signal }),
    isDone: async (bucket) => bucket.keys().filter((key) => /^catalog\/0*[1-9]\d{9,}/.test(key)).length === 1,
    decides: DECISION,
  },
  'the release of a skipped manifest': {
    prepare: rebuildWithoutTwo,
    act: async (manager, signal) => manager.admin.releaseSkipped(await manifestOfTwo(), { signal }),
    isDone: (bucket) => look(bucket, async (manager) => (await manager.admin.log())[0]?.kind === 'release'),
    decides: DECISION,
  },
  lease: {
    prepare: two,
    act: (manager, signal) => manager.admin.lease({ version: 1, ttlMs: 60_000, signal }),
    isDone: async (bucket) => bucket.keys().some((key) => key.startsWith('leases/')),
    decides: /^leases\//,
  },
  'an election': {
    prepare: async () => undefined,
    act: (_, signal, store) =>
      withGrants(store, { signal, clock: SHORT_CLOCK }, async (grants) => {
        await grants.append(1, { trainerId: 'a', blockMs: 1000 });
      }),
    isDone: async (bucket) => bucket.keys().some((key) => key.startsWith('elections/')),
    decides: /^elections\//,
  },
};

/** The second writer of the pair delivers, and dies before it commits. */
async function deliverAndDie(bucket: MemoryBucket): Promise<void> {
  const store = new MemoryStore(bucket);
  const create = store.create.bind(store);
  const died = new AbortController();
  store.create = async (key, data, options) => {
    if (key.includes('/manifest-')) died.abort();
    return create(key, data, options);
  };
  const { attempt, count } = PAIR;
  await using manager = patient(store, { attempt, writer: { index: 1, count } });
  await manager
    .save({ version: 1, buffers: { w1: bytes(100, 1) }, signal: died.signal })
    .catch(() => undefined); // it has delivered
}
