/** A save is accepted while all threads that read files are busy. */

import { execFileSync } from 'node:child_process';
import { closeSync, constants, existsSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { expect, test } from 'vitest';
import { Stage } from '../staging/stage.ts';
import { OpenedSources } from './open-sources.ts';
import { SealRecords } from './seal-records.ts';

const WRITER = 'a'.repeat(32);
const JOIN = { uri: 'memory://run', attempt: 'a', index: 0, count: 1, life: 'f'.repeat(32), pid: 1 };
/** More than the thread pool of Node has. */
const BUSY_COUNT = Number(process.env.UV_THREADPOOL_SIZE ?? 4) + 1;

test.runIf(existsSync('/dev/shm'))('a staged save in memory waits for no thread', async () => {
  const parent = mkdtempSync('/dev/shm/holdfast-busy-');
  const stage = await Stage.open(join(parent, 'stage'));
  await stage.prepare(WRITER, JOIN, 'p');
  const path = join(stage.pathOf(WRITER), 'segment-1');
  writeFileSync(path, 'mine');
  const sources = new OpenedSources({
    ...{ stage: stage.pathOf(WRITER), roots: [], owners: [process.getuid?.() ?? 0], life: '' },
    inStage: (work) => stage.within(WRITER, work),
  });
  const pipe = join(parent, 'pipe');
  execFileSync('mkfifo', [pipe]);
  // Each holds a thread until a writer opens the pipe.
  const opening = Array.from({ length: BUSY_COUNT }, () => open(pipe, 'r'));
  const writers: number[] = [];
  const free = () => writers.push(openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK));
  const timer = setTimeout(free, 5000);
  try {
    const files = await sources.add([{ name: 'a', source: { path } }]);
    expect(await stage.isThere(WRITER)).toBe(true);
    const saveId = 'b'.repeat(32);
    const facts = { isDelivered: false, isSettled: true, begunWith: '', sealed: true };
    await new SealRecords(stage, WRITER).add({ ...facts, saveId, version: '1', files });
    expect(existsSync(join(stage.pathOf(WRITER), `seal-${saveId}.json`))).toBe(true);
    expect(writers, 'the threads were freed before').toEqual([]);
  } finally {
    clearTimeout(timer);
    free();
    for (const reader of await Promise.all(opening)) await reader.close();
    for (const writer of writers) closeSync(writer);
    await sources.close();
    await stage.close();
    rmSync(parent, { recursive: true, force: true });
  }
});
