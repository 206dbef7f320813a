/**
 * Which process is which on this machine, so that what one has left behind is taken over only when
 * it is certainly gone: a process that merely stands still may go on at any time.
 */

import { readdir, readFile, readlink } from 'node:fs/promises';
import process from 'node:process';
import { errnoOf } from './errno.ts';

/** Never the same for two processes of any machine. */
export interface ProcessIdentity {
  /** Of the machine, since it was started last. */
  readonly bootId: string;
  /** Where its number means it. */
  readonly pidNamespace: string;
  readonly pid: number;
  /** When it was started, in ticks since the machine was: numbers are used again. */
  readonly startTicks: string;
}

const TEXT = /^(\d{1,10})-(\d{1,20})-(\d{1,20})-([0-9a-f-]{36})$/;

/** For names of files: digits, lower-case letters and dashes, at most 89. */
export function processText({ pid, startTicks, pidNamespace, bootId }: ProcessIdentity): string {
  return [pid, startTicks, pidNamespace, bootId].join('-');
}

/** What `processText` has made; null for any other text. */
export function processOfText(text: string): ProcessIdentity | null {
  const [, pid, startTicks = '', pidNamespace = '', bootId = ''] = TEXT.exec(text) ?? [];
  return pid === undefined ? null : { pid: Number(pid), startTicks, pidNamespace, bootId };
}

export interface Processes {
  /** Null where nobody can tell processes apart, such as without /proc. */
  self(): Promise<ProcessIdentity | null>;
  /** False where it cannot be known: on another machine, in another container, hidden. */
  isCertainlyGone(other: ProcessIdentity): Promise<boolean>;
}

export function linuxProcesses(procDirectory = '/proc'): Processes {
  /** Null: there is none, or it cannot be seen. */
  async function look(pid: number): Promise<{ state: string; startTicks: string } | null> {
    // After the name, which is in parentheses and may hold anything, come the third field and the
    // rest.
    const text = await readFile(`${procDirectory}/${pid}/stat`, 'utf8').catch(() => '');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const [state = '', startTicks] = [fields[0], fields[19]];
    return startTicks === undefined ? null : { state, startTicks };
  }

  /** It has ended, each of its threads has, and only nobody has asked how. */
  async function isZombie(pid: number, state: string): Promise<boolean> {
    if (state !== 'Z') return false;
    const threads = await readdir(`${procDirectory}/${pid}/task`).catch(() => null);
    return threads?.length === 1;
  }

  async function self(): Promise<ProcessIdentity | null> {
    try {
      const bootId = (await readFile(`${procDirectory}/sys/kernel/random/boot_id`, 'utf8')).trim();
      const namespace = /^pid:\[(\d+)\]$/.exec(await readlink(`${procDirectory}/self/ns/pid`));
      // With the /proc of another namespace, numbers there are not those that are known here.
      const [ownPid] = (await readFile(`${procDirectory}/self/stat`, 'utf8')).split(' ');
      const startTicks = (await look(process.pid))?.startTicks;
      const isKnown = /^[0-9a-f-]{36}$/.test(bootId) && ownPid === String(process.pid);
      if (!isKnown || namespace?.[1] === undefined || startTicks === undefined) return null;
      return { bootId, pidNamespace: namespace[1], pid: process.pid, startTicks };
    } catch {
      return null; // What cannot be read is not there, or hidden.
    }
  }

  return {
    self,
    async isCertainlyGone({ bootId, pidNamespace, pid, startTicks }) {
      const own = await self();
      if (own === null || own.bootId !== bootId || own.pidNamespace !== pidNamespace) return false;
      try {
        process.kill(pid, 0); // asks, and sends nothing
      } catch (error) {
        const errno = errnoOf(error);
        if (errno === 'ESRCH') return true;
        if (errno !== 'EPERM') return false;
      }
      const found = await look(pid);
      if (found === null) return false;
      return found.startTicks !== startTicks || (await isZombie(pid, found.state));
    },
  };
}
