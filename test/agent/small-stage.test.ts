/** A stage of 64 MiB and a disk of 16 MiB, each a mount that only this test sees. */

import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { underMounts } from '../e2e/holdfast-process.ts';
import { pythonProgram } from '../python/python-program.ts';
import { describeWithPython } from '../python/run-python.ts';

const TRAINER = fileURLToPath(new URL('./small-stage.py', import.meta.url));
const CLIENT = fileURLToPath(new URL('../../python', import.meta.url));
const TIMEOUT_MS = 60_000;

describeWithPython('an agent whose memory is short', () => {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-small-'));
  afterAll(() => rm(directory, { recursive: true, force: true }));

  test('each save that finds no room says so, ends no process, and leaves nothing behind', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const python = await pythonProgram();
    const script = `
      mkdir memory disk
      mount -t tmpfs -o size=64m,mode=700 none memory
      mount -t tmpfs -o size=16m,mode=700 none disk
      holdfast agent --socket "$PWD/agent.sock" --stage "$PWD/memory/stage" 2>log >ready &
      agent=$!
      until [ -s ready ]; do sleep 0.05; kill -0 $agent; done
      "${python}" -B "${TRAINER}" "$PWD/agent.sock" "$PWD/memory/filler" "$PWD/disk"
      kill -TERM $(sed 's/.*"pid":\\([0-9]*\\).*/\\1/' ready); wait $agent
      ls -A memory/stage
    `;
    const ended = await underMounts(directory, script, { PYTHONPATH: CLIENT });
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(ended.stdout.trimEnd().split('\n')).toEqual([
      'fits: committed',
      `is larger than the stage: StorageFull ${80 * 1024 * 1024}`,
      'fits again: committed',
      'beside a full stage, in memory without a name: committed',
      `beside a full stage: StorageFull ${40 * 1024 * 1024}`,
      'a file, whose seal has no room: StorageFull',
      'a file, when there is room: committed',
      'on a small disk: committed',
      'larger than the disk: StorageFull',
      'on the small disk again: committed',
    ]);
  });
});
