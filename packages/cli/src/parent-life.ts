/** `--life parent`: the process that started this one, by a name that no other process ever has. */

import { readFileSync, readlinkSync } from 'node:fs';
import { CheckpointError } from '@holdfast/core/contract';

/** What the system tells of processes. */
export interface ProcessTable {
  readonly parentPid: number;
  /** Both as of `node:fs`. */
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

/** Of what stands behind the program's name in `/proc/PID/stat`. */
const START_TIME_AT = 19;

/**
 * Boot of the machine, namespace of process ids, id and start time of the parent: together never
 * used again. `InvalidArgument`, `InvalidConfig` (where it stood in the environment): the parent is
 * the machine's or the container's first process, or one outside the container, so it need not be
 * the trainer. `Unsupported`: the system does not tell.
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
      `${from}: "parent" tells no life here: this process ${which}`,
      { context: { advice: ['give the trainer a name of its own at each start, and pass it: --life ID'] } },
    );
  }
  try {
    const boot = system.readText('/proc/sys/kernel/random/boot_id').trim();
    const namespace = /\[(\d+)\]/.exec(system.readLink('/proc/self/ns/pid'))?.[1];
    // The name stands in parentheses and may hold some itself.
    const [, behindName = ''] = /^.*\) (.*)$/s.exec(system.readText(`/proc/${pid}/stat`)) ?? [];
    const startTime = behindName.split(' ')[START_TIME_AT];
    if (!/^[0-9a-f-]{8,64}$/.test(boot) || !namespace || !/^\d+$/.test(startTime ?? ''))
      throw new Error('it is not told as Linux does');
    return `parent-${boot}-${namespace}-${pid}-${startTime}`;
  } catch (cause) {
    throw new CheckpointError(
      'Unsupported',
      `${from}: "parent" needs /proc of Linux to tell which process ${pid} is: ${(cause as Error).message}`,
      {
        context: { advice: ['give the trainer a name of its own at each start, and pass it: --life ID'] },
        cause,
      },
    );
  }
}
