/** Cost of reading the structure. test/elasticdl tests the results with all forms. */

import type { RandomSource } from '@holdfast/core/contract';
import { expect, test } from 'vitest';
import type { WrittenForm } from '../layout.ts';
import type { ModelShard } from '../model.ts';
import { sourceOf } from '../open/memory.ts';
import type { ShardOutline } from '../sink.ts';
import { encodeShard } from './encode.ts';
import { outlineFile } from './outline-file.ts';
import { readShardLayout } from './read-layout.ts';

/** Records which bytes were read, and checks that none was read twice. */
class CountingSource implements RandomSource {
  readonly sizeBytes: number;
  readonly reads: [from: number, to: number][] = [];
  readonly #read: RandomSource['readInto'];

  constructor(sizeBytes: number, read: RandomSource['readInto']) {
    this.sizeBytes = sizeBytes;
    this.#read = read;
  }

  get readBytes(): number {
    return this.reads.reduce((sum, [from, to]) => sum + to - from, 0);
  }

  async readInto(offsetBytes: number, buffer: Uint8Array): Promise<void> {
    const end = offsetBytes + buffer.byteLength;
    expect(end).toBeLessThanOrEqual(this.sizeBytes);
    expect(this.reads.every(([from, to]) => end <= from || offsetBytes >= to)).toBe(true);
    this.reads.push([offsetBytes, end]);
    await this.#read(offsetBytes, buffer);
  }

  async assertUnchanged(): Promise<void> {
    expect(this.reads.length).toBeGreaterThan(0);
  }

  async close(): Promise<void> {
    expect(this.reads.length).toBeGreaterThan(0);
  }
}

/** A file of any size with contents of zeros, which need not be written. */
function outlinedSource(outline: ShardOutline, form: WrittenForm): CountingSource {
  const { sizeBytes, pieces } = outlineFile(outline, form);
  return new CountingSource(sizeBytes, async (offsetBytes, buffer) => {
    buffer.fill(0);
    for (const piece of pieces) {
      if (piece.kind !== 'literal') continue;
      const from = Math.max(piece.offsetBytes, offsetBytes);
      const to = Math.min(piece.offsetBytes + piece.bytes.byteLength, offsetBytes + buffer.byteLength);
      if (from >= to) continue;
      buffer.set(piece.bytes.subarray(from - piece.offsetBytes, to - piece.offsetBytes), from - offsetBytes);
    }
  });
}

const ROWS = 2_100_000;
const outline: ShardOutline = {
  version: 100,
  infos: ['a', 'b', 'c', 'd'].map((name) => ({ name, dim: 64, initializer: 'uniform', dtype: null })),
  dense: Array.from({ length: 20 }, (_, at) => ({ name: `v${at}`, dtype: 'float32', shape: [1024, 256] })),
  tables: ['a', 'b', 'c', 'd'].map((name) => ({
    name,
    dtype: 'float32',
    dim: 64,
    rowCount: ROWS,
    idsBytes: ROWS,
  })),
};

test.each(['S4', 'S7'] as const)(
  '%s: less than 1 MiB of 2 GiB is read, in few requests, nothing twice',
  async (form) => {
    const source = outlinedSource(outline, form);
    expect(source.sizeBytes).toBeGreaterThan(2 ** 31);
    const layout = await readShardLayout(source, { name: 'shard' });
    expect([layout.form, layout.dense.length, layout.tables.length]).toEqual([form, 20, 4]);
    expect(layout.tables.map(({ rowCount }) => rowCount)).toEqual([ROWS, ROWS, ROWS, ROWS]);
    expect(source.readBytes).toBeLessThan(262_144);
    // Two for a table: after its values, and after its ids.
    expect(source.reads.length).toBeLessThanOrEqual(1 + 20 + 2 * 4);
  },
);

const bytesOf = (shard: ModelShard, form: WrittenForm) =>
  Buffer.concat([...encodeShard(shard, form).chunks()]);

test.each(['S4', 'S7'] as const)(
  '%s: a file of many small tensors is read once, in large requests',
  async (form) => {
    const dense = new Map(
      Array.from({ length: 1500 }, (_, at) => [
        `v${at}`,
        { dtype: 'float32', shape: [4], data: new Uint8Array(16) },
      ]),
    ) as ModelShard['dense'];
    const bytes = bytesOf({ version: 1, infos: [], dense, tables: new Map() }, form);
    const source = new CountingSource(bytes.byteLength, sourceOf('shard', bytes).readInto);
    expect((await readShardLayout(source, { name: 'shard' })).dense).toHaveLength(1500);
    expect(source.readBytes).toBe(bytes.byteLength);
    expect(source.reads.length).toBeLessThan(8);
  },
);

test('ids that are not packed are gone through once', async () => {
  const ids = Buffer.alloc(600_000);
  for (let at = 0; at < ids.byteLength; at += 3) ids.set([0x20, 0x81, 0x01], at);
  const values = Buffer.alloc(200_000);
  const field = (number: number, content: Uint8Array) =>
    Buffer.concat([Buffer.of(8 * number + 2), lengthOf(content), content]);
  const shape = Buffer.of(0xc0, 0x9a, 0x0c, 1);
  const parts = [field(1, Buffer.from('t')), field(2, shape), field(3, values), ids, Buffer.of(0x28, 1)];
  const bytes = field(2, Buffer.concat(parts));
  const source = new CountingSource(bytes.byteLength, sourceOf('shard', bytes).readInto);
  const { tables } = await readShardLayout(source, { name: 'shard' });
  expect(tables).toMatchObject([
    { rowCount: 200_000, dtype: 'int8', ids: [{ lengthBytes: 600_000, isPacked: false }] },
  ]);
  expect(source.reads.length).toBeLessThan(12);
});

function lengthOf({ byteLength }: Uint8Array): Buffer {
  return Buffer.of((byteLength & 0x7f) | 0x80, ((byteLength >> 7) & 0x7f) | 0x80, byteLength >> 14);
}

test('more names than memory should hold: Corrupt, before the rest is read', async () => {
  const name = 'n'.repeat(65_536);
  const infos = [{ name, dim: 1, initializer: '', dtype: null }];
  const entry = bytesOf({ version: 0, infos, dense: new Map(), tables: new Map() }, 'S7');
  // The same entry repeated without end, which is allowed.
  const endless = new CountingSource(2 ** 40, async (offsetBytes, buffer) => {
    for (let at = 0; at < buffer.byteLength; ) {
      const part = entry.subarray((offsetBytes + at) % entry.byteLength).subarray(0, buffer.byteLength - at);
      buffer.set(part, at);
      at += part.byteLength;
    }
  });
  const message = expect.stringContaining(
    'it has more than 4000000 tensors, dimensions and runs of ids, and',
  );
  await expect(readShardLayout(endless, { name: 'shard' })).rejects.toMatchObject({
    code: 'Corrupt',
    message,
  });
  expect(endless.readBytes).toBeLessThan(2 ** 27);
});

test('nothing is read once the signal has fired', async () => {
  const source = outlinedSource(outline, 'S7');
  const stop = new AbortController();
  const reading = readShardLayout(
    new CountingSource(source.sizeBytes, async (offset, buffer) => {
      await source.readInto(offset, buffer);
      stop.abort();
    }),
    { name: 'shard', signal: stop.signal },
  );
  await expect(reading).rejects.toMatchObject({ code: 'Aborted' });
  expect(source.reads).toHaveLength(1);
});

test('what a source throws is passed on', async () => {
  const broken = new CountingSource(100, () => Promise.reject(new Error('the disk is gone')));
  await expect(readShardLayout(broken, { name: 'shard' })).rejects.toThrow('the disk is gone');
});
