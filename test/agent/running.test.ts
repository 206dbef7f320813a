/** The agent itself: its end, restores, shared reads, figures, and many writers. */

import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openApi } from '@holdfast/agent/internal/api/open-api';
import { FAULTS, scriptedFaults } from '@holdfast/testkit';
import { describe, expect, test, vi } from 'vitest';
import { hex } from './agent-client.ts';
import { newRun, plans, stores, TestAgent } from './agent-run.ts';

test('the published document is the one of the code', async () => {
  await using agent = await TestAgent.start();
  const { bytes } = await agent.raw({ method: 'GET', path: '/openapi.json' });
  const published = JSON.parse(readFileSync('docs/agent-openapi.json', 'utf8')) as {
    info: { version: string };
  };
  expect(JSON.parse(bytes.toString('utf8'))).toEqual({
    ...published,
    info: { ...published.info, version: '1.2.3' },
  });
  expect(openApi(published.info.version)).toEqual(published);
});

describe('preemption', () => {
  test('no new saves; what fits the deadline is finished; what is durable is said', async () => {
    await using agent = await TestAgent.start();
    const run = newRun();
    const trainer = await agent.trainer(run);
    await trainer.save(3);
    const stuck = newRun();
    plans.set(
      stuck,
      scriptedFaults({ fault: FAULTS.stall, operation: 'create', key: /model\.bin$/, times: 9 }),
    );
    const other = await agent.trainer(stuck);
    await other.begin(8);
    const preempting = agent.call('preempt', { body: { deadlineMs: 200 } });
    await vi.waitFor(async () => expect((await agent.call('health')).body.status).toBe('stopping'));
    expect((await agent.call('health')).status).toBe(503);
    const refused = await trainer.begin(4);
    expect([refused.status, refused.body.code, refused.body.retryable]).toEqual([503, 'Unavailable', true]);
    const { body } = await preempting;
    expect(body.newest).toEqual([{ uri: run, version: '3' }]);
    expect(body.unfinished).toMatchObject([{ version: '8', durability: 'staged' }]);
    await agent.running?.ended;
    agent.running = undefined;
    expect(existsSync(agent.socket)).toBe(false);
  });
});

test('a stopping agent takes the other parts of a version under way, and no new version', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const [zero, one] = [
    await agent.trainer(run, { count: 2 }),
    await agent.trainer(run, { count: 2, index: 1 }),
  ];
  await zero.begin(5, { files: [zero.staged('0')] });
  const stopping = agent.stop(20_000);
  await vi.waitFor(async () => expect((await agent.call('health')).body.status).toBe('stopping'));
  expect((await one.begin(6)).body.code).toBe('Unavailable');
  expect((await one.begin(5, { files: [one.staged('1')] })).status).toBe(202);
  expect(await stopping).toMatchObject({ newest: [{ uri: run, version: '5' }], unfinishedCount: 0 });
});

test('an idle agent ends by itself, and not while a trainer is connected', async () => {
  await using agent = new TestAgent();
  await agent.start({}, { idleExitMs: 100 });
  const trainer = await agent.trainer(newRun());
  await trainer.listen();
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect((await agent.call('health')).status).toBe(200);
  trainer.die();
  await agent.running?.ended;
  agent.running = undefined;
});

test('a staging directory that another program removes is made again', async () => {
  await using agent = new TestAgent();
  const root = join(agent.directory, 'root');
  mkdirSync(root);
  writeFileSync(join(root, 'a'), 'bytes');
  await agent.start({ roots: [root] });
  const trainer = await agent.trainer(newRun());
  rmSync(agent.stage, { recursive: true });
  expect((await agent.call('status')).status).toBe(200);
  expect((await agent.raw({ method: 'GET', path: '/metrics' })).status).toBe(200);
  rmSync(agent.stage, { recursive: true });
  const files = [{ name: 'a', source: { path: join(root, 'a') } }];
  const { writerId } = trainer;
  const saveId = hex();
  await agent.call('save', { path: { writerId }, body: { saveId, version: 1, files } });
  expect((await trainer.ended(saveId)).state).toBe('committed');
  expect(existsSync(join(trainer.stage, 'writer.json'))).toBe(true);
});

describe('restores', () => {
  test('to a directory, once per id', async () => {
    await using agent = await TestAgent.start();
    const run = newRun();
    await (await agent.trainer(run)).save(1);
    const body = { restoreId: hex(), uri: run, to: join(agent.directory, 'out') };
    const path = { restoreId: body.restoreId };
    for (let round = 0; round < 2; round += 1)
      expect((await agent.call('restore', { body })).status).toBe(202);
    const { body: done } = await agent.call('restoreState', { path, query: { wait: 'restored' } });
    expect(done).toMatchObject({ state: 'restored', version: '1', fileCount: 1, error: null });
    expect(readFileSync(join(body.to, 'model.bin'), 'utf8')).toBe('model 1');
    expect((await agent.call('restore', { body: { ...body, version: 1 } })).body.code).toBe('Conflict');
    const again = { ...body, restoreId: hex() };
    await agent.call('restore', { body: again });
    const second = await agent.call('restoreState', { path: again, query: { wait: 'restored' } });
    expect(second.body).toMatchObject({ state: 'failed', error: { code: 'TargetExists' } });
  });

  test('cancelled, of nothing, to a path that is not absolute', async () => {
    await using agent = await TestAgent.start();
    const run = newRun();
    await (await agent.trainer(run)).save(1);
    const stuck = newRun();
    const none = { restoreId: hex(), uri: stuck, to: join(agent.directory, 'none') };
    await agent.call('restore', { body: none });
    const ended = await agent.call('restoreState', { path: none, query: { wait: 'restored' } });
    expect(ended.body).toMatchObject({ state: 'failed', error: { code: 'NotFound' } });
    const relative = await agent.call('restore', { body: { restoreId: hex(), uri: run, to: 'out' } });
    expect(relative.body.code).toBe('InvalidArgument');
    plans.set(stuck, scriptedFaults({ fault: FAULTS.stall, operation: 'get', times: 99 }));
    const hanging = { restoreId: hex(), uri: run, to: join(agent.directory, 'hanging') };
    await agent.call('restore', { body: hanging });
    const cancelled = await agent.call('cancelRestore', { path: hanging });
    expect(['failed', 'restored']).toContain(cancelled.body.state);
  });
});

test('ranks that ask for the same bytes share one read', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const trainer = await agent.trainer(run);
  await trainer.save(1, { files: [trainer.staged('big', Buffer.alloc(3_000_000, 5))] });
  const path = `/v1/files?uri=${run}&name=big`;
  const first = await agent.raw({ method: 'GET', path });
  const before = readsOf(run);
  const all = await Promise.all(Array.from({ length: 8 }, () => agent.raw({ method: 'GET', path })));
  for (const { bytes } of all) expect(bytes.equals(first.bytes)).toBe(true);
  expect(readsOf(run) - before).toBe(1);
});

test('many different reads at once wait for their turn, and all arrive', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const trainer = await agent.trainer(run);
  const content = Buffer.from(Uint8Array.from({ length: 300_000 }, (_, index) => index & 0xff));
  await trainer.save(1, { files: [trainer.staged('big', content)] });
  const offsets = Array.from({ length: 60 }, (_, index) => index * 1000);
  const all = await Promise.all(
    offsets.map((offset) =>
      agent.raw({ method: 'GET', path: `/v1/files?uri=${run}&name=big&offset=${offset}` }),
    ),
  );
  for (const [index, { bytes }] of all.entries())
    expect(bytes.equals(content.subarray(offsets[index]))).toBe(true);
});

/** How often a payload was read. */
function readsOf(run: string): number {
  const calls = (stores.get(run) ?? []).flatMap((store) => store.calls);
  return calls.filter(({ operation, key }) => operation === 'readInto' && key.endsWith('/big')).length;
}

test('damaged bytes never arrive: the answer is cut before them', async () => {
  await using agent = await TestAgent.start();
  const run = pathToFileURL(join(agent.directory, 'the-run')).href;
  const trainer = await agent.trainer(run);
  await trainer.save(1, { files: [trainer.staged('big', Buffer.alloc(20 * 1024 * 1024, 5))] });
  const { body } = await agent.call('version', { path: { version: '1' }, query: { uri: run } });
  const [{ key }] = body.files as [{ key: string }];
  const file = openSync(join(agent.directory, 'the-run', key), 'r+');
  writeSync(file, 'x', 19 * 1024 * 1024);
  closeSync(file);
  const path = `/v1/files?uri=${encodeURIComponent(run)}&name=big`;
  await expect(agent.raw({ method: 'GET', path })).rejects.toMatchObject({ code: 'ECONNRESET' });
  const sound = await agent.raw({ method: 'GET', path: `${path}&length=1000` });
  expect(sound.bytes.equals(Buffer.alloc(1000, 5))).toBe(true);
  const damaged = await agent.raw({ method: 'GET', path: `${path}&offset=${19 * 1024 * 1024}` });
  expect([damaged.status, JSON.parse(damaged.bytes.toString()).code]).toEqual([500, 'Corrupt']);
});

test('annotations and pins', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  await (await agent.trainer(run)).save(1);
  const about = { uri: run, version: 1 };
  const metadata = { note: 'good' };
  await agent.call('annotate', { body: { ...about, metrics: { auc: 0.9 }, metadata } });
  await agent.call('pin', { body: { ...about, name: 'paper' } });
  const query = { uri: run };
  const { body } = await agent.call('version', { path: { version: '1' }, query });
  expect(body).toMatchObject({ metrics: { auc: 0.9 }, metadata, pins: ['paper'] });
  await agent.call('unpin', { query: { ...query, version: '1', name: 'paper' } });
  expect((await agent.call('latest', { query })).body.pins).toEqual([]);
});

test('figures', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const trainer = await agent.trainer(run);
  await trainer.save(1);
  await agent.raw({ method: 'GET', path: `/v1/files?uri=${run}&name=model.bin` });
  const { bytes, headers } = await agent.raw({ method: 'GET', path: '/metrics' });
  const text = bytes.toString('utf8');
  expect(headers['content-type']).toContain('version=0.0.4');
  for (const line of [
    'holdfast_saves_total{outcome="committed"} 1',
    'holdfast_saves_in_progress 0',
    'holdfast_save_bytes_total 7',
    'holdfast_save_duration_seconds_count 1',
    'holdfast_save_duration_seconds_bucket{le="+Inf"} 1',
    'holdfast_read_bytes_total 7',
    'holdfast_agent_writers 1',
  ])
    expect(text).toContain(`${line}\n`);
  const names = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  for (const line of names) expect(line).toMatch(/^holdfast_[a-z_]+(\{[a-z]+="[^"]+"\})? [0-9.e+-]+$/);
});

test('32 writers of one job on one agent, each save whole', async () => {
  await using agent = await TestAgent.start({ bufferBytes: 16 * 1024 * 1024 });
  const run = newRun();
  const count = 32;
  const writers = [];
  for (let index = 0; index < count; index += 1) writers.push(await agent.trainer(run, { index, count }));
  for (const version of [1, 2]) {
    const saves = writers.map((writer, index) =>
      writer.save(version, {
        files: [writer.staged(`${index}.bin`, Buffer.alloc(100_000, index + version))],
      }),
    );
    expect(new Set((await Promise.all(saves)).map(({ state }) => state))).toEqual(new Set(['committed']));
  }
  const { body } = await agent.call('version', { path: { version: '2' }, query: { uri: run } });
  expect((body.files as unknown[]).length).toBe(count);
});

test('runs take their buffers from the budget of the agent, also if it is small', async () => {
  await using agent = await TestAgent.start({ bufferBytes: 16 * 1024 * 1024 });
  const run = newRun();
  plans.set(run, scriptedFaults({ fault: FAULTS.stall, operation: 'create', key: /model\.bin$/, times: 9 }));
  const trainer = await agent.trainer(run);
  await trainer.begin(1, { files: [trainer.staged('model.bin', Buffer.alloc(5_000_000))] });
  await vi.waitFor(async () => {
    const { body } = await agent.call('status');
    expect(body.memory).toMatchObject({ totalBytes: 16 * 1024 * 1024, usedBytes: expect.any(Number) });
    expect((body.memory as { usedBytes: number }).usedBytes).toBeGreaterThan(0);
  });
});
