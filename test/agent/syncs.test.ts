/** Files of the trainer are synced behind its back, so that their times show every change. */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FileSource } from '@holdfast/local-files';
import { FAULTS, scriptedFaults } from '@holdfast/testkit';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { hex, type Trainer } from './agent-client.ts';
import { newRun, plans, TestAgent } from './agent-run.ts';

/** Syncs that have begun. They last until this is called. */
let endSyncs: () => void;
let begun: string[];

beforeEach(() => {
  begun = [];
  const ended = new Promise<void>((resolve) => {
    endSyncs = resolve;
  });
  vi.spyOn(FileSource.prototype, 'settle').mockImplementation(function settle(this: FileSource) {
    begun.push(this.path);
    return ended;
  });
});
afterEach(() => {
  endSyncs();
  vi.restoreAllMocks();
});

function ownFile(agent: TestAgent, name: string) {
  const path = join(agent.directory, name);
  writeFileSync(path, 'content');
  return { name, source: { path } };
}

const isSettled = (trainer: Trainer, saveId: string) =>
  JSON.parse(readFileSync(join(trainer.stage, `seal-${saveId}.json`), 'utf8')).isSettled;

test('neither the answer nor the commit waits for a sync; one file at a time is synced', async () => {
  await using agent = await TestAgent.start();
  const trainer = await agent.trainer(newRun());
  const files = [ownFile(agent, 'a'), ownFile(agent, 'b'), trainer.staged('c')];
  expect((await trainer.save(1, { files })).state).toBe('committed');
  expect((await trainer.save(2, { files: [ownFile(agent, 'd')] })).state).toBe('committed');
  expect(begun).toEqual([join(agent.directory, 'a')]);
});

const STALL = { fault: FAULTS.stall, operation: 'create', key: /model(\.bin)?$/, times: 9 } as const;

async function stopped(agent: TestAgent, name: string | undefined, untilSynced: boolean) {
  const run = newRun();
  plans.set(run, scriptedFaults(STALL));
  const trainer = await agent.trainer(run);
  await trainer.listen();
  const saveId = hex();
  const files = [name === undefined ? trainer.staged('model') : ownFile(agent, name)];
  await trainer.begin(1, { saveId, files });
  const before = isSettled(trainer, saveId);
  if (untilSynced) {
    endSyncs();
    await vi.waitFor(() => expect(isSettled(trainer, saveId)).toBe(true));
  }
  plans.delete(run);
  await agent.stop();
  endSyncs();
  await agent.start();
  return { before, ended: await trainer.ended(saveId) };
}

test('a successor refuses a save whose files were not synced: a mapping may hide a change', async () => {
  await using agent = await TestAgent.start();
  const { before, ended } = await stopped(agent, 'model', false);
  expect([before, ended.state, ended.error?.code]).toEqual([false, 'failed', 'SourceChanged']);
  expect(ended.error?.message).toBe(
    `${join(agent.directory, 'model')} may have changed: the agent ended before it had synced the files of this save`,
  );
});

test('a successor goes on with a save whose files were synced', async () => {
  await using agent = await TestAgent.start();
  const { before, ended } = await stopped(agent, 'model', true);
  expect([before, ended.state]).toEqual([false, 'committed']);
});

test('files in the stage need no sync: only their trainer writes them', async () => {
  await using agent = await TestAgent.start();
  const { before, ended } = await stopped(agent, undefined, false);
  expect([before, ended.state, begun]).toEqual([true, 'committed', []]);
});

test('a save of an earlier agent, which made no difference, goes on', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  plans.set(run, scriptedFaults(STALL));
  const trainer = await agent.trainer(run);
  await trainer.listen();
  const saveId = hex();
  await trainer.begin(1, { saveId, files: [ownFile(agent, 'model')] });
  plans.delete(run);
  await agent.stop();
  endSyncs();
  const path = join(trainer.stage, `seal-${saveId}.json`);
  const { isSettled: _, ...record } = JSON.parse(readFileSync(path, 'utf8'));
  writeFileSync(path, JSON.stringify(record));
  await agent.start();
  expect((await trainer.ended(saveId)).state).toBe('committed');
});
