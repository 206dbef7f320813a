import { createThrottle, isCheckpointError, type Throttle } from '@holdfast/core';
import { ManualClock } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';

const MIB = 1024 * 1024;

/** A throttle, and the callers that it let through, in order and with times. */
function setUp(bytesPerSecondMax: number | null) {
  const clock = new ManualClock();
  const throttle = createThrottle({ bytesPerSecondMax, clock });
  const passed: string[] = [];
  const take = (name: string, sizeBytes: number, signal?: AbortSignal) =>
    throttle.take(sizeBytes, signal).then(
      () => void passed.push(`${name} at ${Math.round(clock.monotonicMs())}`),
      (error: unknown) => {
        if (!isCheckpointError(error, 'Aborted')) throw error;
        passed.push(`${name} stopped at ${Math.round(clock.monotonicMs())}`);
      },
    );
  return { clock, throttle, passed, take };
}

describe('the limit', () => {
  test('none: every request passes at once', async () => {
    const { clock, passed, take } = setUp(null);
    await Promise.all([take('a', 1e12), take('b', 1e12)]);
    expect([passed, clock.sleeperCount]).toEqual([['a at 0', 'b at 0'], 0]);
  });

  test('the first passes at once, and each delays the next by what its bytes are worth, in the order of their coming', async () => {
    const { clock, passed, take } = setUp(1000);
    for (const [name, size] of [
      ['a', 500],
      ['b', 1000],
      ['c', 1],
      ['d', 250],
    ] as const)
      void take(name, size);
    await clock.advance(10_000);
    expect(passed).toEqual(['a at 0', 'b at 500', 'c at 1500', 'd at 1501']);
    expect(clock.sleeperCount).toBe(0);
  });

  test('what is not used for a while may be used later, but no more than of 100 ms', async () => {
    const { clock, passed, take } = setUp(1000);
    await clock.advance(60_000);
    for (const name of ['a', 'b', 'c']) void take(name, 100);
    await clock.advance(1000);
    expect(passed).toEqual(['a at 60000', 'b at 60000', 'c at 60100']);
  });

  test('small files one by one reach it, though timers are late', async () => {
    const { clock, throttle } = setUp(MIB);
    const late = {
      sleep: clock.sleep.bind(clock),
      nowMs: () => clock.nowMs(),
      monotonicMs: () => clock.monotonicMs(),
    };
    late.sleep = (ms, signal) => clock.sleep(Math.ceil(ms) + 3, signal);
    const slow = createThrottle({ bytesPerSecondMax: throttle.bytesPerSecondMax, clock: late });
    let sentBytes = 0;
    const send = async () => {
      for (; sentBytes < 4 * MIB; sentBytes += 1000) await slow.take(1000);
    };
    const sending = send();
    await clock.advance(3800);
    expect(sentBytes).toBeLessThan(4 * MIB);
    await clock.advance(400);
    await sending;
  });

  test('a part that takes longer than a timer can is waited for in steps', async () => {
    const { clock, passed, take } = setUp(1);
    void take('a', 5_000_000); // 58 days
    void take('b', 1);
    await clock.advance(4_999_000_000);
    expect(passed).toEqual(['a at 0']);
    await clock.advance(2_000_000);
    expect(passed).toEqual(['a at 0', 'b at 5000000000']);
  });
});

describe('changes', () => {
  test('another limit holds for who waits already; what was owed is paid at the old one until then', async () => {
    const { clock, throttle, passed, take } = setUp(1000);
    void take('a', 2000);
    void take('b', 2000);
    void take('c', 1);
    await clock.advance(1000);
    throttle.setBytesPerSecondMax(2000); // 1000 of the 2000 bytes are left: half a second
    await clock.advance(5000);
    expect(passed).toEqual(['a at 0', 'b at 1500', 'c at 2500']);
    expect(throttle.bytesPerSecondMax).toBe(2000);
  });

  test('without a limit all who wait pass, and nothing is owed when there is one again', async () => {
    const { clock, throttle, passed, take } = setUp(1);
    for (const name of ['a', 'b', 'c']) void take(name, MIB);
    await clock.advance(10);
    throttle.setBytesPerSecondMax(null);
    await clock.advance(0);
    expect(passed).toEqual(['a at 0', 'b at 10', 'c at 10']);
    throttle.setBytesPerSecondMax(1);
    await take('d', 1);
    expect(passed.at(-1)).toBe('d at 10');
  });

  test('bytes that were sent besides delay others; those that were not sent after all let them pass', async () => {
    const { clock, throttle, passed, take } = setUp(1000);
    await take('a', 1000);
    throttle.charge(1000);
    void take('b', 5000);
    void take('c', 1);
    await clock.advance(2500);
    expect(passed).toEqual(['a at 0', 'b at 2000']);
    throttle.charge(-5000);
    await clock.advance(0);
    expect(passed.at(-1)).toBe('c at 2500');
  });

  test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])(
    'a limit of %d is InvalidArgument, and the old one stays',
    (limit) => {
      const { throttle } = setUp(7);
      const refused = expect.objectContaining({
        code: 'InvalidArgument',
        message: expect.stringContaining(`${limit} bytes a second; it takes a whole number from 1`),
      });
      expect(errorOf(() => throttle.setBytesPerSecondMax(limit))).toEqual(refused);
      expect(errorOf(() => createThrottle({ bytesPerSecondMax: limit }))).toEqual(refused);
      expect(throttle.bytesPerSecondMax).toBe(7);
    },
  );
});

describe('paused', () => {
  test.each([null, 1000])('no request passes until it is resumed (limit %s)', async (limit) => {
    const { clock, throttle, passed, take } = setUp(limit);
    throttle.pause();
    throttle.pause();
    void take('a', 100);
    void take('b', 100);
    await clock.advance(3_600_000);
    expect([passed, throttle.isPaused]).toEqual([[], true]);
    throttle.resume();
    throttle.resume();
    await clock.advance(1000);
    expect(passed.map((each) => each[0])).toEqual(['a', 'b']);
    expect([throttle.isPaused, clock.sleeperCount]).toEqual([false, 0]);
  });

  test('in the middle of a wait: what is owed is paid meanwhile', async () => {
    const { clock, throttle, passed, take } = setUp(1000);
    void take('a', 1000);
    void take('b', 1);
    await clock.advance(500);
    throttle.pause();
    await clock.advance(5000);
    throttle.resume();
    await clock.advance(0);
    expect(passed).toEqual(['a at 0', 'b at 5500']);
  });

  test('a change of the limit does not end it', async () => {
    const { clock, throttle, passed, take } = setUp(1000);
    throttle.pause();
    void take('a', 1);
    throttle.setBytesPerSecondMax(null);
    throttle.charge(-1);
    await clock.advance(1000);
    expect(passed).toEqual([]);
  });

  test('a process that waits stays alive: something sleeps as long as it does', async () => {
    const { clock, throttle, take } = setUp(null);
    throttle.pause();
    void take('a', 1);
    await clock.advance(10 * 3_600_000);
    expect(clock.sleeperCount).toBe(1);
  });
});

describe('stopped while waiting', () => {
  test.each(['limit', 'pause'])('Aborted, at once, and the others go on (%s)', async (how) => {
    const { clock, throttle, passed, take } = setUp(1000);
    void take('a', 1000);
    if (how === 'pause') throttle.pause();
    const stop = new AbortController();
    void take('b', 50_000, stop.signal);
    void take('c', 1);
    await clock.advance(100);
    stop.abort();
    await clock.advance(100);
    throttle.resume();
    await clock.advance(2000);
    expect(passed).toEqual(['a at 0', 'b stopped at 100', 'c at 1000']);
  });

  test('the last waiting request leaves no sleep behind; one whose signal has fired takes nothing', async () => {
    const { clock, passed, take } = setUp(1000);
    const stop = new AbortController();
    await take('a', 1000);
    void take('b', 1, stop.signal);
    stop.abort();
    await clock.advance(0);
    expect(clock.sleeperCount).toBe(0);
    await take('c', 1_000_000, stop.signal);
    await clock.advance(1000);
    await take('d', 1);
    expect(passed).toEqual(['a at 0', 'b stopped at 0', 'c stopped at 0', 'd at 1000']);
  });
});

test('without a clock of its own it goes by the time of the machine', async () => {
  const throttle: Throttle = createThrottle();
  expect(throttle.bytesPerSecondMax).toBeNull();
  throttle.setBytesPerSecondMax(1_000_000_000);
  const beganMs = performance.now();
  // 10 ms each, and the last one need not wait.
  for (let count = 0; count < 3; count += 1) await throttle.take(10_000_000);
  expect(performance.now() - beganMs).toBeGreaterThan(19);
});

function errorOf(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}
