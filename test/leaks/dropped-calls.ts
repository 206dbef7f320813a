/**
 * The program of `leaks.test.ts`, run with `--expose-gc`. It makes every public call of the manager
 * many times and drops each in the middle. It prints what is left as one line of JSON for each
 * call. It exits without closing the managers of these calls.
 */

import { readdirSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import {
  type Checkpoint,
  type CheckpointManagerOptions,
  type Clock,
  crc32c,
  createCheckpointManager,
  createTransferMemory,
  type RunManager,
  systemClock,
  type TransferMemory,
} from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { openStore } from '@holdfast/stores';

/**
 * `where`: `memory`, or a directory for two runs. `which`: `calls` or `objects`. `workers`: the
 * setting.
 */
const [where = '', which = '', ...numbers] = process.argv.slice(2);
const [COUNT = 0, workers = 0] = numbers.map(Number);
/** The first rounds allocate code, caches and pools, which stay. */
const WARM_UP = Math.ceil(COUNT / 4);
const ROUNDS_PER_COLLECTION = 250;
/** Workers compute checksums of parts from 256 KiB on. */
const PART_BYTES = (workers > 0 ? 256 : 64) * 1024;
const SETTINGS = {
  bufferBytes: 16 * 1024 * 1024,
  partSizeBytesMin: PART_BYTES,
  saveBytesPerSecondMax: 0,
  workers,
};
const DATA = new Uint8Array(2 * PART_BYTES + 9000).fill(7);
/** The store in memory keeps what a stopped save has sent. */
const SAVED = where === 'memory' ? new Uint8Array(10) : DATA.slice();
/** The managers of this call are not closed. */
const LAST = 'openOutputStream dropped';
/**
 * Runs slower than time. Otherwise a busy disk makes calls give up what they do within a second,
 * such as the deletion of a lease, which would then be left to expire.
 */
const SLOWER = 60;
const clock: Clock = {
  ...systemClock,
  monotonicMs: () => systemClock.monotonicMs() / SLOWER,
  sleep: (ms, signal, options) => systemClock.sleep(ms * SLOWER, signal, options),
};
let writerCount = 0;
const collectGarbage = globalThis.gc as () => void;

const nothing = () => undefined;
const turn = () => new Promise((resolve) => setImmediate(resolve));

interface Subject {
  readonly manager: RunManager;
  /** The manager of another run in the same store. */
  readonly other: RunManager;
  readonly checkpoint: Checkpoint;
}

/** One call. `signal` fires in its middle. */
type Drop = (subject: Subject, signal: AbortSignal) => unknown;

/** Calls that return a promise. They are aborted in the middle and never awaited. */
const CALLS: Record<string, Drop> = {
  join: ({ manager }, signal) => manager.join({ signal }),
  create: ({ manager }, signal) => manager.create(undefined, { signal }),
  get: ({ manager }, signal) => manager.get(1, { signal }),
  latest: ({ manager }, signal) => manager.latest({ signal }),
  list: ({ manager }, signal) => manager.list({ signal }),
  log: ({ manager }, signal) => manager.admin.log({ signal }),
  overview: ({ manager }, signal) => manager.admin.overview({ signal }),
  runsBelow: ({ manager }, signal) => manager.admin.runsBelow({ signal }),
  locate: ({ manager }, signal) => manager.admin.locate({ version: 1, signal }),
  annotate: ({ manager }, signal) => manager.admin.annotate(1, { metrics: { auc: 1 }, signal }),
  save: ({ manager }, signal) => manager.save({ version: 3, buffers: { a: SAVED }, signal }),
  commit: ({ manager }, signal) => manager.commit({ version: 1, signal }),
  restore: ({ manager }, signal) => manager.restore({ to: { a: new Uint8Array(DATA.length) }, signal }),
  mirrorFrom: ({ manager, other }, signal) => other.admin.mirrorFrom(manager, { signal }),
  forkFrom: ({ manager, other }, signal) => other.admin.forkFrom(manager, { version: 1, signal }),
  rollback: ({ manager }, signal) => manager.admin.rollback({ to: 1, reason: 'test', signal }),
  diff: ({ manager }, signal) => manager.admin.diff(1, 2, { signal }),
  exportTensors: ({ manager }, signal) =>
    manager.admin.exportTensors({ version: 1, to: '/nowhere/model', signal }),
  inspect: ({ manager }, signal) => manager.admin.inspect({ version: 1, signal }),
  lease: ({ manager }, signal) => manager.admin.lease({ ttlMs: 1000, signal }),
  leases: ({ manager }, signal) => manager.admin.leases({ signal }),
  releaseLease: ({ manager }, signal) =>
    manager.admin.releaseLease('1.1.1/reader-0123456789abcdef', { signal }),
  verify: ({ manager }, signal) => manager.admin.verify({ version: 1, record: false, signal }),
  recover: ({ manager }, signal) => manager.recover('t', { signal }),
  planRetention: ({ manager }, signal) => manager.admin.planRetention({ signal }),
  collect: ({ manager }, signal) => manager.admin.collect({ signal }),
  setRetention: ({ manager }, signal) => manager.admin.setRetention({ keepLast: 5 }, { signal }),
  retention: ({ manager }, signal) => manager.admin.retention({ signal }),
  pin: ({ manager }, signal) => manager.admin.pin(1, 'label', { signal }),
  unpin: ({ manager }, signal) => manager.admin.unpin(1, undefined, { signal }),
  undelete: ({ manager }, signal) => manager.admin.undelete(1, { signal }),
  begun: ({ manager }, signal) => manager.admin.begun({ signal }),
  fsck: ({ manager }, signal) => manager.admin.fsck({ signal }),
  rebuildCatalog: ({ manager }, signal) => manager.admin.rebuildCatalog({ signal }),
  releaseSkipped: ({ manager }, signal) =>
    manager.admin.releaseSkipped('version_1/1.1/manifest-0123456789abcdef.json', { signal }),
  details: ({ checkpoint }, signal) => checkpoint.details({ signal }),
};

/** Calls on an object that was returned. It is used briefly and then dropped. */
const OBJECTS: Record<string, Drop> = {
  'hold dropped': async ({ manager }) => (await manager.get(1))?.hold(),
  'hold disposed': async ({ manager }) => {
    await using checkpoint = await manager.get(1);
    await checkpoint?.hold();
  },
  'openInputStream unread': ({ checkpoint }) => checkpoint.openInputStream('a'),
  'openInputStream dropped': ({ checkpoint }) => checkpoint.openInputStream('a').getReader().read(),
  'openInputStream cancelled': async ({ checkpoint }) => {
    const reader = checkpoint.openInputStream('a').getReader();
    void reader.read();
    await reader.cancel();
  },
  'openInputStream returned': async ({ checkpoint }) => {
    for await (const _ of checkpoint.openInputStream('a')) break;
  },
  'openInputStream piped': ({ checkpoint }) =>
    checkpoint.openInputStream('a').pipeThrough(new TransformStream()).getReader().read(),
  'openInputStream of a checkpoint that is disposed': async ({ manager }) => {
    await using checkpoint = (await manager.get(1)) as Checkpoint;
    await checkpoint.openInputStream('a').getReader().read();
  },
  'openSource dropped': async ({ checkpoint }) =>
    (await checkpoint.openSource('a')).readInto(3, new Uint8Array(5)),
  'openSource in the middle of a read': async ({ checkpoint }) => {
    void (await checkpoint.openSource('a')).readInto(3, new Uint8Array(5));
  },
  'openSource closed': async ({ checkpoint }) => {
    const source = await checkpoint.openSource('a');
    void source.readInto(3, new Uint8Array(5)).catch(() => undefined);
    await source.close();
  },
  'openSource stopped': ({ checkpoint }, signal) => checkpoint.openSource('a', { signal }),
  'openOutputStream unwritten': async ({ manager }) => (await manager.create(9)).openOutputStream('a'),
  'openOutputStream dropped': async ({ manager }) => {
    const writer = (await manager.create(9)).openOutputStream('a').getWriter();
    void writer.write(new Uint8Array(10)).catch(() => undefined);
    // Only a few streams can be filled at once. Further ones wait until the dropped ones are
    // collected as garbage.
    writerCount += 1;
    if (writerCount % 3 > 0) return;
    collectGarbage();
    await turn();
  },
  'openOutputStream aborted': async ({ manager }) => {
    const writer = (await manager.create(9)).openOutputStream('a').getWriter();
    void writer.write(new Uint8Array(10)).catch(() => undefined);
    await writer.abort();
  },
  'openOutputStream discarded': async ({ manager }) => {
    await using checkpoint = await manager.create(9);
    void checkpoint
      .openOutputStream('a')
      .getWriter()
      .write(new Uint8Array(10))
      .catch(() => undefined);
  },
  // The last one, because the versions of a run on disk rise.
  'commit stopped': async ({ manager }) => {
    const checkpoint = await manager.create();
    const writer = checkpoint.openOutputStream('a').getWriter();
    await writer.write(new Uint8Array(10));
    await writer.close();
    const stop = new AbortController();
    const committed = checkpoint.commit({ signal: stop.signal }).catch(nothing);
    await turn();
    stop.abort();
    await committed;
  },
};

async function subjectOf(): Promise<
  Subject & { memory: TransferMemory; leaseCount(): number | Promise<number>; close(): Promise<void> }
> {
  const bucket = new MemoryBucket({ crc32c });
  const store = async (name: string) =>
    where === 'memory'
      ? new MemoryStore(name === '' ? bucket : new MemoryBucket({ crc32c }))
      : openStore(pathToFileURL(`${where}/run${name}`).href);
  const memory = createTransferMemory({ settings: SETTINGS });
  const open = (given: Pick<CheckpointManagerOptions, 'store'>) =>
    createCheckpointManager({ ...given, settings: SETTINGS, memory, clock });
  const manager = open({ store: await store('') });
  const other = open({ store: await store('-other') });
  for (const version of [1, 2]) await manager.save({ version, buffers: { a: DATA } });
  const checkpoint = (await manager.get(1)) as Checkpoint;
  const counter = open({ store: await store('') });
  const leaseCount =
    where === 'memory'
      ? () => bucket.keys().filter((key) => key.startsWith('leases/') && !key.includes('/reader-')).length
      : async () => (await counter.admin.leases()).filter(({ reader }) => reader !== 'reader').length;
  const close = async () => {
    await Promise.all([manager, other, counter].map((each) => each.close()));
    memory.close();
  };
  return { manager, other, checkpoint, memory, leaseCount, close };
}

/** Collects garbage, and lets the objects that were garbage end themselves. */
async function collect(): Promise<void> {
  collectGarbage();
  await turn();
}

/**
 * Waits until nothing is in progress, for at most half a minute: a busy disk is slow. Collecting
 * garbage takes most of the time of this program. An aborted call ends without it; a dropped object
 * ends when it is collected.
 */
async function settled(isOver: () => boolean | Promise<boolean>, isPromise: boolean): Promise<void> {
  const untilMs = performance.now() + 30_000;
  for (let waitMs = 5; ; waitMs = Math.min(2 * waitMs, 200)) {
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    if (isPromise && (await isOver())) break;
    await collect();
    if ((await isOver()) || performance.now() >= untilMs) break;
  }
  // What has ended itself is garbage too. A store on disk is not measured by its memory.
  await collect();
  if (where === 'memory') await collect();
}

function held() {
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  return { bytes: heapUsed + external + arrayBuffers, timers, files: readdirSync('/proc/self/fd').length };
}

async function dropOften(name: string, drop: Drop, isPromise: boolean): Promise<void> {
  const { memory, leaseCount, close, ...subject } = await subjectOf();
  const before = await leaseCount();
  let warm = held();
  // Leases first. They are counted in many turns, in which a dropped object may begin to end
  // itself. Its lease can be gone before its timer is.
  const isOver = async () =>
    (await leaseCount()) === before && held().timers === 0 && memory.freeBytes === memory.totalBytes;
  for (let round = 0; round < COUNT; round += 1) {
    const stop = new AbortController();
    // What it resolves to is dropped too.
    const call = Promise.resolve(drop(subject, stop.signal)).then(nothing, nothing);
    if (!isPromise) await call;
    else for (let turns = round % 8; turns > 0; turns -= 1) await turn();
    stop.abort();
    if (!isPromise && round % ROUNDS_PER_COLLECTION === 0) collectGarbage();
    if (round !== WARM_UP) continue;
    await settled(isOver, isPromise);
    warm = held();
  }
  await settled(isOver, isPromise);
  const now = held();
  const line = {
    name,
    leases: (await leaseCount()) - before,
    timers: now.timers,
    poolBytes: memory.totalBytes - memory.freeBytes,
    files: now.files - warm.files,
    bytesPerCall: Math.round((now.bytes - warm.bytes) / (COUNT - WARM_UP)),
  };
  console.log(JSON.stringify(line));
  if (name !== LAST) await close();
}

/** What a caller calls when it has finished. */
const ENDS = ['constructor', 'close', 'discard'];

function methodsOf(...objects: readonly object[]): string[] {
  const prototypes = objects.map((each) => Object.getPrototypeOf(each) as object);
  const members = prototypes.flatMap((each) => Object.entries(Object.getOwnPropertyDescriptors(each)));
  return members.flatMap(([name, { value }]) => (typeof value === 'function' ? [name] : []));
}

/** Throws if a public call is missing above. */
async function assertComplete(): Promise<void> {
  const { manager, checkpoint, close } = await subjectOf();
  const ofObjects = new Set(['details', ...Object.keys(OBJECTS).map((name) => name.split(' ')[0])]);
  const missing = [
    ...methodsOf(manager, manager.admin).filter((name) => !(name in CALLS)),
    ...methodsOf(checkpoint).filter((name) => !ofObjects.has(name)),
  ].filter((name) => !ENDS.includes(name));
  await close();
  if (missing.length > 0) throw new Error(`nothing drops ${missing.join(', ')}`);
}

await assertComplete();
const isPromise = which === 'calls';
for (const [name, drop] of Object.entries(isPromise ? CALLS : OBJECTS))
  await dropOften(name, drop, isPromise);
