import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32c, createCheckpointManager } from '@holdfast/core';
import type { LocalFiles, RandomSource } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { localFiles } from '@holdfast/local-files';
import { type FaultPlan, FaultyStore, refuse } from '@holdfast/testkit';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Folder } from './folder.ts';
import { parsePattern } from './pattern.ts';
import type { Rule } from './rule.ts';

const SETTINGS = { retryTimeoutMs: 100, recordTimeoutMs: 100 };

/** A watched directory and its run. `during` runs when a piece of a file was read. */
function watched({
  rule = { kind: 'metadata' },
  pattern = 'step-{version}',
}: {
  rule?: Rule;
  pattern?: string;
} = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-watch-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const bucket = new MemoryBucket({ crc32c });
  const told: string[] = [];
  const messages: string[] = [];
  const hooks: { during: () => void; plan: FaultPlan | undefined; aheadMs: number } = {
    during: () => undefined,
    plan: undefined,
    /** By how much the clock of the machine is ahead of the store's. */
    aheadMs: 0,
  };
  const folder = () =>
    new Folder(directory, {
      pattern: parsePattern(pattern),
      rule,
      nowMs: () => performance.now(),
      wallMs: () => Date.now() + hooks.aheadMs,
      save: {},
      onSaved: ({ version }) => told.push(`saved ${version}`),
      onNotSaved: ({ version, why }) => {
        told.push(`not ${version} ${why.code}`);
        messages.push(why.message);
      },
    });
  const open = (own: Folder) => {
    const store = new FaultyStore(new MemoryStore(bucket), (call) => hooks.plan?.(call));
    return createCheckpointManager({
      store,
      files: noticing(own.files, () => hooks.during()),
      settings: SETTINGS,
    });
  };
  const look = async (own = folder()) => {
    await using manager = open(own);
    await own.look(manager);
  };
  const rollback = async (to: number) => {
    await using person = open(folder());
    await person.admin.rollback({ to, reason: 'diverged' });
  };
  const write = (name: string, files: Readonly<Record<string, string>>) => {
    mkdirSync(join(directory, name), { recursive: true });
    for (const [file, text] of Object.entries(files)) writeFileSync(join(directory, name, file), text);
  };
  const content = async (version: bigint) => {
    await using manager = open(folder());
    const to = new Uint8Array(6);
    await manager.restore({ version, to: { model: to } });
    return Buffer.from(to).toString();
  };
  return { directory, told, messages, hooks, folder, open, look, rollback, write, content };
}

/** Tells when a piece of a file was read. */
function noticing(files: LocalFiles, onRead: () => void): LocalFiles {
  const noticed = (source: RandomSource): RandomSource => ({
    sizeBytes: source.sizeBytes,
    assertUnchanged: () => source.assertUnchanged(),
    close: () => source.close(),
    readInto: async (offsetBytes, buffer) => {
      await source.readInto(offsetBytes, buffer);
      onRead();
    },
  });
  return {
    ...files,
    scan: async (path, options) => {
      const tree = await files.scan(path, options);
      const found = tree.files.map((file) => ({ ...file, open: async () => noticed(await file.open()) }));
      return { ...tree, files: found };
    },
  };
}

const later = () => new Date(Date.now() + 3600_000);
/** The file system's times tell the changes before it from those after it. */
const later100Ms = () => {
  const startedAtMs = Date.now();
  return vi.waitFor(() => expect(Date.now()).toBeGreaterThan(startedAtMs + 100));
};
const earlier = () => new Date(Date.now() - 3600_000);
const WHOLE = { model: 'model1', '.metadata': 'N.' };

describe('a watched directory', () => {
  test('complete checkpoints are saved, lowest first, and once, also by the next process', async () => {
    const { directory, told, look, write, content } = watched();
    write('step-20', WHOLE);
    write('step-3', WHOLE);
    write('step-30', { model: 'part' });
    write('other', WHOLE);
    await look();
    expect(told).toEqual(['saved 3', 'saved 20']);
    await look();
    write('step-30', WHOLE);
    await look();
    expect(told).toEqual(['saved 3', 'saved 20', 'saved 30']);
    expect(await content(30n)).toBe('model1');
    expect(readdirSync(directory).sort()).toEqual(['other', 'step-20', 'step-3', 'step-30']);
  });

  test('a single file is a checkpoint too', async () => {
    const { directory, told, look } = watched({ rule: { kind: 'rename' }, pattern: 'step={version}.ckpt' });
    writeFileSync(join(directory, 'step=7.ckpt'), 'state');
    await look();
    expect(told).toEqual(['saved 7']);
  });

  test('the directory need not be there yet', async () => {
    const { directory, told, look, write, folder } = watched();
    rmSync(directory, { recursive: true });
    const own = folder();
    await look(own);
    await look(own);
    expect(told).toEqual(['not null NotFound']);
    write('step-1', WHOLE);
    await look(own);
    expect(told).toEqual(['not null NotFound', 'saved 1']);
  });

  test.each<[string, (directory: string) => void]>([
    ['is a file', (directory) => writeFileSync(directory, '')],
    ['leads nowhere', (directory) => symlinkSync(directory, directory)],
  ])('a directory that %s is told', async (_, make) => {
    const { directory, told, look, folder } = watched();
    rmSync(directory, { recursive: true });
    make(directory);
    const own = folder();
    await look(own);
    expect(told).toEqual([expect.stringMatching(/^not null /)]);
    expect(own.notSaved).toMatchObject([{ path: directory, version: null, isPassedOver: false }]);
  });

  test.each<[Rule['kind'], string]>([
    ['rename', 'step-1'],
    ['metadata', 'step-1/part'],
    ['rename', 'step-1/part'],
  ])('%s: a checkpoint that has lost a file of %s is not saved until one is added', async (kind, lost) => {
    const { directory, told, look, write, folder } = watched({ rule: { kind } as Rule });
    write('step-1', { ...WHOLE, other: 'o' });
    write('step-1/part', { a: 'a', b: 'b' });
    const changed = join(directory, lost);
    // Younger than its entries, as after a removal: those tests must not wait for the clock.
    utimesSync(changed, later(), later());
    const own = folder();
    await look(own);
    await look(own);
    expect(told).toEqual(['not 1 SourceChanged']);
    expect(own.notSaved).toMatchObject([{ version: 1n, why: { code: 'SourceChanged' } }]);
    utimesSync(changed, earlier(), earlier());
    await look(own);
    expect(told).toEqual(['not 1 SourceChanged', 'saved 1']);
    expect(own.notSaved).toEqual([]);
  });

  test.each<Rule['kind']>(['rename', 'metadata'])(
    '%s: the remains of a removal are not saved, also after a change of their mode',
    async (kind) => {
      const { directory, told, look, write } = watched({ rule: { kind } as Rule });
      write('step-1', { ...WHOLE, other: 'o' });
      const path = join(directory, 'step-1');
      await later100Ms();
      rmSync(join(path, 'other'));
      await later100Ms();
      for (const place of [path, ...Object.keys(WHOLE).map((name) => join(path, name))])
        chmodSync(place, 0o755);
      await look();
      expect(told).toEqual(['not 1 SourceChanged']);
    },
  );

  test('what a trainer removes before it gives the name does not count', async () => {
    const { directory, told, look, write } = watched({ rule: { kind: 'rename' } });
    write('tmp-1', WHOLE);
    const removedAtMs = Date.now() + 50;
    await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(removedAtMs + 100));
    utimesSync(join(directory, 'tmp-1'), removedAtMs / 1000, removedAtMs / 1000);
    renameSync(join(directory, 'tmp-1'), join(directory, 'step-1'));
    await look();
    expect(told).toEqual(['saved 1']);
  });

  test.each<[string, (path: string) => void]>([
    ['a file', (path) => rmSync(join(path, 'other'))],
    ['all', (path) => rmSync(path, { recursive: true })],
  ])('%s removed while the files are opened: it is not saved', async (_, remove) => {
    const { directory, told, look, write } = watched({ rule: { kind: 'rename' } });
    write('step-1', { ...WHOLE, other: 'o' });
    const { scan } = localFiles;
    vi.spyOn(localFiles, 'scan').mockImplementationOnce((path, options) => {
      remove(join(directory, 'step-1'));
      return scan(path, options);
    });
    onTestFinished(() => {
      vi.restoreAllMocks();
    });
    await look();
    expect(told).toEqual([expect.stringMatching(/^not 1 (SourceChanged|NotFound)$/)]);
  });

  test('two names of one version: the shorter one is saved, the other is told', async () => {
    const { told, look, write, folder } = watched();
    write('step-07', WHOLE);
    write('step-7', WHOLE);
    const own = folder();
    await look(own);
    await look(own);
    expect(told).toEqual(['not 7 InvalidArgument', 'saved 7']);
    expect(own.notSaved).toMatchObject([{ path: expect.stringMatching(/step-07$/), isPassedOver: false }]);
  });

  test.each<[string, (path: string) => void]>([
    ['removed', (path) => rmSync(path, { recursive: true })],
    ['renamed', (path) => renameSync(path, `${path}.old`)],
    ['removed in part', (path) => rmSync(join(path, '.metadata'))],
  ])('a checkpoint that is %s while it is sent is saved whole', async (_, change) => {
    const { directory, told, hooks, look, write, content } = watched();
    write('step-1', WHOLE);
    hooks.during = () => {
      hooks.during = () => undefined;
      change(join(directory, 'step-1'));
    };
    await look();
    expect(told).toEqual(['saved 1']);
    expect(await content(1n)).toBe('model1');
  });

  test.each<[string, (path: string) => void]>([
    ['written to', (path) => appendFileSync(join(path, 'model'), '2')],
    ['written anew', (path) => writeFileSync(join(path, 'model'), 'model2')],
    ['given another file', (path) => writeFileSync(join(path, 'more'), 'x')],
    [
      'replaced by another one',
      (path) => {
        writeFileSync(join(path, 'model.new'), 'model2');
        renameSync(join(path, 'model.new'), join(path, 'model'));
      },
    ],
  ])(
    'a checkpoint that is %s while it is sent is not committed, and later as it is then',
    async (_, change) => {
      const { directory, told, hooks, look, write, folder } = watched();
      write('step-1', WHOLE);
      const path = join(directory, 'step-1');
      hooks.during = () => {
        hooks.during = () => undefined;
        change(path);
      };
      const own = folder();
      await look(own);
      expect(told).toEqual(['not 1 SourceChanged']);
      await look(own);
      expect(told).toEqual(['not 1 SourceChanged', 'saved 1']);
    },
  );

  test('what cannot be saved is told once, and holds up no other', async () => {
    const { directory, told, look, write, folder } = watched();
    write('step-1', WHOLE);
    symlinkSync('/nowhere', join(directory, 'step-1', 'link'));
    write('step-2', WHOLE);
    const own = folder();
    await look(own);
    await look(own);
    expect(told).toEqual(['saved 2']);
    rmSync(join(directory, 'step-1', 'link'));
    symlinkSync('model', join(directory, 'step-1', 'link'));
    await look(own);
    await look(own);
    expect(told).toEqual(['saved 2', 'not 1 InvalidArgument']);
  });

  test('an older version than the latest is told once and not saved', async () => {
    const { told, look, write, folder } = watched();
    write('step-5', WHOLE);
    const own = folder();
    await look(own);
    write('step-4', WHOLE);
    await look(own);
    write('step-6', WHOLE);
    await look(own);
    expect(told).toEqual(['saved 5', 'not 4 InvalidArgument', 'saved 6']);
  });

  test('a store that is away for a while holds up nothing for good', async () => {
    const { told, hooks, look, write, folder } = watched();
    write('step-1', WHOLE);
    const own = folder();
    hooks.plan = ({ operation }) => (operation === 'create' ? refuse('Unavailable') : undefined);
    await look(own);
    await look(own);
    expect(told).toEqual([expect.stringMatching(/^not 1 (Unavailable|TimedOut)$/)]);
    hooks.plan = undefined;
    await look(own);
    expect(told.at(-1)).toBe('saved 1');
  });

  test('after a rollback, a version that is written again ends it, and another process saves it', async () => {
    const { directory, told, look, rollback, write, folder, open } = watched();
    for (const step of [1, 2]) write(`step-${step}`, WHOLE);
    const own = folder();
    await using manager = open(own);
    await own.look(manager);
    await rollback(1);
    await own.look(manager);
    await later100Ms();
    rmSync(join(directory, 'step-2'), { recursive: true });
    write('step-2', { ...WHOLE, model: 'anew-2' });
    await expect(own.look(manager)).rejects.toMatchObject({ code: 'Fenced' });
    await look();
    expect(told).toEqual(['saved 1', 'saved 2', 'not 2 Fenced', 'saved 2']);
  });

  test('a rollback is not undone: what it left behind is not saved again, and told once', async () => {
    const { told, messages, look, rollback, write, folder, open } = watched();
    for (const step of [4, 5]) write(`step-${step}`, WHOLE);
    await look();
    // The trainer wrote it before the rollback, and it was never saved.
    write('step-6', WHOLE);
    await later100Ms();
    await rollback(4);
    const own = folder();
    await using manager = open(own);
    await own.look(manager);
    await own.look(manager);
    expect(told).toEqual(['saved 4', 'saved 5', 'not 5 Conflict', 'not 6 Conflict']);
    expect(messages[0]).toMatch(/step-5 was last changed before the run was rolled back; remove it, or/);
    expect(own.notSaved).toMatchObject([
      { version: 5n, isPassedOver: true },
      { version: 6n, isPassedOver: true },
    ]);
    await later100Ms();
    write('step-5', { ...WHOLE, model: 'anew-5' });
    await own.look(manager);
    expect(told.slice(4)).toEqual(['saved 5']);
    expect(await manager.list().then((list) => list.find(({ isLatest }) => isLatest)?.version)).toBe(5n);
  });

  test('after a rollback, the same files with a newer time are not saved; others of that size are', async () => {
    const { directory, told, messages, look, rollback, write, content } = watched();
    for (const step of [4, 5]) write(`step-${step}`, WHOLE);
    await look();
    await rollback(4);
    for (const name of Object.keys(WHOLE)) utimesSync(join(directory, 'step-5', name), later(), later());
    await look();
    expect(told).toEqual(['saved 4', 'saved 5', 'not 5 Conflict']);
    expect(messages[0]).toMatch(/step-5 has the files of version 5@1, which a rollback left behind; remove/);
    write('step-5', { ...WHOLE, model: 'MODEL1' });
    for (const name of Object.keys(WHOLE)) utimesSync(join(directory, 'step-5', name), later(), later());
    await look();
    expect(told.at(-1)).toBe('saved 5');
    expect(await content(5n)).toBe('MODEL1');
  });

  test('after a rollback, a single file with the same bytes is not saved either', async () => {
    const { directory, told, look, rollback } = watched({
      rule: { kind: 'rename' },
      pattern: 'step={version}.ckpt',
    });
    for (const step of [4, 5]) writeFileSync(join(directory, `step=${step}.ckpt`), `state ${step}`);
    await look();
    await rollback(4);
    utimesSync(join(directory, 'step=5.ckpt'), later(), later());
    await look();
    expect(told).toEqual(['saved 4', 'saved 5', 'not 5 Conflict']);
  });

  test.each([-3600_000, 3600_000])(
    'a clock that is %d ms ahead of the store does not make old checkpoints new, nor new ones old',
    async (aheadMs) => {
      const { directory, told, hooks, look, rollback, write } = watched();
      write('step-4', WHOLE);
      await look();
      await rollback(4);
      hooks.aheadMs = aheadMs;
      const writtenAt = (offsetMs: number) => new Date(Date.now() + aheadMs + offsetMs);
      write('step-5', WHOLE);
      write('step-6', WHOLE);
      for (const name of Object.keys(WHOLE)) {
        utimesSync(join(directory, 'step-5', name), writtenAt(-60_000), writtenAt(-60_000));
        utimesSync(join(directory, 'step-6', name), writtenAt(60_000), writtenAt(60_000));
      }
      await look();
      expect(told).toEqual(['saved 4', 'not 5 Conflict', 'saved 6']);
    },
  );

  test('a rollback is noticed at the next checkpoint, also at a version below the former latest', async () => {
    const { told, look, rollback, write, folder, open } = watched();
    for (const step of [40, 50]) write(`step-${step}`, WHOLE);
    await look();
    write('step-60', WHOLE);
    const own = folder();
    await using manager = open(own);
    await own.look(manager);
    await rollback(40);
    await later100Ms();
    write('step-45', WHOLE);
    await expect(own.look(manager)).rejects.toMatchObject({
      code: 'Fenced',
      message: expect.stringMatching(/rolled back|rollback/),
    });
    expect(told).toEqual(['saved 40', 'saved 50', 'saved 60', 'not 45 Fenced']);
  });

  test('after a rollback, a version that is written again in place ends it', async () => {
    const { directory, rollback, write, folder, open } = watched();
    for (const step of [1, 2]) write(`step-${step}`, WHOLE);
    const own = folder();
    await using manager = open(own);
    await own.look(manager);
    await rollback(1);
    await later100Ms();
    for (const [name, text] of Object.entries({ ...WHOLE, model: 'anew-2' }))
      writeFileSync(join(directory, 'step-2', name), text);
    await expect(own.look(manager)).rejects.toMatchObject({ code: 'Fenced' });
  });

  test('a rollback between the first look at a run and the save is not undone', async () => {
    const { told, look, rollback, write, folder, open } = watched();
    for (const step of [4, 5]) write(`step-${step}`, WHOLE);
    await look();
    write('step-6', WHOLE);
    await later100Ms();
    const own = folder();
    await using manager = open(own);
    const join = manager.join.bind(manager);
    vi.spyOn(manager, 'join').mockImplementationOnce(async (options) => {
      await rollback(4);
      return join(options);
    });
    await own.look(manager);
    expect(told).toEqual(['saved 4', 'saved 5', 'not 6 Conflict']);
  });

  test('a newer attempt that owns the run ends it', async () => {
    const { look, write, folder, open } = watched();
    const own = folder();
    write('step-1', WHOLE);
    await using manager = open(own);
    await own.look(manager);
    write('step-2', WHOLE);
    await look();
    write('step-3', WHOLE);
    await expect(own.look(manager)).rejects.toMatchObject({ code: 'Fenced' });
  });
});
