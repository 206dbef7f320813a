import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type DirectoryLock, lockDirectory, type Rename } from './socket-file.ts';

let directory: string;
const locks: DirectoryLock[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-lock-'));
  // A process that ends without closing leaves its lock behind.
  const lock = JSON.stringify(join(directory, '.lock'));
  const leave = `require('net').createServer().listen(${lock}, () => process.kill(process.pid, 'SIGKILL'))`;
  expect(() => execFileSync(process.execPath, ['-e', leave], { stdio: 'ignore' })).toThrow();
});

afterEach(async () => {
  for (const lock of locks.splice(0)) await lock.release();
  rmSync(directory, { recursive: true, force: true });
});

async function start(move?: Rename): Promise<string> {
  try {
    locks.push(await lockDirectory(directory, move));
    return 'serves';
  } catch (error) {
    return (error as { code: string }).code;
  }
}

/** The first name that an agent moves is moved late, and looked at even later. */
function slow({ before, after }: { before: () => Promise<void>; after: () => Promise<void> }): Rename {
  let count = 0;
  return async (from, to) => {
    count += 1;
    if (count > 1) return rename(from, to);
    await before();
    await rename(from, to);
    await after();
  };
}

test('only one of three agents that find the lock of a killed one serves', async () => {
  const outcomes: Record<string, Promise<string> | string> = {};
  const move = slow({
    // B takes the name, after A has found that it is served by no agent, and before A moves it.
    before: async () => {
      outcomes.B = await start();
    },
    // C takes the name that A has freed, before A looks at what it has moved.
    after: async () => {
      outcomes.C = start();
      await new Promise((resolve) => setTimeout(resolve, 100));
    },
  });
  outcomes.A = await start(move);
  expect([outcomes.A, outcomes.B, await outcomes.C]).toEqual(['AlreadyExists', 'serves', 'AlreadyExists']);
  expect(readdirSync(directory)).toEqual(['.lock']);
  expect(await start()).toBe('AlreadyExists');
});

test('an agent that moves a name and is killed leaves it to the next one to give it back', async () => {
  const killed = new Error('killed');
  const move = slow({
    before: async () => expect(await start()).toBe('serves'),
    after: () => Promise.reject(killed),
  });
  await expect(lockDirectory(directory, move)).rejects.toMatchObject({ cause: killed });
  expect(readdirSync(directory)).toEqual([expect.stringMatching(/^\.lock~[0-9a-f]{8}$/)]);
  expect(await start()).toBe('AlreadyExists');
  expect(readdirSync(directory)).toEqual(['.lock']);
});

test('a lock that was released is taken', async () => {
  expect(await start()).toBe('serves');
  await locks.pop()?.release();
  expect(readdirSync(directory)).toEqual([]);
  expect(await start()).toBe('serves');
});
