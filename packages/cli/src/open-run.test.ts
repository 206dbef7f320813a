import { ManualClock } from '@holdfast/testkit';
import { describe, expect, it } from 'vitest';
import { closeUntil } from './open-run.ts';

describe('closeUntil', () => {
  it('is over when the manager has closed, and leaves no timer', async () => {
    const clock = new ManualClock();
    const closing = Promise.withResolvers<void>();
    let isOver = false;
    const over = closeUntil({ close: () => closing.promise }, clock.monotonicMs() + 5000, clock).then(() => {
      isOver = true;
    });
    await clock.advance(4999);
    expect(isOver).toBe(false);
    closing.resolve();
    await over;
    expect(clock.sleeperCount).toBe(0);
  });

  it('is over at its time, though the manager goes on closing', async () => {
    const clock = new ManualClock();
    const over = closeUntil({ close: () => new Promise(() => undefined) }, clock.monotonicMs() + 5000, clock);
    await clock.advance(5000);
    await over;
  });

  it('a time that has passed: there is no wait', async () => {
    const clock = new ManualClock();
    const over = closeUntil({ close: () => new Promise(() => undefined) }, clock.monotonicMs() - 1, clock);
    await clock.advance(0);
    await over;
  });

  it('what closing fails with is thrown', async () => {
    const failing = { close: () => Promise.reject(new Error('it did not close')) };
    await expect(closeUntil(failing, 5000, new ManualClock())).rejects.toThrow('it did not close');
  });
});
