/** Which trainer exports the model: the agent asks for all trainers of its machine. */

import { Elections } from '@holdfast/agent/internal/elections';
import { crc32c } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { ManualClock, refuse, scriptedFaults } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { newRun, plans, TestAgent } from './agent-run.ts';

const MINUTE_MS = 60_000;

describe('by a call', () => {
  test('one trainer is elected, on all machines; it may ask again', async () => {
    await using here = await TestAgent.start();
    await using there = await TestAgent.start();
    const uri = newRun();
    const ask = (agent: TestAgent, trainer: string) =>
      agent.call('elect', { body: { uri, trainer, blockMs: 10 * MINUTE_MS } });
    expect((await ask(here, 'a')).body).toEqual({ isGranted: true, holder: 'a' });
    for (const agent of [here, there]) {
      expect((await ask(agent, 'b')).body).toEqual({ isGranted: false, holder: 'a' });
    }
    expect((await ask(there, 'a')).body).toEqual({ isGranted: true, holder: 'a' });
    const other = { uri: newRun(), trainer: 'b', blockMs: 1000 };
    expect((await here.call('elect', { body: other })).body.isGranted).toBe(true);
  });

  test('trainers of a machine that ask at once', async () => {
    await using agent = await TestAgent.start();
    const uri = newRun();
    const trainers = Array.from({ length: 8 }, (_, index) => `trainer-${index}`);
    const answers = await Promise.all(
      trainers.map((trainer) => agent.call('elect', { body: { uri, trainer, blockMs: MINUTE_MS } })),
    );
    expect(answers.filter(({ body }) => body.isGranted).length).toBe(1);
    expect(new Set(answers.map(({ body }) => body.holder)).size).toBe(1);
  });

  test.each([
    ['an id that leads out of its directory', { trainer: '../a' }],
    ['an empty id', { trainer: '' }],
    ['no time', { blockMs: 0 }],
    ['a part of a millisecond', { blockMs: 1.5 }],
    ['more than a week', { blockMs: 7 * 24 * 60 * MINUTE_MS + 1 }],
    ['a field that is unknown', { group: 'a' }],
  ])('%s is refused', async (_, changed) => {
    await using agent = await TestAgent.start();
    const body = { uri: newRun(), trainer: 'a', blockMs: MINUTE_MS, ...changed };
    const { status, body: answer } = await agent.call('elect', { body });
    expect([status, answer.code]).toEqual([400, 'InvalidArgument']);
  });

  test('a run that is not allowed, a store that does not exist: no election is kept', async () => {
    await using agent = await TestAgent.start({ uris: ['shelf://mine'] });
    const ask = async (uri: string) =>
      (await agent.call('elect', { body: { uri, trainer: 'a', blockMs: MINUTE_MS } })).body;
    for (let round = 0; round < 2; round += 1) {
      expect(await ask('shelf://yours')).toMatchObject({ code: 'Denied' });
    }
    expect(await ask('shelf://mine')).toEqual({ isGranted: true, holder: 'a' });
  });

  test('an error of the store elects no trainer', async () => {
    await using agent = await TestAgent.start();
    const uri = newRun();
    plans.set(uri, scriptedFaults({ fault: refuse('Denied'), operation: 'create', times: 1 }));
    const body = { uri, trainer: 'a', blockMs: MINUTE_MS };
    expect(await agent.call('elect', { body })).toMatchObject({ status: 403, body: { code: 'Denied' } });
    expect((await agent.call('elect', { body })).body.isGranted).toBe(true);
  });
});

describe('by time', () => {
  const never = new AbortController().signal;

  function nodes(count: number) {
    const clock = new ManualClock();
    const bucket = new MemoryBucket({ crc32c });
    const open = async () => new MemoryStore(bucket);
    return { clock, nodes: Array.from({ length: count }, () => new Elections(open, { clock })) };
  }

  test('a trainer that has died is replaced after 1.25 times its time, seen by the machine', async () => {
    const {
      clock,
      nodes: [here, there],
    } = nodes(2);
    const ask = (node: Elections | undefined, trainer: string) =>
      node?.request({ uri: 'u', trainer, blockMs: 1000 }, never);
    expect(await ask(here, 'a')).toMatchObject({ isGranted: true });
    expect(await ask(there, 'b')).toMatchObject({ isGranted: false });
    await clock.advance(1249);
    expect(await ask(there, 'b')).toMatchObject({ isGranted: false, holder: 'a' });
    await clock.advance(1);
    // Another trainer of the machine that has watched.
    expect(await ask(there, 'c')).toEqual({ isGranted: true, holder: 'c' });
    expect(await ask(here, 'a')).toEqual({ isGranted: false, holder: 'c' });
  });

  test('an agent that watches a grant is not idle', async () => {
    const {
      clock,
      nodes: [node],
    } = nodes(1);
    expect(node?.isWatching).toBe(false);
    await node?.request({ uri: 'u', trainer: 'a', blockMs: 1000 }, never);
    await clock.advance(1249);
    expect(node?.isWatching).toBe(true);
    await clock.advance(1);
    expect(node?.isWatching).toBe(false);
    await node?.close();
  });

  test('an agent ends by itself only after the grants that it has seen', async () => {
    await using agent = new TestAgent();
    await agent.start({}, { idleExitMs: 50 });
    await agent.call('elect', { body: { uri: newRun(), trainer: 'a', blockMs: 800 } });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect((await agent.call('health')).status).toBe(200);
    await agent.running?.ended;
    agent.running = undefined;
  });
});
