import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { CheckpointError, listObjects, type ObjectOptions, openObjectSource } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FAULTS, type FaultPlan, FaultyStore, ManualClock, refuse, SeededRandom } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytesOf, failureOf, isEqual, MIB } from './memory-transfers.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

const DATA = bytesOf(300_077);

function setUpObject({ plan, data = DATA }: { plan?: FaultPlan; data?: Uint8Array } = {}) {
  const clock = new ManualClock({ autoAdvance: true });
  const bucket = new MemoryBucket({ clock, mayReuseKey: () => true });
  bucket.insert('dir/a', data);
  const store = new FaultyStore(new MemoryStore(bucket), plan);
  const options: ObjectOptions = { clock, random: new SeededRandom(1), settings: { bufferBytes: 16 * MIB } };
  const open = (more: ObjectOptions = {}) => openObjectSource(store, 'dir/a', { ...options, ...more });
  const list = (prefix: string, countMax: number) => listObjects(store, prefix, { ...options, countMax });
  const replace = () => {
    bucket.remove('dir/a');
    bucket.insert('dir/a', data.slice());
  };
  return { bucket, list, open, options, replace, store };
}

describe('an object that no checkpoint describes', () => {
  test('is read at any position, after one head; another one proves that it is the same', async () => {
    const { open, store } = setUpObject();
    const source = await open();
    expect(source.sizeBytes).toBe(DATA.byteLength);
    const buffers = [0, 1, 70_001, DATA.byteLength - 7].map((at) => ({ at, buffer: new Uint8Array(7) }));
    await Promise.all(buffers.map(({ at, buffer }) => source.readInto(at, buffer)));
    for (const { at, buffer } of buffers) expect(isEqual(buffer, DATA.subarray(at, at + 7))).toBe(true);
    await source.assertUnchanged();
    expect(store.calls.map(({ operation }) => operation)).toEqual([
      'head',
      ...buffers.map(() => 'readInto'),
      'head',
    ]);
    await source.close();
  });

  test('is closed when its source was forgotten: the memory for all that is open of its store is free again', async () => {
    const externalBytes = () => process.memoryUsage().external;
    const { open } = setUpObject();
    await (await open()).readInto(0, new Uint8Array(7));
    const openBytes = externalBytes();
    while (externalBytes() > openBytes - 15 * MIB) {
      collectGarbage();
      await new Promise((resolve) => setImmediate(resolve));
    }
  });

  test('one without a byte', async () => {
    const { open } = setUpObject({ data: new Uint8Array(0) });
    const source = await open();
    await source.readInto(0, new Uint8Array(0));
    await source.assertUnchanged();
    await source.close();
  });

  test('is not there: NotFound', async () => {
    const { bucket, open } = setUpObject();
    bucket.remove('dir/a');
    expect((await failureOf(open())).code).toBe('NotFound');
  });

  test('another has its key by now: SourceChanged, at the next read and at the end', async () => {
    const { open, replace } = setUpObject();
    const source = await open();
    replace();
    for (const call of [source.readInto(0, new Uint8Array(1)), source.assertUnchanged()]) {
      const error = await failureOf(call);
      expect([error.code, error.message]).toEqual([
        'SourceChanged',
        expect.stringContaining('dir/a was replaced by another object: 300077 bytes with etag'),
      ]);
    }
    await source.close();
  });

  test('it is gone: SourceChanged', async () => {
    const { bucket, open } = setUpObject();
    const source = await open();
    bucket.remove('dir/a');
    for (const call of [source.readInto(0, new Uint8Array(1)), source.assertUnchanged()])
      expect(await failureOf(call)).toMatchObject({ code: 'SourceChanged', message: 'dir/a is gone' });
    await source.close();
  });

  test('it is the same object, and still the bytes are damaged or missing: Corrupt', async () => {
    const { bucket, open, store } = setUpObject();
    const source = await open();
    const readInto = store.readInto.bind(store);
    store.readInto = () => Promise.reject(new CheckpointError('Corrupt', 'the checksum refused them'));
    expect(await failureOf(source.readInto(0, new Uint8Array(1)))).toMatchObject({
      code: 'Corrupt',
      message: 'the checksum refused them',
    });
    store.readInto = async (...args) => (await readInto(...args)) - 1;
    expect((await failureOf(source.readInto(5, new Uint8Array(9)))).message).toBe(
      'dir/a ends after 13 of 300077 bytes',
    );
    expect(bucket.keys()).toEqual(['dir/a']);
    await source.close();
  });

  test('any call that fails for a while, or is silent, is repeated', async () => {
    for (const fault of [FAULTS.loseReply, FAULTS.stall, refuse('Throttled')]) {
      for (let failing = 0; failing < 3; failing += 1) {
        const { open } = setUpObject({ plan: ({ number }) => (number === failing ? fault : undefined) });
        const source = await open();
        const buffer = new Uint8Array(1000);
        await source.readInto(999, buffer);
        expect(isEqual(buffer, DATA.subarray(999, 1999))).toBe(true);
        await source.assertUnchanged();
        await source.close();
      }
    }
  });

  test('a range outside it, and an invalid setting', async () => {
    const { open } = setUpObject();
    const source = await open();
    const outside = await failureOf(source.readInto(DATA.byteLength, new Uint8Array(1)));
    expect([outside.code, outside.context.name]).toEqual(['InvalidArgument', 'dir/a']);
    expect((await failureOf(open({ settings: { bufferBytes: 1 } }))).code).toBe('InvalidConfig');
    await source.close();
  });

  test('close and signal stop what is under way and leave the store, and other sources, open', async () => {
    for (const how of ['close', 'signal']) {
      const { open, store } = setUpObject({
        plan: ({ operation }) => (operation === 'readInto' ? FAULTS.stall : undefined),
      });
      const stop = new AbortController();
      const source = await open({ signal: stop.signal, settings: { stallTimeoutMs: 3_600_000 } });
      const other = await open();
      const reading = failureOf(source.readInto(0, new Uint8Array(1)));
      await new Promise(setImmediate);
      if (how === 'close') await source.close();
      else stop.abort();
      expect((await reading).code).toBe('Aborted');
      await source.close();
      await source.close();
      expect((await failureOf(source.assertUnchanged())).code).toBe('Aborted');
      await other.assertUnchanged();
      await other.close();
      expect((await store.head('dir/a')).sizeBytes).toBe(DATA.byteLength);
    }
  });

  test('all that is open of one store shares one byte budget', async () => {
    const data = bytesOf(24 * MIB);
    const { open, store } = setUpObject({ data });
    let [now, most] = [0, 0];
    const readInto = store.readInto.bind(store);
    store.readInto = async (...args) => {
      now += 1;
      most = Math.max(most, now);
      await new Promise(setImmediate);
      now -= 1;
      return readInto(...args);
    };
    const sources = [await open(), await open()];
    const buffers = await Promise.all(
      sources.map(async (source) => {
        const buffer = new Uint8Array(data.byteLength);
        await source.readInto(0, buffer);
        return buffer;
      }),
    );
    for (const buffer of buffers) expect(isEqual(buffer, data)).toBe(true);
    expect(most).toBe(4); // 16 MiB, in requests of 4
    for (const source of sources) await source.close();
  });
});

describe('objects below a prefix', () => {
  test('come in order, over pages that are repeated when they fail', async () => {
    for (let failing = 0; failing < 2; failing += 1) {
      const { bucket, list } = setUpObject({
        plan: ({ number }) => (number === failing ? FAULTS.loseReply : undefined),
      });
      for (let index = 0; index < 1500; index += 1) bucket.insert(`dir/b${index}`, new Uint8Array(index % 3));
      bucket.insert('else', new Uint8Array(1));
      const found = await list('dir/', 1501);
      expect(found.map(({ key }) => key)).toEqual(bucket.keys().filter((key) => key.startsWith('dir/')));
      expect(found[0]).toMatchObject({ key: 'dir/a', sizeBytes: DATA.byteLength });
    }
  });

  test('more than asked for: InvalidArgument, without reading on', async () => {
    const { bucket, list, store } = setUpObject();
    for (let index = 0; index < 2500; index += 1) bucket.insert(`dir/b${index}`, new Uint8Array(0));
    const error = await failureOf(list('dir/', 10));
    expect([error.code, error.message]).toEqual([
      'InvalidArgument',
      'more than 10 objects below "dir/" of memory://unnamed; give a prefix with fewer',
    ]);
    expect(store.calls).toHaveLength(1);
  });

  test('nothing there is an empty list; a store that refuses says so', async () => {
    expect(await setUpObject().list('none/', 10)).toEqual([]);
    const { list } = setUpObject({ plan: () => refuse('Denied') });
    expect((await failureOf(list('dir/', 10))).code).toBe('Denied');
  });
});
