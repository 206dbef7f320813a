/** Every call of a manager, and each of its options, with invalid values. */

import {
  SETTINGS as ALL_SETTINGS,
  type CheckpointManagerOptions,
  createCheckpointManager,
  createThrottle,
  createTransferMemory,
  idText,
  listObjects,
  openObjectSource,
  parseVersion,
  type RetentionPolicy,
  type RunManager,
} from '@holdfast/core';
import { CALL_RULES } from '@holdfast/core/internal/manager/call-rules';
import { MemoryStore } from '@holdfast/core/store';
import { localFiles } from '@holdfast/local-files';
import { describe, expect, test } from 'vitest';
import { bytes, newBucket, open, SETTINGS } from '../manager/memory-run.ts';
import { expectRefused, type Odd } from './values.ts';

/** The odd values that each kind of option accepts. */
const OPTIONAL: Odd[] = ['undefined'];
const VERSION: Odd[] = ['0'];
const FLAG: Odd[] = ['undefined', 'true'];
const OBJECT: Odd[] = ['undefined', '{}'];
const LIST: Odd[] = ['undefined', '[]'];
const CALLBACK: Odd[] = ['undefined', 'function'];
const MS: Odd[] = ['undefined', '0', '1.5'];

const WAIT = { signal: OPTIONAL, onProgress: CALLBACK };
const COMMIT_WAIT = { ...WAIT, timeoutMs: MS };
const META = { metrics: OBJECT, metadata: OBJECT };
const STALE = { onStale: OPTIONAL, shouldChange: LIST };
const VERSION_OR_LATEST = { ...WAIT, version: [...OPTIONAL, ...VERSION] };
/** For an options object as a whole: an object is required. `OBJECT` also accepts a missing one. */
const NEEDED: Odd[] = [];

type Call = (manager: RunManager, options: never) => unknown;
type Row = readonly [
  name: string,
  call: Call,
  options: Readonly<Record<string, readonly Odd[]>>,
  whole: readonly Odd[],
  base?: object,
];

const BUFFERS = { buffers: { a: bytes(9) } };
const paused = { ...BUFFERS, version: 5, consistency: 'paused', pause: async () => () => undefined };

const CALLS: readonly Row[] = [
  ['join', (m, o) => m.join(o), { ...WAIT, writer: OPTIONAL }, OBJECT],
  ['create', (m, o) => m.create(5, o), { signal: OPTIONAL }, OBJECT],
  ['get', (m, o) => m.get(1, o), { signal: OPTIONAL }, OBJECT],
  ['latest', (m, o) => m.latest(o), { signal: OPTIONAL }, OBJECT],
  ['list', (m, o) => m.list(o), { signal: OPTIONAL, limit: OPTIONAL }, OBJECT],
  [
    'save',
    (m, o) => m.save(o),
    {
      ...{ ...COMMIT_WAIT, ...META, ...STALE, version: [...OPTIONAL, ...VERSION], writer: OPTIONAL },
      ...{ consistency: OPTIONAL, stateVersion: OPTIONAL, pause: OPTIONAL, pauseTimeoutMs: OPTIONAL },
      ...{ noWait: FLAG, staging: OPTIONAL, dedupe: OPTIONAL, buffers: NEEDED },
    },
    NEEDED,
    BUFFERS,
  ],
  ['save of files', (m, o) => m.save(o), { files: NEEDED }, NEEDED],
  ['save of a directory', (m, o) => m.save(o), { dir: NEEDED }, NEEDED],
  [
    'save, scanned',
    (_, o) => open(newBucket(), { files: localFiles }).save(o),
    { exclude: LIST, links: OPTIONAL },
    NEEDED,
    { dir: '/nowhere' },
  ],
  [
    'save, paused',
    (m, o) => m.save(o),
    { consistency: NEEDED, pause: NEEDED, pauseTimeoutMs: OPTIONAL, stateVersion: OPTIONAL },
    NEEDED,
    paused,
  ],
  [
    'commit',
    (m, o) => m.commit(o),
    { ...COMMIT_WAIT, version: [...OPTIONAL, ...VERSION] },
    OBJECT,
    { version: 1 },
  ],
  [
    'restore',
    (m, o) => m.restore(o),
    { ...VERSION_OR_LATEST, to: NEEDED, only: OPTIONAL, mtimes: FLAG, replace: FLAG, onCorrupt: OPTIONAL },
    NEEDED,
    { to: { a: new Uint8Array(9) } },
  ],
  [
    'rollback',
    (m, o) => m.admin.rollback(o),
    { ...WAIT, to: VERSION, reason: NEEDED },
    NEEDED,
    { to: 1, reason: 'r' },
  ],
  ['diff', (m, o) => m.admin.diff(1, 1, o), { ...WAIT, tensors: FLAG }, OBJECT],
  ['inspect', (m, o) => m.admin.inspect(o), VERSION_OR_LATEST, OBJECT],
  [
    'exportTensors',
    (m, o) => m.admin.exportTensors(o),
    {
      ...VERSION_OR_LATEST,
      ...{
        to: ['space'],
        replace: FLAG,
        from: OPTIONAL,
        prefix: [...OPTIONAL, 'empty', 'space'],
        layout: OPTIONAL,
        also: LIST,
        fileBytesMax: OPTIONAL,
      },
    },
    NEEDED,
    { to: './model' },
  ],
  ['locate', (m, o) => m.admin.locate(o), VERSION_OR_LATEST, OBJECT],
  [
    'lease',
    (m, o) => m.admin.lease(o),
    { ...VERSION_OR_LATEST, ttlMs: NEEDED, reader: OPTIONAL },
    NEEDED,
    { ttlMs: 1000 },
  ],
  ['releaseLease', (m, o) => m.admin.releaseLease('1.1.1/reader-0123456789abcdef', o), WAIT, OBJECT],
  ['leases', (m, o) => m.admin.leases(o), VERSION_OR_LATEST, OBJECT],
  [
    'verify',
    (m, o) => m.admin.verify(o),
    { ...VERSION_OR_LATEST, level: ['undefined', '0'], record: FLAG, quarantine: FLAG },
    OBJECT,
  ],
  [
    'overview',
    (m, o) => m.admin.overview(o),
    { signal: OPTIONAL, historyMs: OPTIONAL, findVerification: FLAG, findRollback: FLAG, listBegun: FLAG },
    OBJECT,
  ],
  ['log', (m, o) => m.admin.log(o), { signal: OPTIONAL, limit: OPTIONAL, commitOf: OPTIONAL }, OBJECT],
  [
    'annotate',
    (m, o) => m.admin.annotate(1, o),
    { ...WAIT, ...META },
    NEEDED,
    { metrics: { a: 1 }, metadata: { b: 'x' } },
  ],
  ['annotate in vain', (m, o) => m.admin.annotate(1, o), { metrics: NEEDED, metadata: NEEDED }, NEEDED],
  [
    'planRetention',
    (m, o) => m.admin.planRetention(o),
    { ...WAIT, policy: OBJECT, force: FLAG, reason: OPTIONAL },
    OBJECT,
  ],
  [
    'collect',
    (m, o) => m.admin.collect(o),
    { ...WAIT, policy: OBJECT, force: FLAG, reason: OPTIONAL },
    OBJECT,
  ],
  ['setRetention', (m, o) => m.admin.setRetention({}, o), WAIT, OBJECT],
  [
    'a policy',
    (m, o) => m.admin.setRetention(o),
    {
      ...{ keepLast: OPTIONAL, keepEvery: OPTIONAL, keepEveryMs: OPTIONAL, keepForMs: OPTIONAL },
      ...{ keepBest: LIST, graceMs: ['undefined', '0'] },
    } satisfies Record<keyof RetentionPolicy, Odd[]>,
    ['null', '{}'],
  ],
  [
    'a rule of keepBest',
    (m, o) => m.admin.setRetention({ keepBest: [o] }),
    { metric: ['space'], mode: NEEDED, count: NEEDED },
    NEEDED,
    { metric: 'loss', mode: 'min', count: 1 },
  ],
  ['retention', (m, o) => m.admin.retention(o), WAIT, OBJECT],
  ['pin', (m, o) => m.admin.pin(1, 'a', o), WAIT, OBJECT],
  ['unpin', (m, o) => m.admin.unpin(1, undefined, o), WAIT, OBJECT],
  ['undelete', (m, o) => m.admin.undelete(1, o), WAIT, OBJECT],
  ['begun', (m, o) => m.admin.begun(o), WAIT, OBJECT],
  ['fsck', (m, o) => m.admin.fsck(o), WAIT, OBJECT],
  ['rebuildCatalog', (m, o) => m.admin.rebuildCatalog(o), { ...WAIT, skip: LIST }, OBJECT],
  ['releaseSkipped', (m, o) => m.admin.releaseSkipped('k', o), WAIT, OBJECT],
  [
    'mirrorFrom',
    (m, o) => m.admin.mirrorFrom(another(), o),
    { ...WAIT, versions: LIST, latest: FLAG },
    OBJECT,
  ],
  [
    'mirrorFrom since',
    (m, o) => m.admin.mirrorFrom(another(), o),
    { since: [...OPTIONAL, ...VERSION] },
    OBJECT,
  ],
  [
    'mirrorFrom, watching',
    (m, o) => m.admin.mirrorFrom(another(), o),
    { onCorrupt: OPTIONAL, watchIntervalMs: OPTIONAL },
    OBJECT,
  ],
  ['forkFrom', (m, o) => m.admin.forkFrom(another(), o), VERSION_OR_LATEST, OBJECT],
];

/** An empty run. There is nothing to copy, so accepted values end as `NotFound`. */
function another(): RunManager {
  return open(newBucket());
}

async function savedRun(): Promise<RunManager> {
  const manager = open(newBucket());
  await manager.save({ version: 1, buffers: { a: bytes(9) } });
  return manager;
}

/** Names in `CALL_RULES` that are not the name of a manager's call. */
const CALL_OF: Readonly<Record<string, string | null>> = {
  ...{ mirror: 'mirrorFrom', fork: 'forkFrom', rebuild: 'rebuildCatalog' },
  ...{ call: null, wait: null, commitCheckpoint: null, openInputStream: null },
};
const RULES = Object.entries(CALL_RULES).filter(([name]) => CALL_OF[name] !== null);

test.each(RULES)('each option of %s has its odd values in a row', (name, rules) => {
  const rows = CALLS.filter(([row]) => row.split(/[ ,]/)[0] === (CALL_OF[name] ?? name));
  const tried = new Set(rows.flatMap(([, , options]) => Object.keys(options)));
  expect(Object.keys(rules).filter((option) => !tried.has(option))).toEqual([]);
});

describe('a call of a manager', () => {
  for (const [name, call, options, whole, base] of CALLS) {
    test(name, async () => {
      await using manager = await savedRun();
      await expectRefused(whole, (value) => call(manager, value));
      for (const [option, accepted] of Object.entries(options)) {
        await using fresh = await savedRun();
        await expectRefused(accepted, (value) => call(fresh, { ...base, [option]: value } as never));
      }
    });
  }

  for (const [name, call, , , base] of CALLS.filter(([each]) => !each.startsWith('a '))) {
    test(`${name} refuses an option that it does not know, by its name`, async () => {
      await using manager = await savedRun();
      const options = { ...base, verison: 3, known: undefined } as never;
      await expect((async () => call(manager, options))()).rejects.toMatchObject({
        code: 'InvalidArgument',
        message: expect.stringMatching(/has the option "verison", which is not known; it takes .*signal/),
      });
    });
  }

  const positional: [string, (manager: RunManager, value: never) => unknown, Odd[]][] = [
    ['create', (m, v) => m.create(v), ['undefined', '0']],
    ['get', (m, v) => m.get(v), VERSION],
    ['diff before', (m, v) => m.admin.diff(v, 1), VERSION],
    ['diff after', (m, v) => m.admin.diff(1, v), VERSION],
    ['pin version', (m, v) => m.admin.pin(v, 'a'), VERSION],
    ['pin label', (m, v) => m.admin.pin(1, v), NEEDED],
    ['unpin version', (m, v) => m.admin.unpin(v), VERSION],
    ['unpin label', (m, v) => m.admin.unpin(1, v), OPTIONAL],
    ['undelete', (m, v) => m.admin.undelete(v), VERSION],
    ['annotate', (m, v) => m.admin.annotate(v, { metrics: { a: 1 } }), VERSION],
    [
      'annotate lineage',
      (m, lineage) => m.admin.annotate({ version: 1, lineage }, { metrics: { a: 1 } }),
      NEEDED,
    ],
    ['recover', (m, v) => m.recover(v), NEEDED],
    ['releaseLease', (m, v) => m.admin.releaseLease(v), NEEDED],
    ['releaseSkipped', (m, v) => m.admin.releaseSkipped(v), ['space']],
    ['mirrorFrom', (m, v) => m.admin.mirrorFrom(v), NEEDED],
    ['forkFrom', (m, v) => m.admin.forkFrom(v), NEEDED],
    ['setRetention', (m, v) => m.admin.setRetention(v), ['null', '{}']],
  ];
  test.each(positional)('%s, by place', async (_name, call, accepted) => {
    await using manager = await savedRun();
    await expectRefused(accepted, (value) => call(manager, value));
  });

  test.each(['files', 'buffers', 'metrics', 'metadata'])('a value in %s of a save', async (option) => {
    await using manager = await savedRun();
    const accepted: Record<string, Odd[]> = {
      metrics: ['-1', '0', '1.5', '2^53'],
      metadata: ['empty', 'space'],
    };
    const base = option === 'files' || option === 'buffers' ? {} : BUFFERS;
    await expectRefused(accepted[option] ?? [], (value) => {
      const options = { ...base, [option]: { a: value } };
      return manager.save(options as never);
    });
  });

  test('a limit that is a whole number is as many as there are', async () => {
    await using manager = await savedRun();
    expect(await manager.list({ limit: Number.MAX_SAFE_INTEGER })).toHaveLength(1);
  });

  test.each([-1, 7 * 24 * 3_600_000 + 1, 2 ** 31])(
    'timeoutMs %d is named with its limits',
    async (timeoutMs) => {
      await using manager = await savedRun();
      await expect(manager.commit({ version: 1, timeoutMs })).rejects.toMatchObject({
        code: 'InvalidArgument',
        message: `timeoutMs is ${timeoutMs}; it takes milliseconds from 0 to 604800000`,
      });
    },
  );
});

describe('a checkpoint', () => {
  const written: [
    string,
    (checkpoint: Awaited<ReturnType<RunManager['create']>>, value: never) => unknown,
    Odd[],
  ][] = [
    ['openOutputStream', async (c, v) => c.openOutputStream(v).abort(), ['space']],
    ['commit', (c, v) => c.commit(v), []],
  ];
  test.each(written)('%s', async (_name, call, accepted) => {
    await using manager = await savedRun();
    const checkpoint = await manager.create();
    // A commit without a file is rejected for any value. The test below covers the values that it
    // accepts.
    await expectRefused(accepted, (value) => call(checkpoint, value));
  });

  test.each(Object.entries({ ...COMMIT_WAIT, ...META, ...STALE }))(
    'commit with %s',
    async (option, accepted) => {
      await using manager = await savedRun();
      await expectRefused(accepted, async (value) => {
        await using checkpoint = await manager.create();
        const writer = checkpoint.openOutputStream('a').getWriter();
        await writer.write(bytes(3));
        await writer.close();
        await checkpoint.commit({ [option]: value } as never);
      });
    },
  );

  test('one that is committed', async () => {
    await using manager = await savedRun();
    await using checkpoint = (await manager.get(1))!;
    await expectRefused(['empty', 'space'], async (value) =>
      checkpoint.openInputStream(value).getReader().read(),
    );
    for (const field of ['offsetBytes', 'lengthBytes']) {
      await expectRefused(['0', 'undefined'], (value) =>
        checkpoint
          .openInputStream('a', { [field]: value })
          .getReader()
          .read(),
      );
    }
    await expectRefused(['undefined'], (memory) =>
      checkpoint.openInputStream('a', { memory }).getReader().read(),
    );
    await expectRefused(['empty', 'space'], (value) => checkpoint.openSource(value));
    await expectRefused(OBJECT, (value) => checkpoint.openSource('a', value));
    await expectRefused(OBJECT, (value) => checkpoint.details(value));
    const source = await checkpoint.openSource('a');
    await expectRefused(['0'], (value) => source.readInto(value, new Uint8Array(1)));
    await expectRefused([], (value) => source.readInto(0, value));
    await source.close();
  });
});

describe('opening', () => {
  const OPENING: Record<keyof CheckpointManagerOptions, Odd[]> = {
    store: [],
    files: OPTIONAL,
    attempt: OPTIONAL,
    life: OPTIONAL,
    runId: OPTIONAL,
    writer: OPTIONAL,
    settings: OBJECT,
    retention: ['undefined', 'null', '{}'],
    throttle: OPTIONAL,
    memory: OPTIONAL,
    dedupe: OPTIONAL,
    beforeFirstSave: ['undefined', 'function'],
    clock: OPTIONAL,
    random: OPTIONAL,
    meter: OPTIONAL,
    logger: OPTIONAL,
    process: OPTIONAL,
  };
  const store = () => new MemoryStore(newBucket());

  test('the options', () => expectRefused([], (value) => createCheckpointManager(value).close()));

  test.each(Object.entries(OPENING))('%s', async (option, accepted) => {
    await expectRefused(accepted, (value) =>
      createCheckpointManager({ store: store(), [option]: value } as never).close(),
    );
  });

  test.each(Object.entries(ALL_SETTINGS))('setting %s', async (name, { min }) => {
    const numbers: Odd[] = ['0', '-1'];
    const accepted: Odd[] = ['undefined', ...numbers.filter((number) => Number(number) >= min)];
    await expectRefused(accepted, (value) =>
      createCheckpointManager({ store: store(), settings: { ...SETTINGS, [name]: value } }).close(),
    );
  });

  test('an option that is not known', () => {
    const options = { store: store(), atempt: 'a' } as never;
    expect(() => createCheckpointManager(options)).toThrow('has the option "atempt", which is not known');
  });

  test('a property that every object has is not a setting', () => {
    const settings = { toString: 1 } as never;
    expect(() => createCheckpointManager({ store: store(), settings })).toThrow('unknown setting "toString"');
  });

  test.each(['host', 'pid'])('process %s', async (field) => {
    const accepted: Odd[] = field === 'host' ? ['empty', 'space'] : ['0'];
    await expectRefused(accepted, (value) =>
      createCheckpointManager({ store: store(), process: { host: 'h', pid: 1, [field]: value } }).close(),
    );
  });

  test.each(['index', 'count'])('writer %s', async (field) => {
    const accepted: Odd[] = field === 'index' ? ['0'] : [];
    await expectRefused(accepted, (value) =>
      createCheckpointManager({ store: store(), writer: { index: 0, count: 1, [field]: value } }).close(),
    );
  });
});

describe('beside the manager', () => {
  test('createTransferMemory', async () => {
    await expectRefused(OBJECT, (value) => createTransferMemory(value));
    await expectRefused(OBJECT, (settings) => createTransferMemory({ settings }));
    await expectRefused(OPTIONAL, (logger) => createTransferMemory({ logger }));
  });

  test('createThrottle', async () => {
    await expectRefused(OBJECT, (value) => createThrottle(value));
    await expectRefused(['undefined', 'null'], (bytesPerSecondMax) => createThrottle({ bytesPerSecondMax }));
    await expectRefused(OPTIONAL, (clock) => createThrottle({ clock }));
    for (const throttle of [createThrottle(), createThrottle({ bytesPerSecondMax: 1000 })]) {
      await expectRefused(['0'], (value) => throttle.take(value));
      await expectRefused(OPTIONAL, (value) => throttle.take(0, value));
      await expectRefused(['0', '-1'], (value) => throttle.charge(value));
      await expectRefused(['null'], (value) => throttle.setBytesPerSecondMax(value));
    }
  });

  test('openObjectSource and listObjects', async () => {
    const store = new MemoryStore(newBucket());
    await store.create('a', bytes(3));
    await expectRefused(['space'], async (value) => (await openObjectSource(store, value)).close());
    await expectRefused([], (value) => openObjectSource(value, 'a'));
    await expectRefused(OBJECT, async (value) => (await openObjectSource(store, 'a', value)).close());
    await expectRefused(['empty', 'space'], (value) => listObjects(store, value, { countMax: 5 }));
    await expectRefused([], (value) => listObjects(store, '', value));
    await expectRefused([], (countMax) => listObjects(store, '', { countMax }));
    for (const option of ['signal', 'settings', 'clock', 'random', 'logger']) {
      const accepted = option === 'settings' ? OBJECT : OPTIONAL;
      await expectRefused(accepted, (value) => listObjects(store, '', { countMax: 5, [option]: value }));
    }
  });

  test('versions and ids', async () => {
    await expectRefused([], (value) => parseVersion(value));
    await expectRefused([], (value) => idText(value));
  });
});
