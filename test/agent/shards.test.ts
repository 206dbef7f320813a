/** Models of ElasticDL: the agent divides them anew, and exports them. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeShard, type ModelShard } from '@holdfast/elasticdl';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sampleFiles } from '../elasticdl/sample-files.ts';
import { hex } from './agent-client.ts';
import { newRun, TestAgent } from './agent-run.ts';

const uri = newRun();
const files = sampleFiles({ version: 7, count: 3 });
let agent: TestAgent;

beforeAll(async () => {
  agent = await TestAgent.start();
  const trainer = await agent.trainer(uri);
  const sources = Object.entries(files).map(([name, bytes]) => trainer.staged(name, Buffer.from(bytes)));
  await trainer.save(7, { files: sources });
});
afterAll(() => agent[Symbol.asyncDispose]());

async function restored(given: Record<string, unknown>) {
  const body = { restoreId: hex(), uri, to: join(agent.directory, hex()), ...given };
  const begun = await agent.call('restore', { body });
  if (begun.status !== 202) return { to: body.to, view: begun.body };
  const path = { restoreId: body.restoreId };
  const { body: view } = await agent.call('restoreState', { path, query: { wait: 'restored' } });
  return { to: body.to, view };
}

/** What all shards hold together, by name; rows by id. */
async function contentOf(shards: readonly Uint8Array[]) {
  const rows = new Map<bigint, string>();
  const dense = new Map<string, string>();
  for (const bytes of shards) {
    const shard: ModelShard = await decodeShard(bytes);
    expect(shard.version).toBe(7);
    for (const [name, { data }] of shard.dense) dense.set(name, Buffer.from(data).toString('hex'));
    const table = shard.tables.get('embedding');
    const rowBytes = 8;
    table?.ids.forEach((id, at) => {
      rows.set(id, Buffer.from(table.values.subarray(at * rowBytes, (at + 1) * rowBytes)).toString('hex'));
    });
  }
  return { rows, dense };
}

describe('a shard', () => {
  test.each([1, 2, 5])('for each of %i servers, from three', async (count) => {
    const names = Array.from({ length: count }, (_, index) => `variables-${index}-of-${count}.ckpt`);
    const shards = await Promise.all(
      names.map(async (name, index) => {
        const { to, view } = await restored({ shard: { index, count } });
        const bytes = readFileSync(join(to, name));
        expect(view).toMatchObject({ state: 'restored', version: '7', fileCount: 1, suspicions: [] });
        expect(view.sizeBytes).toBe(bytes.byteLength);
        return bytes;
      }),
    );
    expect(await contentOf(shards)).toEqual(await contentOf(Object.values(files)));
  });

  test('in another form', async () => {
    const s7 = await restored({ shard: { index: 0, count: 1 } });
    const s4 = await restored({ shard: { index: 0, count: 1, form: 'S4' } });
    const [a, b] = [s7, s4].map(({ to }) => readFileSync(join(to, 'variables-0-of-1.ckpt')));
    expect(a?.equals(b as Buffer)).toBe(false);
    expect(await contentOf([b as Buffer])).toEqual(await contentOf([a as Buffer]));
  });

  test('a checkpoint without shards, a version that is not there, a place that is taken', async () => {
    const other = newRun();
    await (await agent.trainer(other)).save(1);
    const shard = { index: 0, count: 2 };
    const none = await restored({ uri: other, shard });
    expect(none.view).toMatchObject({ state: 'failed', error: { code: 'NotFound' } });
    const missing = await restored({ version: 8, shard });
    expect(missing.view).toMatchObject({ state: 'failed', error: { code: 'NotFound' } });
    const { to } = await restored({ shard });
    expect((await restored({ to, shard })).view).toMatchObject({ error: { code: 'TargetExists' } });
    expect((await restored({ to, shard, replace: true })).view).toMatchObject({ state: 'restored' });
  });

  test.each([
    ['an index that is not below the count', { shard: { index: 2, count: 2 } }],
    ['a negative index', { shard: { index: -1, count: 2 } }],
    ['too many servers', { shard: { index: 0, count: 65_537 } }],
    ['a form that is not written', { shard: { index: 0, count: 2, form: 'S3' } }],
    ['both at once', { shard: { index: 0, count: 2 }, exportAs: 'safetensors' }],
    ['names of files', { shard: { index: 0, count: 2 }, only: ['a'] }],
    ['a fallback', { exportAs: 'safetensors', onCorrupt: 'fallback' }],
    ['times', { exportAs: 'safetensors', mtimes: true }],
    ['another format', { exportAs: 'onnx' }],
  ])('%s is refused', async (_, given) => {
    expect((await restored(given)).view).toMatchObject({ code: 'InvalidArgument' });
  });
});

test('the whole model as one file, and a JSON beside it', async () => {
  const to = join(agent.directory, 'model.safetensors');
  const { view } = await restored({ to, exportAs: 'safetensors' });
  expect(view).toMatchObject({ state: 'restored', version: '7', fileCount: 2 });
  expect(view.sizeBytes).toBe(readFileSync(to).byteLength);
  const json = JSON.parse(readFileSync(join(agent.directory, 'model.json'), 'utf8'));
  expect(json).toMatchObject({ version: 7 });
  const again = await restored({ to, exportAs: 'safetensors' });
  expect(again.view).toMatchObject({ state: 'failed', error: { code: 'TargetExists' } });
  expect((await restored({ to, exportAs: 'safetensors', replace: true })).view.state).toBe('restored');
});

test('a shard that may have been cut off is told', async () => {
  const run = newRun();
  const trainer = await agent.trainer(run);
  const { 'variables-0-of-1.ckpt': whole = new Uint8Array() } = sampleFiles({ version: 7, count: 1 });
  const cut = Buffer.from(whole).subarray(0, 2);
  await trainer.save(7, { files: [trainer.staged('variables-0-of-1.ckpt', cut)] });
  const { view } = await restored({ uri: run, shard: { index: 0, count: 1 } });
  expect(view).toMatchObject({
    state: 'restored',
    suspicions: [expect.stringContaining('variables-0-of-1')],
  });
});
