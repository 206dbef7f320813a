/**
 * Four processes save together on each real store and are killed at their calls to it. A job must
 * be able to continue from any remaining state.
 */

import { SeededRandom } from '@holdfast/testkit';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Moment } from '../crash/writer-messages.ts';
import { CLOUDS, S3 } from '../servers/clouds.ts';
import { LONG_COUNT, share } from './config.ts';
import { Cast, play, RANKS, type Story } from './kill-story.ts';

/** Number of stories at the same time. */
const LANES = 3;
const CALLS_MAX = 200;
/** A short run on S3 kills at one of this many calls, before and after it. */
const CALLS_ONE_IN = 9;
const ENDINGS = ['restart', 'takeover'] as const;
const LONG_TIMEOUT_MS = 6 * 3600_000;

/** All operations that a save uses. The writer that is killed must use each of them. */
const OPERATIONS = ['beginUpload', 'complete', 'create', 'deleteMany', 'get', 'list', 'putPart'];

for (const cloud of CLOUDS) {
  cloud.describeOn(`writers that are killed on ${cloud.title}`, (server) => {
    let casts: Cast[];
    beforeAll(async () => {
      const { env } = await server().newBucket();
      casts = Array.from({ length: LANES }, () => new Cast(cloud, env));
    });
    afterAll(() => Promise.all(casts.map((cast) => cast.end())));

    /** Plays all stories, a few at a time. Resolves to the number of kills. */
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

    /**
     * Kills this rank at every call until it makes no more calls. Only long runs include calls that
     * repeat those of rank 0.
     */
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

      // In memory every call is tried (test/crash). The samples here include every operation.
      const isPlayed = (number: number) =>
        cloud !== S3 || LONG_COUNT > 0 || number % CALLS_ONE_IN === 0 || isFirstOfItsKind(calls, number);
      const firstNumber = rank === 0 || LONG_COUNT > 0 ? 0 : calls.lastIndexOf('create');
      const numbers = [...calls.keys()].filter((number) => number >= firstNumber);
      const all = numbers.flatMap((number) =>
        moments.flatMap((moment) =>
          endingsInTurn(number, moment).map((ending) => story(number, moment, ending)),
        ),
      );
      const stories = share(cloud, all).filter(({ halts }) => isPlayed(Number(halts[rank]?.at)));
      // The number of calls varies slightly, because a waiting writer polls.
      expect(await playAll(stories)).toBeGreaterThan(stories.length - 5);
      for (let number = calls.length; (await playAll([story(number, 'after', 'restart')])) > 0; number++)
        if (number > CALLS_MAX) throw new Error(`a save does not end within ${CALLS_MAX} calls`);
    }

    /**
     * The store is the same after one call and before the next. The endings alternate between these
     * two moments.
     */
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
