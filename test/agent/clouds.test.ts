/** Saves and restores of Python trainers by a packed agent, on each cloud. */

import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { HOLDFAST, run } from '../e2e/holdfast-process.ts';
import { pythonProgram } from '../python/python-program.ts';
import { describeWithPython } from '../python/run-python.ts';
import { CLOUDS } from '../servers/clouds.ts';

const TRAINERS = fileURLToPath(new URL('./cloud-trainers.py', import.meta.url));
const CLIENT = fileURLToPath(new URL('../../python', import.meta.url));

describeWithPython('trainers in Python', () => {
  for (const cloud of CLOUDS) {
    cloud.describeOn(`by an agent, on ${cloud.title}`, (server) => {
      test('what two ranks save is committed and restored, also if the agent is killed meanwhile', async () => {
        const { uri, env } = await server().newBucket();
        const directory = mkdtempSync(join(tmpdir(), 'holdfast-clouds-'));
        const words = [await pythonProgram(), '-B', TRAINERS, uri, join(directory, 'restored')];
        const ended = await run(words, {
          env: { ...env, PYTHONPATH: CLIENT, HOLDFAST_TEST_COMMAND: JSON.stringify(HOLDFAST) },
        });
        await rm(directory, { recursive: true, force: true });
        expect(ended).toMatchObject({ code: 0, stderr: '' });
        expect(ended.stdout.trimEnd().split('\n')).toEqual([
          'version 1: committed committed',
          'staged: staged staged',
          'version 2: committed committed',
          'versions: 2 1',
          'all bytes are right',
        ]);
      });
    });
  }
});
