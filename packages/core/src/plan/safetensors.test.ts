import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { crc32c } from '../format/index.ts';
import { type ReadTensor, SafetensorsScan } from './safetensors.ts';

const HEADER_MAX = 1 << 20;
const text = new TextEncoder();

function fileOf(header: unknown, data: Uint8Array = new Uint8Array(0)): Uint8Array {
  const json = typeof header === 'string' ? text.encode(header) : text.encode(JSON.stringify(header));
  const file = new Uint8Array(8 + json.byteLength + data.byteLength);
  new DataView(file.buffer).setBigUint64(0, BigInt(json.byteLength), true);
  file.set(json, 8);
  file.set(data, 8 + json.byteLength);
  return file;
}

/** The scan after the bytes were pushed in pieces of this size, until it wants no more. */
function scan(
  file: Uint8Array,
  { pieceBytes = file.byteLength, withSums = false, headerBytesMax = HEADER_MAX } = {},
) {
  const scanning = new SafetensorsScan({ fileBytes: file.byteLength, headerBytesMax, withSums });
  let pushedBytes = 0;
  while (scanning.wantsMore && pushedBytes < file.byteLength) {
    scanning.push(file.subarray(pushedBytes, pushedBytes + pieceBytes));
    pushedBytes += pieceBytes;
  }
  return { problem: scanning.problem, tensors: scanning.tensors, wantsMore: scanning.wantsMore, pushedBytes };
}

const tensor = (dtype: string, shape: number[], start: number, end: number) => ({
  dtype,
  shape,
  data_offsets: [start, end],
});
const DATA = Uint8Array.from({ length: 24 }, (_, index) => index * 7);
const HEADER = {
  __metadata__: { format: 'pt' },
  weight: tensor('F32', [2, 2], 8, 24),
  bias: tensor('BF16', [4], 0, 8),
  scale: tensor('F32', [0], 24, 24),
};

describe('safetensors', () => {
  test.each([1, 3, 8, 1000])('types, shapes and checksums, whatever the pieces (%i bytes)', (pieceBytes) => {
    const { problem, tensors, wantsMore } = scan(fileOf(HEADER, DATA), { pieceBytes, withSums: true });
    expect([problem, wantsMore]).toEqual([undefined, false]);
    const dataAt = fileOf(HEADER).byteLength;
    const place = (at: number) => ({ offsets: null, fileOffsetBytes: dataAt + at });
    const [bias, weight] = [DATA.subarray(0, 8), DATA.subarray(8)].map((data) => crc32c(data));
    expect(Object.fromEntries(tensors)).toEqual({
      bias: { dtype: 'BF16', shape: [4], sizeBytes: 8, ...place(0), crc32c: bias },
      weight: { dtype: 'F32', shape: [2, 2], sizeBytes: 16, ...place(8), crc32c: weight },
      scale: { dtype: 'F32', shape: [0], sizeBytes: 0, ...place(24), crc32c: 0 },
    });
  });

  test('without checksums nothing behind the header is wanted', () => {
    const file = fileOf(HEADER, DATA);
    const { tensors, pushedBytes } = scan(file, { pieceBytes: 1 });
    expect(pushedBytes).toBe(file.byteLength - DATA.byteLength);
    expect((tensors.get('bias') as ReadTensor).crc32c).toBeUndefined();
  });

  test('a file without tensors, and names such as __proto__, are as good as any', () => {
    expect(scan(fileOf({}), { withSums: true })).toMatchObject({ problem: undefined, wantsMore: false });
    const named = scan(fileOf(`{"__proto__":${JSON.stringify(tensor('U8', [], 0, 1))}}`, new Uint8Array(1)));
    expect([...named.tensors.keys()]).toEqual(['__proto__']);
  });

  test('names with quotes, backslashes and brackets are counted as they are', () => {
    const header = {
      'a"b': tensor('U8', [1], 0, 1),
      'c\\': tensor('U8', [1], 1, 2),
      '{":': tensor('U8', [0], 2, 2),
    };
    expect([...scan(fileOf(header, new Uint8Array(2))).tensors.keys()]).toEqual(Object.keys(header));
  });

  test.each([
    ['F4', [3], 2],
    ['F6_E2M3', [4], 3],
    ['BF16', [2, 3], 12],
    ['C64', [2], 16],
    ['OF_TOMORROW', [7], 5],
  ])('%s %j in %i bytes', (dtype, shape, bytes) => {
    const file = fileOf({ a: tensor(dtype, shape, 0, bytes) }, new Uint8Array(bytes));
    expect(scan(file)).toMatchObject({ problem: undefined });
  });

  const cases: [string, Uint8Array, string][] = [
    ['fewer than 8 bytes', new Uint8Array(7), 'it has 7 bytes'],
    ['a length beyond the file', Uint8Array.of(200, 0, 0, 0, 0, 0, 0, 0, 1, 2), 'would have 200 of its 10'],
    ['a length of 2^64 - 1', new Uint8Array(20).fill(255), 'has 18446744073709551615 bytes; at most 1048576'],
    ['no header', new Uint8Array(10), 'would have 0 of its 10'],
    ['something else than JSON', fileOf('{"a":'), 'is not a JSON object'],
    ['text that is no UTF-8', fileOf('{}', DATA).fill(0xff, 8, 10), 'is not a JSON object'],
    ['a list', fileOf('[1,2]'), 'is not a JSON object'],
    ['a tensor that is a number', fileOf({ a: 1 }), 'does not give type, shape and offsets of "a"'],
    ['a negative size', fileOf({ a: tensor('F32', [-1], 0, 0) }), 'of "a"'],
    [
      'a size that is no number',
      fileOf('{"a":{"dtype":"F32","shape":["x"],"data_offsets":[0,0]}}'),
      'of "a"',
    ],
    [
      'a shape that its bytes contradict',
      fileOf({ a: tensor('F32', [1_000_000, 1_000_000], 0, 4) }, new Uint8Array(4)),
      'tensor "a" would have 4000000000000 bytes by its type and shape, and has 4',
    ],
    [
      'a shape beyond all numbers',
      fileOf({ a: tensor('F32', Array(3).fill(2 ** 32), 0, 0) }),
      `would have ${2n ** 98n} bytes`,
    ],
    [
      'a name that comes twice',
      fileOf(
        `{"a":${JSON.stringify(tensor('U8', [0], 0, 0))},"\\u0061":${JSON.stringify(tensor('U8', [0], 0, 0))}}`,
      ),
      'has a name twice',
    ],
    ['65 dimensions', fileOf({ a: tensor('F32', Array(65).fill(1), 0, 0) }), 'of "a"'],
    ['an end before its beginning', fileOf({ a: tensor('F32', [1], 4, 0) }, new Uint8Array(4)), 'of "a"'],
    ['a type that is no name', fileOf({ a: tensor('\u001b[31m', [1], 0, 0) }), 'of "a"'],
    [
      'tensors that overlap',
      fileOf({ a: tensor('U8', [8], 0, 8), b: tensor('U8', [8], 4, 12) }, new Uint8Array(12)),
      'tensor "b" does not follow',
    ],
    ['a gap', fileOf({ a: tensor('U8', [4], 4, 8) }, new Uint8Array(8)), 'tensor "a" does not follow'],
    ['bytes at the end', fileOf({ a: tensor('U8', [4], 0, 4) }, new Uint8Array(8)), 'end after 4 of 8 bytes'],
    [
      'a place past the end',
      fileOf({ a: tensor('U8', [4], 0, 4) }, new Uint8Array(2)),
      'end after 4 of 2 bytes',
    ],
  ];
  test.each(cases)('%s is told, not thrown', (_, file, fragment) => {
    for (const withSums of [false, true]) {
      const { problem, wantsMore, tensors } = scan(file, { withSums });
      expect(problem).toContain(fragment);
      expect([wantsMore, tensors.size]).toEqual([false, 0]);
    }
  });

  test('a header that would make millions of values is refused before it is parsed', () => {
    const bomb = `{"a":[${'[],'.repeat(1_100_000)}[]]}`;
    const { problem } = scan(fileOf(bomb), { headerBytesMax: 16 << 20 });
    expect(problem).toContain('take more than 41943040 bytes of memory');
  });

  test('any bytes: a problem or tensors that cover the file, never an error', () => {
    const anyFile = fc.oneof(
      fc.uint8Array({ maxLength: 64 }),
      fc.tuple(fc.json(), fc.uint8Array({ maxLength: 16 })).map(([json, data]) => fileOf(json, data)),
      fc.tuple(fc.uint8Array({ maxLength: 8 }), fc.nat(200)).map(([noise, at]) => {
        const file = fileOf(HEADER, DATA);
        file.set(noise, Math.min(at, file.byteLength - noise.byteLength));
        return file;
      }),
    );
    fc.assert(
      fc.property(anyFile, fc.integer({ min: 1, max: 50 }), fc.boolean(), (file, pieceBytes, withSums) => {
        const { problem, wantsMore, tensors } = scan(file, { pieceBytes, withSums });
        expect(wantsMore).toBe(false);
        const sizes = [...tensors.values()].reduce((sum, each) => sum + each.sizeBytes, 0);
        expect(sizes).toBeLessThanOrEqual(file.byteLength);
        if (problem !== undefined) expect(tensors.size).toBe(0);
      }),
    );
  });
});
