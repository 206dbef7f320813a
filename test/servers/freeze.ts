/** Stopped processes: alive, but they do nothing. */

import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/**
 * Sends SIGSTOP. Resolves when all threads have stopped: until one thread has taken the signal, the
 * others continue.
 */
export async function freeze(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  await untilFrozen(pid);
}

export async function untilFrozen(pid: number): Promise<void> {
  while ((await stateOf(pid)) !== 'T') await new Promise((resolve) => setTimeout(resolve, 5));
}

/** The state as one letter, as `ps` shows it. */
async function stateOf(pid: number): Promise<string> {
  if (process.platform !== 'linux')
    return (await promisify(execFile)('ps', ['-o', 'state=', '-p', `${pid}`])).stdout.charAt(0);
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1'); // not every Linux has `ps`
  return stat.charAt(stat.lastIndexOf(')') + 2);
}
