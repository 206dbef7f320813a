/** The first page of a long run: its newest versions need one entry of the catalog, and no page. */

import { crc32c, createCheckpointManager } from '@holdfast/core';
import { systemClock } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { type RunningUi, startUi } from '@holdfast/ui';
import { expect, onTestFinished, test } from 'vitest';
import { fillRun } from '../bench/fill-run.ts';

const COUNT = 3000;
const TOKEN = 'token-for-tests-0123456789';
const URI = 'memory://long';

/** A run whose pages of the catalog are not answered before `release`. */
async function longRun() {
  const bucket = new MemoryBucket({ crc32c });
  await fillRun(new MemoryStore(bucket), COUNT, { isCatalogOnly: true });
  const released = Promise.withResolvers<void>();
  const reads: string[] = [];
  const open = async () => {
    const store = new MemoryStore(bucket);
    const get = store.get.bind(store);
    store.get = async (key, options) => {
      reads.push(key);
      if (key.startsWith('pages/')) await released.promise;
      return get(key, options);
    };
    return createCheckpointManager({ store });
  };
  const ui = await startUi({
    session: { programVersion: '1.2.3', uris: [URI], mayChange: false },
    page: '',
    token: TOKEN,
    host: '127.0.0.1',
    port: 0,
    tls: null,
    clock: systemClock,
    open,
  });
  onTestFinished(() => ui.close());
  return { ui, reads, release: () => released.resolve() };
}

async function ask({ port }: RunningUi, path: string) {
  const answer = await fetch(`http://127.0.0.1:${port}${path}uri=${encodeURIComponent(URI)}`, {
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  // biome-ignore lint/suspicious/noExplicitAny: each call has its own answer.
  return (await answer.json()) as any;
}

test('the newest versions and their number are answered before any page of the catalog', async () => {
  const { ui, reads, release } = await longRun();
  const whole = ask(ui, '/api/run?');
  const first = await ask(ui, '/api/run/versions?offset=0&limit=100&');
  expect(first.total).toBe(COUNT);
  expect(first.rows).toHaveLength(100);
  expect(first.rows[0]).toMatchObject({ version: '3000', isLatest: true, verdict: null });
  expect(new Set(reads.filter((key) => !key.startsWith('pages/'))).size).toBe(1);
  // What needs other versions waits for them.
  const filtered = ask(ui, '/api/run/versions?filter=pinned&');
  const isAnswered = await Promise.race([whole, filtered, new Promise((end) => setTimeout(end, 100))]);
  expect(isAnswered).toBeUndefined();

  release();
  expect(await whole).toMatchObject({ versionCount: COUNT, latest: { version: '3000' } });
  expect(await filtered).toMatchObject({ total: 0 });
  const judged = await ask(ui, '/api/run/versions?offset=0&limit=100&');
  expect(judged).toMatchObject({ total: COUNT, rows: { 0: { version: '3000', verdict: 'keep' } } });
});

test('the whole run reads each page of the catalog once, and an unchanged run none again', async () => {
  const { ui, reads, release } = await longRun();
  release();
  await ask(ui, '/api/run?');
  const pages = reads.filter((key) => key.startsWith('pages/'));
  expect(pages.length).toBeGreaterThan(3);
  expect(new Set(pages).size).toBe(pages.length);
  for (const path of ['/api/run?', '/api/run/versions?offset=2900&', '/api/run/versions?text=12&'])
    await ask(ui, path);
  expect(reads.filter((key) => key.startsWith('pages/'))).toHaveLength(pages.length);
});
