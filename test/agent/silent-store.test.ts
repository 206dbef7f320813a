/** A store that does not answer is named before the client gives up. */

import { FAULTS } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import { hex } from './agent-client.ts';
import { newRun, plans, TestAgent } from './agent-run.ts';

const LIMIT = { 'holdfast-timeout-ms': '400' };

test('each call of the store says that the store is silent, and of which run', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  plans.set(run, () => FAULTS.stall);
  const query = { uri: run };
  const at = { uri: run, version: 1 };
  const join = { uri: run, attempt: 'a', life: hex(), pid: process.pid };
  const calls = [
    agent.call('latest', { query, headers: LIMIT }),
    agent.call('versions', { query, headers: LIMIT }),
    agent.call('version', { path: { version: '1' }, query, headers: LIMIT }),
    agent.call('file', { query: { ...query, name: 'a' }, headers: LIMIT }),
    agent.call('annotate', { body: { ...at, metrics: { m: 1 } }, headers: LIMIT }),
    agent.call('pin', { body: { ...at, name: 'p' }, headers: LIMIT }),
    agent.call('unpin', { query: { ...query, version: '1', name: 'p' }, headers: LIMIT }),
    agent.call('elect', { body: { uri: run, trainer: 't', blockMs: 1000 }, headers: LIMIT }),
    agent.call('join', { body: join, headers: LIMIT }),
  ];
  for (const { status, body } of await Promise.all(calls)) {
    const says = `the store of ${run} did not answer the agent within 360 ms`;
    const message = expect.stringContaining(says);
    expect([status, body]).toEqual([
      503,
      { code: 'Unavailable', message, details: { uri: run }, retryable: true },
    ]);
  }
  // The connections and the agent serve on.
  expect((await agent.call('health')).status).toBe(200);
});

test('a header that is no number changes nothing', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  await (await agent.trainer(run)).save(1);
  const headers = { 'holdfast-timeout-ms': 'soon' };
  expect((await agent.call('latest', { query: { uri: run }, headers })).status).toBe(200);
});
