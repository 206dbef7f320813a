/** The story of one seed for trainers that start a process for each save; see lives.ts. */

import type { SeededRandom } from '@holdfast/testkit';
import { drawStory, type Story } from './story.ts';

/** One start of one writer's trainer. */
export interface TrainerStory {
  readonly attempt: string;
  readonly writer: number;
  /** Each life has a number that is never used again. */
  readonly life: number;
  readonly notBefore: number;
  /** If false, it starts a new training. Only a first trainer may do so. */
  readonly restores: boolean;
}

export interface LifeStory extends Story {
  readonly worldSize: number;
  readonly trainers: readonly TrainerStory[];
  readonly versions: readonly number[];
  /** Steps at which an operator rolls the run back. */
  readonly rollbacks: readonly number[];
  readonly collects: readonly number[];
  /** Chance that a process saves other bytes than the previous one, under the same version. */
  readonly changeChance: number;
  /** Chance that the trainer does not wait for a save before it begins the next. */
  readonly overlapChance: number;
  /** Chance that a save is started twice at once, perhaps with other bytes. */
  readonly twiceChance: number;
  /** Chance for each process; see mishaps.ts. */
  readonly lostReceiptChance: number;
}

export function drawLifeStory(random: SeededRandom): LifeStory {
  const story = drawStory(random);
  const worldSize = random.pick([1, 2, 2, 2]);
  const attempts = random.pick([['job-0'], ['job-0'], ['job-0', 'job-1']]);
  const trainers: TrainerStory[] = [];
  for (const [at, attempt] of attempts.entries()) {
    for (let writer = 0; writer < worldSize; writer++) {
      const starts = random.pick([1, 1, 2, 3]);
      for (let start = 0; start < starts; start++) {
        const notBefore = at * 150 + start * random.integer(120);
        const restores = at > 0 || start > 0;
        trainers.push({ attempt, writer, life: trainers.length, notBefore, restores });
      }
    }
  }
  const count = random.pick([2, 3]);
  const isLarge = random.fraction() < 0.35;
  const lostReceiptChance = random.pick([0, 0, 0.3]);
  const rollbacks: number[] = random.pick([[], [], [random.integer(200)]]);
  const collects: number[] = random.pick([[], [random.integer(200), random.integer(300)]]);
  // With the default timeout, a schedule would consist of hundreds of repeats.
  const settings = lostReceiptChance > 0 ? { ...story.settings, recordTimeoutMs: 40 } : story.settings;
  return {
    ...story,
    settings,
    attempts: [],
    isLarge,
    worldSize,
    trainers,
    versions: Array.from({ length: count }, (_, index) => index + 1),
    rollbacks,
    // A collection follows each rollback: former lives then look for the objects that the sweep
    // deletes.
    collects: [...collects, ...rollbacks.map((at) => at + 40)],
    changeChance: random.pick(isLarge ? [0.3, 0.6] : [0, 0.3, 0.6]),
    overlapChance: random.pick([0, 0.5, 0.9]),
    twiceChance: random.pick(isLarge ? [0, 0.7, 0.7] : [0, 0, 0.5]),
    lostReceiptChance,
  };
}
