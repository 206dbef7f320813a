import { crc32c, createCheckpointManager, systemClock } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { expect, onTestFinished, test } from 'vitest';
import { startUi, type UiOptions } from './server.ts';

const TOKEN = 'token-for-tests-0123456789';
const URI = 'memory://run';

const OPTIONS = {
  session: { programVersion: '1.2.3', uris: [URI], mayChange: false },
  page: '',
  token: TOKEN,
  host: '127.0.0.1',
  port: 0,
  tls: null,
  clock: systemClock,
};

async function ask(path: string, more: Partial<UiOptions> = {}) {
  const bucket = new MemoryBucket({ crc32c });
  const open = async () => createCheckpointManager({ store: new MemoryStore(bucket) });
  const ui = await startUi({ ...OPTIONS, open, ...more });
  onTestFinished(() => ui.close());
  const answer = await fetch(`${new URL(ui.url).origin}${path}`, {
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  return { status: answer.status, body: await answer.json() };
}

test('the page of an agent is offered exactly if the command was given one', async () => {
  expect(await ask('/api/session')).toMatchObject({ status: 200, body: { hasAgent: false } });
  expect(await ask('/api/agent')).toMatchObject({
    status: 400,
    body: { message: 'this page was not started for an agent' },
  });
  const askAgent = async () => ({ pid: 1 });
  expect(await ask('/api/session', { askAgent })).toMatchObject({
    body: { hasAgent: true, mayChange: false },
  });
  expect(await ask('/api/agent', { askAgent })).toEqual({ status: 200, body: { pid: 1 } });
});

test('a single run is read before its page is opened', async () => {
  const bucket = new MemoryBucket({ crc32c });
  await using run = createCheckpointManager({ store: new MemoryStore(bucket) });
  await run.save({ version: 1, buffers: { a: new Uint8Array(1) } });
  const looks: string[] = [];
  const open = async () => {
    const manager = createCheckpointManager({ store: new MemoryStore(bucket) });
    const { list } = manager;
    manager.list = (options) => {
      looks.push(options?.limit === undefined ? 'all' : 'newest');
      return list.call(manager, options);
    };
    return manager;
  };
  const ui = await startUi({ ...OPTIONS, open });
  onTestFinished(() => ui.close());
  await expect.poll(() => looks).toEqual(['newest', 'all']);
});

test.each(['127.0.0.1', '127.0.0.5', 'localhost'])(
  'the address that is printed for --host %s is answered',
  async (host) => {
    expect(await ask('/api/session', { host })).toMatchObject({ status: 200 });
  },
);
