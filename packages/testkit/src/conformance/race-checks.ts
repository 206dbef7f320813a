import { isCheckpointError, type ObjectStore } from '@holdfast/core/contract';
import { type Check, check } from './check.ts';
import { createForSure } from './create-for-sure.ts';
import { expectBytes, expectEqual, fail } from './expect.ts';

const COMMITTERS = 32;
const CLIENTS = 4;

export const raceChecks: readonly Check[] = [
  check(
    'create: of 32 concurrent creates of one key exactly one succeeds, and the others are AlreadyExists',
    async (t) => {
      const clients: ObjectStore[] = [t.store];
      while (clients.length < CLIENTS) clients.push(await t.open());
      for (let round = 0; round < t.raceRounds; round++) {
        const key = t.key(`round-${round}`);
        const bodies = Array.from({ length: COMMITTERS }, () => t.creatableBytes(200 + round));
        const outcomes = await Promise.allSettled(
          bodies.map((bytes, n) => createForSure(clients[n % CLIENTS] as ObjectStore, key, bytes)),
        );
        for (const outcome of outcomes) {
          if (outcome.status === 'rejected')
            fail('a create that lost the race', 'AlreadyExists', String(outcome.reason), outcome.reason);
        }
        const winners = bodies.filter(
          (_, n) => outcomes[n]?.status === 'fulfilled' && outcomes[n].value === 'created',
        );
        expectEqual(winners.length, 1, `winners of ${COMMITTERS}`);
        for (const client of clients) {
          const { bytes } = await client.get(key, { maxBytes: 200 + round });
          expectBytes(bytes, winners[0] as Uint8Array, "the object, which is the winner's");
        }
      }
    },
  ),

  check('create: concurrent creates of different keys all succeed', async (t) => {
    const names = Array.from({ length: 100 }, (_, n) => `dir-${n % 3}/sub-${n % 7}/object-${n}`);
    const outcomes = await Promise.allSettled(names.map((name) => t.create(name)));
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    if (failed && !(isCheckpointError(failed.reason) && failed.reason.status === 'temporary')) {
      fail('concurrent creates of different keys', 'success', String(failed.reason), failed.reason);
    }
  }),
];
