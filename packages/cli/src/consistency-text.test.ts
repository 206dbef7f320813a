import type { Consistency, WriterState } from '@holdfast/core/contract';
import { describe, expect, test } from 'vitest';
import { consistencyText, writerLines } from './consistency-text.ts';

const AT_MS = Date.UTC(2026, 6, 31, 10, 0, 5, 123);

/** A writer for each entry; one without a consistency reported nothing. */
function writersOf(...said: ([Consistency, number, number] | null)[]): { writers: WriterState[] } {
  return {
    writers: said.map((each, writer) =>
      each === null
        ? { writer, consistency: null, stateVersion: null, takenAtMs: null }
        : { writer, consistency: each[0], stateVersion: BigInt(each[1]), takenAtMs: AT_MS + each[2] },
    ),
  };
}

describe('in a line', () => {
  test.each([
    ['nobody said anything', writersOf(null, null), null],
    [
      'polluted: from the lowest version to the highest, from the first time to the last',
      writersOf(['polluted', 1200, 4200], ['polluted', 1203, 0], ['polluted', 1198, 1000]),
      'polluted   states of versions 1198 to 1203, taken within 4.2 s',
    ],
    [
      'paused: all of one version',
      writersOf(['paused', 1200, 0], ['paused', 1200, 300]),
      'paused   all of version 1200, taken within 300 ms',
    ],
    [
      'a lone writer: when it was',
      writersOf(['polluted', 7, 0]),
      'polluted   state of version 7, taken 2026-07-31 10:00:05.123 UTC',
    ],
    [
      'some said nothing',
      writersOf(null, ['polluted', 7, 0], ['polluted', 9, 0], null),
      'polluted   states of versions 7 to 9, taken within 0 ms; writers 0 and 3 say nothing',
    ],
    [
      'mixed: who said what',
      writersOf(['paused', 9, 0], ['polluted', 8, 0], null, ['paused', 9, 0]),
      'mixed   writers 0 and 3 paused, writer 1 polluted; states of versions 8 to 9, taken within 0 ms; writer 2 says nothing',
    ],
  ])('%s', (_, details, line) => {
    expect(consistencyText(details)).toBe(line);
  });
});

describe('writer by writer', () => {
  test('version and time of each, and a dash where one said nothing', () => {
    expect(writerLines(writersOf(['polluted', 12_000, 0], null))).toEqual([
      'WRITER   STATE VERSION   TAKEN',
      '     0           12000   2026-07-31 10:00:05.123 UTC',
      '     1               -   -',
    ]);
  });

  test('no table for a lone writer, nor if no writer reported anything', () => {
    expect(writerLines(writersOf(['polluted', 1, 0]))).toEqual([]);
    expect(writerLines(writersOf(null, null))).toEqual([]);
  });
});
