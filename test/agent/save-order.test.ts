/** Saves that ask for their order: none is committed before an earlier one of its writer. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { FAULTS, scriptedFaults } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import { newRun, plans, TestAgent } from './agent-run.ts';

test('a save in order begins when the earlier ones of its writer have ended, committed or not', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const zero = await agent.trainer(run, { count: 2 });
  const one = await agent.trainer(run, { count: 2, index: 1 });
  const first = (await zero.begin(1, { timeoutMs: 2000 })).body.saveId as string;
  const second = (await zero.begin(2, { inOrder: true })).body.saveId as string;
  const theirs = (await one.begin(2, { files: [one.staged('b.bin')] })).body.saveId as string;
  expect((await one.ended(theirs, 'delivered')).state).toBe('delivered');
  expect((await zero.ended(second, 'staged')).state).toBe('accepted');
  expect((await zero.ended(first)).state).toBe('incomplete');
  expect((await zero.ended(second)).state).toBe('committed');
  expect((await one.ended(theirs)).state).toBe('committed');
});

test('a save in order has its own time, and can be cancelled while it waits', async () => {
  await using agent = await TestAgent.start();
  const zero = await agent.trainer(newRun(), { count: 2 });
  await zero.begin(1);
  const late = (await zero.begin(2, { inOrder: true, timeoutMs: 200 })).body.saveId as string;
  const unwanted = (await zero.begin(3, { inOrder: true })).body.saveId as string;
  expect(await zero.ended(late)).toMatchObject({ state: 'failed', error: { code: 'TimedOut' } });
  await agent.call('cancelSave', { path: { writerId: zero.writerId, saveId: unwanted } });
  expect((await zero.ended(unwanted)).state).toBe('cancelled');
});

test('the next agent keeps the order of saves', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  plans.set(run, scriptedFaults({ fault: FAULTS.stall, operation: 'create', key: /model\.bin$/, times: 9 }));
  const trainer = await agent.trainer(run);
  await trainer.listen();
  const first = (await trainer.begin(1)).body.saveId as string;
  const { body } = await trainer.begin(2, { sealed: false, inOrder: true });
  const path = { writerId: trainer.writerId, saveId: body.saveId as string };
  await agent.call('seal', { path, body: { files: [trainer.staged('more')] } });
  const record = readFileSync(join(trainer.stage, `seal-${path.saveId}.json`), 'utf8');
  expect(record).toContain('"inOrder":true');
  plans.delete(run);
  await agent.stop();
  await agent.start();
  for (const saveId of [first, path.saveId]) expect((await trainer.ended(saveId)).state).toBe('committed');
});
