/** What becomes of saves: their states, their durability, and who they belong to. */

import { existsSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FAULTS, refuse, scriptedFaults } from '@holdfast/testkit';
import { expect, test, vi } from 'vitest';
import { hex } from './agent-client.ts';
import { newRun, plans, TestAgent } from './agent-run.ts';

test('a save is staged at once, committed later, and loads', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const trainer = await agent.trainer(run);
  await trainer.listen();
  const files = [trainer.staged('a.bin', 'first'), trainer.staged('deep/b.bin', 'second')];
  const { status, body } = await trainer.begin(3, { files, metrics: { loss: 0.5 }, metadata: { by: 'me' } });
  expect([status, body.durability, body.sizeBytes]).toEqual([202, 'staged', 11]);
  const saved = await trainer.ended(body.saveId as string);
  expect(saved).toMatchObject({ state: 'committed', durability: 'committed', version: '3', doneBytes: 11 });
  const latest = await agent.call('latest', { query: { uri: run } });
  expect(latest.body).toMatchObject({ version: '3', fileCount: 2, metrics: { loss: 0.5 } });
  const details = await agent.call('version', { path: { version: '3' }, query: { uri: run } });
  expect(details.body).toMatchObject({ metadata: { by: 'me' }, worldSize: 1 });
  const path = `/v1/files?uri=${encodeURIComponent(run)}&name=deep/b.bin&offset=2&length=3`;
  expect((await agent.raw({ method: 'GET', path })).bytes.toString()).toBe('con');
  await vi.waitFor(() =>
    expect(trainer.events.map(({ state }) => state)).toEqual([
      undefined,
      'accepted',
      'uploading',
      'committed',
    ]),
  );
});

test('parts of one segment are files of their own', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const trainer = await agent.trainer(run);
  const { source } = trainer.staged('all', '0123456789');
  const files = [
    { name: 'a', source: { ...source, offset: 0, length: 4 } },
    { name: 'b', source: { ...source, offset: 4 } },
    { name: 'none', source: { ...source, offset: 10, length: 0 } },
  ];
  await trainer.save(1, { files });
  const bytesOf = async (name: string) =>
    (await agent.raw({ method: 'GET', path: `/v1/files?uri=${run}&name=${name}` })).bytes.toString();
  expect([await bytesOf('a'), await bytesOf('b'), await bytesOf('none')]).toEqual(['0123', '456789', '']);
});

test('a repeated save is done once; other content with its id is a conflict', async () => {
  await using agent = await TestAgent.start();
  const trainer = await agent.trainer(newRun());
  const body = { saveId: hex(), version: 1, files: [trainer.staged('a')] };
  const path = { writerId: trainer.writerId };
  const answers = await Promise.all([1, 2, 3].map(() => agent.call('save', { path, body })));
  expect(answers.map(({ status }) => status)).toEqual([202, 202, 202]);
  expect(answers.map((answer) => answer.body.durability)).not.toContain('none');
  const refused = { saveId: hex(), version: 2, files: [{ name: 'a', source: { path: '/none' } }] };
  const refusals = await Promise.all([1, 2].map(() => agent.call('save', { path, body: refused })));
  expect(refusals.map(({ status }) => status)).toEqual([404, 404]);
  expect((await trainer.ended(body.saveId)).state).toBe('committed');
  expect((await agent.call('save', { path, body })).body.state).toBe('committed');
  const other = await agent.call('save', { path, body: { ...body, version: 2 } });
  expect([other.status, other.body.code]).toEqual([409, 'Conflict']);
});

test('an unsealed save waits for its seal, which may add files', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const trainer = await agent.trainer(run);
  const { body } = await trainer.begin(1, { files: [trainer.staged('a')], sealed: false, metrics: { x: 1 } });
  expect([body.state, body.durability]).toEqual(['open', 'none']);
  const path = { writerId: trainer.writerId, saveId: body.saveId as string };
  const waited = await agent.call('saveState', { path, query: { wait: 'staged', timeoutMs: '20' } });
  expect(waited.body.state).toBe('open');
  const more = { files: [trainer.staged('.metadata')], metrics: { y: 2 } };
  expect((await agent.call('seal', { path, body: more })).status).toBe(202);
  expect((await trainer.ended(path.saveId)).state).toBe('committed');
  const { body: details } = await agent.call('version', { path: { version: 'latest' }, query: { uri: run } });
  expect((details.files as { name: string }[]).map(({ name }) => name)).toEqual(['.metadata', 'a']);
  expect(details.metrics).toEqual({ x: 1, y: 2 });
  expect((await agent.call('seal', { path, body: more })).status).toBe(202);
  const late = await agent.call('seal', { path, body: { files: [trainer.staged('late')] } });
  expect([late.status, late.body.code]).toEqual([400, 'InvalidArgument']);
});

test('a trainer that ends: what it sealed is committed, what it did not is dropped, its stage is removed', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const trainer = await agent.trainer(run);
  await trainer.listen();
  const open = await trainer.begin(1, { sealed: false });
  expect(open.body.state).toBe('open');
  await trainer.begin(2);
  trainer.die();
  await vi.waitFor(() => expect(existsSync(trainer.stage)).toBe(false));
  const { body } = await agent.call('versions', { query: { uri: run } });
  expect((body.versions as { version: string }[]).map(({ version }) => version)).toEqual(['2']);
  const gone = await agent.call('writer', { path: { writerId: trainer.writerId } });
  expect([gone.status, gone.body.code]).toEqual([404, 'NotFound']);
});

test('the same life joins again: it is the same writer', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const life = hex();
  const first = await agent.trainer(run, { life });
  await first.listen();
  await first.save(1);
  const again = await agent.trainer(run, { life });
  expect(again.writerId).toBe(first.writerId);
  await again.save(2);
  first.die();
  await vi.waitFor(() => expect(existsSync(first.stage)).toBe(false));
  const back = await agent.trainer(run, { life });
  expect((await back.save(3)).state).toBe('committed');
});

test('an agent that stops keeps what is sealed; the next one goes on with it', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  plans.set(run, scriptedFaults({ fault: FAULTS.stall, operation: 'create', key: /model\.bin$/, times: 9 }));
  const trainer = await agent.trainer(run);
  await trainer.listen();
  await trainer.begin(1);
  plans.delete(run);
  const stopped = await agent.stop();
  expect(stopped).toMatchObject({ newest: [], unfinishedCount: 1, resumableCount: 1 });
  expect(trainer.sealed()).toHaveLength(1);
  await agent.start();
  await vi.waitFor(async () => {
    const { status, body } = await agent.call('latest', { query: { uri: run } });
    expect([status, body.version]).toEqual([200, '1']);
  });
  await vi.waitFor(() => expect(trainer.sealed()).toEqual([]));
});

test('an agent that stops tells no trainer that a sealed save has ended: its segment is still needed', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  plans.set(run, scriptedFaults({ fault: FAULTS.stall, operation: 'create', key: /model\.bin$/, times: 9 }));
  const trainer = await agent.trainer(run);
  await trainer.listen();
  const { body } = await trainer.begin(1);
  const waiting = trainer.ended(body.saveId as string).catch((error: Error) => error);
  await vi.waitFor(() => expect(trainer.events.at(-1)?.state).toBe('uploading'));
  plans.delete(run);
  await agent.stop();
  const told = await waiting;
  if (!(told instanceof Error)) expect(told).toMatchObject({ state: 'uploading', durability: 'staged' });
  expect(trainer.events.map(({ state }) => state)).toEqual([undefined, 'accepted', 'uploading']);
  await agent.start();
  expect((await trainer.ended(body.saveId as string)).state).toBe('committed');
});

const STALLED = { fault: FAULTS.stall, operation: 'create', key: /model\.bin$/, times: 9 } as const;

test('one of two seals at once, with other files each, is done', async () => {
  await using agent = await TestAgent.start();
  const trainer = await agent.trainer(newRun());
  const { body } = await trainer.begin(1, { files: [trainer.staged('a')], sealed: false });
  const path = { writerId: trainer.writerId, saveId: body.saveId as string };
  const sealWith = (name: string) => agent.call('seal', { path, body: { files: [trainer.staged(name)] } });
  const answers = await Promise.all([sealWith('b'), sealWith('c')]);
  expect(answers.map(({ status }) => status).sort()).toEqual([202, 400]);
  expect((await trainer.ended(path.saveId)).state).toBe('committed');
});

test('a restarted agent knows both requests of a save, so that they may be repeated', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const trainer = await agent.trainer(run, { count: 2 });
  await trainer.listen();
  const first = { saveId: hex(), version: 1, files: [trainer.staged('a')], sealed: false };
  const path = { writerId: trainer.writerId, saveId: first.saveId };
  await agent.call('save', { path, body: first });
  const more = { files: [trainer.staged('b')] };
  await agent.call('seal', { path, body: more });
  await agent.stop();
  await agent.start();
  expect((await agent.call('save', { path, body: first })).status).toBe(202);
  expect((await agent.call('seal', { path, body: more })).status).toBe(202);
  expect((await agent.call('seal', { path, body: { files: [trainer.staged('c')] } })).status).toBe(400);
  const other = await agent.trainer(run, { count: 2, index: 1 });
  await other.save(1, { files: [other.staged('of-1')] });
  expect((await trainer.ended(first.saveId)).state).toBe('committed');
});

test('a save that is not delivered in its time has failed; the next one goes on', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  plans.set(run, scriptedFaults({ ...STALLED, times: 1 }));
  const trainer = await agent.trainer(run);
  const { body } = await trainer.begin(1, { timeoutMs: 100 });
  const failed = await trainer.ended(body.saveId as string);
  expect(failed).toMatchObject({ state: 'failed', error: { code: 'TimedOut' } });
  expect((await trainer.save(2)).state).toBe('committed');
});

test('a restarted agent knows the metrics and metadata of both, the save and its seal', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  plans.set(run, scriptedFaults(STALLED));
  const trainer = await agent.trainer(run);
  await trainer.listen();
  const first = { sealed: false, metrics: { x: 1 }, metadata: { by: 'me' } };
  const { body } = await trainer.begin(1, first);
  const path = { writerId: trainer.writerId, saveId: body.saveId as string };
  await agent.call('seal', { path, body: { metrics: { y: 2 } } });
  plans.delete(run);
  await agent.stop();
  await agent.start();
  expect((await trainer.ended(path.saveId)).state).toBe('committed');
  const query = { uri: run };
  const { body: details } = await agent.call('version', { path: { version: '1' }, query });
  expect([details.metrics, details.metadata]).toEqual([{ x: 1, y: 2 }, { by: 'me' }]);
});

test('a sealed save that cannot go on does not hold up the others of its writer', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  plans.set(run, scriptedFaults(STALLED));
  const trainer = await agent.trainer(run);
  await trainer.listen();
  await trainer.begin(1);
  const path = join(agent.directory, 'file');
  writeFileSync(path, 'gone soon');
  const lost = await trainer.begin(2, { files: [{ name: 'f', source: { path } }] });
  await trainer.begin(3);
  plans.delete(run);
  await agent.stop();
  rmSync(path);
  await agent.start();
  await vi.waitFor(async () => {
    const { body } = await agent.call('versions', { query: { uri: run } });
    expect((body.versions as { version: string }[]).map(({ version }) => version)).toEqual(['3', '1']);
  });
  await vi.waitFor(() => expect(trainer.sealed()).toEqual([]));
  const told = agent.log.find(
    ({ message }) => message === 'the files of a sealed save have changed, or are gone',
  );
  expect(told?.details).toMatchObject({ save: lost.body.saveId, version: '2' });
});

test.each([
  ['gone', (path: string) => rmSync(path)],
  ['other ones', (path: string) => writeFileSync(path, 'other')],
])(
  'sources that are %s after the delivery are not needed, by a restarted agent neither',
  async (_, change) => {
    await using agent = await TestAgent.start();
    const run = newRun();
    const both = { attempt: 'a', count: 2 };
    const zero = await agent.trainer(run, both);
    await zero.listen();
    const path = join(agent.directory, 'file');
    writeFileSync(path, 'bytes');
    const { body } = await zero.begin(1, { files: [{ name: 'f', source: { path } }] });
    expect((await zero.ended(body.saveId as string, 'delivered')).state).toBe('delivered');
    const seal = () => readFileSync(join(zero.stage, `seal-${body.saveId}.json`), 'utf8');
    expect(JSON.parse(seal()).isDelivered).toBe(true);
    change(path);
    await agent.stop();
    await agent.start();
    expect((await zero.ended(body.saveId as string, 'delivered')).state).toBe('delivered');
    const one = await agent.trainer(run, { ...both, index: 1 });
    expect((await one.save(1)).state).toBe('committed');
    expect((await zero.ended(body.saveId as string)).state).toBe('committed');
  },
);

test('when the end of a save is told, no restarted agent goes on with it', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  plans.set(run, scriptedFaults(STALLED));
  const trainer = await agent.trainer(run);
  await trainer.listen();
  const { body } = await trainer.begin(1);
  const path = { writerId: trainer.writerId, saveId: body.saveId as string };
  expect((await agent.call('cancelSave', { path })).body.state).toBe('cancelled');
  expect(readdirSync(trainer.stage).join()).not.toContain('seal-');
});

test('a superseded attempt: its saves are fenced, and it may not join again', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const old = await agent.trainer(run, { attempt: 'old' });
  await old.save(1);
  const young = await agent.trainer(run, { attempt: 'young' });
  const { body } = await old.begin(2);
  expect(await old.ended(body.saveId as string)).toMatchObject({
    state: 'fenced',
    durability: 'none',
    error: { code: 'Fenced', retryable: false },
  });
  await expect(agent.trainer(run, { attempt: 'old' })).rejects.toMatchObject({ code: 'Fenced' });
  expect((await young.save(2)).state).toBe('committed');
});

test('a restarted rank is a new life: what its former life delivered does not count', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const both = { attempt: 'a', count: 2 };
  const dead = await agent.trainer(run, { ...both, index: 1 });
  await dead.listen();
  const { body } = await dead.begin(5, { files: [dead.staged('1.bin', 'old')], timeoutMs: 600_000 });
  expect((await dead.ended(body.saveId as string, 'delivered')).state).toBe('delivered');
  dead.die();
  const [zero, one] = [await agent.trainer(run, both), await agent.trainer(run, { ...both, index: 1 })];
  const halves = [
    zero.save(6, { files: [zero.staged('0.bin')] }),
    one.save(6, { files: [one.staged('1.bin', 'new')] }),
  ];
  expect((await Promise.all(halves)).map(({ state }) => state)).toEqual(['committed', 'committed']);
  const { bytes } = await agent.raw({ method: 'GET', path: `/v1/files?uri=${run}&name=1.bin` });
  expect(bytes.toString()).toBe('new');
});

test('a rank that never delivers is named, and strands no other', async () => {
  await using agent = await TestAgent.start();
  const trainer = await agent.trainer(newRun(), { count: 2 });
  const { body } = await trainer.begin(1, { timeoutMs: 2000 });
  expect(await trainer.ended(body.saveId as string)).toMatchObject({
    state: 'incomplete',
    missingWriters: [1],
    error: { code: 'Incomplete', retryable: true },
  });
});

test('a rank that never delivers is named, also if the upload took most of the time', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  plans.set(
    run,
    scriptedFaults({ fault: refuse('Unavailable'), operation: 'create', key: /model\.bin$/, times: 5 }),
  );
  const trainer = await agent.trainer(run, { count: 2 });
  const { body } = await trainer.begin(1, { timeoutMs: 6000 });
  expect(await trainer.ended(body.saveId as string)).toMatchObject({
    state: 'incomplete',
    missingWriters: [1],
    error: { code: 'Incomplete', retryable: true },
  });
});

test.each([FAULTS.stall, refuse('Unavailable')])(
  'the store does not answer the commit: no rank waits longer than its save may take (%o)',
  async (fault) => {
    await using agent = await TestAgent.start();
    const run = newRun();
    let isStalled = false;
    plans.set(run, ({ operation, key }) =>
      isStalled && operation === 'create' && key.startsWith('catalog/') ? fault : undefined,
    );
    const ranks = await Promise.all(
      [0, 1].map((index) => agent.trainer(run, { attempt: 'a', count: 2, index })),
    );
    plans.delete(run);
    isStalled = true;
    const startMs = performance.now();
    const begun: string[] = [];
    for (const rank of ranks) {
      const order = { timeoutMs: 2000, files: [rank.staged(`${begun.length}.bin`)] };
      begun.push((await rank.begin(1, order)).body.saveId as string);
      await rank.ended(begun.at(-1) as string, 'delivered');
    }
    const ended = await Promise.all(ranks.map((rank, index) => rank.ended(begun[index] as string)));
    expect(performance.now() - startMs).toBeLessThan(15_000);
    for (const { state } of ended) expect(['failed', 'incomplete', 'outcomeUnknown']).toContain(state);
  },
);

test('a save that waits for other ranks holds up no later one; its time counts from its request', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const zero = await agent.trainer(run, { count: 2 });
  const one = await agent.trainer(run, { count: 2, index: 1 });
  const skipped = (await zero.begin(1)).body.saveId as string;
  const late = (await zero.begin(2, { timeoutMs: 2000 })).body.saveId as string;
  expect((await zero.ended(late)).state).toBe('incomplete');
  const third = (await zero.begin(3)).body.saveId as string;
  expect((await one.save(3, { files: [one.staged('b.bin')] })).state).toBe('committed');
  expect((await zero.ended(third)).state).toBe('committed');
  expect(await zero.ended(skipped)).toMatchObject({ state: 'failed', error: { code: 'Conflict' } });
});

test('ranks that disagree on their number', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  await (await agent.trainer(run, { count: 1 })).save(1);
  await expect(agent.trainer(run, { count: 2, index: 1 })).rejects.toMatchObject({
    code: 'WorldSizeMismatch',
  });
});

test('a trainer that joins again cannot say another number of writers', async () => {
  await using agent = await TestAgent.start();
  const [run, life] = [newRun(), hex()];
  const { writerId } = await agent.trainer(run, { life, count: 2 });
  await expect(agent.trainer(run, { life, count: 3 })).rejects.toMatchObject({
    code: 'WorldSizeMismatch',
    message: 'writer 0 of attempt "a" joined as one of 2, and now says 3',
  });
  expect((await agent.trainer(run, { life, count: 2 })).writerId).toBe(writerId);
});

test('a save that fails tells why; the next one is served', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  plans.set(run, scriptedFaults({ fault: refuse('Denied'), operation: 'create', key: /model\.bin$/ }));
  const trainer = await agent.trainer(run);
  const { body } = await trainer.begin(1);
  const failed = await trainer.ended(body.saveId as string);
  expect(failed).toMatchObject({ state: 'failed', durability: 'none', error: { code: 'Denied' } });
  expect((await trainer.save(2)).state).toBe('committed');
});

test('cancel: before the seal, and in the middle', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  plans.set(run, scriptedFaults({ fault: FAULTS.stall, operation: 'create', key: /model\.bin$/, times: 9 }));
  const trainer = await agent.trainer(run);
  const open = await trainer.begin(1, { sealed: false });
  const pathOf = ({ body }: typeof open) => ({ writerId: trainer.writerId, saveId: body.saveId as string });
  expect((await agent.call('cancelSave', { path: pathOf(open) })).body.state).toBe('cancelled');
  const slow = await trainer.begin(2);
  const cancelled = await agent.call('cancelSave', { path: pathOf(slow) });
  expect(cancelled.body).toMatchObject({ state: 'cancelled', error: { code: 'Aborted' } });
  expect((await agent.call('cancelSave', { path: pathOf(slow) })).body.state).toBe('cancelled');
});

test('a file of a root may be removed once the save was answered', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const path = join(agent.directory, 'old.ckpt');
  const bytes = Buffer.alloc(64 * 1024 * 1024, 3);
  writeFileSync(path, bytes);
  plans.set(run, ({ operation }) => {
    if (operation === 'putPart') rmSync(path, { force: true });
    return undefined;
  });
  const trainer = await agent.trainer(run);
  const saved = await trainer.save(1, { files: [{ name: 'old.ckpt', source: { path } }] });
  expect([saved.state, existsSync(path)]).toEqual(['committed', false]);
  const { bytes: found } = await agent.raw({ method: 'GET', path: `/v1/files?uri=${run}&name=old.ckpt` });
  expect(found.equals(bytes)).toBe(true);
});

test('a segment that shrinks or is rewritten during the save is noticed', async () => {
  await using agent = await TestAgent.start();
  const run = newRun();
  const bytes = Buffer.alloc(64 * 1024 * 1024, 1);
  plans.set(run, ({ operation }) => {
    // The first parts were read, and are about to be sent.
    if (operation === 'putPart') change();
    return undefined;
  });
  let change = () => undefined as unknown;
  const trainer = await agent.trainer(run);
  for (const [version, how] of [
    [1, (path: string) => truncateSync(path, 1000)],
    [2, (path: string) => writeFileSync(path, '2', { flag: 'r+' })],
  ] as const) {
    const file = trainer.staged('a.bin', bytes);
    change = () => how(file.source.path);
    const { body } = await trainer.begin(version, { files: [file] });
    expect((await trainer.ended(body.saveId as string)).error?.code).toBe('SourceChanged');
  }
});
