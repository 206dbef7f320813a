import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { assertWritable, writeTextFile } from './text-file.ts';

async function newDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-certificate-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

describe('the file of a certificate', () => {
  it('is written whole, and nothing else', async () => {
    const directory = await newDirectory();
    const file = { path: join(directory, 'c.json'), replaces: false };
    await assertWritable(file);
    await writeTextFile(file, 'one');
    expect(await readFile(file.path, 'utf8')).toBe('one');
    expect(await readdir(directory)).toEqual(['c.json']);
  });

  it('one that is there is refused and stays as it is, unless it may be replaced', async () => {
    const directory = await newDirectory();
    const path = join(directory, 'c.json');
    await writeFile(path, 'first');
    const kept = { path, replaces: false };
    await expect(assertWritable(kept)).rejects.toMatchObject({ code: 'TargetExists', exitCode: 7 });
    await expect(writeTextFile(kept, 'second')).rejects.toMatchObject({ code: 'TargetExists' });
    expect(await readFile(path, 'utf8')).toBe('first');
    await assertWritable({ path, replaces: true });
    await writeTextFile({ path, replaces: true }, 'second');
    expect(await readFile(path, 'utf8')).toBe('second');
    expect(await readdir(directory)).toEqual(['c.json']);
  });

  it('a place that cannot be right is refused at once', async () => {
    const directory = await newDirectory();
    await mkdir(join(directory, 'dir'));
    await writeFile(join(directory, 'file'), '');
    for (const name of ['dir', 'missing/c.json', 'file/c.json']) {
      const file = { path: join(directory, name), replaces: true };
      await expect(assertWritable(file), name).rejects.toMatchObject({
        code: 'InvalidArgument',
        exitCode: 2,
      });
    }
  });

  it('a directory that vanished meanwhile: InvalidArgument, and the path is named', async () => {
    const path = join(await newDirectory(), 'gone', 'c.json');
    const error = expect.objectContaining({
      code: 'InvalidArgument',
      message: expect.stringContaining(path),
    });
    await expect(writeTextFile({ path, replaces: false }, 'text')).rejects.toEqual(error);
    await expect(writeTextFile({ path, replaces: true }, 'text')).rejects.toEqual(error);
  });
});
