/** The end of a transfer worker: what its calls may rely on. */

import { ServiceCalls, WorkerGone } from '@holdfast/core/contract';
import { openWorkers } from '@holdfast/core/internal/workers/index';
import { expect, test } from 'vitest';

test('a call fails only when its thread has ended: nothing writes to its memory any more', async () => {
  const open = await openWorkers(1);
  const memory = new Uint8Array(new SharedArrayBuffer(1));
  const service = new URL('./lingering-service.ts', import.meta.url);
  const calls = new ServiceCalls<Uint8Array, never>(open.workers, service);
  try {
    await expect(calls.idlest.call(memory)).rejects.toBeInstanceOf(WorkerGone);
    const last = memory[0];
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(memory[0]).toBe(last);
  } finally {
    calls.close();
    open.close();
  }
});

test('a service that cannot be loaded fails its calls; the next service gets another thread', async () => {
  const open = await openWorkers(1);
  const missing = new ServiceCalls(open.workers, new URL('./missing-service.ts', import.meta.url));
  await expect(missing.idlest.call({})).rejects.toBeInstanceOf(WorkerGone);
  const lingering = new ServiceCalls(open.workers, new URL('./lingering-service.ts', import.meta.url));
  const memory = new Uint8Array(new SharedArrayBuffer(1));
  await expect(lingering.idlest.call(memory)).rejects.toBeInstanceOf(WorkerGone);
  open.close();
});
