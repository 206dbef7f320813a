import { isCheckpointError } from '@holdfast/core/contract';
import { tryRaces } from '../trials/create-trials.ts';
import { type Check, check } from './check.ts';
import { fail } from './expect.ts';

const COMMITTERS = 32;

export const raceChecks: readonly Check[] = [
  check(
    'create: of 32 concurrent creates of one key exactly one succeeds, and the others are AlreadyExists',
    async (t) => {
      await tryRaces(t.patient, {
        name: 'round',
        racers: COMMITTERS,
        roundsMin: t.raceRounds,
        roundsMax: t.raceRounds,
        ms: 0,
      });
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
