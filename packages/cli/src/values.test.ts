import { SPAN_MS_MAX, WORLD_SIZE_MAX } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import {
  BadValue,
  pairsToRecord,
  parseChoice,
  parseDeadline,
  parseDuration,
  parseGlob,
  parseInterval,
  parseKeepBest,
  parseKeepCount,
  parseLongDuration,
  parseMeta,
  parseMetric,
  parseRate,
  parseReference,
  parseReferenceOrLatest,
  parseSize,
  parseVersion,
  parseWhole,
  parseWriter,
  sizeBetween,
} from './values.ts';

function refusal(parse: () => unknown): string {
  try {
    parse();
  } catch (error) {
    if (error instanceof BadValue) return error.message;
    throw error;
  }
  throw new Error('it was accepted');
}

describe('parseVersion', () => {
  it('is exact up to 2^63 - 1', () => {
    expect(parseVersion('0')).toBe(0n);
    expect(parseVersion('9007199254740993')).toBe(9007199254740993n);
    expect(parseVersion('9223372036854775807')).toBe(9223372036854775807n);
  });

  it.each(['-1', '1.5', '1e3', '', ' 1', '9223372036854775808', '0x10', '1,000', '99999999999999999999999'])(
    'refuses "%s" and says what is accepted',
    (text) => {
      expect(refusal(() => parseVersion(text))).toBe(
        `"${text}" is not a version; a version is a whole number from 0 to 9223372036854775807`,
      );
    },
  );

  it('latest is a word of its own', () => {
    expect(parseReferenceOrLatest('latest')).toBe('latest');
    expect(parseReferenceOrLatest('7')).toBe(7n);
    expect(refusal(() => parseReferenceOrLatest('newest'))).toContain('or "latest"');
  });
});

describe('parseReference', () => {
  it('is a version, or a version with its lineage', () => {
    expect(parseReference('7')).toBe(7n);
    expect(parseReference('9223372036854775807@4294967295')).toEqual({
      ...{ version: 2n ** 63n - 1n, lineage: 4_294_967_295 },
    });
    expect(parseReferenceOrLatest('7@1')).toEqual({ version: 7n, lineage: 1 });
  });

  it.each(['7@', '7@0', '7@01', '7@x', '7@-1', '7@4294967296', '7@1@2'])('%s is refused', (text) => {
    expect(refusal(() => parseReference(text))).toContain('V@L is version V of lineage L');
  });

  it.each(['@1', 'x@1', 'latest@1'])('%s has no version', (text) => {
    expect(refusal(() => parseReference(text))).toContain('is not a version');
  });
});

describe('parseDuration', () => {
  it.each([
    ['500ms', 500],
    ['30s', 30_000],
    ['10m', 600_000],
    ['2h', 7_200_000],
    ['1.5h', 5_400_000],
    ['1d', 86_400_000],
    ['0', 0],
    ['0s', 0],
  ])('%s is %d ms', (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

  it('a number without a unit is refused: seconds for one are minutes for another', () => {
    expect(refusal(() => parseDuration('600'))).toContain('"600" has no unit; write it like 500ms, 30s');
  });

  it('100 years is the longest', () => {
    expect(parseDuration('36525d')).toBe(SPAN_MS_MAX);
    for (const text of ['36526d', '3155760000001ms', '999999999999999d'])
      expect(refusal(() => parseDuration(text))).toBe(`"${text}" is too long; 36525d is the longest`);
  });

  it.each(['', 's', '-5s', '5 minutes', '5M', '1h30m', 'NaNs', 'Infinitys'])('refuses "%s"', (text) => {
    expect(refusal(() => parseDuration(text))).toContain('is not a duration');
  });
});

describe('rules', () => {
  it('a span has a second at least', () => {
    expect(parseLongDuration('1s')).toBe(1000);
    expect(refusal(() => parseLongDuration('999ms'))).toBe('"999ms" is too short; 1s is the shortest');
    expect(refusal(() => parseLongDuration('30'))).toContain('has no unit');
  });

  it('a deadline has a second at least and a day at most', () => {
    expect([parseDeadline('1s'), parseDeadline('24h')]).toEqual([1000, 86_400_000]);
    expect(refusal(() => parseDeadline('0'))).toBe('"0" is too short; 1s is the shortest');
    expect(refusal(() => parseDeadline('25h'))).toBe('"25h" is too long; 1d is the longest');
  });

  it('each so many versions, or each span', () => {
    expect(parseInterval('1000')).toEqual({ versions: 1000n });
    expect(parseInterval('1h')).toEqual({ ms: 3_600_000 });
    expect(refusal(() => parseInterval('0'))).toContain('write 1 or more');
    expect(refusal(() => parseInterval('0s'))).toContain('1s is the shortest');
    expect(refusal(() => parseInterval('1w'))).toContain('"1w" is not a duration');
  });

  it.each(['', 'hour', '-1', '1.5', '1,000'])('"%s" is neither versions nor a span', (text) => {
    expect(refusal(() => parseInterval(text))).toBe(
      `"${text}" is neither a number of versions nor a duration; write it like 1000, 1h or 1d`,
    );
  });

  it('so many of the newest, or all', () => {
    expect(parseKeepCount('3')).toBe(3);
    expect(parseKeepCount('all')).toBe('all');
    expect(parseKeepCount('4294967295')).toBe(4_294_967_295);
  });

  it.each(['0', '', '-1', '3.0', 'none', 'ALL', '4294967296', '1'.repeat(30)])(
    'refuses to keep "%s"',
    (text) => {
      expect(refusal(() => parseKeepCount(text))).toBe(
        `"${text}" is not a whole number from 1 to 4294967295, nor "all"`,
      );
    },
  );

  it('the best by a metric, whose name may hold colons', () => {
    expect(parseKeepBest('loss:min:3')).toEqual({ metric: 'loss', mode: 'min', count: 3 });
    expect(parseKeepBest('val:auc:max:1')).toEqual({ metric: 'val:auc', mode: 'max', count: 1 });
    expect(parseKeepBest('loss:min:4294967295')).toMatchObject({ count: 4_294_967_295 });
    expect(refusal(() => parseKeepBest('loss:min:4294967296'))).toBe(
      'the count of "loss:min:4294967296" is too high; 4294967295 is the highest',
    );
  });

  it.each(['loss', 'loss:min', 'loss:3', 'loss:low:3', ':min:3', 'loss:min:0', 'loss:min:x', 'loss=min=3'])(
    'refuses "%s" with an example',
    (text) => {
      expect(refusal(() => parseKeepBest(text))).toBe(
        `"${text}" is not of the form METRIC:min|max:COUNT, such as loss:min:3 or auc:max:1`,
      );
    },
  );

  it('a glob is not empty', () => {
    expect(parseGlob('!*.json')).toBe('!*.json');
    expect(refusal(() => parseGlob(''))).toContain('is not a glob');
    expect(refusal(() => parseGlob('!'))).toContain('is not a glob');
  });
});

describe('parseSize', () => {
  it.each([
    ['65536B', 65_536],
    ['64KiB', 65_536],
    ['256MiB', 268_435_456],
    ['256mib', 268_435_456],
    ['1.5GiB', 1_610_612_736],
  ])('%s is %d bytes', (text, bytes) => {
    expect(parseSize(text)).toBe(bytes);
  });

  it('decimal units are refused with the binary one', () => {
    expect(refusal(() => parseSize('256MB'))).toBe('"256MB" is not a size in binary units; write 256MiB');
    expect(refusal(() => parseSize('1g'))).toContain('write 1GiB');
  });

  it.each(['256', '', 'MiB', '-1MiB', '5 XiB'])('refuses "%s"', (text) => {
    expect(refusal(() => parseSize(text))).toContain('write it like');
  });
});

describe('sizeBetween', () => {
  const parse = sizeBetween(16 * 1024 ** 2, 4_294_901_760);

  it('takes both limits', () => {
    expect(parse('16MiB')).toBe(16 * 1024 ** 2);
    expect(parse('4194240KiB')).toBe(4_294_901_760);
  });

  it.each(['0B', '16777215B', '4GiB'])('refuses %s, with limits that it takes', (text) => {
    expect(refusal(() => parse(text))).toBe(`"${text}" is not a size from 16MiB to 4194240KiB`);
  });
});

describe('parseRate', () => {
  it('is a size in a second', () => {
    expect(parseRate('512KiB/s')).toBe(524_288);
    expect(parseRate('1B/s')).toBe(1);
  });

  it.each([
    ['50MiB', 'is not a rate; write it like 512KiB/s or 50MiB/s'],
    ['/s', 'is not a rate'],
    ['50MB/s', '"50MB" is not a size in binary units; write 50MiB'],
    ['fast/s', '"fast" is not a size'],
    ['0B/s', 'would send nothing; omit the option for no limit'],
  ])('refuses "%s"', (text, message) => {
    expect(refusal(() => parseRate(text))).toContain(message);
  });
});

describe('parseWriter', () => {
  it('counts from 0', () => {
    expect(parseWriter('0/1')).toEqual({ index: 0, count: 1 });
    expect(parseWriter('3/4')).toEqual({ index: 3, count: 4 });
  });

  it('writer 4 of 4 does not exist, and the message says how writers count', () => {
    expect(refusal(() => parseWriter('4/4'))).toBe(
      'there is no writer 4 of 4: I counts from 0 to N-1, here from 0 to 3',
    );
  });

  it('65,536 writers are the most', () => {
    expect(parseWriter('65535/65536')).toEqual({ index: 65_535, count: WORLD_SIZE_MAX });
    expect(refusal(() => parseWriter('0/65537'))).toBe(
      'there is no writer 0 of 65537; at most 65536 processes write',
    );
  });

  it.each(['0/0', '1', '1/', '/4', '-1/4', '1/4/2', 'a/b', '1.0/4'])('refuses "%s"', (text) => {
    expect(refusal(() => parseWriter(text))).not.toBe('');
  });
});

describe('pairs', () => {
  it('a metric is a finite number', () => {
    expect(parseMetric('loss=2.1')).toEqual(['loss', 2.1]);
    expect(parseMetric('d=-1e-3')).toEqual(['d', -0.001]);
  });

  it.each(['loss=NaN', 'loss=inf', 'loss=', 'loss=1e999', 'loss=0x10', 'loss=2,1'])(
    'refuses "%s"',
    (text) => {
      expect(refusal(() => parseMetric(text))).toContain('a metric is a finite number');
    },
  );

  it.each(['loss', '=2'])('refuses "%s": no name or no value', (text) => {
    expect(refusal(() => parseMetric(text))).toContain('NAME=VALUE');
  });

  it('metadata keeps everything after the first =', () => {
    expect(parseMeta('url=http://h/?a=b')).toEqual(['url', 'http://h/?a=b']);
    expect(parseMeta('empty=')).toEqual(['empty', '']);
  });

  it('a name given twice is refused, not overwritten', () => {
    expect(pairsToRecord([parseMeta('a=1'), parseMeta('b=2')])).toEqual({ a: '1', b: '2' });
    expect(refusal(() => pairsToRecord([parseMeta('a=1'), parseMeta('a=2')]))).toBe('"a" is given twice');
  });
});

describe('parseWhole and parseChoice', () => {
  it('limits are inclusive', () => {
    expect(parseWhole(1, 3)('1')).toBe(1);
    expect(parseWhole(1, 3)('3')).toBe(3);
    expect(refusal(() => parseWhole(1, 3)('4'))).toBe('"4" is not a whole number from 1 to 3');
    expect(refusal(() => parseWhole(1, 3)('1.0'))).toContain('not a whole number');
  });

  it('a word outside the choice is answered with the choice', () => {
    expect(parseChoice(['fail', 'fallback'])('fail')).toBe('fail');
    expect(refusal(() => parseChoice(['fail', 'fallback'])('skip'))).toBe(
      '"skip" is not one of fail, fallback',
    );
  });
});
