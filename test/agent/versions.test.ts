/** Agent and clients of different versions: the rules of docs/agent.md, "Versions". */

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AgentClient, hex, type Trainer } from './agent-client.ts';
import { newRun, TestAgent } from './agent-run.ts';

let agent: TestAgent;
let trainer: Trainer;
const run = newRun();
beforeAll(async () => {
  agent = await TestAgent.start();
  trainer = await agent.trainer(run);
  await trainer.save(1);
});
afterAll(() => agent[Symbol.asyncDispose]());

const LIFE = 'd'.repeat(32);
const SAVE = 'e'.repeat(32);
const RESTORE = 'f'.repeat(32);

/** Every call with a body, as version 0.1.0 sends it. A new entry comes with each new call only. */
const OF_0_1_0: readonly (readonly [string, () => [string, Record<string, unknown>]])[] = [
  [
    'join',
    () => [
      '/v1/writers',
      {
        ...{ uri: run, attempt: 'b', life: LIFE, index: 0, count: 1, pid: process.pid },
        ...{ process: `${process.pid}-1-1-${'0'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}` },
        ...{ clientVersion: '0.1.0', retention: { keepLast: 3 } },
      },
    ],
  ],
  [
    'save',
    () => [
      `/v1/writers/${trainer.writerId}/saves`,
      {
        ...{ saveId: SAVE, version: '7', metrics: { a: 1 }, metadata: { b: 'c' }, sealed: false },
        ...{ files: [withRange(trainer.staged('x', 'bytes'))], timeoutMs: 60_000 },
      },
    ],
  ],
  [
    'seal',
    () => [
      `/v1/writers/${trainer.writerId}/saves/${SAVE}/seal`,
      { files: [withRange(trainer.staged('y', 'bytes'))], metrics: { d: 2 }, metadata: { e: 'f' } },
    ],
  ],
  [
    'annotate',
    () => ['/v1/annotations', { uri: run, version: '1', metrics: { a: 1 }, metadata: { b: 'c' } }],
  ],
  ['pin', () => ['/v1/pins', { uri: run, version: '1', name: 'p' }]],
  ['elect', () => ['/v1/elections', { uri: run, trainer: 't', blockMs: 1000 }]],
  [
    'restore',
    () => [
      '/v1/restores',
      {
        ...{ restoreId: RESTORE, uri: run, version: '1', to: `${agent.directory}/out`, only: ['model.bin'] },
        ...{ onCorrupt: 'fail', replace: true, mtimes: true },
      },
    ],
  ],
];

function withRange({ name, source }: { name: string; source: { path: string } }) {
  return { name, source: { ...source, offset: 0, length: 5 } };
}

/** What version 0.1.0 reads of the answers. */
const READ_BY_0_1_0: Readonly<Record<string, readonly string[]>> = {
  '/healthz': ['status', 'version', 'pid'],
  '/v1/status': ['version', 'pid', 'uptimeMs', 'isStopping', 'writers', 'newest', 'memory', 'stage'],
  [`/v1/latest?uri=${run}`]: ['id', 'version', 'sizeBytes', 'fileCount', 'metrics', 'pins', 'committedAtMs'],
  [`/v1/versions/1?uri=${run}`]: ['id', 'files', 'metadata', 'worldSize'],
};

const post = async (path: string, body: unknown) => {
  const { status, bytes } = await agent.raw({ method: 'POST', path, body: JSON.stringify(body) });
  return { status, body: JSON.parse(bytes.toString('utf8')) as Record<string, unknown> };
};

describe('an older client', () => {
  // Before the join of another attempt supersedes this one.
  const ordered = [...OF_0_1_0.filter(([name]) => name !== 'join'), ...OF_0_1_0.slice(0, 1)];

  test.each(ordered)('is served: %s', async (_, request) => {
    const { status, body } = await post(...request());
    expect([status, body]).toEqual([expect.toSatisfy((code: number) => code < 300), expect.anything()]);
  });

  test.each(Object.entries(READ_BY_0_1_0))('finds its fields in %s', async (path, names) => {
    const { bytes } = await agent.raw({ method: 'GET', path });
    expect(Object.keys(JSON.parse(bytes.toString('utf8')))).toEqual(expect.arrayContaining([...names]));
  });

  test('finds its fields in the answers to a writer and to a save', async () => {
    const own = await agent.trainer(newRun(), { life: hex() });
    const { body: joined } = await agent.call('join', {
      body: { uri: newRun(), attempt: 'a', life: hex(), pid: process.pid },
    });
    expect(joined).toMatchObject({
      writerId: expect.stringMatching(/^[0-9a-f]{32}$/),
      stage: { directory: expect.any(String), kind: expect.any(String), reason: expect.any(String) },
      limits: { waitMsMax: expect.any(Number) },
    });
    expect(await own.save(1)).toMatchObject({
      ...{ saveId: expect.any(String), state: 'committed', durability: 'committed', error: null },
      ...{ version: '1', missingWriters: [], doneBytes: expect.any(Number) },
    });
  });
});

describe('a newer client', () => {
  test.each(OF_0_1_0)('is told the field that the agent does not know: %s', async (_, request) => {
    const [path, body] = request();
    expect(await post(path, { ...body, aNewerField: 1 })).toMatchObject({
      status: 400,
      body: {
        code: 'InvalidArgument',
        message: expect.stringContaining('aNewerField'),
        retryable: false,
      },
    });
  });

  test('is told that the agent does not have a call', async () => {
    const client = new AgentClient(agent.socket);
    const { status, bytes } = await client.raw({ method: 'POST', path: '/v2/writers', body: '{}' });
    client.disconnect();
    expect([status, JSON.parse(bytes.toString('utf8'))]).toMatchObject([404, { code: 'InvalidArgument' }]);
  });
});
