import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { crc32c } from '../format/checksum.ts';
import { cutsOf, firstDifferent, PartReadings, type Section, sectionsOf } from './readings.ts';

const PART = { startBytes: 100, endBytes: 164 };
const DATA = Uint8Array.from({ length: 64 }, (_, index) => (index * 37 + 11) & 0xff);

const crcOf = (startBytes: number, endBytes: number) =>
  crc32c(DATA.subarray(startBytes - 100, endBytes - 100));
const reading = (startBytes: number, endBytes: number) => ({
  startBytes,
  endBytes,
  crc32c: crcOf(startBytes, endBytes),
});

const anyRange = fc
  .tuple(fc.integer({ min: 100, max: 163 }), fc.integer({ min: 1, max: 64 }))
  .map(([start, length]) => [start, Math.min(start + length, 164)] as const);

function readingsOf(ranges: readonly (readonly [number, number])[]): PartReadings {
  const readings = new PartReadings();
  for (const [start, end] of ranges) readings.add(reading(start, end));
  return readings;
}

const sections = (ranges: readonly (readonly [number, number])[]) => [
  ...sectionsOf(PART, readingsOf(ranges).inOrder()),
];

describe('readings', () => {
  test('those that adjoin become one, in whatever order they were made', () => {
    const quarters = [0, 1, 2, 3].map((index) => [100 + 16 * index, 116 + 16 * index] as const);
    fc.assert(
      fc.property(fc.shuffledSubarray(quarters, { minLength: 4 }), (ranges) => {
        expect(readingsOf(ranges).inOrder()).toEqual([reading(100, 164)]);
      }),
    );
  });

  test('the same bytes read again with the same result are kept in mind once more, however often that was', () => {
    const ranges = Array.from({ length: 50 }, () => [110, 120] as const);
    expect(readingsOf(ranges).inOrder()).toEqual([reading(110, 120), reading(110, 120)]);
  });

  test('each one counts', () => {
    expect(
      readingsOf([
        [110, 120],
        [110, 120],
        [120, 121],
      ]).addCount,
    ).toBe(3);
  });
});

describe('sections', () => {
  test('cover the part in order; without overlaps none has more than one reading', () => {
    fc.assert(
      fc.property(fc.array(anyRange, { maxLength: 12 }), (ranges) => {
        const found = sections(ranges);
        let at = PART.startBytes;
        for (const { startBytes, endBytes, readings } of found) {
          expect(startBytes).toBe(at);
          expect(endBytes).toBeGreaterThan(startBytes);
          for (const each of readings) {
            expect(each.startBytes).toBeGreaterThanOrEqual(startBytes);
            expect(each.endBytes).toBeLessThanOrEqual(endBytes);
          }
          at = endBytes;
        }
        expect(at).toBe(PART.endBytes);
        const isRead = (byte: number) => ranges.filter(([start, end]) => start <= byte && byte < end).length;
        const bytes = Array.from({ length: 64 }, (_, index) => 100 + index);
        const gaps = bytes.filter((byte) => isRead(byte) === 0);
        const inGap = (byte: number) =>
          found.some((each) => each.readings.length === 0 && each.startBytes <= byte && byte < each.endBytes);
        expect(bytes.filter(inGap)).toEqual(gaps);
        const hasOverlap = bytes.some((byte) => isRead(byte) > 1);
        expect(found.some(({ readings }) => readings.length > 1)).toBe(hasOverlap);
      }),
    );
  });

  test('a part that was never read is one gap', () => {
    expect(sections([])).toEqual([{ ...PART, readings: [] }]);
  });

  test('each of several overlapping readings is found that differs from the stored bytes', () => {
    const overlapping = fc.array(anyRange, { minLength: 2, maxLength: 8 });
    fc.assert(
      fc.property(overlapping, fc.nat(), (ranges, chosen) => {
        for (const section of sections(ranges)) {
          const crcAt = (cut: number) => crcOf(section.startBytes, cut);
          expect(cutsOf(section)).toEqual([...new Set(cutsOf(section))].sort((a, b) => a - b));
          expect(firstDifferent(section, crcAt)).toBeUndefined();
          if (section.readings.length < 2) continue;
          const index = chosen % section.readings.length;
          const bad = { ...section.readings[index]!, crc32c: section.readings[index]!.crc32c ^ 1 };
          const lied: Section = { ...section, readings: section.readings.with(index, bad) };
          const expected = crcOf(bad.startBytes, bad.endBytes);
          expect(firstDifferent(lied, crcAt)).toEqual({ reading: bad, expected });
        }
      }),
    );
  });
});
