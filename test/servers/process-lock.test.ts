import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { withProcessLock } from './process-lock.ts';

let directory: string;
let lock: string;
let waitedFor: string[];
const onWait = (owner: string) => waitedFor.push(owner);

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-lock-'));
  lock = join(directory, 'lock');
  waitedFor = [];
});
afterEach(() => rmSync(directory, { recursive: true }));

test('names its owner while the work runs, and leaves nothing behind, nor after a failure', async () => {
  const owner = await withProcessLock(lock, { timeoutMs: 1000, onWait }, async () =>
    readFileSync(lock, 'utf8'),
  );
  expect(owner).toBe(String(process.pid));
  const failing = withProcessLock(lock, { timeoutMs: 1000, onWait }, () => Promise.reject(new Error('no')));
  await expect(failing).rejects.toThrow('no');
  expect(readdirSync(directory)).toEqual([]);
  expect(waitedFor).toEqual([]);
});

test('one works at a time; a waiting process is told for which one', async () => {
  const order: string[] = [];
  const second = Promise.withResolvers<string>();
  const first = withProcessLock(lock, { timeoutMs: 10_000, onWait }, async () => {
    order.push('first begins');
    const waiting = withProcessLock(lock, { timeoutMs: 10_000, onWait: second.resolve }, async () => {
      order.push('second');
    });
    expect(await second.promise).toBe(String(process.pid));
    order.push('first ends');
    return { waiting };
  });
  await (await first).waiting;
  expect(order).toEqual(['first begins', 'first ends', 'second']);
});

test('a lock whose process is gone is taken over', async () => {
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  writeFileSync(lock, String(pid));
  await withProcessLock(lock, { timeoutMs: 1000, onWait }, async () => undefined);
  expect(waitedFor).toEqual([]);
});

test('a lock whose process runs is waited for, not for ever; the message says what to do', async () => {
  writeFileSync(lock, String(process.ppid));
  const waiting = withProcessLock(lock, { timeoutMs: 1, onWait }, async () => expect.unreachable());
  await expect(waiting).rejects.toThrow(`process ${process.ppid} has held ${lock} for too long`);
  expect(waitedFor).toEqual([String(process.ppid)]);
  expect(existsSync(lock)).toBe(true);
});

test('a place that cannot be written is an error', async () => {
  const nowhere = join(directory, 'none', 'lock');
  await expect(withProcessLock(nowhere, { timeoutMs: 1000, onWait }, async () => 1)).rejects.toThrow(
    'ENOENT',
  );
});
