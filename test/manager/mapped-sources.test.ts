/** Files that another program changes through a shared mapping: on a disk, and in memory. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LocalFiles, RandomSource } from '@holdfast/core/contract';
import { createLocalFiles, nodeFileSystem } from '@holdfast/local-files';
import { MemoryStaging } from '@holdfast/training';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { pythonProgram } from '../python/python-program.ts';
import { describeWithPython } from '../python/run-python.ts';
import { failure, newBucket, open } from './memory-run.ts';

/** Maps the file that it is given, and writes at the given offsets. */
const WRITER = `
import mmap, sys
maps = []
for line in sys.stdin:
    command = line.split()
    if command[0] == 'map':
        f = open(command[1], 'r+b')
        maps.append(mmap.mmap(f.fileno(), 0))
        maps[-1][:] = bytes([1]) * len(maps[-1])
    else:
        maps[-1][int(command[1])] = int(command[2])
    print('done', flush=True)
`;

const PLACES = [tmpdir(), '/dev/shm'].filter((place) => existsSync(place));
const SMALL = 40_000;
const IN_PARTS = 300_000;
/** From this size on, a file that does not change is synced instead of being read twice. */
const LARGE = 16 * 1024 * 1024;

describeWithPython('a file that is written to through a mapping while it is saved', () => {
  let writer: ChildProcess;
  let directory: string;
  beforeAll(async () => {
    writer = spawn(await pythonProgram(), ['-c', WRITER], { stdio: ['pipe', 'pipe', 'inherit'] });
  });
  afterAll(async () => {
    writer.stdin?.end();
    await once(writer, 'exit');
  });
  beforeEach(() => {
    directory = '';
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  async function tell(command: string): Promise<void> {
    writer.stdin?.write(`${command}\n`);
    if (writer.stdout) await once(writer.stdout, 'data');
  }

  /** A file in which the other program has just written to every page. */
  async function mapped(place: string, sizeBytes: number): Promise<string> {
    directory = mkdtempSync(join(place, 'holdfast-mapped-'));
    const path = join(directory, 'weights');
    writeFileSync(path, Buffer.alloc(sizeBytes));
    await tell(`map ${path}`);
    return path;
  }

  /** Local files, of which one changes in its first byte after the n-th read. */
  function filesThatChange(afterReading: number, nowMs?: () => number): LocalFiles {
    const files = createLocalFiles(nodeFileSystem, undefined, nowMs);
    let readings = 0;
    const openSource = async (path: string): Promise<RandomSource> => {
      const source = await files.openSource(path);
      const { sizeBytes, mode, mayHideChanges } = source;
      return {
        sizeBytes,
        mode,
        mayHideChanges,
        readInto: async (offsetBytes, buffer) => {
          await source.readInto(offsetBytes, buffer);
          if (++readings === afterReading) await tell('write 0 7');
        },
        assertUnchanged: () => source.assertUnchanged(),
        close: () => source.close(),
      };
    };
    return { ...files, openSource };
  }

  test.each(PLACES.flatMap((place) => [SMALL, IN_PARTS].map((sizeBytes) => [place, sizeBytes] as const)))(
    'in %s, of %i bytes: SourceChanged, and nothing is committed',
    async (place, sizeBytes) => {
      const path = await mapped(place, sizeBytes);
      await using manager = open(newBucket(), { files: filesThatChange(1) });
      expect(await failure(manager.save({ version: 1, files: { path } }))).toMatch(
        /^SourceChanged: "path" changed/,
      );
      expect(await manager.list()).toEqual([]);
    },
  );

  test.each(PLACES)('in %s: also while it is compared with what is in the store already', async (place) => {
    const path = await mapped(place, IN_PARTS);
    await using manager = open(newBucket(), { files: filesThatChange(15) });
    await manager.save({ version: 1, files: { path } });
    expect(await failure(manager.save({ version: 2, files: { path } }))).toMatch(/^SourceChanged/);
  });

  test.each(PLACES)('in %s: also while it is copied aside', async (place) => {
    const path = await mapped(place, IN_PARTS);
    await using manager = open(newBucket(), { files: filesThatChange(1) });
    const staging = new MemoryStaging({ bytesMax: IN_PARTS });
    expect(await failure(manager.save({ version: 1, files: { path }, staging }))).toMatch(/^SourceChanged/);
  });

  test.each(PLACES)('in %s: a large one that seemed quiet', async (place) => {
    const path = await mapped(place, LARGE);
    const files = filesThatChange(1, () => Date.now() + 120_000);
    await using manager = open(newBucket(), { files });
    expect(await failure(manager.save({ version: 1, files: { path } }))).toMatch(/^SourceChanged/);
  });
});
