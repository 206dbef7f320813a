/** Another program removes the staging directory, and its name is taken, while the agent runs. */

import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { newRun, TestAgent } from './agent-run.ts';

const LOOKS_MS = 20_000;

async function stageOf(agent: TestAgent): Promise<{ kind: string; reason: string }> {
  return (await agent.call('status')).body.stage as { kind: string; reason: string };
}

test('a directory that others may enter is not used: no file in it is saved', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const trainer = await agent.trainer(run);
  await trainer.listen();
  expect((await trainer.save(1)).state).toBe('committed');
  rmSync(agent.stage, { recursive: true });
  mkdirSync(join(agent.stage, trainer.writerId), { recursive: true });
  chmodSync(agent.stage, 0o777);
  await expect(trainer.save(2)).rejects.toMatchObject({ code: 'NotFound', message: /mode 0777/ });
  const joined = await agent.call('join', { body: { uri: run, attempt: 'b', life: 'b'.repeat(32), pid: 1 } });
  expect(joined.status).toBe(201);
  expect(joined.body.stage).toMatchObject({ kind: 'none', reason: expect.stringContaining('mode 0777') });
  expect(await stageOf(agent)).toMatchObject({ kind: 'none', reason: expect.stringContaining('mode 0777') });
});

test('a directory that cannot be made again does not end the agent, and the log says so once', async () => {
  await using agent = new TestAgent();
  // It also says how often the agent looks.
  await agent.start(undefined, { idleExitMs: 500 });
  const trainer = await agent.trainer(newRun());
  await trainer.listen();
  rmSync(agent.stage, { recursive: true });
  writeFileSync(agent.stage, '');
  const said = () => agent.log.filter(({ level }) => level === 'warn').map(({ message }) => message);
  const what = 'cannot use the staging directory; trainers save from memory without a name';
  await vi.waitFor(() => expect(said()).toEqual([what]), LOOKS_MS);
  // Several looks later.
  await new Promise((resolve) => setTimeout(resolve, 2000));
  expect(said()).toEqual([what]);
  expect((await stageOf(agent)).kind).toBe('none');
  expect((await agent.raw({ method: 'GET', path: '/metrics' })).status).toBe(200);
  rmSync(agent.stage);
  const again = 'the staging directory is in use again';
  await vi.waitFor(() => expect(agent.log.map(({ message }) => message)).toContain(again), LOOKS_MS);
  expect((await trainer.save(1)).state).toBe('committed');
});
