import pLimit from 'p-limit';
import { describe, expect, test } from 'vitest';
import { Pace } from './pace.ts';

function setUp() {
  const limits = [pLimit(16), pLimit(5)];
  const pace = new Pace(limits);
  const succeed = (times: number) => {
    for (let each = 0; each < times; each += 1) pace.succeeded();
  };
  return { pace, succeed, allowed: () => limits.map((limit) => limit.concurrency) };
}

describe('pace', () => {
  test('is halved when a request is throttled, down to one', () => {
    const { pace, allowed } = setUp();
    const seen: number[][] = [];
    for (let each = 0; each < 6; each += 1) {
      pace.throttled(pace.slowdowns);
      seen.push(allowed());
    }
    // biome-ignore format: a row
    expect(seen).toEqual([[8, 3], [4, 2], [2, 1], [1, 1], [1, 1], [1, 1]]);
  });

  test('is halved once, however many requests that were sent before are throttled', () => {
    const { pace, allowed } = setUp();
    const sent = Array.from({ length: 16 }, () => pace.slowdowns);
    for (const slowdowns of sent) pace.throttled(slowdowns);
    expect(allowed()).toEqual([8, 3]);
  });

  test('grows by one after every 25 successes, up to what it was', () => {
    const { pace, succeed, allowed } = setUp();
    pace.throttled(0);
    succeed(24);
    expect(allowed()).toEqual([8, 3]);
    succeed(1);
    expect(allowed()).toEqual([9, 4]);
    succeed(25);
    expect(allowed()).toEqual([10, 5]);
    pace.throttled(1);
    succeed(24);
    expect(allowed()).toEqual([5, 3]);
    succeed(1000);
    expect(allowed()).toEqual([16, 5]);
  });

  test('does not change as long as nothing is throttled', () => {
    const { succeed, allowed } = setUp();
    succeed(1000);
    expect(allowed()).toEqual([16, 5]);
  });
});
