/**
 * The election on a faulty store. No trainer gets a wrong answer, and the next one can still be
 * elected.
 */

import { crc32c } from '@holdfast/core';
import type { CheckpointError } from '@holdfast/core/contract';
import { encodeRecord } from '@holdfast/core/internal/format/index';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import {
  FAULTS,
  type FaultName,
  type FaultPlan,
  FaultyStore,
  faultAt,
  LateEffects,
  ManualClock,
  refuse,
  SeededRandom,
  scriptedFaults,
  seededFaults,
} from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { holders, type Trainer, trainer } from './election-store.ts';

const DAY_MS = 24 * 60 * 60_000;
const CALLS_MAX = 40;
const SEEDS = 5;

const keyOf = (seq: number): string => `elections/${String(seq).padStart(20, '0')}.json`;

const grantBytes = (seq: number, trainerId: string): Uint8Array =>
  encodeRecord('grant', { seq, id: `${seq}`.repeat(4), trainerId, blockMs: 1000, host: '', pid: 0 }).bytes;

/** The clock advances when all wait, so that timeouts and retries cost no real time. */
const onStore = (id: string, store: MemoryStore | FaultyStore): Trainer =>
  trainer(id, store, { clock: new ManualClock({ autoAdvance: true }) });

/** What happens before the trainers ask at once. */
const STORIES: Readonly<
  Record<string, (victim: Trainer, rival: Trainer, bucket: MemoryBucket) => Promise<void>>
> = {
  'nobody was elected before': async () => undefined,
  'the victim has it': async (victim) => {
    await victim.ask(DAY_MS);
  },
  'the time of another is over': async (victim, rival, bucket) => {
    bucket.insert(keyOf(1), grantBytes(1, 'dead'));
    for (const each of [victim, rival]) {
      await each.ask(DAY_MS);
      await each.clock.advance(1250);
    }
  },
};

type Answer = boolean | 'error' | 'dead';

/** False if the victim ended before its call `number`. */
async function play(story: string, fault: FaultName, number: number): Promise<boolean> {
  const bucket = new MemoryBucket({ crc32c });
  const lateEffects = new LateEffects();
  let plan: FaultPlan = () => undefined;
  const victimStore = new FaultyStore(new MemoryStore(bucket), (call) => plan(call), { lateEffects });
  const [victim, rival] = [onStore('victim', victimStore), onStore('rival', new MemoryStore(bucket))];
  await STORIES[story]?.(victim, rival, bucket);
  const before = victimStore.calls.length;
  plan = faultAt(before + number, FAULTS[fault]);

  const asked = victim.ask(DAY_MS).catch((): Answer => 'error');
  const [victimTold, rivalTold] = await Promise.all([
    Promise.race<Answer>([asked, victimStore.stopped.then((): Answer => 'dead')]),
    rival.ask(DAY_MS),
  ]);
  await lateEffects.releaseAll();

  const healthy = new MemoryStore(bucket);
  const newest = (await holders(healthy)).at(-1);
  expect([victimTold, rivalTold]).not.toEqual([true, true]);
  expect(rivalTold).toBe(newest === 'rival');
  if (typeof victimTold === 'boolean') expect(victimTold).toBe(newest === 'victim');

  const next = onStore('next', healthy);
  expect(await next.ask(DAY_MS)).toBe(false);
  await next.clock.advance(DAY_MS * 1.25);
  expect(await next.ask(DAY_MS)).toBe(true);
  expect(bucket.violations).toEqual([]);
  return victimStore.calls.length - before > number;
}

describe.each(Object.keys(STORIES))('A14: %s', (story) => {
  test.each(Object.keys(FAULTS) as FaultName[])(
    'call after call meets %s: at most one is told that it is elected, and what it is told is so',
    async (fault) => {
      let number = 0;
      while (await play(story, fault, number)) {
        number++;
        if (number > CALLS_MAX) throw new Error(`the story does not end within ${CALLS_MAX} calls`);
      }
      expect(number).toBeGreaterThanOrEqual(3);
    },
  );
});

interface Told {
  readonly id: string;
  readonly blockMs: number;
  readonly askedAtMs: number;
  readonly toldAtMs: number;
}

/**
 * Four trainers ask again and again, with pauses, for a minute on one clock. Their stores fail a
 * third of the calls.
 */
async function confusion(seed: number): Promise<Told[]> {
  const random = new SeededRandom(seed);
  const bucket = new MemoryBucket({ crc32c });
  const lateEffects = new LateEffects();
  const clock = new ManualClock();
  const settings = { stallTimeoutMs: 300, retryDelayMsBase: 20, retryDelayMsMax: 200 };
  const rate = 0.05;
  const rates = {
    loseRequest: rate,
    loseReply: rate,
    delay: rate,
    duplicateSecondReply: rate,
    duplicateLate: rate,
    stall: rate,
    stallAfter: rate,
  };
  const trainers = Array.from({ length: 4 }, (_, index) => {
    const store = new FaultyStore(
      new MemoryStore(bucket),
      seededFaults(random, { rates, lateAfterCallsMax: 12 }),
      { lateEffects },
    );
    return trainer(`t${index}`, store, { clock, settings });
  });
  const told: Told[] = [];
  const asking = new Set<Trainer>();
  const ask = async (each: Trainer) => {
    asking.add(each);
    const askedAtMs = clock.monotonicMs();
    // A fixed time per trainer: if a trainer asked for less time later, its grant would be shorter.
    const blockMs = 500 + 900 * trainers.indexOf(each);
    // An error is not an answer.
    if (await each.ask(blockMs).catch(() => false))
      told.push({ id: each.id, blockMs, askedAtMs, toldAtMs: clock.monotonicMs() });
    await clock.sleep(random.fraction() * 5000); // until it asks again, or longer than its grant
    asking.delete(each);
  };
  while (clock.monotonicMs() < 60_000 || asking.size > 0) {
    for (const each of trainers) {
      if (!asking.has(each) && clock.monotonicMs() < 60_000) void ask(each);
    }
    await clock.advance(100);
  }
  const stored = await holders(new MemoryStore(bucket));
  for (const { id } of trainers) {
    expect(stored.filter((each) => each === id).length).toBeGreaterThanOrEqual(
      told.filter((each) => each.id === id).length,
    );
  }
  return told;
}

test(`A14: an elected trainer has its time from its request on, whatever ${SEEDS} confusions do to the requests`, async () => {
  let changeCount = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const told = await confusion(seed);
    told.forEach((first, index) => {
      expect(first.toldAtMs).toBeLessThan(first.askedAtMs + first.blockMs);
      for (const second of told.slice(index + 1)) {
        if (second.id === first.id || second.toldAtMs >= first.askedAtMs + first.blockMs) continue;
        throw new Error(`seed ${seed}: ${JSON.stringify(first)}, and then ${JSON.stringify(second)}`);
      }
      if (told[index + 1] !== undefined && told[index + 1]?.id !== first.id) changeCount++;
    });
  }
  expect(changeCount).toBeGreaterThan(SEEDS);
});

describe('a number that was used and collected', () => {
  test('wins nothing for the trainer whose request comes so late', async () => {
    const bucket = new MemoryBucket({ crc32c, mayReuseKey: () => true });
    bucket.insert(keyOf(1), grantBytes(1, 'dead'));
    let isLate = false;
    const store = new FaultyStore(new MemoryStore(bucket), ({ operation }) => {
      if (operation === 'create' && !isLate) {
        isLate = true;
        for (const seq of [2, 3]) bucket.insert(keyOf(seq), grantBytes(seq, 'other'));
        for (const seq of [1, 2]) bucket.remove(keyOf(seq));
      }
      return undefined;
    });
    const late = onStore('late', store);
    expect(await late.ask(1000)).toBe(false);
    await late.clock.advance(1250);
    expect(await late.ask(1000)).toBe(false);
    expect(bucket.keys()).toEqual([keyOf(2), keyOf(3)]); // the trainer has created one
  });

  test('a grant that is collected between listing and reading is not the highest: it looks again', async () => {
    const bucket = new MemoryBucket({ crc32c });
    bucket.insert(keyOf(1), grantBytes(1, 'other'));
    const store = new FaultyStore(
      new MemoryStore(bucket),
      scriptedFaults({ operation: 'get', fault: refuse('NotFound') }),
    );
    expect(await onStore('a', store).ask(1000)).toBe(false);
    expect(store.calls.map(({ operation }) => operation)).toEqual(['list', 'get', 'list', 'get']);
  });
});

describe('an error never means elected', () => {
  const failing = async (
    plan: FaultPlan,
    prepare: (bucket: MemoryBucket) => void = () => undefined,
  ): Promise<CheckpointError> => {
    const bucket = new MemoryBucket({ crc32c });
    prepare(bucket);
    return (await onStore('a', new FaultyStore(new MemoryStore(bucket), plan))
      .ask(1000)
      .catch((error: unknown) => error)) as CheckpointError;
  };

  test.each(['Denied', 'ReadOnly', 'StorageFull', 'Unexpected'] as const)(
    'a create is refused with %s',
    async (code) => {
      expect(await failing(scriptedFaults({ operation: 'create', fault: refuse(code) }))).toMatchObject({
        code,
      });
    },
  );

  test('a listing is refused', async () => {
    expect(await failing(scriptedFaults({ operation: 'list', fault: refuse('Denied') }))).toMatchObject({
      code: 'Denied',
    });
  });

  test('the store cannot be reached: it ends, and says why', async () => {
    expect(await failing(() => FAULTS.loseRequest)).toMatchObject({
      code: 'TimedOut',
      status: 'exhausted',
      cause: { code: 'Unavailable' },
    });
  });

  test('creates are never answered: a grant may be on its way, and its cause says what took too long', async () => {
    const error = await failing(
      scriptedFaults({ operation: 'create', times: 1000, fault: FAULTS.loseRequest }),
    );
    expect(error).toMatchObject({
      code: 'OutcomeUnknown',
      message: 'it is not known whether grant 1 was written',
      context: { token: expect.stringMatching(/^hf1-/) },
      cause: {
        code: 'TimedOut',
        message: expect.stringContaining('asking which trainer saves the model took longer than 120 s'),
      },
    });
  });

  test('the highest grant is damaged: Corrupt names it', async () => {
    const error = await failing(
      () => undefined,
      (bucket) => bucket.insert(keyOf(7), new Uint8Array(9)),
    );
    expect(error).toMatchObject({ code: 'Corrupt', message: expect.stringContaining(keyOf(7)) });
  });

  test('a grant lies under another number than its own: Corrupt names both', async () => {
    const error = await failing(
      () => undefined,
      (bucket) => bucket.insert(keyOf(2), grantBytes(1, 'b')),
    );
    expect(error).toMatchObject({
      code: 'Corrupt',
      message: `${keyOf(2)} is not what it should be: it says that it is grant 1`,
    });
  });

  test('the store has forgotten a grant: StoreRegressed', async () => {
    const bucket = new MemoryBucket({ crc32c });
    for (const seq of [1, 2]) bucket.insert(keyOf(seq), grantBytes(seq, 'b'));
    const a = onStore('a', new MemoryStore(bucket));
    expect(await a.ask(1000)).toBe(false);
    bucket.remove(keyOf(2));
    await expect(a.ask(1000)).rejects.toMatchObject({
      code: 'StoreRegressed',
      message: expect.stringContaining('and now shows none'),
    });
  });

  test('the caller stops it: Aborted, and nothing is written', async () => {
    const bucket = new MemoryBucket({ crc32c });
    const asked = onStore('a', new MemoryStore(bucket)).ask(1000, AbortSignal.abort());
    await expect(asked).rejects.toMatchObject({ code: 'Aborted' });
    expect(bucket.keys()).toEqual([]);
  });
});

test('keys of another form below elections/ are nothing to it', async () => {
  const bucket = new MemoryBucket({ crc32c });
  for (const key of ['elections/9.json', 'elections/zz', `elections/${'0'.repeat(20)}.json`])
    bucket.insert(key, new Uint8Array(1));
  expect(await onStore('a', new MemoryStore(bucket)).ask(1000)).toBe(true);
  expect(bucket.keys()).toContain(keyOf(1));
});
