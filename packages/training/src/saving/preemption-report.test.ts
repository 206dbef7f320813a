import { CheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { lossByError, lossInFlight, reportOf } from './preemption-report.ts';
import type { SaveInFlight } from './saver.ts';

const GIB = 1024 ** 3;
const SAVE: SaveInFlight = {
  version: 1300n,
  writer: { index: 0, count: 1 },
  elapsedMs: 40_000,
  doneBytes: 2.1 * GIB,
  totalBytes: 12 * GIB,
  file: 'model.bin',
  silentMs: 200,
  missingWriters: [],
};

const textOf = (save: Partial<SaveInFlight>, afterMs = 25_000) =>
  reportOf(1200n, lossInFlight({ ...SAVE, ...save }, afterMs)).text;

describe('what is lost', () => {
  it('a save in flight: its version, how long it had, bytes, file, writer, and what is left', () => {
    expect(textOf({ writer: { index: 0, count: 4 } })).toBe(
      'preempted: version 1300 did not become durable in 25 s (2.1 of 12.0 GiB, at model.bin, writer 0 of 4); ' +
        'the newest durable version is 1200, what was trained since is lost',
    );
  });

  it('a save that has delivered: the writers that have not', () => {
    const all = { doneBytes: 12 * GIB, file: null, writer: { index: 0, count: 200 } };
    const waiting = (missingWriters: number[]) =>
      /waiting for (.*)\)/.exec(textOf({ ...all, missingWriters }))?.[1];
    expect(textOf({ ...all, missingWriters: [3] })).toContain(
      'in 25 s (12.0 of 12.0 GiB, writer 0 of 200, waiting for writer 3); the newest',
    );
    expect(waiting([1, 3])).toBe('writers 1 and 3');
    expect(waiting([1, 2, 3, 4, 5, 6, 7, 8])).toBe('writers 1, 2, 3, 4, 5, 6, 7 and 8');
    expect(waiting([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])).toBe('writers 1, 2, 3, 4, 5, 6, 7, 8 and 2 more');
  });

  it('a save of which little is known: without a version, of unknown length, in parts of a second', () => {
    const little = { version: null, file: null, doneBytes: 0, totalBytes: 0 };
    expect(textOf(little, 250)).toMatch(
      /^preempted: the last state did not become durable in 0.3 s \(0 bytes\);/,
    );
    expect(textOf({ doneBytes: 1536, totalBytes: 0 })).toContain('(1.5 KiB, at model.bin)');
    expect(textOf({ doneBytes: 0, totalBytes: 900 })).toContain('(0 of 900 bytes, at model.bin)');
    expect(textOf({ doneBytes: 0, totalBytes: 2 ** 52 })).toContain('(0.0 of 4096.0 TiB, at model.bin)');
  });

  it('a save that failed: its error, and the version that the error names', () => {
    const full = new CheckpointError('StorageFull', 'no room', { context: { version: 7n } });
    expect(lossByError(full, 6n)).toEqual({ version: 7n, why: 'could not be saved: no room' });
    expect(lossByError(new Error('no room'), 6n).version).toBe(6n);
    expect(lossByError('no room', null)).toEqual({ version: null, why: 'could not be saved: no room' });
  });

  it('a save with an unknown outcome: it is not said that it failed', () => {
    const unknown = new CheckpointError('OutcomeUnknown', 'no answer to the commit');
    expect(reportOf(6n, lossByError(unknown, 7n)).text).toBe(
      'preempted: version 7 may not have been saved: no answer to the commit; ' +
        'the newest durable version is 6, what was trained since is lost',
    );
  });
});

describe('what is durable', () => {
  it.each([
    [1200n, 'the newest durable version is 1200', ', what was trained since is lost'],
    [null, 'no version is durable', ', all that was trained is lost'],
    ['unknown', 'the newest durable version is not known, because the store has not answered', ''],
  ] as const)('%s', (durable, text, lost) => {
    expect(reportOf(durable, null).text).toBe(`preempted: no save is in progress; ${text}`);
    expect(reportOf(durable, { version: 5n, why: 'failed' }).text).toBe(
      `preempted: version 5 failed; ${text}${lost}`,
    );
  });
});
