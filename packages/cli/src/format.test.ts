import { describe, expect, it } from 'vitest';
import {
  formatAge,
  formatBriefDuration,
  formatBytes,
  formatCount,
  formatDuration,
  formatMetric,
  formatMetrics,
  formatPlural,
  formatRoughDuration,
  formatShare,
  formatTime,
  formatVersions,
  formatWriters,
  printable,
  shellQuote,
} from './format.ts';
import { jsonTime } from './json.ts';

const KIB = 1024;
const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

describe('formatBytes: binary units, two or three figures', () => {
  it.each([
    [0, '0 B'],
    [17, '17 B'],
    [999, '999 B'],
    [1000, '0.98 KiB'],
    [KIB, '1.0 KiB'],
    [1536, '1.5 KiB'],
    [12 * GIB, '12.0 GiB'],
    [412 * MIB, '412 MiB'],
    [99.96 * MIB, '100 MiB'],
    [1023 * MIB, '1.0 GiB'],
    [1000 * MIB, '0.98 GiB'],
    [5 * 1024 * GIB, '5.0 TiB'],
  ])('%d is %s', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });

  it('a size beyond the last unit keeps it, grouped', () => {
    expect(formatBytes(2000 * 1024 ** 5)).toBe('2,000 PiB');
  });
});

describe('formatShare: both in the unit of the whole', () => {
  it.each([
    [3.1 * GIB, 4 * GIB, '3.1 of 4.0 GiB'],
    [0, 4 * GIB, '0 of 4.0 GiB'],
    [10 * MIB, 4 * GIB, '0.01 of 4.0 GiB'],
    [5, 10, '5 of 10 B'],
    [3 * MIB, 0, '3.0 MiB'],
  ])('%d of %d is %s', (done, total, text) => {
    expect(formatShare(done, total)).toBe(text);
  });
});

describe('formatBriefDuration', () => {
  it.each([
    [-0.2, '0.0 ms'],
    [0.04, '0.0 ms'],
    [4.25, '4.3 ms'],
    [9.96, '10 ms'],
    [41.2, '41 ms'],
    [1234, '1.2 s'],
  ])('%d ms is %s', (ms, text) => {
    expect(formatBriefDuration(ms)).toBe(text);
  });
});

describe('formatDuration', () => {
  it.each([
    [0, '0 ms'],
    [412, '412 ms'],
    [999.7, '1.0 s'],
    [29_400, '29.4 s'],
    [250_000, '4 min 10 s'],
    [240_000, '4 min'],
    [7_500_000, '2 h 5 min'],
    [273_600_000, '3 d 4 h'],
  ])('%d ms is %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });
});

describe('formatRoughDuration: one unit', () => {
  it.each([
    [17_000, '17 s'],
    [89_000, '89 s'],
    [240_000, '4 min'],
    [2 * 3_600_000, '2 h'],
    [12 * 86_400_000, '12 d'],
    [-5, '0 s'],
  ])('%d ms is %s', (ms, text) => {
    expect(formatRoughDuration(ms)).toBe(text);
  });
});

describe('formatAge', () => {
  const now = Date.UTC(2026, 6, 31, 12);
  it.each([
    [now - 120_000, '2 min ago'],
    [now - 100, 'just now'],
    [now + 5000, 'just now'],
    [now + 600_000, '2026-07-31'],
    [now - 90 * 86_400_000, '2026-05-02'],
  ])('%d', (at, text) => {
    expect(formatAge(at, now)).toBe(text);
  });
});

describe('a time that no calendar has', () => {
  it('is told in milliseconds', () => {
    expect(formatTime(Date.UTC(2026, 6, 31, 10, 0, 5))).toBe('2026-07-31 10:00:05 UTC');
    expect(formatTime(Number.MAX_SAFE_INTEGER)).toBe('9007199254740991 ms');
    expect(formatAge(Number.MAX_SAFE_INTEGER, 0)).toBe('9007199254740991 ms');
    expect(jsonTime(Number.MAX_SAFE_INTEGER)).toBeNull();
    expect(jsonTime(Number.NaN)).toBeNull();
  });
});

describe('numbers and names', () => {
  it('counts are grouped, big integers too', () => {
    expect(formatCount(8_388_608)).toBe('8,388,608');
    expect(formatCount(9223372036854775807n)).toBe('9,223,372,036,854,775,807');
    expect(formatPlural(1, 'file')).toBe('1 file');
    expect(formatPlural(1000, 'file')).toBe('1,000 files');
  });

  it.each([
    [2.131, '2.131'],
    [2.1314159, '2.131'],
    [0, '0'],
    [12345.678, '12346'],
    [0.00012346, '0.0001235'],
    [1.5e-9, '1.500e-9'],
    [-0.5, '-0.5'],
    [1e21, '1e+21'],
  ])('metric %d is %s', (value, text) => {
    expect(formatMetric(value)).toBe(text);
  });

  it('metrics stand side by side', () => {
    expect(formatMetrics({ loss: 2.131, auc: 0.81 })).toBe('loss 2.131, auc 0.81');
  });

  it('writers are listed, and counted when there are many', () => {
    expect(formatWriters([2])).toBe('writer 2');
    expect(formatWriters([0, 3])).toBe('writers 0 and 3');
    expect(formatWriters([1, 2, 3])).toBe('writers 1, 2 and 3');
    expect(formatWriters(Array.from({ length: 100 }, (_, i) => i))).toBe(
      'writers 0, 1, 2, 3, 4, 5, 6 and 93 more',
    );
  });

  it('no control character of a name or reason reaches a terminal', () => {
    expect(printable('a\u001b[2Jb\nc\u202ed')).toBe('a\\x1b[2Jb\\x0ac\\u202ed');
    expect(printable('größe-模型.pt')).toBe('größe-模型.pt');
  });

  it('an argument is quoted only where a shell would take it apart', () => {
    expect(shellQuote('s3://runs/gpt')).toBe('s3://runs/gpt');
    expect(shellQuote("it's $HOME")).toBe(`'it'\\''s $HOME'`);
    expect(shellQuote('')).toBe("''");
  });
});

describe('formatVersions', () => {
  it.each([
    [[], ''],
    [[7n], '7'],
    [[1n, 2n], '1 and 2'],
    [[1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n], '1, 2, 3, 4, 5, 6, 7 and 8'],
    [[1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n, 2n ** 60n], '1, 2, 3 … 1152921504606846976'],
  ])('%s', (versions, text) => {
    expect(formatVersions(versions)).toBe(text);
  });
});
