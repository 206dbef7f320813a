import { expect, test } from 'vitest';
import { unlessAborted } from './errors.ts';

test('unlessAborted: passes what it waits for, and turns away at the signal', async () => {
  const stop = new AbortController();
  expect(await unlessAborted(Promise.resolve(1), undefined)).toBe(1);
  expect(await unlessAborted(Promise.resolve(1), stop.signal)).toBe(1);
  await expect(unlessAborted(Promise.reject(new Error('no')), stop.signal)).rejects.toThrow('no');
  const waiting = unlessAborted(new Promise(() => undefined), stop.signal);
  stop.abort();
  await expect(waiting).rejects.toMatchObject({ code: 'Aborted' });
  await expect(unlessAborted(new Promise(() => undefined), stop.signal)).rejects.toMatchObject({
    code: 'Aborted',
  });
});
