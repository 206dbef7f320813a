/** Four processes save together on each real store, and are killed at the calls that they make to it. Whatever is left can be gone on with. */

import { SeededRandom } from '@holdfast/testkit';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Moment } from '../crash/writer-messages.ts';
import { CLOUDS, S3 } from '../servers/clouds.ts';
import { LONG_COUNT, share } from './config.ts';
import { Cast, play, RANKS, type Story } from './kill-story.ts';

/** Stories that are played at the same time. */
const LANES = 3;
const CALLS_MAX = 200;
const ENDINGS = ['restart', 'takeover'] as const;
const LONG_TIMEOUT_MS = 6 * 3600_000;

/** What a save asks of a store: all of it is asked by the writer that is killed. */
const OPERATIONS = ['beginUpload', 'complete', 'create', 'deleteMany', 'get', 'list', 'putPart'];

for (const cloud of CLOUDS) {
  cloud.describeOn(`writers that are killed on ${cloud.title}`, (server) => {
    let casts: Cast[];
    beforeAll(async () => {
      const { env } = await server().newBucket();
      casts = Array.from({ length: LANES }, () => new Cast(cloud, env));
    });
    afterAll(() => Promise.all(casts.map((cast) => cast.end())));

    /** Plays all of them, a few at a time. Resolves to how many times somebody was killed. */
    async function playAll(stories: Iterable<Story>): Promise<number> {
      const rest = stories[Symbol.iterator]();
      let killedCount = 0;
      const lane = async (cast: Cast) => {
        for (let next = rest.next(); !next.done; next = rest.next()) {
          const answers = await play(await server().newBucket(), cast, next.value).catch((cause: unknown) => {
            throw new Error(`${JSON.stringify(next.value)}: ${String(cause)}`, { cause });
          });
          killedCount += answers.filter((answer) => answer === undefined).length;
        }
      };
      await Promise.all(casts.map(lane));
      return killedCount;
    }

    /** Kills this rank at call after call until it makes no more. What only repeats the calls of rank 0 is left to long runs. */
    async function killAtEveryCall(rank: number, moments: readonly Moment[]) {
      const story = (number: number, moment: Moment, ending: Story['ending']): Story => ({
        first: rank === 0 ? [0] : RANKS.filter((other) => other !== rank),
        halts: { [rank]: { signal: 'SIGKILL', moment, at: number } },
        large: [rank],
        ending,
      });
      const unharmed = await play(
        await server().newBucket(),
        casts[0] as Cast,
        story(CALLS_MAX, 'before', 'restart'),
      );
      const calls = unharmed[rank]?.calls ?? [];
      expect([...new Set(calls)].sort()).toEqual(OPERATIONS);

      // After one call and before the next the store is the same: every second call has both of its sides.
      const isPlayed = (number: number) =>
        cloud !== S3 || LONG_COUNT > 0 || number % 2 === 0 || isFirstOfItsKind(calls, number);
      const firstNumber = rank === 0 || LONG_COUNT > 0 ? 0 : calls.lastIndexOf('create');
      const numbers = [...calls.keys()].filter((number) => number >= firstNumber);
      const all = numbers.flatMap((number) =>
        moments.flatMap((moment) =>
          endingsInTurn(number, moment).map((ending) => story(number, moment, ending)),
        ),
      );
      const stories = share(cloud, all).filter(({ halts }) => isPlayed(Number(halts[rank]?.at)));
      // A writer that waits looks more or less often.
      expect(await playAll(stories)).toBeGreaterThan(stories.length - 5);
      for (let number = calls.length; (await playAll([story(number, 'after', 'restart')])) > 0; number++)
        if (number > CALLS_MAX) throw new Error(`a save does not end within ${CALLS_MAX} calls`);
    }

    /** After one call and before the next the store is the same; each ending has its turn at both sides of a call. */
    function endingsInTurn(number: number, moment: Moment): readonly Story['ending'][] {
      if (LONG_COUNT > 0) return ENDINGS;
      const callsMade = number + (moment === 'after' ? 1 : 0);
      return [ENDINGS[Math.floor(callsMade / 2) % 2] as Story['ending']];
    }

    const timeoutMs = LONG_COUNT > 0 ? LONG_TIMEOUT_MS : 600_000;
    const title = 'I0, I1, I2, I4, I5, I6, I7, I9 and I10 hold';

    test(
      `${title} when the writer that begins and commits is killed before and after its calls`,
      async () => {
        await killAtEveryCall(0, ['before', 'after']);
      },
      timeoutMs,
    );

    test.each(LONG_COUNT > 0 ? [1, 2, 3] : [3])(
      `${title} when writer %i, which delivers and waits, is killed while it does`,
      async (rank) => {
        await killAtEveryCall(rank, LONG_COUNT > 0 ? ['before', 'after'] : ['after']);
      },
      timeoutMs,
    );

    test(
      `${title} when any of them are killed at random calls`,
      async () => {
        const seed = Math.floor(Math.random() * 2 ** 32);
        const random = new SeededRandom(seed);
        const moments: readonly Moment[] = ['before', 'meanwhile', 'after'];
        const story = (): Story => ({
          first: [],
          halts: Object.fromEntries(
            RANKS.filter(() => random.fraction() < 0.6).map((rank) => [
              rank,
              {
                signal: 'SIGKILL',
                moment: moments[Math.floor(random.fraction() * 3)] as Moment,
                at: Math.floor(random.fraction() * 30),
              },
            ]),
          ),
          large: RANKS,
          ending: ENDINGS[Math.floor(random.fraction() * 2)] as Story['ending'],
        });
        const count = Math.max(4, LONG_COUNT);
        const killed = await playAll(Array.from({ length: count }, story)).catch((error: unknown) => {
          throw new Error(`(seed ${seed}) ${String(error)}`, { cause: error });
        });
        expect(killed).toBeGreaterThan(0);
      },
      timeoutMs,
    );
  });
}

function isFirstOfItsKind(calls: readonly string[], number: number): boolean {
  return calls.indexOf(calls[number] ?? '') === number;
}
