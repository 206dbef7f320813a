import { FAULTS } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import {
  bytesOf,
  failureOf,
  isEqual,
  isWhole,
  MIB,
  PART,
  recordOf,
  type SetUpOptions,
  setUp,
} from './memory-transfers.ts';

const DATA = bytesOf(9 * PART + 77);

function setUpStored(data = DATA, partSizeBytes = PART, options: SetUpOptions = {}) {
  const rig = setUp(options);
  rig.bucket.insert('k', data.slice());
  return { ...rig, file: recordOf('model.bin', 'k', data, partSizeBytes) };
}

async function readAll(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('a file as a stream', () => {
  test.each([0, 1, PART, PART + 1, 9 * PART + 77])('%i bytes come in order', async (size) => {
    const data = bytesOf(size);
    const { file, transfers } = setUpStored(data);
    expect(isEqual(await readAll(transfers.stream(file)), data)).toBe(true);
    expect(isWhole(transfers)).toBe(true);
  });

  test('in order too when later reads are answered first', async () => {
    const { file, store, transfers } = setUpStored();
    const read = store.readInto.bind(store);
    store.readInto = async (key, offset, buffer, options) => {
      const turns = (offset / PART) % 3 === 0 ? 200 : 1;
      for (let waited = 0; waited < turns; waited += 1) await Promise.resolve();
      return read(key, offset, buffer, options);
    };
    expect(isEqual(await readAll(transfers.stream(file)), DATA)).toBe(true);
  });

  test('nothing is read before the first chunk is asked for; then a few parts ahead, and no more', async () => {
    const { file, store, transfers } = setUpStored();
    const reader = transfers.stream(file).getReader();
    await turn();
    expect(store.calls).toHaveLength(0);
    await reader.read();
    for (let waited = 0; waited < 10; waited += 1) await turn();
    expect(store.calls).toHaveLength(4);
    await reader.read();
    for (let waited = 0; waited < 10; waited += 1) await turn();
    expect(store.calls).toHaveLength(5);
    await reader.cancel();
  });

  test('all streams together read ahead a quarter of the budget; beyond it they read on demand', async () => {
    const data = bytesOf(10 * MIB);
    const { file, store, transfers } = setUpStored(data, MIB, { settings: { partSizeBytesMin: MIB } });
    const readers = Array.from({ length: 5 }, () => transfers.stream(file).getReader());
    for (const reader of readers) await reader.read();
    for (let waited = 0; waited < 10; waited += 1) await turn();
    expect(store.calls).toHaveLength(5 + 4); // 4 MiB of 16
    for (let more = 0; more < 6; more += 1) await readers[0]?.read();
    for (let waited = 0; waited < 10; waited += 1) await turn();
    // Bytes that the caller has taken no longer count, so reading ahead continues.
    expect(store.calls).toHaveLength(5 + 4 + 5);
    for (const reader of readers) await reader.cancel();
    store.calls.length = 0;
    await transfers.stream(file).getReader().read();
    await turn();
    expect(store.calls).toHaveLength(4); // bytes read ahead for no use no longer count
  });

  test('a stream that is no longer read holds up neither other streams nor saves', async () => {
    const data = bytesOf(12 * MIB);
    const { file, transfers } = setUpStored(data, 4 * MIB, { settings: { partSizeBytesMin: 4 * MIB } });
    const idle = Array.from({ length: 6 }, () => transfers.stream(file).getReader());
    for (const reader of idle) await reader.read();
    expect(isEqual(await readAll(transfers.stream(file)), data)).toBe(true);
    await transfers.upload([{ name: 'a', key: () => 'a', source: { bytes: bytesOf(12 * MIB) } }]);
    for (const reader of idle) await reader.cancel();
  });

  test('a chunk is the reader’s own: later reads do not touch it', async () => {
    const { file, transfers } = setUpStored();
    const reader = transfers.stream(file).getReader();
    const first = (await reader.read()).value as Uint8Array;
    const copy = first.slice();
    for (let next = await reader.read(); !next.done; next = await reader.read());
    expect(first).toEqual(copy);
  });

  test('progress ends at the total', async () => {
    const { file, transfers } = setUpStored(bytesOf(2 * PART));
    const seen: number[] = [];
    await readAll(transfers.stream(file, { onBytes: (_, done) => seen.push(done) }));
    expect(seen).toEqual([PART, 2 * PART]);
  });

  test('parts larger than the memory for them come in verified pieces', async () => {
    const data = bytesOf(21 * MIB + 3);
    const { bucket, file, transfers } = setUpStored(data, 10 * MIB, { settings: { partSizeBytesMin: MIB } });
    expect(isEqual(await readAll(transfers.stream(file)), data)).toBe(true);
    bucket.damage('k', (bytes) => bytes.with(15 * MIB, (bytes[15 * MIB] as number) ^ 1));
    let readBytes = 0;
    const reading = (async () => {
      for await (const chunk of transfers.stream(file)) readBytes += chunk.byteLength;
    })();
    expect((await failureOf(reading)).code).toBe('Corrupt');
    expect(readBytes).toBe(10 * MIB); // none of the damaged part
  });
});

describe('a stream that fails', () => {
  test('damage: all chunks before it, then Corrupt with the range', async () => {
    const { bucket, file, transfers } = setUpStored();
    bucket.damage('k', (bytes) => bytes.with(3 * PART, (bytes[3 * PART] as number) ^ 1));
    let readBytes = 0;
    const reading = (async () => {
      for await (const chunk of transfers.stream(file)) readBytes += chunk.byteLength;
    })();
    const error = await failureOf(reading);
    expect([error.code, error.context.range]).toEqual(['Corrupt', { start: 3 * PART, end: 4 * PART }]);
    expect(readBytes).toBe(3 * PART);
  });

  test('a record that does not hold together is Corrupt at the first read', async () => {
    const { file, store, transfers } = setUpStored();
    const reader = transfers.stream({ ...file, crc32c: file.crc32c ^ 1 }).getReader();
    expect((await failureOf(reader.read())).code).toBe('Corrupt');
    expect(store.calls).toEqual([]);
  });

  test('one call that fails for a while, any of them: the bytes arrive all the same', async () => {
    for (let failing = 0; failing < 10; failing += 1) {
      const plan: SetUpOptions['plan'] = ({ number }) => (number === failing ? FAULTS.loseReply : undefined);
      const { file, transfers } = setUpStored(DATA, PART, { plan });
      expect(isEqual(await readAll(transfers.stream(file)), DATA)).toBe(true);
    }
  });

  test('the signal ends it, also between reads; close of all transfers too', async () => {
    for (const how of ['signal', 'close']) {
      const { file, transfers } = setUpStored();
      const stop = new AbortController();
      const reader = transfers.stream(file, { signal: stop.signal }).getReader();
      await reader.read();
      if (how === 'signal') stop.abort();
      else await transfers.close();
      expect((await failureOf(reader.read())).code).toBe('Aborted');
    }
  });

  test('cancel stops what is under way, whether it was begun or not', async () => {
    const plan: SetUpOptions['plan'] = ({ number }) => (number > 0 ? FAULTS.stall : undefined);
    const { file, store, transfers } = setUpStored(DATA, PART, { plan });
    await transfers.stream(file).cancel();
    expect(store.calls).toEqual([]);
    const reader = transfers.stream(file).getReader();
    await reader.read();
    const pending = reader.read();
    await reader.cancel('enough');
    expect(await pending).toEqual({ done: true, value: undefined });
    const calls = store.calls.length;
    for (let waited = 0; waited < 10; waited += 1) await turn();
    expect(store.calls).toHaveLength(calls);
    await transfers.close(); // returns at once: the transfer has ended
  });

  test('after close of all transfers a stream cannot be begun', async () => {
    const { file, transfers } = setUpStored();
    await transfers.close();
    expect((await failureOf(transfers.stream(file).getReader().read())).code).toBe('Aborted');
  });
});
