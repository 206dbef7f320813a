import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type ModelFiles, saveModel } from './save-model.ts';

let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-model-'));
});

afterEach(() => rm(root, { recursive: true }));

async function write(model: ModelFiles, name: string, text: string): Promise<void> {
  const bytes = Buffer.from(text);
  const sink = await model.open({ name, sizeBytes: bytes.byteLength });
  await sink.writeAt(0, bytes);
  await sink.close();
}

/** Includes hidden files, but not the notes of what was written. */
const below = async (directory: string): Promise<string[]> =>
  (await readdir(directory, { recursive: true })).filter((name) => !name.endsWith('.made-0'));

describe('A14: a model is written below the directory of its trainer', () => {
  test('it is there when the call resolves, and nothing is there before', async () => {
    const path = await saveModel(join(root, 'models'), '7', async (model) => {
      await write(model, 'model.bin', 'weights');
      await write(model, 'layers/0.bin', 'layer');
      expect((await readdir(join(root, 'models'))).filter((name) => !name.startsWith('.'))).toEqual([]);
    });
    expect(path).toBe(join(root, 'models', '7'));
    expect((await below(join(root, 'models'))).toSorted()).toEqual([
      '7',
      '7/layers',
      '7/layers/0.bin',
      '7/model.bin',
    ]);
    expect(await readFile(join(path, 'layers/0.bin'), 'utf8')).toBe('layer');
  });

  test.each(['', '.', '..', '../x', 'a/b', '/tmp', '.x', 'a\\b', 'a\0'])(
    'an id that would lead elsewhere is InvalidArgument, and nothing is written: %j',
    async (id) => {
      const saved = saveModel(root, id, (model) => write(model, 'm', 'x'));
      await expect(saved).rejects.toMatchObject({ code: 'InvalidArgument' });
      expect(await below(root)).toEqual([]);
    },
  );

  test('a file name that leads out is InvalidArgument', async () => {
    const saved = saveModel(join(root, 'models'), '7', (model) => write(model, '../8/m', 'x'));
    await expect(saved).rejects.toMatchObject({ code: 'InvalidArgument' });
    expect(await below(root)).toEqual(['models']);
  });
});

describe('a model appears whole or not at all', () => {
  const failure = new Error('the trainer has failed');
  const MISTAKES: Readonly<Record<string, [(model: ModelFiles) => Promise<void>, unknown]>> = {
    'the writer fails': [
      async (model) => {
        await write(model, 'a', 'x');
        throw failure;
      },
      failure,
    ],
    'a file is not closed': [
      async (model) => {
        await write(model, 'a', 'x');
        await (await model.open({ name: 'b', sizeBytes: 1 })).writeAt(0, Buffer.from('y'));
      },
      expect.objectContaining({
        code: 'InvalidArgument',
        message: expect.stringContaining('7 was not created: "b" was opened and not closed'),
      }),
    ],
    'a file is shorter than it was to be, and the writer overlooks it': [
      async (model) => {
        const sink = await model.open({ name: 'b', sizeBytes: 2 });
        await sink.writeAt(0, Buffer.from('y'));
        await sink.close().catch(() => undefined);
      },
      expect.objectContaining({ code: 'InvalidArgument', message: expect.stringContaining('"b"') }),
    ],
    'no file was written': [
      async () => undefined,
      expect.objectContaining({
        code: 'InvalidArgument',
        message: expect.stringContaining('7 was not created: no file was written'),
      }),
    ],
  };

  test.each(Object.entries(MISTAKES))(
    '%s: there is nothing, and what was there stays',
    async (_, [mistake, error]) => {
      await expect(saveModel(root, '7', mistake)).rejects.toEqual(error);
      expect(await below(root)).toEqual([]);
      await saveModel(root, '7', (model) => write(model, 'model.bin', 'old'));
      await expect(saveModel(root, '7', mistake, { replace: true })).rejects.toEqual(error);
      expect((await below(root)).toSorted()).toEqual(['7', '7/model.bin']);
      expect(await readFile(join(root, '7/model.bin'), 'utf8')).toBe('old');
    },
  );

  test('the caller stops it: Aborted, and nothing is there', async () => {
    const stop = new AbortController();
    const saved = saveModel(
      root,
      '7',
      async (model) => {
        await write(model, 'a', 'x');
        stop.abort();
      },
      { signal: stop.signal },
    );
    await expect(saved).rejects.toMatchObject({ code: 'Aborted' });
    expect(await below(root)).toEqual([]);
  });

  test('a model that is there is TargetExists; with `replace` the new one takes its place, whole', async () => {
    await saveModel(root, '7', (model) => write(model, 'old.bin', 'old'));
    const again = (replace: boolean) =>
      saveModel(root, '7', (model) => write(model, 'new.bin', 'new'), { replace });
    await expect(again(false)).rejects.toMatchObject({ code: 'TargetExists' });
    expect(await below(join(root, '7'))).toEqual(['old.bin']);
    await again(true);
    expect((await below(root)).toSorted()).toEqual(['7', '7/new.bin']);
  });

  test('two processes of one trainer at once: one model, whole; the other is told', async () => {
    const both = await Promise.allSettled(
      ['a', 'b'].map((text) => saveModel(root, '7', (model) => write(model, 'model.bin', text))),
    );
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect((await below(root)).toSorted()).toEqual(['7', '7/model.bin']);
  });

  test("a file in the trainer's place is TargetExists, and stays", async () => {
    await mkdir(join(root, 'models'));
    await writeFile(join(root, 'models/7'), 'mine');
    const saved = saveModel(join(root, 'models'), '7', (model) => write(model, 'm', 'x'));
    await expect(saved).rejects.toMatchObject({ code: 'TargetExists' });
    expect(await readFile(join(root, 'models/7'), 'utf8')).toBe('mine');
  });
});
