import { expect, test, vi } from 'vitest';
import { SharedStream } from './shared-stream.ts';

const MIB = 1024 * 1024;

/** Chunks of 4 MiB that begin with their number. */
function source(count: number) {
  const seen = { fetched: 0, isClosed: false };
  async function* chunks() {
    try {
      for (let index = 0; index < count; index += 1) {
        seen.fetched += 1;
        yield chunk(index);
      }
    } finally {
      seen.isClosed = true;
    }
  }
  return { seen, stream: new SharedStream(chunks()) };
}

function chunk(index: number): Uint8Array {
  const bytes = new Uint8Array(4 * MIB);
  bytes[0] = index;
  return bytes;
}

async function numbersOf(stream: SharedStream): Promise<(number | null)[]> {
  const numbers: (number | null)[] = [];
  for await (const bytes of stream.read()) numbers.push(bytes && (bytes[0] as number));
  return numbers;
}

test('many readers, one read', async () => {
  const { seen, stream } = source(9);
  const all = await Promise.all([numbersOf(stream), numbersOf(stream), numbersOf(stream)]);
  for (const numbers of all) expect(numbers).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
  expect(seen).toEqual({ fetched: 9, isClosed: true });
});

test('a late reader joins while the first chunk is kept, and not later', async () => {
  const { seen, stream } = source(9);
  const early = stream.read();
  for (let index = 0; index < 4; index += 1) await early.next();
  expect(stream.isOpen).toBe(true);
  const late = numbersOf(stream);
  const rest = (async () => {
    for await (const _ of early);
  })();
  expect(await late).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
  await rest;
  expect([seen.fetched, stream.isOpen]).toEqual([9, false]);
});

test('the fast reader waits for the slow one: at most 16 MiB are kept', async () => {
  const { seen, stream } = source(20);
  const slow = stream.read();
  await slow.next();
  const fast = stream.read();
  for (let index = 0; index < 4; index += 1) await fast.next();
  const fifth = fast.next();
  await new Promise(setImmediate);
  expect(seen.fetched).toBe(4);
  for (let index = 0; index < 5; index += 1) await slow.next();
  expect((await fifth).done).toBe(false);
  await Promise.all([slow.return(), fast.return()]);
  expect(seen.isClosed).toBe(true);
});

test('a reader that stands still loses its place, and the others go on', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  try {
    const { stream } = source(9);
    const standing = stream.read();
    await standing.next();
    const numbers = numbersOf(stream);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(await numbers).toHaveLength(9);
    expect(await standing.next()).toEqual({ done: false, value: null });
    expect((await standing.next()).done).toBe(true);
  } finally {
    vi.useRealTimers();
  }
});

test('an error reaches every reader', async () => {
  async function* broken() {
    yield chunk(0);
    throw new Error('damaged');
  }
  const stream = new SharedStream(broken());
  const both = await Promise.allSettled([numbersOf(stream), numbersOf(stream)]);
  expect(both.map((one) => one.status === 'rejected' && String(one.reason))).toEqual([
    'Error: damaged',
    'Error: damaged',
  ]);
  expect(stream.isOpen).toBe(false);
});

test('memory is given back when no reader needs it, and never while one sends it', async () => {
  const given: number[] = [];
  async function* chunks() {
    for (let index = 0; index < 9; index += 1) yield chunk(index);
  }
  const stream = new SharedStream(chunks(), { giveBack: (bytes) => given.push(bytes[0] as number) });
  const reader = stream.read();
  for (let index = 0; index < 4; index += 1) await reader.next();
  expect(given).toEqual([]);
  await reader.next();
  expect(given).toEqual([0]);
  await reader.return();
  expect(given.sort()).toEqual([0, 1, 2, 3, 4]);
});
