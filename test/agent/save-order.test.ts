/** Saves that ask for their order: none is committed before an earlier one of its writer. */

import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FAULTS, scriptedFaults } from '@holdfast/testkit';
import { describe, expect, test, vi } from 'vitest';
import type { Trainer } from './agent-client.ts';
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

describe('saves that are resumed without an earlier one, whose bytes were in memory', () => {
  /** Three saves. The agent has ended, and has left records of the second and the third. */
  const ended = async (agent: TestAgent) => {
    const run = newRun();
    plans.set(
      run,
      scriptedFaults({ fault: FAULTS.stall, operation: 'create', key: /model\.bin$/, times: 9 }),
    );
    const trainer = await agent.trainer(run);
    const orders = [1, 2, 3].map((version) => ({
      ...{ saveId: `${version}`.repeat(32), inOrder: true },
      files: [trainer.staged('model.bin', `${version}`)],
    }));
    for (const [index, order] of orders.entries()) await trainer.begin(index + 1, order);
    plans.delete(run);
    await agent.stop();
    // A save from memory without a name has no record.
    const [first, ...others] = orders.map(({ saveId }) => join(trainer.stage, `seal-${saveId}.json`));
    rmSync(first!);
    for (const path of others) {
      const record = JSON.parse(readFileSync(path, 'utf8'));
      writeFileSync(path, JSON.stringify({ ...record, after: [orders[0]!.saveId] }));
    }
    return { trainer, orders };
  };
  const statesOf = async (agent: TestAgent, { writerId }: Trainer) => {
    const { body } = await agent.call('writer', { path: { writerId } });
    return (body.saves as { version: string; state: string }[]).map(({ version, state }) => version + state);
  };
  const committed = (agent: TestAgent) =>
    agent.log.filter(({ message }) => message === 'save committed').map(({ details }) => details?.version);

  test('begin when their trainer has repeated it', async () => {
    await using agent = await TestAgent.start();
    const { trainer, orders } = await ended(agent);
    await agent.start();
    expect(await statesOf(agent, trainer)).toEqual(['3accepted', '2accepted']);
    expect((await trainer.begin(1, orders[0])).status).toBe(202);
    await vi.waitFor(() => expect(committed(agent)).toEqual(['1', '2', '3']));
  });

  test.each<[string, (trainer: Trainer, agent: TestAgent) => Promise<unknown>]>([
    [
      'asks for one of them',
      ({ agent, writerId }) => agent.call('saveState', { path: { writerId, saveId: '2'.repeat(32) } }),
    ],
    ['begins a later one', (trainer) => trainer.save(4)],
    ['has left', ({ agent, writerId }) => agent.call('leave', { path: { writerId } })],
    ['may not repeat it in time, because the agent stops', (_, agent) => agent.stop(20_000)],
  ])('begin when their trainer %s', async (_, act) => {
    await using agent = await TestAgent.start();
    const { trainer } = await ended(agent);
    await agent.start();
    await act(trainer, agent);
    await vi.waitFor(() => expect(committed(agent).slice(0, 2)).toEqual(['2', '3']));
  });

  test('begin when it is refused', async () => {
    await using agent = await TestAgent.start();
    const { trainer, orders } = await ended(agent);
    await agent.start();
    const gone = { name: 'model.bin', source: { path: join(trainer.stage, 'segment-0') } };
    expect((await trainer.begin(1, { ...orders[0], files: [gone] })).status).toBe(404);
    await vi.waitFor(() => expect(committed(agent)).toEqual(['2', '3']));
  });

  test('stay for the next agent if this one is killed meanwhile', async () => {
    await using agent = await TestAgent.start();
    const { trainer, orders } = await ended(agent);
    await agent.start();
    await agent.running?.stop(0);
    await agent.start();
    expect(await statesOf(agent, trainer)).toEqual(['3accepted', '2accepted']);
    await trainer.begin(1, orders[0]);
    await vi.waitFor(() => expect(committed(agent)).toEqual(['1', '2', '3']));
  });
});
