import { crc32c } from '../crc32c.ts';
import { tryToReadRanges, type WantedRange } from '../trials/read-trials.ts';
import { type Check, check } from './check.ts';
import { expectBytes, expectEqual, expectRejection, expectTrue } from './expect.ts';
import type { Scratch } from './scratch.ts';
import { complete, putPart } from './upload-checks.ts';

const MIB = 1024 * 1024;
/** Content of memory that must stay untouched. */
const GUARD = 0xa5;
/** Memory around a buffer that a careless store would overwrite. */
const GUARD_BYTES = 4096;

export const readChecks: readonly Check[] = [
  check('head, get, readInto: an object that does not exist is NotFound', async (t) => {
    await t.create('dir/file');
    // A prefix of other names is not an object, even if it is a directory.
    for (const name of ['missing', 'dir/missing', 'dir', 'dir/fil', 'dir/file/below', 'missing/below']) {
      const key = t.key(name);
      await expectRejection(() => t.store.head(key), 'NotFound', `head of ${name}`);
      await expectRejection(() => t.store.get(key, { maxBytes: 100 }), 'NotFound', `get of ${name}`);
      const read = () => t.store.readInto(key, 0, new Uint8Array(10));
      await expectRejection(read, 'NotFound', `readInto of ${name}`);
    }
  }),

  check('etag and size: create, head, get and list agree, each time', async (t) => {
    const bytes = t.creatableBytes(300);
    const { etag } = await t.create('a', bytes);
    await t.create('b');
    expectTrue(etag.length > 0, 'etag', 'some text', etag);
    for (let round = 0; round < 3; round++) {
      const head = await t.store.head(t.key('a'));
      const object = await t.store.get(t.key('a'), { maxBytes: 300 });
      for (const info of [head, object]) {
        expectEqual([info.etag, info.sizeBytes], [etag, bytes.byteLength], 'etag and size');
      }
      for await (const page of t.store.list(t.key('a'))) {
        const found = page.objects.map((info) => [info.etag, info.sizeBytes]);
        expectEqual(found, [[etag, bytes.byteLength]], 'etag and size by list');
      }
    }
  }),

  check('head: where it tells a CRC32C, that is the one of all bytes', async (t) => {
    const { partSizeBytes } = t;
    for (const size of [0, 1, 1000]) {
      const bytes = t.creatableBytes(size);
      await t.create(`created-${size}`, bytes);
      await expectCrc(t, `created-${size}`, bytes);
    }
    const withoutSum = t.creatableBytes(77);
    await t.store.create(t.key('without'), withoutSum);
    await expectCrc(t, 'without', withoutSum);
    for (const size of [0, partSizeBytes + 1].slice(0, t.capabilities.maxParts)) {
      const bytes = t.random.bytes(size);
      const upload = await t.beginUpload(`in-parts-${size}`);
      const receipts = [await putPart(upload, 0, bytes)];
      if (size > partSizeBytes) receipts.push(await putPart(upload, 1, bytes));
      await complete(upload, receipts, bytes);
      await expectCrc(t, `in-parts-${size}`, bytes);
    }
  }),

  check('get: an object of maxBytes is read, a larger one is Corrupt', async (t) => {
    const bytes = t.creatableBytes(1000);
    const size = bytes.byteLength;
    await t.create('a', bytes);
    await t.create('empty', new Uint8Array());
    for (const maxBytes of [size, size + 1, 2 ** 40]) {
      const found = await t.store.get(t.key('a'), { maxBytes });
      expectBytes(found.bytes, bytes, `get with maxBytes ${maxBytes}`);
    }
    for (const maxBytes of [size - 1, 0]) {
      const what = `get of ${size} bytes with maxBytes ${maxBytes}`;
      await expectRejection(() => t.store.get(t.key('a'), { maxBytes }), 'Corrupt', what);
    }
    expectEqual(
      (await t.store.get(t.key('empty'), { maxBytes: 0 })).bytes.byteLength,
      0,
      'bytes of an empty object',
    );
  }),

  check("get: the bytes are the caller's own and are never written again", async (t) => {
    const bytes = t.creatableBytes(5000);
    await t.create('a', bytes);
    await t.create('b', t.creatableBytes(5000));
    const first = (await t.store.get(t.key('a'), { maxBytes: 5000 })).bytes;
    for (let round = 0; round < 5; round++) {
      await t.store.get(t.key('b'), { maxBytes: 5000 });
      await t.store.readInto(t.key('b'), 0, new Uint8Array(5000));
    }
    expectBytes(first, bytes, 'bytes from get, after other calls');
    first.fill(0);
    const second = (await t.store.get(t.key('a'), { maxBytes: 5000 })).bytes;
    expectBytes(second, bytes, 'the object, after the bytes of an earlier get were changed');
  }),

  check('readInto: fills the buffer from any offset, and less only where the object ends', async (t) => {
    await tryToReadRanges(t, 20_000, rangesOf);
  }),

  check('readInto: an empty object has no bytes at any offset', async (t) => {
    await t.create('a', new Uint8Array());
    for (const [offset, length] of [
      [0, 0],
      [0, 1],
      [0, 5000],
      [1, 10],
      [4096, 4096],
    ] as const) {
      const buffer = new Uint8Array(length).fill(GUARD);
      const what = `readInto of ${length} bytes at ${offset} of an empty object`;
      expectEqual(await t.store.readInto(t.key('a'), offset, buffer), 0, `count of ${what}`);
    }
  }),

  check('readInto: memory outside the buffer is never touched, aligned or not', async (t) => {
    const { alignmentBytes } = t.capabilities;
    const block = Math.max(alignmentBytes, 4096);
    const bytes = t.creatableBytes(4 * block + 123);
    await t.create('a', bytes);
    for (const address of [0, 1, block - 1, 512]) {
      for (const offset of [0, 1, block, block + 512, 3 * block]) {
        for (const length of [block, block - 1, 2 * block, 100, 4 * block]) {
          await readsGuarded(t, bytes, { address, offset, length });
        }
      }
    }
  }),

  check('readInto: many ranges at once fill one buffer', async (t) => {
    const bytes = t.creatableBytes(MIB);
    await t.create('a', bytes);
    const buffer = alignedMemory(bytes.byteLength).subarray(0, bytes.byteLength);
    const step = Math.ceil(bytes.byteLength / 37);
    const offsets = t.random.shuffle(Array.from({ length: 37 }, (_, index) => index * step));
    await Promise.all(
      offsets.map((offset) => t.store.readInto(t.key('a'), offset, buffer.subarray(offset, offset + step))),
    );
    expectBytes(buffer, bytes, 'a buffer filled by concurrent reads');
  }),

  check("readInto: with the object's etag it reads, with another it is Corrupt", async (t) => {
    const bytes = t.creatableBytes(100);
    const { etag } = await t.create('a', bytes);
    const other = await t.create('b', t.creatableBytes(77));
    expectTrue(other.etag !== etag, 'etag of another object, with other bytes', `not ${etag}`, other.etag);
    const buffer = new Uint8Array(bytes.byteLength);
    await t.store.readInto(t.key('a'), 0, buffer, { etag });
    expectBytes(buffer, bytes, 'bytes read with an etag');
    for (const offset of [0, 10]) {
      const read = () => t.store.readInto(t.key('a'), offset, buffer, { etag: other.etag });
      await expectRejection(read, 'Corrupt', `readInto at ${offset} with the etag of another object`);
    }
  }),
];

async function expectCrc(t: Scratch, name: string, bytes: Uint8Array): Promise<void> {
  const { crc32c: found } = await t.store.head(t.key(name));
  const expected = crc32c(bytes);
  expectTrue(
    found === undefined || found === expected,
    `crc32c by head of ${name}`,
    `${expected}, or none`,
    found,
  );
}

function rangesOf(size: number): WantedRange[] {
  const half = size >> 1;
  const ranges: [offsetBytes: number, lengthBytes: number][] = [
    [0, size],
    [0, 1],
    [0, half],
    [1, half],
    [half, size - half],
    [half, 1],
    [size - 1, 1],
    [size - 1, 100], // Across the end.
    [half, size],
    [0, size + 1],
    [0, 4 * size],
    [size, 1], // At the end.
    [size, 100],
    [size + 1, 100], // Past the end.
    [size + MIB, 100],
    [0, 0],
    [half, 0],
    [size, 0],
  ];
  return ranges.map(([offsetBytes, lengthBytes]) => {
    const what = `readInto of ${lengthBytes} bytes at ${offsetBytes} of ${size}`;
    return { what, offsetBytes, lengthBytes };
  });
}

interface GuardedRange {
  /** Address of the buffer in memory, after the guard: 0 is aligned to a page. */
  readonly address: number;
  readonly offset: number;
  readonly length: number;
}

async function readsGuarded(
  t: Scratch,
  bytes: Uint8Array,
  { address, offset, length }: GuardedRange,
): Promise<void> {
  const start = GUARD_BYTES + address;
  const memory = alignedMemory(start + length + GUARD_BYTES).fill(GUARD);
  const expected = bytes.subarray(offset, offset + length);
  const what = `readInto of ${length} bytes at ${offset}, to address ${address}`;
  const count = await t.store.readInto(t.key('a'), offset, memory.subarray(start, start + length));
  expectEqual(count, expected.byteLength, `count of ${what}`);
  expectBytes(memory.subarray(start, start + count), expected, what);
  const outside = memory.findIndex((byte, at) => byte !== GUARD && (at < start || at >= start + length));
  expectTrue(outside === -1, what, 'nothing written outside the buffer', `a byte at ${outside - start}`);
}

interface WasmMemory {
  readonly buffer: ArrayBuffer;
}

/** Declares the used part of `WebAssembly`, which the language's own types lack. */
declare const WebAssembly: {
  readonly Memory: new (limits: { initial: number; maximum: number }) => WasmMemory;
};

const WASM_PAGE_BYTES = 64 * 1024;

/**
 * At least `sizeBytes`, page-aligned like the engine's own buffers, and like them not detachable.
 */
function alignedMemory(sizeBytes: number): Uint8Array {
  const pages = Math.ceil(sizeBytes / WASM_PAGE_BYTES);
  return new Uint8Array(new WebAssembly.Memory({ initial: pages, maximum: pages }).buffer);
}
