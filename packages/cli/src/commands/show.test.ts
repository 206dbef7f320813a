/** `show` of a checkpoint whose writers reported the moment of their bytes. */

import { createCheckpointManager } from '@holdfast/core';
import { systemClock } from '@holdfast/core/contract';
import { openStore } from '@holdfast/stores';
import { expect, test } from 'vitest';
import { callInProcess } from '../in-process.ts';

async function shown(...argv: string[]): Promise<string> {
  const { code, stdout } = await callInProcess(['show', ...argv]);
  expect(code).toBe(0);
  return stdout;
}

test('show: what writers said of their states, in a line, in a table and as JSON', async () => {
  const uri = 'memory://show-consistency';
  const huge = 2n ** 63n - 1n;
  for (const [index, stateVersion] of [1198, huge].entries()) {
    const clock = { ...systemClock, nowMs: () => Date.UTC(2026, 0, 1, 0, 0, index * 4) };
    const writer = { index, count: 2 };
    const store = await openStore(uri);
    await using manager = createCheckpointManager({ store, clock, attempt: 'job', writer });
    const buffers = { [`model-${index}`]: Uint8Array.of(index) };
    await manager.save({ version: 1200, buffers, consistency: 'polluted', stateVersion, noWait: true });
  }
  const text = await shown(uri);
  expect(text).toContain(
    `\nconsistency polluted   states of versions 1198 to ${huge}, taken within 4.0 s\nattempt     job\n`,
  );
  expect(text).toContain(`\n     1   ${huge}   2026-01-01 00:00:04.000 UTC\n\nFILE`);
  expect(JSON.parse(await shown(uri, '--json')).writers).toEqual([
    { writer: 0, consistency: 'polluted', stateVersion: 1198, takenAt: '2026-01-01T00:00:00.000Z' },
    { writer: 1, consistency: 'polluted', stateVersion: String(huge), takenAt: '2026-01-01T00:00:04.000Z' },
  ]);
});
