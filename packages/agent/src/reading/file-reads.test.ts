import type { Checkpoint } from '@holdfast/core';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { FileReads, type OpenedRead, STREAM_BYTES } from './file-reads.ts';
import type { Readers } from './readers.ts';
import { STANDING_MS } from './turns.ts';

const CHUNK = 1024 * 1024;
const SIZE = 40 * CHUNK;
const STREAMS_MAX = 16;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});

afterEach(() => {
  vi.useRealTimers();
});

/** Files of 40 chunks. `store`: each chunk waits for it. */
function filesOf(store: (name: string) => Promise<void> = async () => undefined) {
  const open = { now: 0, most: 0 };
  async function* stream(name: string, lengthBytes: number) {
    open.now += 1;
    open.most = Math.max(open.most, open.now);
    try {
      for (let done = 0; done < lengthBytes; done += CHUNK) {
        await store(name);
        yield new Uint8Array(Math.min(CHUNK, lengthBytes - done));
      }
    } finally {
      open.now -= 1;
    }
  }
  const checkpoint = {
    summary: { id: { lineage: 1, epoch: 1, version: 1n } },
    details: async () => ({
      manifestKey: 'manifest-1',
      files: [...Array(40).keys()].map((n) => ({ name: `f${n}`, sizeBytes: SIZE })),
    }),
    openInputStream: (name: string, { lengthBytes }: { lengthBytes: number }) => stream(name, lengthBytes),
  } as unknown as Checkpoint;
  const readers = {
    read: async (_: unknown, work: (checkpoint: Checkpoint) => Promise<void>) => work(checkpoint),
  } as unknown as Readers;
  const files = new FileReads(readers, STREAMS_MAX * STREAM_BYTES);
  const read = (
    number: number,
    use: (opened: OpenedRead) => Promise<void>,
    { length, manifestKey }: { length?: number; manifestKey?: string } = {},
  ) => {
    const which = { uri: 'a', version: '1', lineage: 1, name: `f${number}`, manifestKey };
    return files.read({ ...which, offset: 0, length }, use);
  };
  return { read, open };
}

/** Takes one chunk and stands still. Ends with what cuts it off. */
async function standStill({ chunks, cut }: OpenedRead): Promise<void> {
  for await (const _ of chunks())
    await new Promise((_resolve, reject) => {
      cut.addEventListener('abort', () => reject(cut.reason), { once: true });
    });
}

async function takeAll({ chunks }: OpenedRead): Promise<void> {
  for await (const _ of chunks());
}

test('readers that stand still keep no turn from others for more than 2 s', async () => {
  const { read, open } = filesOf();
  const standing = Array.from({ length: STREAMS_MAX }, (_, n) => read(n, standStill).catch(String));
  await vi.advanceTimersByTimeAsync(60_000);
  const [one, two] = [read(20, takeAll), read(21, takeAll)];
  await vi.advanceTimersByTimeAsync(10);
  await Promise.all([one, two]);
  expect(open.most).toBe(STREAMS_MAX);
  // No more than had to be cut off.
  expect(open.now).toBe(STREAMS_MAX - 2);
  const ended = await Promise.all(standing.slice(0, 2));
  expect(ended).toEqual(Array(2).fill(expect.stringContaining('the reader takes nothing')));
});

test('a reader that began to stand still a moment ago keeps its turn', async () => {
  const { read } = filesOf();
  const ended: string[] = [];
  for (let n = 0; n < STREAMS_MAX; n += 1) void read(n, standStill).catch((e) => ended.push(String(e)));
  await vi.advanceTimersByTimeAsync(10);
  const waiting = read(20, takeAll);
  await vi.advanceTimersByTimeAsync(STANDING_MS - 100);
  expect(ended).toEqual([]);
  await vi.advanceTimersByTimeAsync(1100);
  await waiting;
  expect(ended).toHaveLength(1);
});

test('a reader that waits for the store does not stand still', async () => {
  const hang = Promise.withResolvers<void>();
  const { read, open } = filesOf((name) => (name === 'f20' ? Promise.resolve() : hang.promise));
  const slow = Array.from({ length: STREAMS_MAX }, (_, n) => read(n, takeAll));
  const waiting = read(20, takeAll);
  await vi.advanceTimersByTimeAsync(10 * STANDING_MS);
  expect(open.now).toBe(STREAMS_MAX);
  hang.resolve();
  await Promise.all([...slow, waiting]);
});

test('short reads take less room, so more of them are served at once', async () => {
  const hang = Promise.withResolvers<void>();
  const { read, open } = filesOf(() => hang.promise);
  const long = Array.from({ length: 8 }, (_, n) => read(n, takeAll));
  const short = Array.from({ length: 30 }, (_, n) => read(8 + n, takeAll, { length: 1000 }));
  await vi.advanceTimersByTimeAsync(10);
  // Eight of 24 MiB and 24 of 8 MiB.
  expect(open.now).toBe(32);
  hang.resolve();
  await Promise.all([...long, ...short]);
});

test('a read names the manifest that it means', async () => {
  const { read } = filesOf();
  await read(1, takeAll, { manifestKey: 'manifest-1' });
  await expect(read(1, takeAll, { manifestKey: 'manifest-2' })).rejects.toMatchObject({
    code: 'NotFound',
    message: expect.stringContaining('is another checkpoint now'),
  });
});
