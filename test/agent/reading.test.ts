/** Trainers that read a checkpoint by many requests, while retention works. */

import { expect, test, vi } from 'vitest';
import type { Trainer } from './agent-client.ts';
import { newRun, stores, TestAgent } from './agent-run.ts';

const CONTENT = Buffer.from(Uint8Array.from({ length: 300_000 }, (_, index) => index & 0xff));

async function withRetention(agent: TestAgent, run: string, graceMs?: number): Promise<Trainer> {
  const retention = { keepLast: 1, ...(graceMs !== undefined && { graceMs }) };
  const trainer = await agent.trainer(run, { retention });
  await trainer.save(1, { files: [trainer.staged('big', CONTENT)] });
  return trainer;
}

function bytesAt(agent: TestAgent, run: string, more: Readonly<Record<string, string>>) {
  const query = new URLSearchParams({ uri: run, name: 'big', ...more });
  return agent.raw({ method: 'GET', path: `/v1/files?${query}` });
}

/** Retention has noted it in the catalog. */
async function retired(agent: TestAgent, run: string): Promise<void> {
  await vi.waitFor(async () => {
    const { body } = await agent.call('versions', { query: { uri: run } });
    expect(body.versions).toMatchObject([{ version: '2' }, { version: '1', state: 'retiring' }]);
  });
}

function callsOf(run: string): { operation: string; key: string }[] {
  return (stores.get(run) ?? []).flatMap((store) => store.calls);
}

test('a trainer that has found a version reads all of it, although retention retires it', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const trainer = await withRetention(agent, run, 0);
  const { body } = await agent.call('version', { path: { version: 'latest' }, query: { uri: run } });
  const { lineage } = body.id as { lineage: number };
  await trainer.save(2);
  await retired(agent, run);
  for (let offset = 0; offset < CONTENT.byteLength; offset += 30_000) {
    // With the lineage that it was told, or by the number alone.
    const which = offset % 60_000 === 0 ? { lineage: String(lineage) } : {};
    const range = { version: '1', offset: String(offset), length: '30000', ...which };
    const { status, bytes } = await bytesAt(agent, run, range);
    expect([status, bytes.equals(CONTENT.subarray(offset, offset + 30_000))]).toEqual([200, true]);
  }
});

test('a half-read file of a version that is retired meanwhile', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const trainer = await withRetention(agent, run);
  const { bytes: first } = await bytesAt(agent, run, { version: '1', length: '100000' });
  await trainer.save(2);
  await retired(agent, run);
  const { bytes: rest } = await bytesAt(agent, run, { version: '1', offset: '100000' });
  expect(Buffer.concat([first, rest]).equals(CONTENT)).toBe(true);
});

test('a version that retention has retired is described, and not read by those who come then', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const trainer = await withRetention(agent, run);
  await trainer.save(2);
  await retired(agent, run);
  const { body } = await agent.call('version', { path: { version: '1' }, query: { uri: run } });
  expect(body).toMatchObject({ version: '1', state: 'retiring' });
  const refused = await bytesAt(agent, run, { version: '1' });
  expect([refused.status, JSON.parse(String(refused.bytes)).code]).toEqual([404, 'NotFound']);
});

test('many ranges of one version cost one look-up, one lease and one manifest', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  await withRetention(agent, run);
  const { body } = await agent.call('version', { path: { version: 'latest' }, query: { uri: run } });
  const { lineage } = body.id as { lineage: number };
  const before = callsOf(run).length;
  for (let offset = 0; offset < 20_000; offset += 1000) {
    const range = { version: '1', lineage: String(lineage), offset: String(offset), length: '1000' };
    expect((await bytesAt(agent, run, range)).status).toBe(200);
  }
  const calls = callsOf(run).slice(before);
  expect(calls.filter(({ operation }) => operation !== 'readInto')).toEqual([]);
  expect(calls).toHaveLength(20);
});

test('the lease is released when the agent ends', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  await withRetention(agent, run);
  await bytesAt(agent, run, { version: '1' });
  const leases = () => callsOf(run).filter(({ key }) => key.startsWith('leases/'));
  expect(leases().map(({ operation }) => operation)).toEqual(['create']);
  await agent.stop();
  expect(leases().map(({ operation }) => operation)).toEqual(['create', 'deleteMany']);
});
