/** A training process gets SIGTERM in the middle of a step. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';
import { LocalCoordinator, StopIteration, setCheckpointManager, train } from '@holdfast/training';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { run } from '../e2e/holdfast-process.ts';
import { ATTEMPT, CountingState, SIZE_BYTES, WAITS_AT_STEP } from './counting-state.ts';

const SCRIPT = fileURLToPath(new URL('./preempted-process.ts', import.meta.url));

afterEach(() => setCheckpointManager(null));

function newRun(): string {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-preempted-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return pathToFileURL(join(directory, 'run')).href;
}

async function trainUntilSigterm(uri: string, ...args: readonly string[]): Promise<Record<string, unknown>> {
  let signals = 0;
  const words = [process.execPath, '--conditions=holdfast-source', SCRIPT, uri, ...args];
  const { code, stdout, stderr } = await run(words, {
    onStderr: (text, kill) => {
      // The second signal comes when the process is about to exit.
      if (text.includes('waiting for a notice')) while (signals++ < 2) kill('SIGTERM');
    },
  });
  expect([code, signals], stderr).toEqual([0, 3]);
  return JSON.parse(stdout) as Record<string, unknown>;
}

/** The value from which a new process continues. */
async function resumedValue(uri: string): Promise<number> {
  await using manager = await openCheckpointManager(uri, { attempt: ATTEMPT });
  setCheckpointManager(manager);
  const end = () => {
    throw new StopIteration('it was loaded');
  };
  return (await train(new LocalCoordinator(), end, new CountingState())).value;
}

test('the last step ends, its state is saved though it is not due, and the next process goes on from it', async () => {
  const uri = newRun();
  expect(await trainUntilSigterm(uri, '30000', 'fits')).toEqual({
    value: WAITS_AT_STEP,
    durable: 2,
    lost: null,
    text: 'preempted: no save is in progress; the newest durable version is 2',
  });
  expect(await resumedValue(uri)).toBe(WAITS_AT_STEP);
});

test('a save that does not fit: it ends in time, says what is lost, and what was sent need not be sent again', async () => {
  const uri = newRun();
  const ended = await trainUntilSigterm(uri, '1000', 'stalls');
  expect(ended).toMatchObject({ value: WAITS_AT_STEP, durable: 1, lost: { version: '2' } });
  expect(ended['text']).toMatch(
    /^preempted: version 2 did not become durable in 1(\.\d)? s \(.* of 20.0 MiB, at default\); the newest durable version is 1, /,
  );
  expect(await resumedValue(uri)).toBe(WAITS_AT_STEP - 1);

  await using manager = await openCheckpointManager(uri, { attempt: ATTEMPT });
  let keptBytes = 0;
  await manager.save({
    version: 2,
    buffers: { default: new Uint8Array(SIZE_BYTES).fill(WAITS_AT_STEP) },
    onProgress: (event) => {
      if (event.type === 'resumed') keptBytes += event.keptBytes;
    },
  });
  expect(keptBytes).toBeGreaterThan(0);
});
