import { closeSync, futimesSync, mkdtempSync, openSync, rmSync, statSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { nodeFileSystem } from './file-system.ts';
import { createLocalFiles, localFiles } from './index.ts';
import { millisecondsOf, secondsOf } from './mtime.ts';

function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-mtime-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return directory;
}

const timeOf = (path: string) => millisecondsOf(statSync(path, { bigint: true }));

it('a time that is set is read again to the millisecond', () => {
  const path = join(newDirectory(), 'a');
  const descriptor = openSync(path, 'w');
  const times = Array.from({ length: 2000 }, (_, index) => (index * 863_777_777 + index) % 4_000_000_000_000);
  for (const timeMs of [1, 999, 1_763_858_438_123, ...times]) {
    futimesSync(descriptor, secondsOf(timeMs), secondsOf(timeMs));
    expect(timeOf(path)).toBe(timeMs);
  }
  closeSync(descriptor);
});

it('files and directories of a target get the times that are given; others that of writing', async () => {
  const directory = join(newDirectory(), 'to');
  const beganMs = Date.now() - 5000;
  const target = await localFiles.openTarget(directory);
  for (const [name, mtimeMs] of [
    ['a', 1_000_000_000_123],
    ['sub/b', 1],
    ['c', undefined],
  ] as const) {
    const sink = await target.open({ name, sizeBytes: 3, mode: 0o640, mtimeMs });
    await sink.writeAt(0, Buffer.from('abc'));
    await sink.close();
  }
  await target.makeDirectory?.({ name: 'logs/tb', mtimeMs: 1_111_111_111_111 });
  await target.makeDirectory?.({ name: 'logs', mtimeMs: 1_222_222_222_222 });
  await target.makeDirectory?.({ name: 'new' });
  await target.publish();
  expect(['a', 'sub/b', 'logs/tb', 'logs'].map((name) => timeOf(join(directory, name)))).toEqual([
    ...[1_000_000_000_123, 1, 1_111_111_111_111, 1_222_222_222_222],
  ]);
  for (const name of ['c', 'sub', 'new']) expect(timeOf(join(directory, name))).toBeGreaterThan(beganMs);
  expect(statSync(join(directory, 'a')).atimeMs).toBeGreaterThan(beganMs);
});

it('what such a target has put there, the next one may replace; what was written since, not', async () => {
  const directory = join(newDirectory(), 'to');
  const restore = async () => {
    const target = await localFiles.openTarget(directory, { replace: true });
    const sink = await target.open({ name: 'a', sizeBytes: 1, mtimeMs: 1_000_000_000_123 });
    await sink.writeAt(0, Buffer.from('x'));
    await sink.close();
    await target.makeDirectory?.({ name: 'logs', mtimeMs: 1 });
    await target.publish();
  };
  await restore();
  await restore();
  utimesSync(join(directory, 'a'), 5, 5);
  await expect(restore()).rejects.toMatchObject({ code: 'TargetExists' });
});

it('a time that cannot be set is an error that names what', async () => {
  const error = Object.assign(new Error('EPERM: made to fail'), { code: 'EPERM', syscall: 'futimes' });
  const files = createLocalFiles({ ...nodeFileSystem, futimes: () => Promise.reject(error) });
  const target = await files.openTarget(join(newDirectory(), 'to'));
  const sink = await target.open({ name: 'a', sizeBytes: 0, mtimeMs: 1 });
  await expect(sink.close()).rejects.toMatchObject({
    code: 'Denied',
    message: expect.stringContaining('set the time of "a"'),
  });
  await expect(target.makeDirectory?.({ name: 'd', mtimeMs: 1 })).rejects.toMatchObject({
    code: 'Denied',
    message: expect.stringContaining('"d"'),
  });
  await target.discard();
});

it('sources and scans tell the times of files and of empty directories', async () => {
  const directory = newDirectory();
  closeSync(openSync(join(directory, 'a'), 'w'));
  const scanned = async () => {
    const { files, directories } = await localFiles.scan(directory);
    const source = await files[0]?.open();
    await source?.close();
    return [source?.mtimeMs, directories[0]?.mtimeMs];
  };
  await nodeFileSystem.mkdir(join(directory, 'd'));
  for (const [time, mtimeMs] of [
    [1_763_858_438.1236, 1_763_858_438_123],
    [new Date(-5000), -5000],
  ] as const) {
    for (const name of ['a', 'd']) utimesSync(join(directory, name), time, time);
    expect(await scanned()).toEqual([mtimeMs, mtimeMs]);
  }
});
