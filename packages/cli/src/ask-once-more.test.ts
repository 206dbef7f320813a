import { CheckpointError, type RecoverResult } from '@holdfast/core/contract';
import { ManualClock } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { askedOf, askOnceMore } from './ask-once-more.ts';

const cause = new CheckpointError('Aborted', 'interrupted');
const unknown = (context: CheckpointError['context'] = { token: 'hf1-a' }) =>
  new CheckpointError('OutcomeUnknown', 'it is not known', { context, cause });
const committed: RecoverResult = {
  ...{ of: 'decision', id: null, outcome: 'committed', detail: 'it took effect', isDelivered: null },
};

describe('a call that ended in OutcomeUnknown', () => {
  test('a store that does not answer is asked once, for two seconds; then the first error is reported', async () => {
    const clock = new ManualClock();
    const asked: AbortSignal[] = [];
    const recover = (_token: string, { signal }: { signal?: AbortSignal | undefined } = {}) => {
      if (signal) asked.push(signal);
      return new Promise<never>((_, reject) =>
        signal?.addEventListener('abort', () => reject(new CheckpointError('Aborted', 'too late'))),
      );
    };
    const first = unknown();
    const reported = askOnceMore(first, { recover }, { clock });
    await clock.advance(1999);
    expect(asked.map(({ aborted }) => aborted)).toEqual([false]);
    await clock.advance(1);
    expect(asked.map(({ aborted }) => aborted)).toEqual([true]);
    expect(await reported).toBe(first);
    expect(clock.sleeperCount).toBe(0);
  });

  test('a store that answers ends the wait: the error of the stop, with the answer', async () => {
    const clock = new ManualClock();
    const reported = await askOnceMore(unknown(), { recover: async () => committed }, { clock });
    expect(reported).toMatchObject({ code: 'Aborted', message: 'interrupted; it took effect' });
    expect(askedOf(reported as CheckpointError)).toMatchObject({ outcome: 'committed', of: 'decision' });
    expect(clock.sleeperCount).toBe(0);
  });
});

test.each([
  [
    'an error of another code',
    new CheckpointError('Aborted', 'interrupted', { context: { token: 'hf1-a' } }),
  ],
  ['an outcome without a token', unknown({})],
  ['an outcome that was asked for before', unknown({ token: 'hf1-a', asked: committed })],
])('%s is not asked for', async (_, error) => {
  const recover = () => Promise.reject(new Error('asked'));
  const clock = new ManualClock();
  expect(await askOnceMore(error, { recover }, { clock })).toBe(error);
  expect(clock.sleeperCount).toBe(0);
});
