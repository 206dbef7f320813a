/** An agent takes over from one that stopped or was killed, and clients wait for it. */

import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { FAULTS, scriptedFaults } from '@holdfast/testkit';
import { describe, expect, test, vi } from 'vitest';
import { hex } from './agent-client.ts';
import { newRun, plans, stores, TestAgent } from './agent-run.ts';

const STOPS = { code: 'Unavailable', retryable: true, details: { isStopping: true } };

function readRecord(path: string): Record<string, unknown> {
  return JSON.parse(readFileSync(path, 'utf8'));
}

describe('a stopping agent', () => {
  test('says that it stops, so that clients wait for its successor', async () => {
    await using agent = await TestAgent.start();
    const run = newRun();
    const two = { count: 2, attempt: 'a' };
    const waiting = await agent.trainer(run, two);
    const saveId = hex();
    await waiting.begin(1, { saveId, files: [waiting.staged('a')] });
    const stopping = agent.stop(20_000);
    await vi.waitFor(async () => expect((await agent.call('health')).status).toBe(503));
    expect(await waiting.begin(2)).toMatchObject({ status: 503, body: STOPS });
    const body = { uri: newRun(), attempt: 'a', life: hex(), pid: process.pid };
    expect(await agent.call('join', { body })).toMatchObject({ status: 503, body: STOPS });
    const other = (await agent.call('status')).body.writers as { writerId: string }[];
    expect(other).toMatchObject([{ writerId: waiting.writerId }]);
    // The rest of version 1 would let it end; so does a cancel.
    await agent.call('cancelSave', { path: { writerId: waiting.writerId, saveId } });
    await stopping;
  });

  test('does not refuse a save that it has begun: its trainer would use the bytes again', async () => {
    await using agent = await TestAgent.start();
    const trainer = await agent.trainer(newRun(), { count: 2 });
    const order = { saveId: hex(), files: [trainer.staged('a')] };
    await trainer.begin(1, order);
    const open = { saveId: hex(), files: [trainer.staged('b')], sealed: false };
    await trainer.begin(2, open);
    const stopping = agent.stop(20_000);
    await vi.waitFor(async () => expect((await agent.call('health')).status).toBe(503));
    expect((await trainer.begin(1, order)).status).toBe(202);
    expect((await trainer.begin(2, open)).status).toBe(202);
    const path = { writerId: trainer.writerId, saveId: order.saveId };
    await agent.call('cancelSave', { path });
    await stopping;
  });

  test.each(['get', 'create'] as const)(
    'ends a call that waits for the store (%s) as one that stops',
    async (operation) => {
      await using agent = await TestAgent.start();
      const run = newRun();
      plans.set(run, scriptedFaults({ fault: FAULTS.stall, operation, times: 99 }));
      const body = { uri: run, attempt: 'a', life: hex(), pid: process.pid };
      const joining = agent.call('join', { body });
      await vi.waitFor(() =>
        expect(stores.get(run)?.some(({ calls }) => calls.some((call) => call.operation === operation))).toBe(
          true,
        ),
      );
      plans.delete(run);
      const stopping = agent.stop();
      expect(await joining).toMatchObject({ status: 503, body: STOPS });
      await stopping;
    },
  );

  test('leaves a restore to its successor, and does not say that the caller stopped it', async () => {
    await using agent = await TestAgent.start();
    const run = newRun();
    await (await agent.trainer(run)).save(1);
    await agent.stop();
    await agent.start();
    plans.set(run, scriptedFaults({ fault: FAULTS.stall, operation: 'get', key: /model/, times: 99 }));
    const body = { restoreId: hex(), uri: run, to: join(agent.directory, 'out') };
    const path = { restoreId: body.restoreId };
    await agent.call('restore', { body });
    const waiting = agent.call('restoreState', { path, query: { wait: 'restored' } });
    plans.delete(run);
    const stopping = agent.stop();
    expect(await waiting).toMatchObject({ status: 503, body: STOPS });
    await stopping;
    await agent.start();
    expect((await agent.call('restoreState', { path })).status).toBe(404);
    await agent.call('restore', { body });
    const { body: done } = await agent.call('restoreState', { path, query: { wait: 'restored' } });
    expect(done).toMatchObject({ state: 'restored', version: '1' });
  });
});

test.each([0, 1])('a seal with %i files of a save that has ended tells why it ended', async (count) => {
  await using agent = await TestAgent.start();
  const trainer = await agent.trainer(newRun());
  const saveId = hex();
  await trainer.begin(1, { saveId, sealed: false });
  const path = { writerId: trainer.writerId, saveId };
  await agent.call('cancelSave', { path });
  const files = [trainer.staged('more')].slice(0, count);
  const { status, body } = await agent.call('seal', { path, body: { files } });
  expect([status, body.code, body.message]).toEqual([409, 'Aborted', 'the trainer cancelled the save']);
});

describe('what a killed agent left', () => {
  /** A socket that its process did not remove. */
  const leaveSocket = (path: string) => {
    const leave = `require('net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`;
    expect(() => execFileSync(process.execPath, ['-e', leave], { stdio: 'ignore' })).toThrow();
  };

  test('a first name of a socket is removed, and one that is served is not', async () => {
    await using agent = new TestAgent();
    mkdirSync(agent.stage, { mode: 0o700 });
    mkdirSync(join(agent.directory, 'run'), { mode: 0o700 });
    leaveSocket(`${agent.stage}/.lock.0123abcd`);
    leaveSocket(`${agent.socket}.0123abcd`);
    writeFileSync(`${agent.socket}.89abcdef`, 'no socket');
    const served = createServer();
    await new Promise<void>((resolve) => served.listen(`${agent.socket}.01234567`, resolve));
    await agent.start();
    expect(readdirSync(agent.stage)).toEqual(['.lock']);
    expect(readdirSync(join(agent.directory, 'run')).sort()).toEqual([
      'agent.sock',
      'agent.sock.01234567',
      'agent.sock.89abcdef',
    ]);
    served.close();
  });

  test.each([
    ['nothing', {}],
    ['a record that was not yet renamed', { 'writer.json.0123abcd': '{"format":1' }],
    ['a record that a loss of power cut', { 'writer.json': '' }],
  ])('a directory of a writer that had not joined yet, with %s', async (_, files) => {
    await using agent = new TestAgent();
    const directory = join(agent.stage, hex());
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    mkdirSync(join(agent.stage, 'of-another-program'));
    for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
    await agent.start();
    expect(readdirSync(agent.stage).sort()).toEqual(['.lock', 'of-another-program']);
  });

  test('a directory of another program that has such a name stays', async () => {
    await using agent = new TestAgent();
    const directory = join(agent.stage, hex());
    mkdirSync(join(directory, 'metrics'), { recursive: true, mode: 0o700 });
    const other = join(agent.stage, hex());
    mkdirSync(other);
    writeFileSync(join(other, 'meta.yaml'), 'of another program');
    await agent.start();
    expect([existsSync(directory), readdirSync(other)]).toEqual([true, ['meta.yaml']]);
  });

  test.each<[string, string, (record: { boot?: object }) => object]>([
    ['a newer version (writer.json)', 'writer.json', (record) => ({ ...record, format: 2 })],
    ['a newer version (seal)', 'seal', (record) => ({ ...record, format: 2 })],
    [
      'another machine',
      'writer.json',
      (record) => ({ ...record, boot: { id: 'of another machine', host: 'other' } }),
    ],
  ])('records of %s stay as they are for it', async (_, which, change) => {
    await using agent = await TestAgent.start();
    const run = newRun();
    plans.set(
      run,
      scriptedFaults({ fault: FAULTS.stall, operation: 'create', key: /model\.bin$/, times: 9 }),
    );
    const trainer = await agent.trainer(run);
    await trainer.begin(1);
    plans.delete(run);
    await agent.stop();
    const name = readdirSync(trainer.stage).find((each) => each.startsWith(which)) as string;
    const path = join(trainer.stage, name);
    const record = JSON.parse(readFileSync(path, 'utf8'));
    writeFileSync(path, JSON.stringify(change(record)));
    const before = readdirSync(trainer.stage);
    await agent.start();
    expect(readdirSync(trainer.stage)).toEqual(before);
    expect(agent.log.at(-1)).toMatchObject({
      level: 'warn',
      message: 'leaves records of another version of the agent, or of another machine, alone',
      details: { writer: trainer.writerId },
    });
    await agent.stop();
    writeFileSync(path, JSON.stringify(record));
    await agent.start();
    await vi.waitFor(async () => {
      const { body } = await agent.call('latest', { query: { uri: run } });
      expect(body.version).toBe('1');
    });
    await vi.waitFor(() => expect(trainer.sealed()).toEqual([]));
  });

  describe('a save that was committed', () => {
    /** A file that the trainer saves, and repeats after another agent has taken over. */
    const setUp = async (agent: TestAgent, count = 1) => {
      const path = join(agent.directory, 'model');
      writeFileSync(path, 'bytes');
      const trainer = await agent.trainer(newRun(), { attempt: 'a', count });
      const order = { saveId: hex(), files: [{ name: 'model', source: { path } }] };
      return { path, trainer, order, seal: join(trainer.stage, `seal-${order.saveId}.json`) };
    };

    test.each<[string, (path: string) => void]>([
      ['removed', (path) => rmSync(path)],
      ['written to', (path) => writeFileSync(path, 'other bytes')],
    ])('is committed for the next agent too, if its file was %s since', async (_, change) => {
      await using agent = await TestAgent.start();
      const { path, trainer, order } = await setUp(agent);
      const first = await trainer.save(1, order);
      expect(first).toMatchObject({ state: 'committed', sizeBytes: 5 });
      change(path);
      await agent.stop();
      await agent.start();
      expect((await trainer.begin(1, order)).body).toEqual(first);
      expect(await trainer.ended(order.saveId)).toEqual(first);
      expect(agent.log.filter(({ message }) => /sealed save/.test(message))).toEqual([]);
      expect((await trainer.begin(2)).status).toBe(202);
    });

    test('stays committed if retention has removed the version since', async () => {
      await using agent = await TestAgent.start();
      const trainer = await agent.trainer(newRun(), { retention: { keepLast: 1, graceMs: 0 } });
      const order = { saveId: hex(), files: [trainer.staged('a')] };
      for (const [version, more] of [
        [1, order],
        [2, {}],
      ] as const)
        await trainer.save(version, more);
      await agent.stop();
      await agent.start();
      expect((await trainer.begin(1, order)).body).toMatchObject({ state: 'committed', version: '1' });
    });

    /** As an agent leaves the record that is killed just after the commit, or the delivery. */
    const unnoted = (seal: string, path: string) => {
      const { committed: _, save, ...record } = readRecord(seal);
      const files = [{ name: 'model', source: { path } }];
      const open = { isDelivered: false, save: { ...(save as object), files } };
      writeFileSync(seal, JSON.stringify({ ...record, ...open }));
      rmSync(path);
    };

    test('is committed if the agent was killed before it could note that', async () => {
      await using agent = await TestAgent.start();
      const { path, trainer, order, seal } = await setUp(agent);
      await trainer.save(1, order);
      await agent.stop();
      unnoted(seal, path);
      await agent.start();
      expect(await trainer.ended(order.saveId)).toMatchObject({ state: 'committed', error: null });
    });

    test('waits for other writers if the agent was killed before it could note the delivery', async () => {
      await using agent = await TestAgent.start();
      const { path, trainer, order, seal } = await setUp(agent, 2);
      await trainer.listen();
      await trainer.begin(1, order);
      expect((await trainer.ended(order.saveId, 'delivered')).state).toBe('delivered');
      await agent.stop();
      unnoted(seal, path);
      await agent.start();
      const { uri } = (await agent.call('writer', { path: { writerId: trainer.writerId } })).body;
      const other = await agent.trainer(uri as string, { attempt: 'a', count: 2, index: 1 });
      expect((await other.save(1)).state).toBe('committed');
      expect(await trainer.ended(order.saveId)).toMatchObject({ state: 'committed', error: null });
    });

    test('says nothing of another save of its version whose file is gone', async () => {
      await using agent = await TestAgent.start();
      const { path, trainer, order, seal } = await setUp(agent);
      await trainer.save(1, order);
      await agent.stop();
      const saveId = hex();
      const record = readFileSync(seal, 'utf8').replaceAll(order.saveId, saveId);
      const other = join(trainer.stage, `seal-${saveId}.json`);
      writeFileSync(other, record);
      unnoted(other, path);
      await agent.start();
      expect(await trainer.ended(order.saveId)).toMatchObject({ state: 'committed' });
      expect(await trainer.ended(saveId)).toMatchObject({ state: 'failed', error: { code: 'NotFound' } });
    });
  });

  describe('a file of the trainer that is saved where it lies', () => {
    const CONTENT = Buffer.alloc(100_000, 'a');
    const CHANGED = Buffer.alloc(100_000, 'b');
    /** The state of its save after another agent has taken over, and the bytes that the run has. */
    const changedMeanwhile = async (change: (path: string) => void) => {
      await using agent = new TestAgent();
      const data = join(agent.directory, 'data');
      mkdirSync(data);
      const path = join(data, 'model');
      writeFileSync(path, CONTENT);
      await agent.start({ roots: [data] });
      const run = newRun();
      const stall = { fault: FAULTS.stall, operation: 'create', key: /model$/, times: 9 } as const;
      plans.set(run, scriptedFaults(stall));
      const trainer = await agent.trainer(run);
      const saveId = hex();
      await trainer.begin(1, { saveId, files: [{ name: 'model', source: { path } }] });
      const seal = join(trainer.stage, `seal-${saveId}.json`);
      await vi.waitFor(() => expect(readRecord(seal).isSettled).toBe(true));
      plans.delete(run);
      await agent.stop();
      change(path);
      await agent.start();
      const at = { writerId: trainer.writerId, saveId };
      const { body } = await agent.call('saveState', { path: at, query: { wait: 'committed' } });
      const again = await trainer.begin(1, { saveId, files: [{ name: 'model', source: { path } }] });
      return { body, again };
    };

    test('is committed if it is as it was', async () => {
      const { body } = await changedMeanwhile(() => undefined);
      expect(body).toMatchObject({ state: 'committed', error: null });
    });

    test.each<[string, string, (path: string) => void]>([
      ['written to', 'SourceChanged', (path) => writeFileSync(path, CHANGED)],
      [
        'written to, with the time that it had',
        'SourceChanged',
        (path) => {
          const { atimeMs, mtimeMs } = statSync(path);
          writeFileSync(path, CHANGED);
          utimesSync(path, atimeMs / 1000, mtimeMs / 1000);
        },
      ],
      [
        'replaced',
        'SourceChanged',
        (path) => {
          writeFileSync(`${path}.new`, CHANGED);
          renameSync(`${path}.new`, path);
        },
      ],
      ['longer', 'SourceChanged', (path) => appendFileSync(path, 'c')],
      ['removed', 'NotFound', (path) => rmSync(path)],
    ])('and is %s while no agent runs ends as failed (%s), not with other bytes', async (_, code, change) => {
      const { body, again } = await changedMeanwhile(change);
      const failed = { state: 'failed', error: { code } };
      expect(body).toMatchObject(failed);
      expect(again.body).toMatchObject(failed);
    });
  });
});
