/** Every commit depends on this: of concurrent creates of one key, exactly one succeeds. */

import { isCheckpointError } from '@holdfast/core/contract';
import { formatPlural } from '../format.ts';
import { expectThat } from './broken-promise.ts';
import type { Check, Outcome } from './check.ts';
import type { Client } from './client.ts';
import type { Probe } from './probe.ts';
import { expectRead, isSame } from './read-back.ts';

const TWO_WINNERS =
  'two writers could both commit: each would be told that its checkpoint is saved, and one of them would be lost';
const OTHER_STORE = 'use a store that carries out create-if-absent atomically';

/** Codes by which a store may reject an object for its content. */
const REFUSALS = ['InvalidArgument', 'Unsupported', 'Unexpected'] as const;

const CLIENTS = 4;
const RACE_BYTES = 4096; // About the size of a catalog entry with a few checkpoints.

/** Many at once, as when all writers of a job finish a version together. */
const CROWD = { racers: 32, roundsMin: 10, roundsMax: 10, ms: 0 } as const;

/**
 * A store that checks first and then writes lets two creates succeed only if the second checks
 * before the first has written. That gap lasts about a millisecond at the beginning of a round.
 * versitygw fails so in one of ten rounds, however many creates race. So the number of rounds
 * matters, not of racers.
 */
const FEW = { racers: CLIENTS, roundsMin: 40, roundsMax: 100, ms: 5000 } as const;

export const createChecks: readonly Check[] = [
  {
    id: 'create-if-absent',
    title: 'create-if-absent',
    needs: ['may-create', 'may-read'],
    meaning: TWO_WINNERS,
    advice: `${OTHER_STORE}; on S3, one that honours If-None-Match`,
    run: createTwice,
  },
  {
    id: 'race',
    title: 'race to create',
    needs: ['create-if-absent'],
    meaning: TWO_WINNERS,
    advice: `${OTHER_STORE}: this one looks first and writes then`,
    run: race,
  },
  {
    id: 'empty-object',
    title: 'empty object',
    needs: ['may-create', 'may-read'],
    meaning: 'a checkpoint with an empty file could not be saved, or not be restored',
    advice: 'use a store that takes objects of no bytes, or a newer version of this one',
    run: createEmpty,
  },
];

async function createTwice(probe: Probe): Promise<Outcome> {
  const [first, second] = [await probe.client(0), await probe.client(1)];
  const key = probe.key('object');
  const bytes = probe.bytes(100);
  const outcome = await first.create(key, bytes);
  expectThat(outcome === 'created', 'the first create of a new key is refused: there is such an object');
  for (const client of [second, first]) {
    for (const [what, again] of [
      ['other bytes', probe.bytes(100)],
      ['the same bytes', bytes],
    ] as const) {
      await expectRefused(client, key, again, what);
      const where = 'after a second create was refused, the object';
      const refused = again === bytes ? [] : [again];
      await expectRead(() => client.bytesOf(key), { bytes, what: where, refused });
    }
  }
  return { seen: 'a second create is refused and changes nothing' };
}

async function createEmpty(probe: Probe): Promise<Outcome> {
  const client = await probe.client(0);
  const key = probe.key('empty');
  const outcome = await client.create(key, new Uint8Array(0)).catch((error: unknown) => {
    const isRefused = REFUSALS.some((code) => isCheckpointError(error, code));
    expectThat(!isRefused, `an object of no bytes is refused: ${String(error)}`);
    throw error;
  });
  expectThat(outcome === 'created', 'the first create of a new key is refused: there is such an object');
  const { sizeBytes } = await client.head(key);
  expectThat(sizeBytes === 0, `an object of no bytes is told to have ${sizeBytes}`);
  const { bytes } = await client.get(key);
  expectThat(bytes.byteLength === 0, `an object of no bytes is read as ${bytes.byteLength}`);
  return { seen: 'an object of no bytes is created, looked at and read' };
}

async function expectRefused(client: Client, key: string, bytes: Uint8Array, what: string): Promise<void> {
  if ((await client.createAgain(key, bytes)) === 'exists') return;
  const effect = isSame(await client.bytesOf(key), bytes)
    ? 'and replaced the object'
    : 'though it had no effect';
  expectThat(false, `a second create of one key, with ${what}, succeeded, ${effect}`);
}

async function race(probe: Probe): Promise<Outcome> {
  const clients = await Promise.all(Array.from({ length: CLIENTS }, (_, number) => probe.client(number)));
  const rounds = await raceFor(probe, clients, 'crowd', CROWD);
  const moreRounds = await raceFor(probe, clients, 'few', FEW);
  return {
    seen: `${formatPlural(rounds, 'round')} of ${CROWD.racers} and ${moreRounds} of ${FEW.racers}: one winner each`,
  };
}

/**
 * Runs at least `roundsMin` rounds, and then as many as there is time for. Resolves to their
 * number.
 */
async function raceFor(
  probe: Probe,
  clients: readonly Client[],
  name: string,
  { racers, roundsMin, roundsMax, ms }: { racers: number; roundsMin: number; roundsMax: number; ms: number },
): Promise<number> {
  const beganMs = probe.clock.monotonicMs();
  let round = 0;
  while (round < roundsMin || (round < roundsMax && probe.clock.monotonicMs() - beganMs < ms)) {
    round += 1;
    await raceOnce(probe, clients, {
      key: probe.key(`${name}-${round}`),
      racers,
      where: `in round ${round}`,
    });
  }
  return round;
}

async function raceOnce(
  probe: Probe,
  clients: readonly Client[],
  { key, racers, where }: { key: string; racers: number; where: string },
): Promise<void> {
  const bodies = Array.from({ length: racers }, () => probe.bytes(RACE_BYTES));
  const ended = await Promise.allSettled(
    bodies.map((bytes, n) => (clients[n % CLIENTS] as Client).create(key, bytes)),
  );
  const winners = bodies.filter((_, n) => {
    const outcome = ended[n];
    return outcome?.status === 'fulfilled' && outcome.value === 'created';
  });
  // Two winners are the most important failure, whatever else went wrong.
  expectThat(winners.length < 2, `${where}, ${winners.length} of ${racers} creates of one key succeeded`);
  const failed = ended.find((outcome) => outcome.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  expectThat(winners.length > 0, `${where}, all ${racers} creates of one key were refused`);
  const [winner] = winners as [Uint8Array];
  const refused = bodies.filter((bytes) => bytes !== winner);
  const expected = { bytes: winner, what: `${where}, the object`, refused };
  await Promise.all(clients.map((client) => expectRead(() => client.bytesOf(key), expected)));
}
