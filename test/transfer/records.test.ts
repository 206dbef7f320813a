import { crc32c, type ObjectStore } from '@holdfast/core';
import { FAULTS, type FaultName, refuse } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytesOf, failureOf, type SetUpOptions, setUp } from './memory-transfers.ts';

const KEYS = Array.from({ length: 25 }, (_, index) => `r/${String(index).padStart(3, '0')}`);

function setUpRecords(options: SetUpOptions = {}) {
  const rig = setUp({
    ...options,
    capabilities: { maxListKeys: 4, maxDeleteKeys: 10, ...options.capabilities },
  });
  for (const key of KEYS) rig.bucket.insert(key, bytesOf(3));
  return { ...rig, records: rig.transfers.records };
}

async function listAll(
  records: ObjectStore,
  options?: Parameters<ObjectStore['list']>[1],
): Promise<string[]> {
  const keys: string[] = [];
  for await (const page of records.list('r/', options)) keys.push(...page.objects.map(({ key }) => key));
  return keys;
}

const FAULT_NAMES = (Object.keys(FAULTS) as FaultName[]).filter((name) => FAULTS[name].reply !== 'stop');

describe('what may be repeated is repeated', () => {
  test.each(FAULT_NAMES)('%s: head, get, readInto and deleteMany answer all the same', async (name) => {
    // A stalled read into the caller's memory is not stopped, because the memory could not be
    // released.
    const isSilent = FAULTS[name].reply === 'stall';
    const { bucket, records } = setUpRecords({
      plan: ({ number, operation }) =>
        number % 2 === 0 && !(isSilent && operation === 'readInto') ? FAULTS[name] : undefined,
    });
    expect(await records.head('r/000')).toMatchObject({ key: 'r/000', sizeBytes: 3 });
    expect((await records.get('r/001', { maxBytes: 10 })).bytes).toEqual(bytesOf(3));
    const buffer = new Uint8Array(3);
    expect(await records.readInto('r/002', 0, buffer)).toBe(3);
    expect(buffer).toEqual(bytesOf(3));
    expect(await records.deleteMany(['r/003'])).toEqual([{ key: 'r/003' }]);
    expect(bucket.find('r/003')).toBeUndefined();
  });

  test('options are passed on', async () => {
    const { records } = setUpRecords();
    expect((await failureOf(records.get('r/000', { maxBytes: 2 }))).code).toBe('Corrupt');
    const { etag } = await records.head('r/000');
    await records.readInto('r/000', 0, new Uint8Array(3), { etag });
    expect((await failureOf(records.readInto('r/000', 0, new Uint8Array(3), { etag: 'x' }))).code).toBe(
      'Corrupt',
    );
  });

  test('what is permanent is not repeated; what stays away is exhausted', async () => {
    const { records, store } = setUpRecords();
    expect((await failureOf(records.head('r/none'))).code).toBe('NotFound');
    expect(store.calls).toHaveLength(1);
    const down = setUpRecords({ plan: () => FAULTS.loseReply, settings: { retryCountMax: 4 } });
    expect(await failureOf(down.records.head('r/000'))).toMatchObject({
      code: 'Unavailable',
      status: 'exhausted',
    });
    expect(down.store.calls).toHaveLength(5);
  });

  test('the signal ends the repeats', async () => {
    const stop = new AbortController();
    const { records, store } = setUpRecords({
      plan: ({ number }) => {
        if (number === 2) stop.abort();
        return FAULTS.loseReply;
      },
    });
    expect((await failureOf(records.head('r/000', { signal: stop.signal }))).code).toBe('Aborted');
    expect(store.calls).toHaveLength(3);
  });

  test('deletes go in batches of the store’s size, with one result per key in order', async () => {
    const { bucket, records, store } = setUpRecords();
    expect(await records.deleteMany(KEYS)).toEqual(KEYS.map((key) => ({ key })));
    expect(store.calls.map(({ key }) => key)).toEqual(['r/000', 'r/010', 'r/020']);
    expect(bucket.keys()).toEqual([]);
    expect(await records.deleteMany([])).toEqual([]);
  });
});

describe('what may not is sent once', () => {
  test('create, beginUpload, resumeUpload', async () => {
    const { records, store } = setUpRecords({ plan: () => FAULTS.loseReply });
    const calls: (() => Promise<unknown>)[] = [
      () => records.create('new', bytesOf(1)),
      () => records.beginUpload('large', { partSizeBytes: 10 }),
      () => records.resumeUpload('token'),
    ];
    for (const [index, call] of calls.entries()) {
      expect(await failureOf(call())).toMatchObject({ code: 'Unavailable', status: 'temporary' });
      expect(store.calls).toHaveLength(index + 1);
    }
  });
});

describe('a create that the store refuses by its checksum', () => {
  const refusedTimes = (times: number) =>
    setUpRecords({ plan: ({ number }) => (number < times ? refuse('Corrupt') : undefined) });
  const options = { crc32c: crc32c(bytesOf(5)) };

  test('is sent again: its bytes were changed on the way', async () => {
    const { bucket, records, store } = refusedTimes(2);
    expect(await records.create('new', bytesOf(5), options)).toMatchObject({ key: 'new', sizeBytes: 5 });
    expect(store.calls).toHaveLength(3);
    expect(bucket.find('new')?.bytes).toEqual(bytesOf(5));
  });

  test('three times at most; what it ends with says that nothing stored is damaged', async () => {
    const { records, store } = refusedTimes(9);
    const error = await failureOf(records.create('new', bytesOf(5), options));
    expect(error).toMatchObject({ code: 'Corrupt', status: 'permanent' });
    expect(error.context['advice']).toEqual([
      expect.stringContaining('no stored object is damaged'),
      expect.stringContaining('try again'),
    ]);
    expect(store.calls).toHaveLength(3);
  });

  test('is sent once where the bytes are not those of the checksum, or none is given', async () => {
    for (const given of [{ crc32c: 1 }, undefined]) {
      const { records, store } = refusedTimes(1);
      expect((await failureOf(records.create('new', bytesOf(5), given))).code).toBe('Corrupt');
      expect(store.calls).toHaveLength(1);
    }
  });

  test('is not sent again once the signal has fired', async () => {
    const stop = new AbortController();
    const { records, store } = setUpRecords({
      plan: () => {
        stop.abort();
        return refuse('Corrupt');
      },
    });
    const call = records.create('new', bytesOf(5), { ...options, signal: stop.signal });
    expect((await failureOf(call)).code).toBe('Aborted');
    expect(store.calls).toHaveLength(1);
  });
});

describe('list', () => {
  test('shows all pages, and from a key on', async () => {
    const { records, store } = setUpRecords();
    expect(await listAll(records)).toEqual(KEYS);
    expect(store.calls).toHaveLength(7);
    expect(await listAll(records, { startAfter: 'r/020' })).toEqual(KEYS.slice(21));
    expect(await listAll(records, { startAfter: 'r/024' })).toEqual([]);
  });

  test.each(FAULT_NAMES)('%s at any page: every key once, in order', async (name) => {
    for (let failing = 0; failing < 8; failing += 1) {
      const { records } = setUpRecords({
        plan: ({ number }) => (number === failing ? FAULTS[name] : undefined),
      });
      expect(await listAll(records)).toEqual(KEYS);
      const again = setUpRecords({ plan: ({ number }) => (number % 2 === 0 ? FAULTS[name] : undefined) });
      expect(await listAll(again.records, { startAfter: 'r/003' })).toEqual(KEYS.slice(4));
    }
  });

  test('is begun again after the last key it has shown, not from the start', async () => {
    const { records, store } = setUpRecords({
      plan: ({ number }) => (number === 3 ? FAULTS.loseReply : undefined),
    });
    await listAll(records);
    expect(store.calls).toHaveLength(8);
  });

  test('one without end ends at a number of objects that no run has', async () => {
    const { records, store } = setUpRecords();
    const object = { key: 'r/x', sizeBytes: 1, etag: 'e', createdAtMs: 0 };
    const objects = Array.from({ length: 50_000 }, () => object);
    store.list = async function* () {
      for (;;) yield { objects, storeTimeMs: 0 };
    };
    let count = 0;
    const listing = async () => {
      for await (const page of records.list('')) count += page.objects.length;
    };
    const error = await failureOf(listing());
    expect([error.code, error.message]).toEqual([
      'Unsupported',
      expect.stringContaining('shows more than 10000000 objects below memory://'),
    ]);
    expect(count).toBe(10_000_000);
  });

  test('a permanent error is thrown; a listing that stays broken is exhausted', async () => {
    const denied = setUpRecords({ plan: ({ number }) => (number === 2 ? refuse('Denied') : undefined) });
    expect((await failureOf(listAll(denied.records))).code).toBe('Denied');
    const down = setUpRecords({
      plan: ({ number }) => (number >= 2 ? FAULTS.loseReply : undefined),
      settings: { retryCountMax: 2 },
    });
    expect(await failureOf(listAll(down.records))).toMatchObject({ status: 'exhausted' });
  });

  test('the signal ends it; a reader that leaves ends it too', async () => {
    const stop = new AbortController();
    const { records, store } = setUpRecords({
      plan: ({ number }) => {
        if (number === 1) stop.abort();
        return undefined;
      },
    });
    expect((await failureOf(listAll(records, { signal: stop.signal }))).code).toBe('Aborted');
    store.calls.length = 0;
    for await (const page of records.list('r/')) {
      expect(page.objects).toHaveLength(4);
      break;
    }
    expect(store.calls).toHaveLength(1);
  });

  test('nothing is requested before the first page is asked for', async () => {
    const { records, store } = setUpRecords();
    const pages = records.list('r/')[Symbol.asyncIterator]();
    await new Promise((resolve) => setImmediate(resolve));
    expect(store.calls).toEqual([]);
    expect((await pages.next()).done).toBe(false);
  });
});
