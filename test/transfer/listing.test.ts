/** Listings whose pages bring nothing new: they end, and a break among them is no new beginning. */

import { CheckpointError, type ListPage, type ObjectStore } from '@holdfast/core';
import { EMPTY_PAGES_MAX } from '@holdfast/core/internal/transfer/listing';
import { expect, test } from 'vitest';
import { failureOf, setUp } from './memory-transfers.ts';

type List = (...args: Parameters<ObjectStore['list']>) => AsyncGenerator<ListPage, void, void>;

const RETRY_TIMEOUT_MS = 60_000;
const EMPTY: ListPage = { objects: [], storeTimeMs: 5 };

function page(...keys: readonly string[]): ListPage {
  return { objects: keys.map((key) => ({ key, sizeBytes: 1, etag: 'e', createdAtMs: 1 })), storeTimeMs: 1 };
}

function setUpWith(list: List) {
  const { store, clock, transfers } = setUp({ settings: { retryTimeoutMs: RETRY_TIMEOUT_MS } });
  store.list = list;
  return { clock, records: transfers.records };
}

async function pagesOf(records: ObjectStore): Promise<ListPage[]> {
  const pages: ListPage[] = [];
  for await (const each of records.list('r/')) pages.push(each);
  return pages;
}

test('a listing that always breaks after a page without news is given up in time', async () => {
  let calls = 0;
  const { clock, records } = setUpWith(async function* (_, { startAfter } = {}) {
    calls += 1;
    yield startAfter === undefined ? page('r/a') : EMPTY;
    throw new CheckpointError('Unavailable', 'cut off');
  });
  const startMs = clock.monotonicMs();
  expect(await failureOf(pagesOf(records))).toMatchObject({ code: 'Unavailable' });
  expect(calls).toBeGreaterThan(2);
  expect(clock.monotonicMs() - startMs).toBeLessThan(2 * RETRY_TIMEOUT_MS);
});

test('a listing that breaks after each page with news goes on', async () => {
  const keys = Array.from({ length: 50 }, (_, index) => `r/${String(index).padStart(2, '0')}`);
  const { records } = setUpWith(async function* (_, { startAfter = '' } = {}) {
    const next = keys.find((key) => key > startAfter);
    if (next === undefined) return;
    yield EMPTY;
    yield page(next);
    throw new CheckpointError('Unavailable', 'cut off');
  });
  const found = (await pagesOf(records)).flatMap(({ objects }) => objects.map(({ key }) => key));
  expect(found).toEqual(keys);
});

test('an empty listing still tells the time of the store', async () => {
  const { records } = setUpWith(async function* () {
    yield EMPTY;
    yield { ...EMPTY, storeTimeMs: 6 };
  });
  expect(await pagesOf(records)).toEqual([{ objects: [], storeTimeMs: 6 }]);
});

test('empty pages without an end are refused', async () => {
  let count = 0;
  const { records } = setUpWith(async function* () {
    for (;;) {
      count += 1;
      yield EMPTY;
    }
  });
  expect(await failureOf(pagesOf(records))).toMatchObject({
    code: 'Unsupported',
    message: expect.stringContaining('empty pages in a row'),
  });
  expect(count).toBe(EMPTY_PAGES_MAX);
});
