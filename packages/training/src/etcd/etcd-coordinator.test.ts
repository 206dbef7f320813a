/**
 * Tests that need no etcd. Workers that meet through an etcd:
 * test/training/etcd-coordinator.test.ts.
 */

import { expect, test } from 'vitest';
import { EtcdCoordinator } from './etcd-coordinator.ts';

const GOOD = { endpoints: ['http://127.0.0.1:1'], prefix: 'job', minWorkers: 1, maxWorkers: 2 };

test.each([
  { prefix: '' },
  { minWorkers: 0 },
  { minWorkers: 3 },
  { maxWorkers: 257 },
  { timeoutMs: 0 },
  { timeoutMs: 2 ** 31 },
  { lastCallMs: -1 },
  { lastCallMs: 600_001 },
  { presenceSeconds: 0.5 },
])('%j is InvalidArgument', (bad) => {
  const make = () => new EtcdCoordinator({ ...GOOD, ...bad });
  expect(make).toThrow(expect.objectContaining({ code: 'InvalidArgument' }));
});

test('no endpoint is InvalidConfig', () => {
  const make = () => new EtcdCoordinator({ ...GOOD, endpoints: [] });
  expect(make).toThrow(expect.objectContaining({ code: 'InvalidConfig' }));
});

test('before the first rendezvous there is no world; a new one is due', async () => {
  const coordinator = new EtcdCoordinator(GOOD);
  expect(() => coordinator.world).toThrow(expect.objectContaining({ code: 'InvalidArgument' }));
  expect(await coordinator.shouldRendezvous(undefined as never)).toBe(true);
  expect(coordinator.shouldSaveCheckpoint()).toBe(false);
});

test('no etcd answers: the rendezvous is TimedOut, and says why', async () => {
  const coordinator = new EtcdCoordinator({ ...GOOD, timeoutMs: 50, lastCallMs: 0 });
  await expect(coordinator.rendezvous()).rejects.toMatchObject({
    code: 'TimedOut',
    message: expect.stringContaining('no world began within 50 ms'),
    cause: { code: 'Unavailable' },
  });
});

test('a closed coordinator can no longer join', async () => {
  const coordinator = new EtcdCoordinator(GOOD);
  await coordinator.close();
  expect(coordinator.shouldStopTraining()).toBe(true);
  await expect(coordinator.rendezvous()).rejects.toMatchObject({ name: 'StopException' });
});
