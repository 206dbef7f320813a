/** Directories without a file, which a trainer names beside its files. */

import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { FAULTS, scriptedFaults } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import { hex } from './agent-client.ts';
import { newRun, plans, TestAgent } from './agent-run.ts';

const STALLED = { fault: FAULTS.stall, operation: 'create', key: /model\.bin$/, times: 9 } as const;

test('a save keeps empty directories: a restore makes them', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const trainer = await agent.trainer(run);
  const files = [trainer.staged('b/c'), trainer.staged('a')];
  expect((await trainer.save(1, { files, directories: ['deep/er', 'b/d'] })).state).toBe('committed');
  const { body } = await agent.call('version', { path: { version: '1' }, query: { uri: run } });
  expect(body).toMatchObject({ directories: ['b/d', 'deep/er'], fileCount: 2 });
  const to = join(agent.directory, 'restored');
  const restoreId = hex();
  await agent.call('restore', { body: { restoreId, uri: run, to } });
  const ended = await agent.call('restoreState', { path: { restoreId }, query: { wait: 'restored' } });
  expect(ended.body.state).toBe('restored');
  expect([readdirSync(join(to, 'deep/er')), existsSync(join(to, 'b/d'))]).toEqual([[], true]);
});

test('the next agent keeps them too, whether the save was sealed later or at once', async () => {
  await using agent = await TestAgent.start();
  for (const sealed of [true, false]) {
    const run = newRun();
    plans.set(run, scriptedFaults(STALLED));
    const trainer = await agent.trainer(run);
    await trainer.listen();
    const { body } = await trainer.begin(1, { sealed, directories: ['empty'] });
    const path = { writerId: trainer.writerId, saveId: body.saveId as string };
    if (!sealed) await agent.call('seal', { path, body: { files: [trainer.staged('more')] } });
    plans.delete(run);
    await agent.stop();
    await agent.start();
    expect((await trainer.ended(path.saveId)).state).toBe('committed');
    const { body: details } = await agent.call('version', { path: { version: '1' }, query: { uri: run } });
    expect(details).toMatchObject({ directories: ['empty'], fileCount: sealed ? 1 : 2 });
  }
});

test.each([
  ['a file of the same name', ['model.bin'], 'both a file and an empty directory'],
  ['a name that leads elsewhere', ['../up'], 'file name "../up" cannot be used'],
])('%s ends the save, and names what is wrong', async (_what, directories, message) => {
  await using agent = await TestAgent.start();
  const trainer = await agent.trainer(newRun());
  const { error, state } = await trainer.save(1, { directories });
  expect([state, error?.code]).toEqual(['failed', 'InvalidArgument']);
  expect(error?.message).toContain(message);
});

test('directories alone are no checkpoint', async () => {
  await using agent = await TestAgent.start();
  const trainer = await agent.trainer(newRun());
  const { error } = await trainer.save(1, { files: [], directories: ['a'] });
  expect(error).toMatchObject({ code: 'InvalidArgument', message: 'there is no file to save' });
});
