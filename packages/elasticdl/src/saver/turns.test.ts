import { getEventListeners } from 'node:events';
import { isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, test } from 'vitest';
import { Turns } from './turns.ts';

/** A call that ends when the test ends it. */
function heldCall(name: string, calls: string[]) {
  const end = Promise.withResolvers<string>();
  const act = async () => {
    calls.push(name);
    return end.promise;
  };
  return { act, end };
}

const idle = () => new Promise((resolve) => setImmediate(resolve));

describe('turns', () => {
  test('a call begins when the one before has ended, in the order of the calls', async () => {
    const calls: string[] = [];
    const turns = new Turns();
    const [a, b] = [heldCall('a', calls), heldCall('b', calls)];
    const first = turns.take(a.act, undefined);
    const second = turns.take(b.act, undefined);
    await idle();
    expect(calls).toEqual(['a']);
    a.end.resolve('of a');
    expect(await first).toBe('of a');
    await idle();
    expect(calls).toEqual(['a', 'b']);
    b.end.resolve('of b');
    expect(await second).toBe('of b');
  });

  test('a call that fails fails alone', async () => {
    const turns = new Turns();
    const first = turns.take(() => Promise.reject(new RangeError('a')), undefined);
    const second = turns.take(async () => 'b', undefined);
    await expect(first).rejects.toThrow(RangeError);
    expect(await second).toBe('b');
  });

  test('one that is stopped while it waits ends at once, is never called, and lets no other go before its turn', async () => {
    const calls: string[] = [];
    const turns = new Turns();
    const a = heldCall('a', calls);
    const stop = new AbortController();
    const first = turns.take(a.act, undefined);
    const second = turns.take(async () => calls.push('b'), stop.signal);
    const third = turns.take(async () => calls.push('c'), stop.signal).catch((error: unknown) => error);
    stop.abort(new Error('enough'));
    const error = await second.catch((reason: unknown) => reason);
    expect(isCheckpointError(error, 'Aborted')).toBe(true);
    expect(isCheckpointError(await third, 'Aborted')).toBe(true);
    const fourth = turns.take(async () => calls.push('d'), undefined);
    await idle();
    expect(calls).toEqual(['a']);
    a.end.resolve('');
    await Promise.all([first, fourth]);
    expect(calls).toEqual(['a', 'd']);
  });

  test('a signal that fires once the call is under way does not end it', async () => {
    const calls: string[] = [];
    const turns = new Turns();
    const a = heldCall('a', calls);
    const stop = new AbortController();
    const first = turns.take(a.act, stop.signal);
    await idle();
    stop.abort();
    a.end.resolve('whole');
    expect(await first).toBe('whole');
  });

  test('nothing of it stays with a signal that outlives many calls', async () => {
    const turns = new Turns();
    const { signal } = new AbortController();
    for (let call = 0; call < 3; call++) await turns.take(async () => call, signal);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('a signal that has fired before is enough', async () => {
    const taken = new Turns().take(async () => 'a', AbortSignal.abort());
    await expect(taken).rejects.toMatchObject({ code: 'Aborted' });
  });
});
