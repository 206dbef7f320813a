/**
 * Identifies processes on this machine. Leftovers of a process are taken over only when the process
 * is certainly gone. A process that is only suspended may continue at any time.
 */

import { readdir, readFile, readlink } from 'node:fs/promises';
import process from 'node:process';
import { errnoOf } from './errno.ts';

/** Unique among all processes of all machines. */
export interface ProcessIdentity {
  /** Identifies the boot of the machine. */
  readonly bootId: string;
  /** The namespace in which the process id is valid. */
  readonly pidNamespace: string;
  readonly pid: number;
  /**
   * Start time in ticks since boot, by the clock of the machine. Process ids are reused, so the id
   * alone is not enough.
   */
  readonly startTicks: string;
}

const TEXT = /^(\d{1,10})-(\d{1,20})-(\d{1,20})-([0-9a-f-]{36})$/;

/** For names of files: digits, lower-case letters and dashes, at most 89. */
export function processText({ pid, startTicks, pidNamespace, bootId }: ProcessIdentity): string {
  return [pid, startTicks, pidNamespace, bootId].join('-');
}

/** Parses the text made by `processText`; null for any other text. */
export function processOfText(text: string): ProcessIdentity | null {
  const [, pid, startTicks = '', pidNamespace = '', bootId = ''] = TEXT.exec(text) ?? [];
  return pid === undefined ? null : { pid: Number(pid), startTicks, pidNamespace, bootId };
}

export interface Processes {
  /** Null if processes cannot be told apart, such as without /proc. */
  self(): Promise<ProcessIdentity | null>;
  /** False if it is unknown: on another machine, in another container, or hidden. */
  isCertainlyGone(other: ProcessIdentity): Promise<boolean>;
}

/** The kernel reports times in this many ticks a second, on every machine. */
const TICKS_PER_SECOND = 100;

export function linuxProcesses(procDirectory = '/proc'): Processes {
  /**
   * How many ticks a time namespace adds to the times that its processes see. Null: not a whole
   * number of seconds, so that some times are rounded differently.
   */
  async function shiftedTicks(): Promise<number | null> {
    const offsets = await readFile(`${procDirectory}/self/timens_offsets`, 'utf8').catch(() => '');
    const [, seconds = '0', nanoseconds = '0'] = /^boottime\s+(-?\d+)\s+(\d+)$/m.exec(offsets) ?? [];
    return nanoseconds === '0' ? Number(seconds) * TICKS_PER_SECOND : null;
  }

  /** Null: no such process, or it is not visible. */
  async function look(pid: number): Promise<{ state: string; startTicks: string } | null> {
    // Skip the name, which is in parentheses and may hold any character. The third field follows
    // it.
    const text = await readFile(`${procDirectory}/${pid}/stat`, 'utf8').catch(() => '');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const [state = '', ticks] = [fields[0], fields[19]];
    const shifted = await shiftedTicks();
    if (ticks === undefined || shifted === null) return null;
    return { state, startTicks: String(Number(ticks) - shifted) };
  }

  /** True if all its threads have ended, and only its parent has not collected the exit status. */
  async function isZombie(pid: number, state: string): Promise<boolean> {
    if (state !== 'Z') return false;
    const threads = await readdir(`${procDirectory}/${pid}/task`).catch(() => null);
    return threads?.length === 1;
  }

  async function self(): Promise<ProcessIdentity | null> {
    try {
      const bootId = (await readFile(`${procDirectory}/sys/kernel/random/boot_id`, 'utf8')).trim();
      const namespace = /^pid:\[(\d+)\]$/.exec(await readlink(`${procDirectory}/self/ns/pid`));
      // A /proc of another namespace has other process ids than those known here.
      const [ownPid] = (await readFile(`${procDirectory}/self/stat`, 'utf8')).split(' ');
      const startTicks = (await look(process.pid))?.startTicks;
      const isKnown = /^[0-9a-f-]{36}$/.test(bootId) && ownPid === String(process.pid);
      if (!isKnown || namespace?.[1] === undefined || startTicks === undefined) return null;
      return { bootId, pidNamespace: namespace[1], pid: process.pid, startTicks };
    } catch {
      return null; // An unreadable entry does not exist, or is hidden.
    }
  }

  return {
    self,
    async isCertainlyGone({ bootId, pidNamespace, pid, startTicks }) {
      const own = await self();
      if (own === null || own.bootId !== bootId || own.pidNamespace !== pidNamespace) return false;
      try {
        process.kill(pid, 0); // Tests for existence; sends no signal.
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
