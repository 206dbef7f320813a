/** Processes that stand still: alive, and saying nothing. */

import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/** SIGSTOP. Resolves when it has taken effect: until one of its threads has taken the signal, the others go on. */
export async function freeze(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  await untilFrozen(pid);
}

export async function untilFrozen(pid: number): Promise<void> {
  while ((await stateOf(pid)) !== 'T') await new Promise((resolve) => setTimeout(resolve, 5));
}

/** One letter, as `ps` has it. */
async function stateOf(pid: number): Promise<string> {
  if (process.platform !== 'linux')
    return (await promisify(execFile)('ps', ['-o', 'state=', '-p', `${pid}`])).stdout.charAt(0);
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1'); // not every Linux has `ps`
  return stat.charAt(stat.lastIndexOf(')') + 2);
}
