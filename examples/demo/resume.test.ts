/**
 * The same servers and the same training as in the demo, one after the other in one process, so
 * that the result is deterministic.
 */

import { encodeShard, restoreShard, shardsInMemory } from '@holdfast/elasticdl';
import { describe, expect, it } from 'vitest';
import { heldOut, trainingBatch } from './clicks.ts';
import { evaluate } from './evaluation.ts';
import { fromModelShard, toModelShard } from './model-shard.ts';
import { ParameterShard } from './parameter-shard.ts';
import { shapeOf } from './parameters.ts';
import { SharedModel } from './shared-model.ts';

const shape = shapeOf(5, 2 ** 20);
const CLICKS = heldOut(shape);

function beginOn(count: number): ParameterShard[] {
  return Array.from({ length: count }, (_, index) => ParameterShard.begin(shape, { index, count }));
}

function modelOn(servers: readonly ParameterShard[]): SharedModel {
  return new SharedModel(
    servers.map((server) => ({
      pull: async (ids) => server.pull(ids),
      push: async (ids, gradients) => server.push(ids, gradients),
    })),
  );
}

async function train(servers: readonly ParameterShard[], from: number, until: number): Promise<void> {
  const model = modelOn(servers);
  for (let step = from; step < until; step++) await model.learn(trainingBatch(shape, step % 2, step));
}

async function judge(servers: readonly ParameterShard[]) {
  return evaluate(await modelOn(servers).predict(CLICKS), CLICKS);
}

/** Saves the servers as files and restores them to another number of servers. */
async function moveTo(count: number, servers: readonly ParameterShard[]): Promise<ParameterShard[]> {
  const files = servers.map((server, index) => {
    const chunks = [...encodeShard(toModelShard(server)).chunks()];
    return [`variables-${index}-of-${servers.length}.ckpt`, Buffer.concat(chunks)] as const;
  });
  await using set = await shardsInMemory(Object.fromEntries(files));
  const positions = Array.from({ length: count }, (_, index) => ({ index, count }));
  return Promise.all(
    positions.map(async (position) => fromModelShard(await restoreShard(set, position), shape, position)),
  );
}

describe('a job that resumes', () => {
  it('on two servers, then on five, learns what it would have learned on three without a break: to the last bit', async () => {
    const unbroken = beginOn(3);
    await train(unbroken, 0, 24);

    const three = beginOn(3);
    await train(three, 0, 12);
    const two = await moveTo(2, three);
    await train(two, 12, 18);
    const five = await moveTo(5, two);
    await train(five, 18, 24);

    const [expected, before] = [await judge(unbroken), await judge(beginOn(3))];
    expect(await judge(five)).toEqual(expected);
    expect(five.map(({ version }) => version)).toEqual([24, 24, 24, 24, 24]);
    expect(expected.auc).toBeGreaterThan(before.auc + 0.1);
    expect(expected.loss).toBeLessThan(before.loss - 0.05);
  });

  it('without the accumulators of the optimizer it would learn something else', async () => {
    const unbroken = beginOn(2);
    await train(unbroken, 0, 10);
    const forgetful = beginOn(2);
    await train(forgetful, 0, 5);
    for (const { state } of forgetful) for (const accumulators of state.accumulators) accumulators.fill(0.1);
    await train(forgetful, 5, 10);
    expect((await judge(forgetful)).loss).not.toBe((await judge(unbroken)).loss);
  });
});
