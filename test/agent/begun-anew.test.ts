/** A run is removed and begun again at the same URI while the agent lives. */

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';
import { describe, expect, test } from 'vitest';
import { hex } from './agent-client.ts';
import { TestAgent } from './agent-run.ts';

const SIZE = 300_000;

function contentOf(life: number, version: number): Buffer {
  return Buffer.from(Uint8Array.from({ length: SIZE }, (_, index) => (index * life + version) & 0xff));
}

async function saveAll(agent: TestAgent, run: string, life: number, versions: readonly number[]) {
  const trainer = await agent.trainer(run, { attempt: `attempt-${life}` });
  for (const version of versions) {
    const files = [trainer.staged('big', contentOf(life, version)), trainer.staged(`only-${life}`)];
    expect(await trainer.save(version, { files })).toMatchObject({ state: 'committed' });
  }
  return trainer;
}

/** Fills all that the agent remembers of the run, and checks it. */
async function readAll(agent: TestAgent, run: string, life: number, versions: readonly number[]) {
  const query = { uri: run };
  const latest = versions.at(-1) as number;
  expect((await agent.call('latest', { query })).body).toMatchObject({ version: String(latest) });
  expect((await agent.call('versions', { query })).body.versions).toHaveLength(versions.length);
  for (const version of versions) {
    const { body } = await agent.call('version', { path: { version: String(version) }, query });
    expect((body.files as { name: string }[]).map(({ name }) => name)).toEqual(['big', `only-${life}`]);
    const { lineage } = body.id as { lineage: number };
    const read = (name: string, which = {}) => {
      const file = new URLSearchParams({ ...query, version: String(version), name, ...which });
      return agent.raw({ method: 'GET', path: `/v1/files?${file}` });
    };
    for (const which of [{}, { lineage: String(lineage) }]) {
      const { status, bytes } = await read('big', which);
      expect([status, bytes.equals(contentOf(life, version))]).toEqual([200, true]);
      expect((await read(`only-${life}`, which)).status).toBe(200);
    }
  }
}

test.each([
  ['fewer', [1, 2], [2]],
  ['far fewer', [1, 2, 3, 4, 5, 6, 7, 8], [2]],
  ['as many', [1, 2], [1, 2]],
  ['more', [1, 2], [1, 2, 3]],
])(
  '%s versions in the new run: each is read, and the former writer saves nothing',
  async (_, before, versions) => {
    await using agent = await TestAgent.start();
    const directory = join(agent.directory, 'the-run');
    const run = pathToFileURL(directory).href;
    const former = await saveAll(agent, run, 1, before);
    await readAll(agent, run, 1, before);

    rmSync(directory, { recursive: true });
    await saveAll(agent, run, 2, versions);
    await readAll(agent, run, 2, versions);

    const late = await former.save(9, { files: [former.staged('big', contentOf(1, 9))] });
    expect(late).toMatchObject({ state: 'fenced', error: { code: 'Fenced' } });
    await readAll(agent, run, 2, versions);
  },
);

test('a restore that was asked for after the run was begun again', async () => {
  await using agent = await TestAgent.start();
  const directory = join(agent.directory, 'the-run');
  const run = pathToFileURL(directory).href;
  await saveAll(agent, run, 1, [1, 2]);
  await readAll(agent, run, 1, [1, 2]);
  rmSync(directory, { recursive: true });
  await saveAll(agent, run, 2, [1, 2]);
  const to = join(agent.directory, 'restored');
  const body = { uri: run, restoreId: 'a'.repeat(32), version: 'latest', to };
  const { body: begun } = await agent.call('restore', { body });
  const path = { restoreId: String(begun.restoreId) };
  const { body: ended } = await agent.call('restoreState', { path, query: { wait: 'restored' } });
  expect(ended).toMatchObject({ state: 'restored', version: '2', fileCount: 2 });
});

test('what latest and versions answer names a checkpoint of the former run: no call takes the new one', async () => {
  await using agent = await TestAgent.start();
  const directory = join(agent.directory, 'the-run');
  const run = pathToFileURL(directory).href;
  const query = { uri: run };
  const told = async () => {
    const { body: latest } = await agent.call('latest', { query });
    const { body: all } = await agent.call('versions', { query });
    expect(latest).toEqual((all.versions as object[])[0]);
    const { version, id, manifestKey } = latest as {
      version: string;
      id: { lineage: number };
      manifestKey: string;
    };
    return { version, lineage: `${id.lineage}`, manifestKey };
  };
  const codes = async ({ version, ...which }: Awaited<ReturnType<typeof told>>) => {
    const details = await agent.call('version', { path: { version }, query: { ...query, ...which } });
    const to = join(agent.directory, hex());
    const body = { uri: run, restoreId: hex(), version, ...which, to };
    const path = { restoreId: String((await agent.call('restore', { body })).body.restoreId) };
    const { body: restored } = await agent.call('restoreState', { path, query: { wait: 'restored' } });
    const file = new URLSearchParams({ ...query, version, ...which, name: 'big' });
    const { status } = await agent.raw({ method: 'GET', path: `/v1/files?${file}` });
    return [details.status, (restored.error as { code: string } | null)?.code ?? restored.state, status];
  };
  await saveAll(agent, run, 1, [1, 2]);
  const former = await told();
  expect(await codes(former)).toEqual([200, 'restored', 200]);
  rmSync(directory, { recursive: true });
  await saveAll(agent, run, 2, [1, 2]);
  const present = await told();
  expect({ ...present, manifestKey: '' }).toEqual({ ...former, manifestKey: '' });
  expect(await codes(former)).toEqual([404, 'NotFound', 404]);
  expect(await codes(present)).toEqual([200, 'restored', 200]);
  await saveAll(agent, run, 2, [3]);
  expect(await codes(former)).toEqual([404, 'NotFound', 404]);
});

test('a checkpoint of the new run, which another agent told, is read although this one holds the former', async () => {
  await using agent = await TestAgent.start();
  await using other = await TestAgent.start();
  const directory = join(agent.directory, 'the-run');
  const run = pathToFileURL(directory).href;
  await saveAll(agent, run, 1, [1, 2]);
  await readAll(agent, run, 1, [1, 2]);
  rmSync(directory, { recursive: true });
  await saveAll(other, run, 2, [1, 2]);
  const { body } = await other.call('latest', { query: { uri: run } });
  const { lineage } = body.id as { lineage: number };
  const which = { uri: run, version: '2', lineage: `${lineage}`, manifestKey: `${body.manifestKey}` };
  const { status, bytes } = await agent.raw({
    method: 'GET',
    path: `/v1/files?${new URLSearchParams({ ...which, name: 'big' })}`,
  });
  expect([status, bytes.equals(contentOf(2, 2))]).toEqual([200, true]);
});

test('a load that began before the run was begun again gets no bytes of the new one', async () => {
  await using agent = await TestAgent.start();
  const directory = join(agent.directory, 'the-run');
  const run = pathToFileURL(directory).href;
  await saveAll(agent, run, 1, [1, 2]);
  const query = { uri: run };
  const { body } = await agent.call('version', { path: { version: '2' }, query });
  const { lineage } = body.id as { lineage: number };
  const read = (name: string) => {
    const which = { ...query, version: '2', lineage: `${lineage}`, manifestKey: `${body.manifestKey}`, name };
    return agent.raw({ method: 'GET', path: `/v1/files?${new URLSearchParams(which)}` });
  };
  expect((await read('big')).bytes.equals(contentOf(1, 2))).toBe(true);

  rmSync(directory, { recursive: true });
  await saveAll(agent, run, 2, [1, 2]);
  // The new run is known to the agent, under the same numbers.
  await readAll(agent, run, 2, [1, 2]);
  const { status, bytes } = await read('big');
  expect([status, JSON.parse(String(bytes))]).toMatchObject([404, { code: 'NotFound' }]);
});

describe('a run that is removed while no agent runs', () => {
  async function runOf(agent: TestAgent) {
    const directory = join(agent.directory, 'the-run');
    const run = pathToFileURL(directory).href;
    const open = () => openCheckpointManager(run, { attempt: 'of-the-new-job' });
    return { directory, run, open };
  }

  /** Decisions of the new run: its first attempt, and a version. */
  async function beginAnew(directory: string, open: Awaited<ReturnType<typeof runOf>>['open']) {
    rmSync(directory, { recursive: true });
    await using manager = await open();
    await manager.save({ version: 1, buffers: { a: new Uint8Array(3) } });
  }

  test.each([
    ['was delivered and waits for another writer', { count: 2 }, undefined],
    ['was not sent', {}, { saveBytesPerSecondMax: 1000 }],
  ])(
    'its staged save, which %s, is not committed to the run that takes its place',
    async (_, more, config) => {
      await using agent = await TestAgent.start(config);
      const { directory, run, open } = await runOf(agent);
      const trainer = await agent.trainer(run, more);
      const saveId = hex();
      await trainer.begin(3000, { saveId, files: [trainer.staged('big', contentOf(1, 1))] });
      if (config === undefined) await trainer.ended(saveId, 'delivered');
      expect(await agent.stop()).toMatchObject({ resumableCount: 1 });

      await beginAnew(directory, open);
      await agent.start();
      expect(await trainer.ended(saveId)).toMatchObject({ state: 'fenced', error: { code: 'Fenced' } });
      expect(trainer.sealed()).toEqual([]);
      await using manager = await open();
      expect((await manager.admin.log()).map(({ kind }) => kind)).toEqual(['commit', 'takeover']);
      // Its own job goes on.
      await manager.save({ version: 2, buffers: { a: new Uint8Array(3) } });
    },
  );

  test('its staged save does not begin it again', async () => {
    await using agent = await TestAgent.start();
    const { directory, run, open } = await runOf(agent);
    const trainer = await agent.trainer(run, { count: 2 });
    const saveId = hex();
    await trainer.begin(3000, { saveId });
    await trainer.ended(saveId, 'delivered');
    await agent.stop();
    rmSync(directory, { recursive: true });
    await agent.start();
    expect(await trainer.ended(saveId)).toMatchObject({ state: 'failed', error: { code: 'StoreRegressed' } });
    await using manager = await open();
    expect(await manager.latest()).toBeNull();
    expect(await manager.list()).toEqual([]);
  });

  test('a trainer that joins the next agent names its run, and is refused if another one is there', async () => {
    await using agent = await TestAgent.start();
    const { directory, run, open } = await runOf(agent);
    const body = { uri: run, attempt: 'a', life: hex(), pid: process.pid };
    const { runId } = (await agent.call('join', { body })).body;
    const again = { ...body, runId };
    expect((await agent.call('join', { body: again })).status).toBe(201);
    const refused = {
      status: 409,
      body: { code: 'Fenced', message: /not the one that this trainer joined/ },
    };
    // Also by an agent that knows it.
    expect(await agent.call('join', { body: { ...body, runId: 'another' } })).toMatchObject(refused);
    await agent.stop();
    await agent.start();
    expect((await agent.call('join', { body: again })).status).toBe(201);
    await agent.stop();
    rmSync(agent.stage, { recursive: true });

    await beginAnew(directory, open);
    await agent.start();
    expect(await agent.call('join', { body: again })).toMatchObject(refused);
    await using manager = await open();
    expect((await manager.admin.log()).map(({ kind }) => kind)).toEqual(['commit', 'takeover']);
    // A trainer that is started again is one of the new run.
    expect((await agent.call('join', { body: { ...body, life: hex() } })).status).toBe(201);
  });
});
