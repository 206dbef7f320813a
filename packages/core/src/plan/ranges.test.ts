import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isCheckpointError } from '../contract/index.ts';
import { crc32c } from '../format/checksum.ts';
import {
  checkStoredFile,
  countParts,
  describeRange,
  partCrc,
  planRanges,
  planSamples,
  wholeParts,
} from './ranges.ts';
import type { StoredFile } from './stored-file.ts';

function record(bytes: Uint8Array, partSizeBytes: number): StoredFile {
  const partCount = bytes.byteLength === 0 ? 0 : Math.ceil(bytes.byteLength / partSizeBytes);
  const partCrc32c = new Uint8Array(partCount * 4);
  for (let part = 0; part < partCount; part += 1) {
    const crc = crc32c(bytes.subarray(part * partSizeBytes, (part + 1) * partSizeBytes));
    new DataView(partCrc32c.buffer).setUint32(part * 4, crc);
  }
  const sizes = { sizeBytes: bytes.byteLength, partSizeBytes: bytes.byteLength === 0 ? 0 : partSizeBytes };
  return { name: 'model.bin', key: 'k', ...sizes, crc32c: crc32c(bytes), partCrc32c };
}

const anyFile = fc
  .tuple(fc.uint8Array({ maxLength: 300 }), fc.integer({ min: 1, max: 400 }))
  .map(([bytes, partSizeBytes]) => record(bytes, partSizeBytes));

describe('records', () => {
  test('what a writer recorded is accepted, whatever its part size', () => {
    fc.assert(fc.property(anyFile, (file) => checkStoredFile(file)));
  });

  const good = record(new Uint8Array(100).fill(7), 40);
  const empty = record(new Uint8Array(0), 1);
  test.each<[string, StoredFile, string]>([
    ['a negative size', { ...good, sizeBytes: -1 }, 'a size of -1 bytes'],
    ['a size that is no integer', { ...good, sizeBytes: 99.5 }, 'a size of 99.5 bytes'],
    ['a size beyond 2^53', { ...good, sizeBytes: 2 ** 53 }, 'a size of 9007199254740992 bytes'],
    ['a size of NaN', { ...good, sizeBytes: Number.NaN }, 'a size of NaN bytes'],
    ['a checksum of 33 bits', { ...good, crc32c: 2 ** 32 }, 'a checksum of 4294967296'],
    ['no part size', { ...good, partSizeBytes: 0 }, 'a part size of 0 bytes for 100 bytes'],
    ['a part size of an empty file', { ...empty, partSizeBytes: 5 }, 'a part size of 5 bytes for 0 bytes'],
    [
      'an enormous size',
      { ...good, sizeBytes: Number.MAX_SAFE_INTEGER },
      '12 bytes of part checksums where 225179981368525 parts need 900719925474100',
    ],
    ['a missing part checksum', { ...good, partCrc32c: good.partCrc32c.subarray(4) }, '8 bytes of part'],
    ['half a part checksum', { ...good, partCrc32c: good.partCrc32c.subarray(2) }, '10 bytes of part'],
    ['checksums of an empty file', { ...empty, partCrc32c: new Uint8Array(4) }, '4 bytes of part'],
    [
      'a checksum of an empty file',
      { ...empty, crc32c: 1 },
      'part checksums whose combination is 00000000 but 00000001',
    ],
  ])('%s is Corrupt and says so', (_, file, message) => {
    expect(failure(file)).toContain(`the record of "model.bin" has ${message}`);
  });

  test('parts that do not combine to the whole are Corrupt, with both checksums', () => {
    const crc = (good.crc32c ^ 1) >>> 0;
    const text = failure({ ...good, crc32c: crc });
    expect(text).toContain(good.crc32c.toString(16).padStart(8, '0'));
    expect(text).toContain(`${crc.toString(16).padStart(8, '0')} is recorded`);
  });

  test('any part checksum that is changed is Corrupt', () => {
    fc.assert(
      fc.property(anyFile, fc.nat(), fc.integer({ min: 1, max: 255 }), (file, at, flip) => {
        fc.pre(file.partCrc32c.byteLength > 0);
        const partCrc32c = Uint8Array.from(file.partCrc32c);
        const index = at % partCrc32c.byteLength;
        partCrc32c[index] = (partCrc32c[index] as number) ^ flip;
        expect(failure({ ...file, partCrc32c })).toContain('combination');
      }),
    );
  });

  test('checksums are read wherever the record keeps them', () => {
    const padded = new Uint8Array(good.partCrc32c.byteLength + 3);
    padded.set(good.partCrc32c, 3);
    const file = { ...good, partCrc32c: padded.subarray(3) };
    checkStoredFile(file);
    expect(partCrc(file, 1)).toBe(partCrc(good, 1));
  });
});

describe('reads', () => {
  test('any file: reads cover it in order, without gap or overlap, each of whole parts and about the size wanted', () => {
    fc.assert(
      fc.property(anyFile, fc.integer({ min: 1, max: 500 }), (file, readBytes) => {
        let at = 0;
        let part = 0;
        for (const range of planRanges(file, readBytes)) {
          expect([range.startBytes, range.firstPart]).toEqual([at, part]);
          expect(range.lengthBytes).toBeGreaterThan(0);
          expect(range.lengthBytes).toBeLessThanOrEqual(Math.max(readBytes, file.partSizeBytes));
          at += range.lengthBytes;
          part += range.partCount;
        }
        expect([at, part]).toEqual([file.sizeBytes, countParts(file)]);
      }),
    );
  });

  test('samples: the first part, the last, and one of each 64 in between, wherever chance has it', () => {
    const parts = (count: number, draw = 0) => {
      const file = record(new Uint8Array(count * 10), 10);
      return [...planSamples(file, () => draw)].map((each) => each.startBytes / 10);
    };
    expect([parts(0), parts(1), parts(2), parts(3)]).toEqual([[], [0], [0, 1], [0, 1, 2]]);
    expect([parts(66), parts(67), parts(68, 0.999)]).toEqual([
      [0, 1, 65],
      [0, 1, 65, 66],
      [0, 64, 66, 67],
    ]);
    const odd = [...planSamples(record(new Uint8Array(35), 10), () => 0.5)];
    expect(odd.map((each) => [each.startBytes, each.lengthBytes])).toEqual([
      [0, 10],
      [20, 10],
      [30, 5],
    ]);
  });

  test('bytes are whole parts where they begin and end at one, the last one included', () => {
    const file = record(new Uint8Array(35), 10);
    expect(wholeParts(file, 0, 35)).toEqual({ startBytes: 0, lengthBytes: 35, firstPart: 0, partCount: 4 });
    expect(wholeParts(file, 10, 20)).toEqual({ startBytes: 10, lengthBytes: 20, firstPart: 1, partCount: 2 });
    expect(wholeParts(file, 30, 5)).toEqual({ startBytes: 30, lengthBytes: 5, firstPart: 3, partCount: 1 });
    for (const [start, length] of [
      [5, 10],
      [10, 5],
      [10, 15],
      [31, 4],
      [30, 4],
    ] as const)
      expect(wholeParts(file, start, length)).toBe(undefined);
  });

  test('a range for people has both ends and groups of digits', () => {
    expect(describeRange(8_388_608, 8_388_608)).toBe('bytes 8,388,608–16,777,215');
  });
});

function failure(file: StoredFile): string {
  try {
    checkStoredFile(file);
  } catch (error) {
    if (isCheckpointError(error, 'Corrupt')) return error.message;
    throw error;
  }
  throw new Error('it was accepted');
}
