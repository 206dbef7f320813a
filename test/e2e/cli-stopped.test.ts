/**
 * Commands that receive a signal while their deciding request is on its way. The command asks the
 * store once more. Its output and exit status must be true.
 */

import { crc32c, createCheckpointManager } from '@holdfast/core';
import type { RunManager } from '@holdfast/core/contract';
import { openGcsStore } from '@holdfast/store-gcs';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { sampleFiles, writeFiles as writeModel } from '../elasticdl/sample-files.ts';
import { type GcsScript, isInsert, type ScriptedGcs, scriptedGcs } from '../gcs/scripted-gcs.ts';
import type { SeenRequest } from '../scripted/scripted-server.ts';
import { type Ended, holdfast, newPlace, type Place, writeFiles } from './holdfast-process.ts';

// Each test starts a process, and other tests may keep the machine busy.
vi.setConfig({ testTimeout: 120_000 });

type Signal = 'SIGINT' | 'SIGTERM';
type Effect = 'with' | 'without';

interface Run {
  readonly server: ScriptedGcs;
  readonly uri: string;
  /** The URI of another run in the same bucket, which does not exist yet. */
  readonly otherUri: string;
  open<T>(use: (manager: RunManager) => Promise<T>): Promise<T>;
  /**
   * Runs a command. Its request gets no answer, with or without effect. Then `meanwhile` runs, and
   * the signal follows.
   */
  stopped(args: readonly string[], stop: Stop): Promise<Ended>;
}

interface Stop {
  readonly at: (request: SeenRequest) => boolean;
  readonly effect: Effect;
  readonly signal?: Signal;
  readonly meanwhile?: () => Promise<unknown>;
  /** The store stays silent from then on. */
  readonly isLast?: boolean;
}

const decision = (kind: string) => (request: SeenRequest) =>
  isInsert(request) && request.body.includes(`"kind":"${kind}"`);
/** Creates a record in this directory of the run. */
const recordIn = (directory: string) => (request: SeenRequest) =>
  isInsert(request) && request.body.includes(`gpt/${directory}/`);
const receipt = (request: SeenRequest) => isInsert(request) && request.body.includes('/receipts/');

let files: Place;

beforeAll(async () => {
  files = await newPlace();
  await writeFiles(files, 'ckpt', { 'a.bin': 'bytes' });
  await writeFiles(files, 'watched/step-3', { 'a.bin': 'bytes' });
  await writeModel(files.path('version-3'), sampleFiles({ version: 3, count: 1 }));
  return () => files.remove();
});

/** A run with versions 1 and 2. */
async function savedRun(...versions: readonly number[]): Promise<Run> {
  let script: GcsScript = () => undefined;
  const server = await scriptedGcs((...call) => script(...call));
  const uri = server.uri();
  const otherUri = uri.replace('/gpt?', '/copy?');
  const open: Run['open'] = async (use) => {
    await using manager = createCheckpointManager({ store: await openGcsStore(uri, {}) });
    return await use(manager);
  };
  await open(async (manager) => {
    for (const version of versions)
      await manager.save({ version, buffers: { a: new Uint8Array([version]) } });
  });
  const stopped: Run['stopped'] = async (args, { at, effect, signal = 'SIGINT', meanwhile, isLast }) => {
    const kill = Promise.withResolvers<(signal: Signal) => void>();
    let isSwallowed = false;
    script = (request, fake) => {
      if (isSwallowed || !at(request)) return isSwallowed && isLast ? 'silence' : undefined;
      isSwallowed = true;
      if (effect === 'with') fake.answer(request);
      void Promise.all([kill.promise, meanwhile?.()]).then(([send]) => send(signal));
      return 'silence';
    };
    const ended = await holdfast(args, { onSpawn: kill.resolve });
    script = () => undefined;
    expect(isSwallowed).toBe(true);
    return ended;
  };
  return { server, uri, otherUri, open, stopped };
}

const versionsOf = (manager: RunManager) =>
  manager.list().then((all) => all.map(({ version }) => Number(version)));

/** Both writers of version 3 deliver, and the second one dies before it commits. */
async function deliverVersion3({ uri }: Run): Promise<void> {
  const died = new AbortController();
  for (const index of [0, 1]) {
    const store = await openGcsStore(uri, {});
    const create = store.create.bind(store);
    store.create = (key, data, options) => {
      if (key.includes('/manifest-')) died.abort();
      return create(key, data, options);
    };
    const options = { store, attempt: 'pair', writer: { index, count: 2 } };
    await using manager = createCheckpointManager(options);
    const saving = { version: 3, buffers: { [`w${index}`]: new Uint8Array([index]) } };
    if (index === 0) await manager.save({ ...saving, noWait: true });
    else await expect(manager.save({ ...saving, signal: died.signal })).rejects.toThrow();
  }
}

function removeCatalog({ server: { fake } }: Run): void {
  for (const name of fake.objects.keys()) if (name.includes('/catalog/')) fake.objects.delete(name);
}

/** The rebuilt catalog lacks version 2, whose manifest cannot be read. Returns its key. */
const SKIPPED = /version_2\/.*\/manifest-.*/;
function skippedManifest({ server: { fake } }: Run): string {
  return [...fake.objects.keys()].flatMap((name) => SKIPPED.exec(name)?.[0] ?? [])[0] ?? '';
}

async function rebuildWithoutVersion2(run: Run): Promise<void> {
  const { objects } = run.server.fake;
  for (const [name, object] of objects) {
    if (SKIPPED.test(name)) objects.set(name, { ...object, bytes: Buffer.from('{}'), ...checksumOf('{}') });
  }
  removeCatalog(run);
  await run.open((manager) => manager.admin.rebuildCatalog({ skip: [skippedManifest(run)] }));
}

const checksumOf = (text: string) => ({ crc32c: crc32c(Buffer.from(text)) });

interface Story {
  readonly args: (run: Run) => readonly string[];
  /** The kind of the transaction that decides, or a word for the record. */
  readonly kind: string;
  /** Selects the deciding request. Default: the one with the transaction of that kind. */
  readonly at?: (request: SeenRequest) => boolean;
  /** Output if the request took effect. */
  readonly stdout?: RegExp;
  readonly stderr?: RegExp;
  /** Output in any case. */
  readonly printed?: RegExp;
  /** Output if the store shows no effect. */
  readonly unknown: RegExp;
  readonly prepare?: (run: Run) => Promise<unknown>;
}

const AGAIN = /^ {2}run it again to make sure; delete nothing$/m;
const STORIES: Readonly<Record<string, Story>> = {
  save: {
    args: ({ uri }) => ['save', files.path('ckpt'), uri, '--version', '3'],
    kind: 'commit',
    stdout: /^committed {2,}version 3 {2,}interrupted; asked once more\n$/,
    unknown: /^ {2}your files are safe in the store\n {2}`holdfast commit \S+ --version 3` finishes it$/m,
  },
  pin: {
    args: ({ uri }) => ['pin', uri, '--version', '1', '--label', 'best'],
    kind: 'pin',
    stdout: /^done {2,}the pin decision took effect {2,}interrupted; asked once more\n$/,
    unknown: AGAIN,
  },
  unpin: {
    prepare: ({ open }) => open((manager) => manager.admin.pin(1, 'best')),
    args: ({ uri }) => ['unpin', uri, '--version', '1'],
    kind: 'unpin',
    stdout: /^done {2,}the unpin decision took effect {2,}interrupted; asked once more\n$/,
    unknown: AGAIN,
  },
  verify: {
    args: ({ uri }) => ['verify', uri],
    kind: 'verify',
    stdout: /^done {2,}the verify decision took effect {2,}interrupted; asked once more\n$/,
    unknown: AGAIN,
  },
  rollback: {
    args: ({ uri }) => ['rollback', uri, '--to', '1', '--reason', 'a test'],
    kind: 'rollback',
    stdout: /^done {2,}the rollback decision took effect/,
    unknown: AGAIN,
  },
  gc: {
    args: ({ uri }) => ['gc', uri, '--keep', '1', '--apply'],
    kind: 'retire',
    stderr: /^holdfast: interrupted; the retire decision took effect\n {2}.*holdfast undelete/m,
    unknown: AGAIN,
  },
  undelete: {
    prepare: ({ open }) => open((manager) => manager.admin.collect({ policy: { keepLast: 1 } })),
    args: ({ uri }) => ['undelete', uri, '--version', '1'],
    kind: 'unretire',
    stdout: /^done {2,}the unretire decision took effect/,
    unknown: AGAIN,
  },
  commit: {
    prepare: deliverVersion3,
    args: ({ uri }) => ['commit', uri, '--version', '3'],
    kind: 'commit',
    stdout: /^committed {2,}version 3 {2,}interrupted; asked once more\n$/,
    unknown: /^ {2}`holdfast commit \S+ --version 3` finishes it$/m,
  },
  annotate: {
    args: ({ uri }) => ['annotate', uri, '--version', '1', '--metric', 'auc=0.9'],
    kind: 'annotate',
    stdout: /^done {2,}the annotate decision took effect {2,}interrupted; asked once more\n$/,
    unknown: AGAIN,
  },
  'restore by a new life': {
    args: ({ uri }) => ['restore', uri, files.path('out'), '--attempt', 'b', '--life', 'l'],
    kind: 'takeover',
    stderr: /^holdfast: interrupted; the takeover decision took effect\n {2}nothing was written to /m,
    unknown: AGAIN,
  },
  lease: {
    args: ({ uri }) => ['lease', uri, '--version', '1', '--for', '1h'],
    kind: 'leases',
    at: recordIn('leases'),
    stderr:
      /^holdfast: interrupted; leases\/(\S+)\.json is there\n {2}it protects .*`holdfast lease \S+ --release \1` ends it$/m,
    unknown: AGAIN,
  },
  elect: {
    args: ({ uri }) => ['elect', uri, '--id', 't0', '--for', '10m'],
    kind: 'elections',
    at: recordIn('elections'),
    stderr: /^holdfast: interrupted; elections\/0+1\.json is there\n {2}this trainer may be elected, /m,
    unknown: AGAIN,
  },
  'fsck --rebuild-catalog': {
    prepare: async (run) => removeCatalog(run),
    args: ({ uri }) => ['fsck', uri, '--rebuild-catalog', '--apply'],
    kind: 'rebuild',
    // Entry 1 is only the mark. The entry is numbered by the time.
    at: (request) => recordIn('catalog')(request) && !/catalog\/0+1\.json/.test(String(request.body)),
    stderr: /^holdfast: interrupted; catalog\/\d+\.json is there\n {2}there is a catalog again; /m,
    unknown: AGAIN,
  },
  'fsck --release': {
    prepare: rebuildWithoutVersion2,
    args: (run) => ['fsck', run.uri, '--release', skippedManifest(run), '--apply'],
    kind: 'release',
    stdout: /^done {2,}the release decision took effect {2,}interrupted; asked once more\n$/,
    unknown: AGAIN,
  },
  'elasticdl import': {
    args: ({ uri }) => ['elasticdl', 'import', files.path('version-3'), uri],
    kind: 'commit',
    stderr: /^holdfast: interrupted; version 3 is committed\n {2}what was committed before stays; /m,
    unknown: /^ {2}`holdfast commit \S+ --version 3` finishes it$/m,
  },
  watch: {
    args: ({ uri }) => ['watch', files.path('watched'), uri, '--complete-when', 'rename', '--once'],
    kind: 'commit',
    printed: /^watched {2}1 directory {3}0 versions saved\n$/,
    stderr:
      /^holdfast: \S+watched\/step-3: interrupted; version 3 is committed\n {2}run it again to continue$/m,
    unknown: /^ {2}`holdfast commit \S+ --version 3` finishes it$/m,
  },
  fork: {
    args: ({ uri, otherUri }) => ['fork', uri, otherUri],
    kind: 'commit',
    stdout: /^committed {2,}version 2 {2,}interrupted; asked once more\n$/,
    unknown: /^ {2}`holdfast commit \S+copy\S+ --version 2` finishes it$/m,
  },
  mirror: {
    args: ({ uri, otherUri }) => ['mirror', uri, otherUri],
    kind: 'commit',
    stderr:
      /^holdfast: interrupted; version 1 is committed\n {2}what was committed before stays; run it again/m,
    unknown: /^ {2}`holdfast commit \S+copy\S+ --version 1` finishes it$/m,
  },
};

describe.each(Object.entries(STORIES))('%s', (_, story) => {
  const { args, kind, at = decision(kind), stdout, stderr, unknown, prepare, printed = /^$/ } = story;

  test('SIGINT while its decision is on its way, with effect: that it took effect', async () => {
    const run = await savedRun(1, 2);
    await prepare?.(run);
    const ended = await run.stopped(args(run), { at, effect: 'with' });
    expect(ended.stdout).toMatch(stdout ?? printed);
    expect(ended.stderr).toMatch(stderr ?? /ending cleanly/);
    expect(ended.code).toBe(stdout ? 0 : 130);
  });

  test('SIGTERM while its decision is on its way, without effect: that it is not known, with a token', async () => {
    const run = await savedRun(1, 2);
    await prepare?.(run);
    const stop = { at, effect: 'without', signal: 'SIGTERM' } as const;
    const ended = await run.stopped(args(run), stop);
    expect(ended.stdout).toMatch(kind === 'retire' ? /^/ : printed);
    expect(ended.stderr).toMatch(unknown);
    expect(ended.stderr).toMatch(/ hf1-\S+` prints the outcome\n {2}\(OutcomeUnknown, exit 75\)\n$/);
    expect(ended.code).toBe(75);
  });
});

describe('a signal', () => {
  test('while the receipt of a save is on its way: whether the files are safe', async () => {
    const save = ({ uri }: Run) => ['save', files.path('ckpt'), uri, '--version', '3', '--json'];
    const [delivered, lost] = await Promise.all(
      (['with', 'without'] as const).map(async (effect) => {
        const run = await savedRun(1);
        const ended = await run.stopped(save(run), { at: receipt, effect });
        expect(await run.open(versionsOf)).toEqual([1]);
        expect(ended.code).toBe(75);
        return JSON.parse(ended.stdout).error;
      }),
    );
    expect(delivered.context.asked).toMatchObject({ outcome: 'pending', isDelivered: true });
    expect(delivered.advice.join(' ')).toContain('your files are safe in the store');
    expect(lost.context.asked).toMatchObject({ outcome: 'pending', isDelivered: false });
    expect(lost.advice.join(' ')).toContain('save it again');
  });

  test('while a commit is on its way, and --json: the outcome is an object, and so is that of recover', async () => {
    const run = await savedRun(1);
    const args = ['save', files.path('ckpt'), run.uri, '--version', '3', '--json'];
    const ended = await run.stopped(args, { at: decision('commit'), effect: 'with' });
    expect(ended.code).toBe(0);
    const said = JSON.parse(ended.stdout);
    expect(said).toMatchObject({ outcome: 'committed', version: 3, isCommitted: true });
    expect(await run.open(versionsOf)).toEqual([3, 1]);
  });

  test('while a quarantine is on its way: that the version is damaged, and is quarantined', async () => {
    const run = await savedRun(1, 2);
    const { objects } = run.server.fake;
    for (const name of objects.keys()) if (/version_2\/.*\/0\.\d+-/.test(name)) objects.delete(name);
    const ended = await run.stopped(['verify', run.uri, '--quarantine'], {
      at: decision('quarantine'),
      effect: 'with',
    });
    expect(ended.stderr).toMatch(
      /^holdfast: version 2 is damaged: verify: .* is missing; interrupted; asked once more\n {2}version 2 is quarantined: .*\n {2}\(Corrupt, exit 5\)\n$/m,
    );
    expect(ended.code).toBe(5);
    expect(await run.open((manager) => manager.latest().then((latest) => latest?.version))).toBe(1n);
  });

  test('while the first of several pins is taken away: which are gone, and that it is to be repeated', async () => {
    const run = await savedRun(1);
    await run.open(async (manager) => {
      for (const label of ['best', 'paper']) await manager.admin.pin(1, label);
    });
    const stop = { at: decision('unpin'), effect: 'with' } as const;
    const ended = await run.stopped(['unpin', run.uri, '--version', '1'], stop);
    expect(ended.stderr).toContain(
      'holdfast: interrupted; the unpin decision took effect\n  run it again to continue\n',
    );
    expect(ended.code).toBe(130);
  });

  test('where another decision takes the place meanwhile: that it did not take effect, exit 130', async () => {
    const run = await savedRun(1, 2);
    const ended = await run.stopped(['pin', run.uri, '--version', '1', '--label', 'best'], {
      at: decision('pin'),
      effect: 'without',
      meanwhile: () => run.open((manager) => manager.admin.rollback({ to: 1, reason: 'a test' })),
    });
    expect(ended.stderr).toContain(
      'holdfast: interrupted; another decision took effect instead of the pin, which did not\n  nothing was changed\n  (Aborted, exit 130)\n',
    );
    expect(ended.code).toBe(130);
  });

  test('and a store that is silent from then on: not known, within seconds; recover tells later', async () => {
    const run = await savedRun(1, 2);
    const args = ['rollback', run.uri, '--to', '1', '--reason', 'a test'];
    const ended = await run.stopped(args, { at: decision('rollback'), effect: 'with', isLast: true });
    expect(ended.code).toBe(75);
    expect(ended.stderr).toContain(
      '  because: interrupted\n  it may have taken effect, or may still take effect; delete nothing\n',
    );
    const [token] = /hf1-[\w-]+/.exec(ended.stderr) ?? [];
    const recovered = await holdfast(['recover', run.uri, token ?? '', '--json']);
    expect([recovered.code, JSON.parse(recovered.stdout)]).toMatchObject([
      0,
      { outcome: 'committed', of: 'decision', version: null, id: null },
    ]);
  });
});
