/** `--life parent`: identifies the parent process by a name that is never reused. */

import { readFileSync, readlinkSync } from 'node:fs';
import { CheckpointError } from '@holdfast/core/contract';

/** Access to the system's information about processes. */
export interface ProcessTable {
  readonly parentPid: number;
  /** Both as in `node:fs`. */
  readText(path: string): string;
  readLink(path: string): string;
}

export const thisSystem: ProcessTable = {
  get parentPid() {
    return process.ppid;
  },
  readText: (path) => readFileSync(path, 'utf8'),
  readLink: (path) => readlinkSync(path),
};

/** Index among the fields after the program's name in `/proc/PID/stat`. */
const START_TIME_AT = 19;

/**
 * Boot of the machine, namespace of process ids, id and start time of the parent: the combination
 * is never reused. Throws if the parent may not be the trainer: it is the first process of the
 * machine or container, or outside the container. The code is `InvalidArgument`, or `InvalidConfig`
 * if the value came from the environment. `Unsupported`: the system does not report it.
 */
export function parentLife(system: ProcessTable, from: string): string {
  const pid = system.parentPid;
  if (pid <= 1) {
    const which =
      pid === 0
        ? 'was started from outside its container'
        : 'was started by process 1, or its parent has ended';
    throw new CheckpointError(
      from.startsWith('--') ? 'InvalidArgument' : 'InvalidConfig',
      `${from}: "parent" does not identify a trainer here: this process ${which}`,
      { context: { advice: ['give the trainer a new name at each start, and pass it as --life ID'] } },
    );
  }
  try {
    const boot = system.readText('/proc/sys/kernel/random/boot_id').trim();
    const namespace = /\[(\d+)\]/.exec(system.readLink('/proc/self/ns/pid'))?.[1];
    // The name is in parentheses and may contain some itself.
    const [, behindName = ''] = /^.*\) (.*)$/s.exec(system.readText(`/proc/${pid}/stat`)) ?? [];
    const startTime = behindName.split(' ')[START_TIME_AT];
    if (!/^[0-9a-f-]{8,64}$/.test(boot) || !namespace || !/^\d+$/.test(startTime ?? ''))
      throw new Error('it is not in the form that Linux uses');
    return `parent-${boot}-${namespace}-${pid}-${startTime}`;
  } catch (cause) {
    throw new CheckpointError(
      'Unsupported',
      `${from}: "parent" needs /proc of Linux to identify process ${pid}: ${(cause as Error).message}`,
      {
        context: { advice: ['give the trainer a new name at each start, and pass it as --life ID'] },
        cause,
      },
    );
  }
}
