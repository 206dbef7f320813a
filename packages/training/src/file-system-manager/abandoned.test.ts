/** Cleanup of what processes leave behind that were killed while they saved. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { linuxProcesses, nodeFileSystem, type ProcessIdentity, processText } from '@holdfast/local-files';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { FileSystemCheckpointManager } from './manager.ts';

const OTHER_BOOT = '01234567-89ab-cdef-0123-456789abcdef';

let root: string;
let self: ProcessIdentity;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-abandoned-'));
  self = (await linuxProcesses().self()) ?? expect.unreachable('there is a /proc');
});

afterEach(() => rm(root, { recursive: true }));

const hidden = async () => (await readdir(root)).filter((name) => name.startsWith('.holdfast-')).toSorted();

/** Creates a directory as `process` has it while it saves; resolves to its name. */
async function begunBy(process: string): Promise<string> {
  const name = `.holdfast-0123456789abcdef${process}`;
  await mkdir(join(root, name, 'checkpoint'), { recursive: true });
  await writeFile(join(root, name, 'checkpoint', 'default'), 'half of it');
  return name;
}

it('what a process was writing when it was killed goes with the first create of a later one', async () => {
  const module = fileURLToPath(new URL('./manager.ts', import.meta.url));
  const script = `
    const { FileSystemCheckpointManager } = await import(${JSON.stringify(module)});
    const checkpoint = await new FileSystemCheckpointManager(${JSON.stringify(root)}).create();
    await checkpoint.openOutputStream('default').getWriter().write(Buffer.from('half of it'));
    process.kill(process.pid, 'SIGKILL');`;
  const args = ['--conditions=holdfast-source', '--input-type=module', '-e', script];
  const [, signal] = await once(spawn(process.execPath, args, { stdio: 'inherit' }), 'exit');
  expect(signal).toBe('SIGKILL');
  const left = await hidden();
  expect(left).toHaveLength(1);
  await new FileSystemCheckpointManager(root).create();
  expect(await hidden()).toEqual([expect.not.stringContaining(left[0] ?? '')]);
});

it('a directory whose process id was reused is removed; if its process lives or cannot be identified, it stays', async () => {
  const gone = await begunBy(`.${processText({ ...self, startTicks: `${self.startTicks}1` })}`);
  const stays = [
    await begunBy(`.${processText(self)}`),
    await begunBy(`.${processText({ ...self, bootId: OTHER_BOOT, startTicks: '1' })}`),
    await begunBy(`.${processText({ ...self, pidNamespace: '1', startTicks: '1' })}`),
    await begunBy(''), // by a process that could not identify itself
    await begunBy('.somebody'),
  ];
  const manager = new FileSystemCheckpointManager(root);
  await manager.list();
  expect(await hidden()).toContain(gone); // a reader removes nothing
  const checkpoint = await manager.create();
  await checkpoint.discard();
  expect(await hidden()).toEqual(stays.toSorted());
});

it('what others are writing at the same time is left alone', async () => {
  const first = await new FileSystemCheckpointManager(root).create();
  const writer = first.openOutputStream('default').getWriter();
  await writer.write(Buffer.from('one'));
  await new FileSystemCheckpointManager(root).create();
  await writer.close();
  await first.commit();
  expect(await readdir(join(root, '0'))).toEqual(['default']);
});

it('where processes cannot be told apart, nothing is removed, and saving goes on', async () => {
  const gone = await begunBy(`.${processText({ ...self, startTicks: '1' })}`);
  const manager = new FileSystemCheckpointManager(root, nodeFileSystem, linuxProcesses('/nowhere'));
  const checkpoint = await manager.create();
  expect(await hidden()).toContain(gone);
  expect((await hidden()).filter((name) => name !== gone)).toEqual([
    expect.stringMatching(/^\.holdfast-[0-9a-f]{16}$/),
  ]);
  await checkpoint.discard();
});

it('one that cannot be removed takes space, and does not prevent a save', async () => {
  const gone = await begunBy(`.${processText({ ...self, startTicks: '1' })}`);
  const refused: string[] = [];
  const removeAll = async (path: string) => {
    refused.push(path);
    throw Object.assign(new Error('EACCES'), { code: 'EACCES', syscall: 'rm' });
  };
  await new FileSystemCheckpointManager(root, { ...nodeFileSystem, removeAll }).create();
  expect(refused).toEqual([join(root, gone)]);
});
