/** Every commit depends on this: of concurrent creates of one key, exactly one succeeds. */

import { tryEmptyObject, tryRaces, tryToCreateTwice } from '@holdfast/testkit';
import { formatPlural } from '../format.ts';
import type { Check, Outcome } from './check.ts';
import type { Probe } from './probe.ts';

const TWO_WINNERS =
  'two writers could both commit: both would succeed, and one of the two checkpoints would be lost';
const OTHER_STORE = 'use a store whose create-if-absent is atomic';

/** Many at once, as when all writers of a job finish a version together. */
const CROWD = { name: 'crowd', racers: 32, roundsMin: 10, roundsMax: 10, ms: 0 };

/**
 * A store that checks first and then writes lets two creates succeed only if the second checks
 * before the first has written. That gap lasts about a millisecond at the beginning of a round.
 * versitygw fails so in one of ten rounds, however many creates race. So the number of rounds
 * matters, not of racers.
 */
const FEW = { name: 'few', racers: 4, roundsMin: 40, roundsMax: 100, ms: 5000 };

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
    advice: `${OTHER_STORE}: this one checks first and writes later`,
    run: race,
  },
  {
    id: 'empty-object',
    title: 'empty object',
    needs: ['may-create', 'may-read'],
    meaning: 'a checkpoint with an empty file could not be saved, or not be restored',
    advice: 'use a store that accepts empty objects, or a newer version of this one',
    run: createEmpty,
  },
];

async function createTwice(probe: Probe): Promise<Outcome> {
  await tryToCreateTwice(probe);
  return { seen: 'a second create is refused and changes nothing' };
}

async function race(probe: Probe): Promise<Outcome> {
  const rounds = await tryRaces(probe, CROWD);
  const moreRounds = await tryRaces(probe, FEW);
  return {
    seen: `${formatPlural(rounds, 'round')} of ${CROWD.racers} and ${moreRounds} of ${FEW.racers}: one winner each`,
  };
}

async function createEmpty(probe: Probe): Promise<Outcome> {
  await tryEmptyObject(probe);
  return { seen: 'an empty object can be created, inspected and read' };
}
