import type { CheckpointSummary } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { bestMetrics } from './best-metrics.ts';
import { jsonSummary, jsonTime, jsonVersion, toJson } from './json.ts';
import { listText } from './list-text.ts';
import { stateText } from './state-text.ts';
import { plainStyle } from './style.ts';
import { renderTable } from './table.ts';

function summary(version: number, rest: Partial<CheckpointSummary> = {}): CheckpointSummary {
  return {
    id: { lineage: 0, epoch: 1, version: BigInt(version) },
    version: BigInt(version),
    manifestKey: 'manifest',
    sizeBytes: 10,
    storedBytes: 10,
    bases: [],
    fileCount: 1,
    metrics: {},
    state: 'live',
    isLatest: false,
    pins: [],
    isVerified: false,
    isSuspect: false,
    isLeftBehind: false,
    reason: '',
    committedAtMs: 0,
    graceUntilMs: null,
    graceLeftMs: null,
    ...rest,
  };
}

describe('renderTable', () => {
  it('aligns columns, wide characters included, and leaves no space at the end', () => {
    const lines = renderTable(
      [
        { title: 'N', align: 'right' },
        { title: 'NAME', align: 'left' },
        { title: 'X', align: 'left' },
      ],
      [
        ['1', '模型', 'a'],
        ['100', 'model', ''],
      ],
    );
    expect(lines).toEqual(['  N   NAME    X', '  1   模型    a', '100   model']);
  });
});

describe('bestMetrics', () => {
  it('the smallest loss and the largest auc are best', () => {
    const [a, b] = [
      summary(1, { metrics: { loss: 2, 'val/auc': 0.5 } }),
      summary(2, { metrics: { loss: 3, 'val/auc': 0.7 } }),
    ];
    expect([...bestMetrics([a, b])]).toEqual([
      ['loss', a],
      ['val/auc', b],
    ]);
  });

  it('a metric without a natural direction has no best', () => {
    expect(
      bestMetrics([summary(1, { metrics: { tokens: 1 } }), summary(2, { metrics: { tokens: 2 } })]).size,
    ).toBe(0);
  });

  it('nothing is best of one, and what is quarantined or suspect does not count', () => {
    const live = summary(1, { metrics: { loss: 2 } });
    expect(bestMetrics([live]).size).toBe(0);
    expect(bestMetrics([live, summary(2, { metrics: { loss: 1 }, state: 'quarantined' })]).size).toBe(0);
    expect(bestMetrics([live, summary(2, { metrics: { loss: 1 }, isSuspect: true })]).size).toBe(0);
  });
});

describe('stateText', () => {
  it('says all that is special', () => {
    const one = summary(1, { isLatest: true, pins: ['paper', ''], metrics: { loss: 1 } });
    expect(stateText(one, new Map([['loss', one]]))).toBe('latest, best loss, pinned: paper, pinned');
    expect(stateText(summary(2, { state: 'quarantined', reason: 'bad\u001b[0m disk' }), new Map())).toBe(
      'quarantined: bad\\x1b[0m disk',
    );
    expect(stateText(summary(3, { state: 'retiring' }), new Map())).toBe('retiring');
    expect(stateText(summary(4), new Map())).toBe('');
    expect(stateText(summary(5, { isVerified: true, pins: ['pinned'] }), new Map())).toBe('pinned, verified');
    const why = { reason: 'nothing has changed' };
    expect(stateText(summary(6, { isSuspect: true, ...why }), new Map())).toBe(
      'suspect: nothing has changed',
    );
  });

  it('in brief: how long a retired one can be taken back, and not why', () => {
    const retired = (graceLeftMs: number) =>
      summary(1, { state: 'retiring', reason: 'no rule keeps it', graceUntilMs: 4_600_000, graceLeftMs });
    expect(stateText(retired(3_600_000), new Map(), true)).toBe('retiring (60 min left)');
    expect(stateText(retired(0), new Map(), true)).toBe('retiring (its grace is over)');
    expect(stateText(retired(0), new Map())).toBe('retiring: no rule keeps it');
    const suspect = summary(2, { isSuspect: true, reason: 'nothing has changed' });
    expect(stateText(suspect, new Map(), true)).toBe('suspect');
  });
});

describe('listText', () => {
  const options = { best: new Map(), nowMs: 0, style: plainStyle };

  it('files that are shared with a version that is gone are stored, too', () => {
    const gone = { lineage: 0, epoch: 1, version: 1n };
    const text = listText([summary(2, { sizeBytes: 4096, storedBytes: 0, bases: [gone] })], options);
    expect(text).toMatch(/\n1 version · 4\.0 KiB, at least 0 B stored$/);
  });

  it('stored bytes are told where some version has a file of another', () => {
    const shared = [
      summary(2, { isLatest: true, sizeBytes: 4096, storedBytes: 0 }),
      summary(1, { sizeBytes: 4096, storedBytes: 4096 }),
    ];
    expect(listText(shared, options).split('\n')).toEqual([
      'VERSION   COMMITTED   FILES      SIZE    STORED   METRICS   STATE',
      '      2   just now        1   4.0 KiB       0 B             latest',
      '      1   just now        1   4.0 KiB   4.0 KiB',
      '2 versions · 8.0 KiB, 4.0 KiB stored',
    ]);
  });

  it('and not where none has', () => {
    expect(listText([summary(1)], options).split('\n')).toEqual([
      'VERSION   COMMITTED   FILES   SIZE   METRICS   STATE',
      '      1   just now        1   10 B',
      '1 version · 10 B',
    ]);
    expect(listText([], options)).toBe('no checkpoint yet');
  });
});

describe('JSON', () => {
  it('versions are numbers up to 2^53 - 1 and strings above', () => {
    expect(jsonVersion(9007199254740991n)).toBe(9007199254740991);
    expect(jsonVersion(9007199254740992n)).toBe('9007199254740992');
  });

  it('times are ISO 8601 in UTC, sizes bytes', () => {
    expect(jsonTime(Date.UTC(2026, 0, 2, 3, 4, 5, 678))).toBe('2026-01-02T03:04:05.678Z');
    expect(jsonTime(0)).toBeNull();
    expect(jsonSummary(summary(7))).toMatchObject({
      version: 7,
      sizeBytes: 10,
      state: 'live',
      committedAt: null,
    });
  });

  it('anything can be written', () => {
    const value = {
      big: 2n ** 60n,
      small: 3n,
      error: new Error('e'),
      none: undefined,
      list: [1, Number.NaN],
      nested: { ok: true },
    };
    expect(toJson(value)).toEqual({
      big: '1152921504606846976',
      small: 3,
      error: 'e',
      list: [1, 'NaN'],
      nested: { ok: true },
    });
  });
});
