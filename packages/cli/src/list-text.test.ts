import type { CheckpointSummary } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { bestMetrics } from './best-metrics.ts';
import { jsonSummary, jsonTime, jsonVersion, toJson } from './json.ts';
import { stateText } from './state-text.ts';
import { renderTable } from './table.ts';

function summary(version: number, rest: Partial<CheckpointSummary> = {}): CheckpointSummary {
  return {
    id: { lineage: 0, epoch: 1, version: BigInt(version) },
    version: BigInt(version),
    sizeBytes: 10,
    storedBytes: 10,
    fileCount: 1,
    metrics: {},
    state: 'live',
    isLatest: false,
    pins: [],
    isVerified: false,
    isSuspect: false,
    reason: '',
    committedAtMs: 0,
    retiringAtMs: null,
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
