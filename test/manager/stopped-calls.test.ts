/**
 * Stops every deciding call at each of its requests: in progress without effect, with effect or
 * with a late effect, and after the answer. Compares the caller's error with the actual state, then
 * and later.
 */

import { CheckpointError, crc32c, isCheckpointError } from '@holdfast/core';
import type { ObjectStore } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { type CallRecord, FAULTS, type Fault, FaultyStore } from '@holdfast/testkit';
import { describe, expect, test, vi } from 'vitest';
import { patient, STORIES, type Story } from './stopped-stories.ts';

// Each test plays hundreds of small runs, on a machine that may be busy with other tests.
vi.setConfig({ testTimeout: 120_000 });

const REQUESTS_MAX = 100;

/** State of the request when the stop comes, and the fault that the store applies to it. */
const MEETINGS = {
  'on its way, without effect': FAULTS.stall,
  'on its way, with effect': FAULTS.stallAfter,
  'on its way, with a late effect': { effect: 'late', reply: 'stall' },
  'after its answer': undefined,
} as const satisfies Record<string, Fault | undefined>;

const ON_ITS_WAY_WITH_EFFECT: ReadonlySet<string> = new Set([
  'on its way, with effect',
  'on its way, with a late effect',
]);

interface Stoppable {
  readonly controller: AbortController;
  close(): void;
}

/** A late duplicate may restore what was deleted, and a lost catalog is written again. */
const mayReuseKey = ({ key, hasSameBytes }: { key: string; hasSameBytes: boolean }) =>
  hasSameBytes || key.startsWith('catalog/');

interface Ended {
  readonly error: CheckpointError | undefined;
  readonly store: FaultyStore;
  readonly bucket: MemoryBucket;
}

/** Plays a story in which the stop comes during request `at` of the call, from 0. */
async function play(
  story: Story,
  at: number,
  meeting: Fault | undefined,
  stop: (call: Stoppable) => void,
): Promise<Ended> {
  const bucket = new MemoryBucket({ crc32c, mayReuseKey });
  await story.prepare(bucket);
  const controller = new AbortController();
  let closed = Promise.resolve();
  const end = () => stop({ controller, close: () => (closed = manager.close()) });
  const provider = new AnsweringStore(bucket);
  const store = new FaultyStore(provider, ({ number, operation }) => {
    if (number !== at) return undefined;
    if (meeting) setImmediate(end);
    else if (operation === 'list')
      end(); // its page has been fetched
    else provider.onAnswer = end;
    return meeting;
  });
  const manager = patient(store, story.options);
  const error = await story.act(manager, controller.signal, store).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  await closed;
  if (error !== undefined && !isCheckpointError(error)) throw error;
  return { error, store, bucket };
}

/** Calls `onAnswer` when it has answered, before the answer arrives. */
class AnsweringStore extends MemoryStore {
  onAnswer: (() => void) | undefined;

  override create(...call: Parameters<ObjectStore['create']>) {
    return this.#answer(super.create(...call));
  }
  override get(...call: Parameters<ObjectStore['get']>) {
    return this.#answer(super.get(...call));
  }
  override head(...call: Parameters<ObjectStore['head']>) {
    return this.#answer(super.head(...call));
  }
  override deleteMany(...call: Parameters<ObjectStore['deleteMany']>) {
    return this.#answer(super.deleteMany(...call));
  }

  async #answer<T>(answer: Promise<T>): Promise<T> {
    const { onAnswer } = this;
    this.onAnswer = undefined;
    try {
      return await answer;
    } finally {
      onAnswer?.();
    }
  }
}

async function checkTruth(story: Story, { error, bucket, store }: Ended): Promise<void> {
  if (error?.code !== 'OutcomeUnknown') {
    await store.lateEffects.releaseAll();
    const stands = error?.context.done !== undefined; // one of several decisions has taken effect
    if (!stands) expect(await story.isDone(bucket)).toBe(error === undefined);
    return;
  }
  const { token } = error.context;
  expect(token).toMatch(/^hf1-/);
  await using other = patient(bucket);
  const now = await other.recover(token as string);
  await store.lateEffects.releaseAll();
  const later = await other.recover(token as string);
  expect(['pending', later.outcome]).toContain(now.outcome); // a settled outcome stays
  const isDone = later.outcome === 'committed' || later.isDelivered === true;
  expect(await story.isDone(bucket)).toBe(isDone);
}

/**
 * `OutcomeUnknown` is allowed only after a deciding request was sent. If the request was answered
 * and the store can still be asked, the outcome must be known.
 */
function checkCode(
  { error, store }: Ended,
  { at, isAnswered, deciding, closes }: Meeting & { readonly deciding: readonly number[] },
): void {
  if (!deciding.some((number) => number <= at)) expect(error?.code).not.toBe('OutcomeUnknown');
  if (!isAnswered || deciding.at(-1) !== at) return;
  // Others may commit it, and have not yet.
  const isReceipt = store.calls[at]?.key.includes('/receipts/');
  const isSaid = error === undefined || error.context.done !== undefined;
  expect(isSaid || ((isReceipt || closes) && error.code === 'OutcomeUnknown')).toBe(true);
}

interface Meeting {
  readonly at: number;
  readonly isAnswered: boolean;
  /** The stop closes the manager, and with it its store. */
  readonly closes: boolean;
}

interface Round {
  readonly stop: (call: Stoppable) => void;
  readonly meetings: readonly (keyof typeof MEETINGS)[];
  /** Selects the requests during which the stop comes. */
  readonly isDue: (call: CallRecord, story: Story) => boolean;
}

const isDeciding = ({ operation, key }: CallRecord, { decides }: Story) =>
  operation === 'create' && decides.test(key);

/**
 * All states for the caller's signal, which is the common case. The important ones for the others.
 */
const ROUNDS: Readonly<Record<string, Round>> = {
  'its signal': {
    stop: ({ controller }) => controller.abort(),
    meetings: Object.keys(MEETINGS) as (keyof typeof MEETINGS)[],
    isDue: () => true,
  },
  'a signal with an error of ours as its reason': {
    stop: ({ controller }) => controller.abort(new CheckpointError('NotFound', 'the lease was lost')),
    meetings: ['on its way, with effect'],
    isDue: isDeciding,
  },
  'the end of its manager': {
    stop: ({ close }) => close(),
    meetings: ['on its way, with effect', 'after its answer'],
    isDue: isDeciding,
  },
};

describe.each(Object.entries(STORIES))('%s', (_, story) => {
  test.each(Object.entries(ROUNDS))('stopped by %s, it says what is so', async (name, round) => {
    const { stop, meetings, isDue } = round;
    const { store: whole } = await play(story, REQUESTS_MAX, undefined, stop);
    expect(whole.calls.length).toBeLessThan(REQUESTS_MAX);
    const due = whole.calls.filter((call) => isDue(call, story));
    expect(due.length).toBeGreaterThan(0);
    const deciding = whole.calls.filter((call) => isDeciding(call, story)).map(({ number }) => number);
    for (const title of meetings) {
      for (const { number, operation, key } of due) {
        // A read has no effect, so the states in progress do not differ.
        if (operation !== 'create' && ON_ITS_WAY_WITH_EFFECT.has(title)) continue;
        const meeting = MEETINGS[title];
        const ended = await play(story, number, meeting, stop);
        const told = ended.error ? `${ended.error.code}: ${ended.error.message}` : 'done';
        try {
          await checkTruth(story, ended);
          const isAnswered = meeting === undefined;
          checkCode(ended, { at: number, isAnswered, deciding, closes: name === 'the end of its manager' });
        } catch (error) {
          throw new Error(`${title}, ${number} (${operation} ${key}), told "${told}": ${error}`);
        }
      }
    }
  });
});

describe('a call of several decisions that is stopped after the first', () => {
  const stoppedAfter = async (story: Story, kind: string) => {
    const { calls } = (await play(story, REQUESTS_MAX, undefined, () => undefined)).store;
    const first = calls.find((call) => isDeciding(call, story))?.number ?? 0;
    const { error } = await play(story, first, undefined, ({ controller }) => controller.abort());
    expect(error).toMatchObject({ code: 'Aborted', context: { done: [expect.stringContaining(kind)] } });
  };

  test('unpin: which pins were taken away', () =>
    stoppedAfter(
      {
        prepare: async (bucket) => {
          await STORIES['pin']?.prepare(bucket);
          await using manager = patient(bucket);
          for (const label of ['best', 'paper']) await manager.admin.pin(1, label);
        },
        act: (manager, signal) => manager.admin.unpin(1, undefined, { signal }),
        isDone: async () => true,
        decides: /^catalog\//,
      },
      'the pin "best" was removed from version 1',
    ));

  test.each([
    ['collect', 'collect, which retires', 'retired: version 1'],
    ['join', 'join', 'attempt "second" took the run over'],
  ])('%s: what it did until then', (_, story, words) => stoppedAfter(STORIES[story] as Story, words));
});

test.each(['on its way, without effect', ...ON_ITS_WAY_WITH_EFFECT] as (keyof typeof MEETINGS)[])(
  'a restore of a new life that is stopped at its takeover, %s: it is not known, and recover tells',
  async (meeting) => {
    const story: Story = {
      prepare: (STORIES['pin'] as Story).prepare,
      act: (manager, signal) => manager.restore({ to: { a: new Uint8Array(100) }, signal }),
      isDone: async (bucket) => {
        await using manager = patient(bucket);
        const log = await manager.admin.log();
        return log.some(({ kind, attempt }) => kind === 'takeover' && attempt === 'second');
      },
      options: { attempt: 'second', life: 'trainer' },
      decides: /^catalog\//,
    };
    const { store } = await play(story, REQUESTS_MAX, undefined, () => undefined);
    const [decision] = store.calls.filter((call) => isDeciding(call, story));
    const at = decision?.number ?? -1;
    const ended = await play(story, at, MEETINGS[meeting], ({ controller }) => controller.abort());
    expect(ended.error?.code).toBe('OutcomeUnknown');
    await checkTruth(story, ended);
  },
);
