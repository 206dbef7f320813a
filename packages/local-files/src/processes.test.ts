import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { linuxProcesses, type ProcessIdentity, processOfText, processText } from './processes.ts';

const SELF: ProcessIdentity = {
  bootId: '01234567-89ab-cdef-0123-456789abcdef',
  pidNamespace: '4026531836',
  pid: process.pid,
  startTicks: '777',
};

/** In the format of /proc. The name of a process may contain any character. */
function statOf(pid: number, startTicks: string): string {
  return `${pid} (node) 1 (x)) S ${Array.from({ length: 18 }, (_, index) => index).join(' ')} ${startTicks} 0 0\n`;
}

let proc: string;
beforeEach(() => {
  proc = mkdtempSync(join(tmpdir(), 'holdfast-proc-'));
  for (const directory of ['sys/kernel/random', 'self/ns', String(process.pid)])
    mkdirSync(join(proc, directory), { recursive: true });
  writeFileSync(join(proc, 'sys/kernel/random/boot_id'), `${SELF.bootId}\n`);
  symlinkSync(`pid:[${SELF.pidNamespace}]`, join(proc, 'self/ns/pid'));
  for (const name of ['self', String(process.pid)])
    writeFileSync(join(proc, name, 'stat'), statOf(process.pid, SELF.startTicks));
});
afterEach(() => rmSync(proc, { recursive: true }));

describe('self', () => {
  test('is told by /proc', async () => {
    expect(await linuxProcesses(proc).self()).toEqual(SELF);
  });

  test.each<[string, () => void]>([
    ['there is no /proc', () => rmSync(proc, { recursive: true })],
    ['the boot has no id', () => writeFileSync(join(proc, 'sys/kernel/random/boot_id'), '')],
    ['/proc is that of another namespace', () => writeFileSync(join(proc, 'self/stat'), statOf(1, '1'))],
    ['the own process is hidden', () => rmSync(join(proc, String(process.pid)), { recursive: true })],
    [
      'times are shifted by a part of a second',
      () => writeFileSync(join(proc, 'self/timens_offsets'), 'monotonic 0 0\nboottime 100 500000000\n'),
    ],
    [
      'namespaces look otherwise',
      () => {
        rmSync(join(proc, 'self/ns/pid'));
        symlinkSync('somewhere', join(proc, 'self/ns/pid'));
      },
    ],
  ])('is not known where %s', async (_name, change) => {
    change();
    expect(await linuxProcesses(proc).self()).toBeNull();
    expect(await linuxProcesses(proc).isCertainlyGone({ ...SELF, startTicks: '1' })).toBe(false);
    mkdirSync(proc, { recursive: true });
  });
});

describe('isCertainlyGone', () => {
  test.each<[string, Partial<ProcessIdentity>, boolean]>([
    ['this process', {}, false],
    ['one that had the same number', { startTicks: '776' }, true],
    ['one of another boot, or machine', { startTicks: '776', bootId: SELF.bootId.replace('0', '1') }, false],
    ['one of another namespace', { startTicks: '776', pidNamespace: '1' }, false],
    ['one that lives, and is hidden', { pid: process.ppid }, false],
    ['one without a number', { pid: Number.NaN }, false],
  ])('%s: %j', async (_name, change, expected) => {
    expect(await linuxProcesses(proc).isCertainlyGone({ ...SELF, ...change })).toBe(expected);
  });

  test.each([
    ['later', 100_000, '10000777'],
    ['earlier', -7, '77'],
  ])('a time namespace, here one whose clock is %s, does not matter', async (_, seconds, told) => {
    const offsets = `monotonic           0         0\nboottime       ${seconds}         0\n`;
    writeFileSync(join(proc, 'self/timens_offsets'), offsets);
    writeFileSync(join(proc, String(process.pid), 'stat'), statOf(process.pid, told));
    expect(await linuxProcesses(proc).self()).toEqual(SELF);
    expect(await linuxProcesses(proc).isCertainlyGone(SELF)).toBe(false);
    expect(await linuxProcesses(proc).isCertainlyGone({ ...SELF, startTicks: told })).toBe(true);
  });

  test('on this machine: a reaped process is gone, a stopped one is not', async () => {
    const processes = linuxProcesses();
    const self = (await processes.self()) as ProcessIdentity;
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
    await once(child, 'spawn');
    const identity = { ...self, pid: child.pid as number };
    child.kill('SIGSTOP');
    expect(await processes.isCertainlyGone(self)).toBe(false);
    expect(await processes.isCertainlyGone({ ...identity, startTicks: 'before' })).toBe(true);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(await processes.isCertainlyGone(identity)).toBe(true);
  });

  test('on this machine: a process that has ended and was not reaped is gone', async () => {
    const processes = linuxProcesses();
    // The shell becomes a program that never waits for its child.
    const parent = spawn('sh', ['-c', 'sleep 1000 & echo $!; exec sleep 1000'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      const [line] = (await once(parent.stdout, 'data')) as [Buffer];
      const pid = Number(line.toString());
      const statPath = `/proc/${pid}/stat`;
      const fields = () => readFileSync(statPath, 'utf8').split(') ')[1]?.split(' ') ?? [];
      const self = (await processes.self()) as ProcessIdentity;
      const identity = { ...self, pid, startTicks: fields()[19] as string };
      expect(await processes.isCertainlyGone(identity)).toBe(false);
      process.kill(pid, 'SIGKILL');
      while (fields()[0] !== 'Z') await new Promise(setImmediate);
      expect(await processes.isCertainlyGone(identity)).toBe(true);
    } finally {
      parent.kill('SIGKILL');
      await once(parent, 'exit');
    }
  });

  test('one that has ended while a thread of it goes on is not', async () => {
    const pid = process.ppid;
    mkdirSync(join(proc, String(pid), 'task/1'), { recursive: true });
    mkdirSync(join(proc, String(pid), 'task/2'));
    writeFileSync(join(proc, String(pid), 'stat'), statOf(pid, '5').replace(' S ', ' Z '));
    const other = { ...SELF, pid, startTicks: '5' };
    expect(await linuxProcesses(proc).isCertainlyGone(other)).toBe(false);
    rmSync(join(proc, String(pid), 'task/2'), { recursive: true });
    expect(await linuxProcesses(proc).isCertainlyGone(other)).toBe(true);
  });
});

describe('the text of a process', () => {
  test('is read back as the same, and fits into the name of a file', () => {
    expect(processOfText(processText(SELF))).toEqual(SELF);
    expect(processText(SELF)).toMatch(/^[0-9a-z-]{1,89}$/);
  });

  test.each(['', 'free', '1-2-3', `${processText(SELF)}0`, `x${processText(SELF)}`, `-${processText(SELF)}`])(
    'any other belongs to no process: %j',
    (text) => {
      expect(processOfText(text)).toBeNull();
    },
  );
});
