/** Several processes replace one directory at the same time. */

import { mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TargetOptions } from '@holdfast/core/contract';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { createLocalFiles } from './index.ts';
import { type Processes, type ProcessIdentity, processText } from './processes.ts';

const code = (expected: string, message: string) =>
  expect.objectContaining({ code: expected, message: expect.stringContaining(message) });

const processOf = (pid: number): ProcessIdentity => ({
  pid,
  startTicks: '1',
  pidNamespace: '1',
  bootId: '01234567-89ab-cdef-0123-456789abcdef',
});
const GONE = processText(processOf(7));
/** Only process 7 has ended. */
const LIVING: Processes = { self: async () => processOf(8), isCertainlyGone: async ({ pid }) => pid === 7 };

let parent: string;
let directory: string;
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'holdfast-at-once-'));
  directory = join(parent, 'ckpt');
});
afterEach(() => rmSync(parent, { recursive: true, force: true }));

interface Restore extends TargetOptions {
  readonly files: readonly string[];
  readonly fileSystem?: FileSystem;
  readonly processes?: Processes;
}

/** Writes files whose content is their name. */
async function restore({ files: names, fileSystem, processes = LIVING, ...options }: Restore) {
  const local = createLocalFiles(fileSystem ?? nodeFileSystem, processes);
  const target = await local.openTarget(directory, options);
  try {
    for (const name of names) {
      const sink = await target.open({ name, sizeBytes: Buffer.byteLength(name) });
      await sink.writeAt(0, Buffer.from(name));
      await sink.close();
    }
    await target.publish();
  } catch (error) {
    await target.discard();
    throw error;
  }
}

const files = () => readdirSync(directory).sort();
const hidden = (ending = '') =>
  readdirSync(parent).filter((name) => name.startsWith('.') && name.endsWith(ending));

test('one that another process published in between: the note of the old one stays, so the next restore removes it', async () => {
  await restore({ files: ['old'] });
  const rename = async (from: string, to: string) => {
    await nodeFileSystem.rename(from, to);
    if (to.endsWith('.old')) await restore({ files: ['other'] });
  };
  const racing = restore({ replace: true, files: ['late'], fileSystem: { ...nodeFileSystem, rename } });
  await expect(racing).rejects.toEqual(code('TargetExists', 'by another process meanwhile'));
  expect([files(), hidden('.made-0').length]).toEqual([['other'], 2]);
  const [aside = ''] = hidden('.old');
  renameSync(join(parent, aside), join(parent, aside.replace(processText(processOf(8)), GONE)));
  const onLeft = vi.fn();
  await restore({ replace: true, files: ['next'], onLeft });
  expect([files(), hidden().length, hidden('.made-0').length]).toEqual([['next'], 1, 1]);
  expect(onLeft).not.toHaveBeenCalled();
});

test('many: one of them is in place and whole, and a lone restore afterwards removes all else', async () => {
  const ended = new Set<number>();
  let nextPid = 100;
  const onLeft = vi.fn();
  const asProcess = async (names: readonly string[]) => {
    const pid = nextPid++;
    const own: Processes = {
      self: async () => processOf(pid),
      isCertainlyGone: async (other) => ended.has(other.pid),
    };
    try {
      await restore({ replace: true, files: names, onLeft, processes: own });
    } finally {
      ended.add(pid);
    }
  };
  const sets = [0, 1, 2].map((set) => Array.from({ length: 12 }, (_, index) => `${set}/${index}`));
  for (let round = 0; round < 30; round++) await Promise.allSettled(sets.map((names) => asProcess(names)));
  await asProcess(['alone']);
  expect([files(), hidden('.made-0').length, hidden().length]).toEqual([['alone'], 1, 1]);
  expect(onLeft).not.toHaveBeenCalled();
});

test('a directory that vanishes while it is looked at is no directory', async () => {
  await restore({ files: ['old'] });
  let isGone = false;
  const readdir: FileSystem['readdir'] = (path) => {
    if (path === directory && !isGone) {
      isGone = true;
      rmSync(directory, { recursive: true });
    }
    return nodeFileSystem.readdir(path);
  };
  await restore({ replace: true, files: ['a'], fileSystem: { ...nodeFileSystem, readdir } });
  expect([isGone, files()]).toEqual([true, ['a']]);
  await restore({ replace: true, files: ['b'] });
  expect([files(), hidden().length]).toEqual([['b'], 1]);
});
