/** A lock for one process of this machine at a time. */

import { randomUUID } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { hasErrorCode } from './error-code.ts';

const POLL_MS = 100;

export interface LockOptions {
  readonly timeoutMs: number;
  /** Called once if another process has the lock. */
  readonly onWait: (owner: string) => void;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return hasErrorCode(error, 'EPERM');
  }
}

async function readOwner(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((error: unknown) => {
    if (hasErrorCode(error, 'ENOENT')) return '';
    throw error;
  });
}

/**
 * The file appears together with its content. An empty file would have no owner, and would never be
 * released.
 */
async function tryCreate(file: string): Promise<boolean> {
  const temporary = `${file}.${randomUUID()}`;
  await writeFile(temporary, String(process.pid));
  try {
    await link(temporary, file);
    return true;
  } catch (error) {
    if (hasErrorCode(error, 'EEXIST')) return false;
    throw error;
  } finally {
    await rm(temporary, { force: true });
  }
}

/**
 * Runs `work` while `file` names this process as the owner. Takes over the lock of a process that
 * has ended. The lock only saves work: two processes that take over at the same moment can both
 * run. The result must allow for that.
 */
export async function withProcessLock<T>(
  file: string,
  options: LockOptions,
  work: () => Promise<T>,
): Promise<T> {
  const deadline = Date.now() + options.timeoutMs;
  for (let isFirst = true; !(await tryCreate(file)); isFirst = false) {
    const owner = await readOwner(file);
    // No owner: the lock was released in the meantime.
    if (owner !== '' && !isRunning(Number(owner))) await rm(file, { force: true });
    else if (owner !== '' && isFirst) options.onWait(owner);
    if (Date.now() > deadline) {
      throw new Error(
        `process ${owner} has held ${file} for too long; end it, remove the file and try again`,
      );
    }
    await sleep(POLL_MS);
  }
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}
